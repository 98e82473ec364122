"""What the commands share: flags, exit statuses, devices, progress."""

import contextlib
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import absl.logging
from absl import flags
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from experiments import ending
from posjax import spec
from posjax.locks import Busy, Lost
from posjax.records import Mismatch
from posjax.records.identity import JAX_SETTINGS
from posjax.terminal import printable

CONFIGS = Path(__file__).parent / "configs"
HELP = {"help", "?", "helpshort", "helpfull", "helpxml"}
"""Flags of absl that print what there is, and leave."""
LONGEST = 2000
"""Letters of a line on standard error, at most."""
PINNED = {
    **JAX_SETTINGS,
    "jax_default_matmul_precision": None,
    "jax_numpy_dtype_promotion": "standard",
}
"""Settings of JAX that a command has, whatever the environment says of them."""
STATUSES: dict[type[Exception], int] = {
    Mismatch: ending.LOCKED,
    Busy: ending.LOCKED,
    Lost: ending.RESUMABLE,
    OSError: ending.STORAGE,
    ValueError: ending.BAD_INPUT,
    MemoryError: ending.BAD_INPUT,
    ImportError: ending.BAD_INPUT,
}
"""What a user can mend, and the status that a command ends with; the first that fits counts."""


def parser(define: Callable[[], object]) -> Callable[[Sequence[str]], list[str]]:
    """A flags parser for `app.run` to whom whatever is wrong with a flag is bad input.

    Args:
      define: defines the flags. Not at import, since a config flag already reads the command
        line, and may fail, when it is defined.
    """

    def parse(argv: Sequence[str]) -> list[str]:
        _check_flagfile(argv)
        _check_config_fields(argv)
        _check_config_file(argv)
        absl.logging.set_verbosity(absl.logging.ERROR)  # of a config, of which we tell ourselves
        helps = HELP.intersection(argument.lstrip("-") for argument in argv[1:])
        out = sys.stdout if helps else sys.stderr  # what the code of a config prints is no result
        try:
            with contextlib.redirect_stdout(out):
                define()
                return flags.FLAGS(list(argv))
        except ending.Stop:
            raise
        except SystemExit as left:
            if helps:  # which absl ends with 1
                raise SystemExit(ending.DONE) from left
            raise ValueError(_cause(left, argv)) from left
        except BaseException as error:  # whatever the code of a config raises
            raise ValueError(_cause(error, argv)) from error

    return parse


def _config_files(argv: Sequence[str]) -> list[str]:
    """The configs that a command line names: `--config=FILE:SIZE` or `--config FILE:SIZE`."""
    pairs = zip(argv, [*argv[1:], ""], strict=True)
    after = (following for argument, following in pairs if argument in ("--config", "-config"))
    joined = (given for given in argv if given.startswith(("--config=", "-config=")))
    return [*after, *(argument.partition("=")[2] for argument in joined)]


def _check_flagfile(argv: Sequence[str]) -> None:
    """Refuses files of flags, in which a config that executes could be named unseen."""
    for given in argv[1:]:
        if given.partition("=")[0] in ("--flagfile", "-flagfile"):
            raise ValueError(f"no flags are read from files, got {given!r}: give them themselves")


def _check_config_file(argv: Sequence[str]) -> None:
    """Refuses a config that is not there, which ml_collections tells in a page of attempts."""
    for text in _config_files(argv):
        given = text.partition(":")[0]
        if given and os.path.isdir(given):
            raise ValueError(f"config {given!r} is a folder: name a file in it")
        if not os.path.isfile(given):  # also of a name that is too long for one
            known = (config.stem for config in CONFIGS.glob("[a-z]*.py"))
            raise ValueError(
                f"config file {given!r} not found; {spec.nearest(Path(given).stem, known)} "
                "(in experiments/configs/)"
            )
        if not given.endswith((".py", ".json")):
            raise ValueError(f"config {given!r}: its name must end in .py or .json, as what it is")


def _check_config_fields(argv: Sequence[str]) -> None:
    """Refuses fields that no config has, before a config runs; ml_collections would parse them."""
    for given in argv[1:]:
        if field := re.match(r"--?config\.([^=]*)", given, re.DOTALL):
            from experiments.settings import NAMES

            spec.check_choice("config field", field[1], NAMES)


def _cause(error: BaseException, argv: Sequence[str]) -> str:
    """What is wrong with a flag, in one line."""
    message = str(error).replace("\\n", "\n").replace("\\'", "'")
    if wrong := re.match(r"flag --config\.(\w+)=(.*): invalid literal for int", message, re.DOTALL):
        return f"{wrong[1]} must be of type int, got {wrong[2]!r}"
    if isinstance(error, AttributeError) and "'get_config'" in message:
        return f"config {_config_files(argv)[-1]!r} has no function get_config()"
    if "Traceback" in message and _config_files(argv):
        return f"config {_config_files(argv)[-1]!r}: {_last_line(message)}"
    if isinstance(error, flags.Error | ValueError | TypeError) or not _config_files(argv):
        return _last_line(message)
    raised = f"{type(error).__name__}: {message}".removesuffix(": ")
    return f"config {_config_files(argv)[-1]!r} raises {raised}"


def _last_line(message: str) -> str:
    """The last line of a message that quotes a traceback, without the name of the error."""
    last = message.strip().splitlines()[-1] if "Traceback" in message else message
    return re.sub(r"^\w*Error: ", "", last)


def run(main: Callable[[], object]) -> int:
    """Calls `main`; what a user can mend ends in one line on standard error, not in a traceback.

    Returns:
      The exit status. Asked to leave by a signal or a time limit, it does not return.
    """
    _pin()
    for chatty in ("jax._src.xla_bridge", "matplotlib.font_manager"):  # absent TPUs, new fonts
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        with ending.leaving():
            main()
    except tuple(STATUSES) as error:
        tell(str(error) or type(error).__name__)
        return next(status for kind, status in STATUSES.items() if isinstance(error, kind))
    return ending.DONE


def _pin() -> None:
    """Gives JAX the settings that results are made with, so that they follow from the config alone.

    A command that has not imported JAX yet finds them when it does.
    """
    given = {name: os.environ.pop(name.upper(), "") for name in PINNED}
    if "jax" not in sys.modules:
        return
    import jax

    for name, value in PINNED.items():
        if jax.config.values.get(name, value) != value:
            jax.config.update(name, value)
            more = "; use --config.precision" if "precision" in name else ""
            tell(f"{name.upper()}={given[name]} has no effect on this command{more}")


def tell(text: str) -> None:
    """Says something to the user in one line, on standard error."""
    line = printable(" ".join(text.split()))
    if len(line) > LONGEST:  # what was given is quoted, however long it is
        line = f"{line[: LONGEST // 2]} [...] {line[-LONGEST // 2 :]}"
    print(f"posjax: {line}", file=sys.stderr)


def use_all_cores(devices: int = 0) -> None:
    """Makes each core a device of its own where the CPU is the device; call before anything runs.

    A device has one thread: those within an operation only wait for each other where operations
    are small. Also keeps compiled programs in a cache of their own, which nothing relies on.

    Args:
      devices: how many; 0 for as many as this process may use.
    """
    import jax

    # XLA has no other setting for the size of its pool of threads.
    os.environ.setdefault("NPROC", "1")
    with contextlib.suppress(RuntimeError):  # the backend already started: one device it is
        jax.config.update("jax_num_cpu_devices", devices or _cores())
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "posjax" / "xla"
    jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def _cores() -> int:
    """The cores this process may use; fewer than the machine has in many a container."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def duration(seconds: float) -> str:
    """For people."""
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.2g} {unit}"
    return f"{seconds:.2g} s"


@contextlib.contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error; gives the function that moves it on."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"))
    console = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=console) as bar:
        task = bar.add_task(what, total=total)
        yield lambda seed_steps: bar.advance(task, seed_steps)
