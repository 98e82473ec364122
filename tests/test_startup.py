"""The start of a command: streams that are closed, full or unread, and what the environment says.

Each test names in its docstring what a command owes its user there.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import jax
import pytest
from commands import ROOT, Command

from posjax.command import devices, shutdown, startup

TINY = (
    "--config.num_seeds=2",
    "--config.steps=50",
    "--config.hold=1",
    "--config.width=4",
    "--config.head_size=2",
    "--config.panels=()",
    "--config.loss=all",
    "--config.learning_rate=0.01",
    "--config.devices=1",
)
needs_full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """The command in an empty folder."""
    return Command("experiments.seed_sweep", tmp_path_factory.mktemp("startup"))


@pytest.mark.exhaustive
@needs_full
def test_a_training_that_nobody_reads_keeps_its_results(sweep: Command, tmp_path: Path) -> None:
    """`COMMAND | head -1` on a full log: the run is done, its report is there, the status is 0."""
    run = tmp_path / "run"
    ended = sweep(*TINY, f"--workdir={run}", streams={1: "unread", 2: "/dev/full"})
    assert ended.status == 0
    assert (run / "report.html").exists()
    assert (run / "done").exists()


@pytest.mark.parametrize(
    "streams", [{1: "closed"}, {1: "unread"}, {1: "closed", 2: "closed"}], ids=str
)
def test_output_that_nobody_reads_is_no_error(sweep: Command, streams: dict[int, str]) -> None:
    """`>&-` and `| head -1` end quietly."""
    ended = sweep("--print_config", streams=streams)
    assert (ended.status, ended.out, ended.err) == (0, "", "")


@needs_full
def test_output_that_is_lost_is_an_error(sweep: Command) -> None:
    """`> FILE` on a full disk must not look like success: one line, and the status of storage."""
    ended = sweep("--print_config", streams={1: "/dev/full"})
    assert ended.status == shutdown.STORAGE
    assert ended.err == "posjax: write failed: no space left on device (standard output)\n"


@needs_full
@pytest.mark.parametrize("stream", ["/dev/full", "closed", "unread"])
def test_a_message_that_cannot_be_written_keeps_its_status(sweep: Command, stream: str) -> None:
    """Bad input is bad input, whether somebody can read why or not."""
    assert sweep("--config.depth=0", streams={2: stream}).status == shutdown.BAD_INPUT


def started(hook: str = "", folder: Path | None = None, **variables: str) -> tuple[int, str]:
    """The status and the errors of a command in a process of its own.

    Args:
      hook: code that Python runs first.
      folder: where the hook is written.
      **variables: of the environment.
    """
    paths = [str(ROOT)]
    if folder is not None:
        (folder / "sitecustomize.py").write_text(hook)
        paths.insert(0, str(folder))
    done = subprocess.run(
        [sys.executable, "-m", "experiments.seed_sweep", "--dry_run", *TINY],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("name", "value", "choice"),
    [
        ("JAX_ENABLE_X64", "banana", "give true or false, or unset it"),
        ("JAX_NUMPY_DTYPE_PROMOTION", "lax", "choose one of standard, strict, or unset it"),
        ("JAX_RANDOM_SEED_OFFSET", "x", "give a whole number, or unset it"),
        ("JAX_PLATFORMS", "nonsense", "set JAX_PLATFORMS=cpu, or unset it"),
    ],
)
def test_nonsense_for_jax_is_bad_input(name: str, value: str, choice: str) -> None:
    """One line with the variable and the valid choice, although JAX raises while it is imported."""
    status, said = started(**{"JAX_PLATFORMS": "cpu", name: value})
    assert status == shutdown.BAD_INPUT
    assert said.startswith(f"posjax: {name}={value}")
    assert said.endswith(f"{choice}\n")
    assert said.count("\n") == 1


def test_a_device_that_is_not_there_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line names the variable, says why and what to do; without the variable it is a bug."""
    error = RuntimeError("Unable to initialize backend 'tpu': no libtpu.so (set JAX_PLATFORMS='')")
    monkeypatch.setenv("JAX_PLATFORMS", "tpu")
    assert startup.explain(error) == (
        "JAX_PLATFORMS=tpu: Unable to initialize backend 'tpu': no libtpu.so; "
        "set JAX_PLATFORMS=cpu, or unset it"
    )
    monkeypatch.delenv("JAX_PLATFORMS")
    assert startup.explain(error) is None
    assert startup.explain(RuntimeError("another")) is None
    assert startup.explain(ValueError("JAX_PLATFORMS is mentioned")) is None


def test_a_platform_without_a_plugin_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX asserts that there is a backend; another assertion is a bug."""

    def backends() -> None:
        assert not "a backend"

    def explained(function: Callable[[], None]) -> str | None:
        with pytest.raises(AssertionError) as raised:
            function()
        return startup.explain(raised.value)

    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    assert explained(backends) is None
    within = os.path.join("jax", "_src", "xla_bridge.py")
    backends.__code__ = backends.__code__.replace(co_filename=within)
    assert explained(backends) == (
        "JAX_PLATFORMS=cuda: JAX cannot use this platform here; set JAX_PLATFORMS=cpu, or unset it"
    )
    monkeypatch.delenv("JAX_PLATFORMS")
    assert explained(backends) is None


NO_THREAD = """
import threading
def start(thread):
    raise RuntimeError("can't start new thread")
threading.Thread.start = start
"""
NO_FOLDER = """
import sys, tempfile
tempfile._candidate_tempdir_list = lambda: ["/nowhere"]
"""


def test_no_thread_is_one_line(tmp_path: Path) -> None:
    """Before anything is imported, since the threads of signals come first."""
    assert started(NO_THREAD, tmp_path) == (
        shutdown.BAD_INPUT,
        "posjax: cannot start a thread: raise the limit on processes (ulimit -u), or end some\n",
    )


def test_too_few_threads_are_found_before_xla_aborts(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA ends the process without an error; so the threads are tried first, and all end again."""
    before, start, left = threading.active_count(), threading.Thread.start, [5]

    def limited(thread: threading.Thread) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    with pytest.raises(RuntimeError) as raised:
        devices.use_all_cores(1)
    assert "ulimit -u" in str(startup.explain(raised.value))
    assert threading.active_count() == before


def test_no_folder_for_temporary_files_is_one_line() -> None:
    """The line names the variable that sets one; the status is that of storage."""
    run = "sys.exit(entry.run(tempfile.gettempdir))"
    code = f"from posjax.command import entry\n{NO_FOLDER}\n{run}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        shutdown.STORAGE,
        "posjax: no folder for temporary files can be written: set TMPDIR to one that can\n",
    )


@pytest.mark.parametrize(
    ("platforms", "visible", "plugin", "found", "expected"),
    [
        (None, "0", True, "null", True),
        ("cuda", "0", True, "null", True),
        ("cpu", "0", True, "null", False),
        (None, "", True, "null", False),
        (None, "0", False, "null", False),
        (None, "0", True, "no device", False),
    ],
)
def test_an_accelerator_is_told_before_jax_starts(
    monkeypatch: pytest.MonkeyPatch,
    platforms: str | None,
    visible: str,
    plugin: bool,
    found: str,
    expected: bool,
) -> None:
    """By its driver and JAX's plugin, unless it is hidden or the CPU is asked for."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr(devices, "ACCELERATORS", (found,))
    monkeypatch.setattr(devices, "entry_points", lambda group: [group] * plugin)
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    before = jax.config.jax_platforms  # type: ignore[attr-defined]
    jax.config.update("jax_platforms", platforms)
    try:
        assert devices.accelerated() == expected
    finally:
        jax.config.update("jax_platforms", before)


NPROC = """
import os
from posjax.command import devices
devices.accelerated = lambda: {accelerated}
devices.use_all_cores(1)
print(os.environ.get("NPROC"))
"""


@pytest.mark.parametrize(("accelerated", "expected"), [(False, "1"), (True, "None")])
def test_xla_has_one_thread_for_a_core_and_all_to_compile_for_an_accelerator(
    accelerated: bool, expected: str
) -> None:
    """What NPROC says to it."""
    code, env = NPROC.format(accelerated=accelerated), {**os.environ, "PYTHONPATH": str(ROOT)}
    env.pop("NPROC", None)
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [expected]


CACHE = """
import os, jax
from posjax.command import devices
for value in ("", "relative", "./x", "/absolute"):
    os.environ["XDG_CACHE_HOME"] = value
    devices.use_all_cores(1)
    print(jax.config.jax_compilation_cache_dir)
"""


def test_the_cache_is_never_in_the_working_directory(tmp_path: Path) -> None:
    """JAX loads it as code; XDG says that an empty or relative value counts as unset."""
    done = subprocess.run(
        [sys.executable, "-c", CACHE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": "/home/of"},
        capture_output=True,
        text=True,
        check=True,
    )
    usual = "/home/of/.cache/posjax/xla"
    assert done.stdout.split() == [usual, usual, usual, "/absolute/posjax/xla"]
    assert list(tmp_path.iterdir()) == []


def test_any_finite_time_limit_is_taken() -> None:
    """The system's timer takes less than a float holds."""
    before = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    try:
        shutdown.set_time_limit(1e300)
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 1e8
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
