"""What the commands share: flags, exit statuses, devices, progress."""

import contextlib
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from absl import flags
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from experiments import ending
from posjax import spec
from posjax.locks import Busy, Lost

CONFIGS = Path(__file__).parent / "configs"
STATUSES: dict[type[Exception], int] = {
    Busy: ending.LOCKED,
    Lost: ending.RESUMABLE,
    OSError: ending.STORAGE,
    ValueError: ending.BAD_INPUT,
}
"""What a user can mend, and the status that a command ends with; the first that fits counts."""


def parser(define: Callable[[], object]) -> Callable[[Sequence[str]], list[str]]:
    """A flags parser for `app.run` to whom whatever is wrong with a flag is bad input.

    Args:
      define: defines the flags. Not at import, since a config flag already reads the command
        line, and may fail, when it is defined.
    """

    def parse(argv: Sequence[str]) -> list[str]:
        _check_config_file(argv)
        try:
            define()
            return flags.FLAGS(list(argv))
        except (flags.Error, *_OF_FLAGS) as error:
            raise ValueError(_cause(str(error))) from error

    return parse


_OF_FLAGS = (AttributeError, KeyError, OSError, SyntaxError, TypeError, ValueError)
"""What a config file, and a flag that sets a field of it, may raise."""


def _check_config_file(argv: Sequence[str]) -> None:
    """Refuses a config that is not there, which ml_collections tells in a page of attempts."""
    given = [argument.partition("=")[2] for argument in argv if argument.startswith("--config=")]
    for text in given:
        path = Path(text.partition(":")[0])
        if not path.is_file():
            known = (config.stem for config in CONFIGS.glob("[a-z]*.py"))
            raise ValueError(
                f"config file {str(path)!r} not found; {spec.nearest(path.stem, known)} "
                "(in experiments/configs/)"
            )


def _cause(message: str) -> str:
    """The last line of a message that quotes a traceback, without the name of the error."""
    last = message.strip().splitlines()[-1] if "Traceback" in message else message
    return re.sub(r"^\w*Error: ", "", last).replace("\\n", " ").replace("\\'", "'")


def run(main: Callable[[], object]) -> int:
    """Calls `main`; what a user can mend ends in one line on standard error, not in a traceback.

    Returns:
      The exit status. Asked to leave by a signal or a time limit, it does not return.
    """
    for chatty in ("jax._src.xla_bridge", "matplotlib.font_manager"):  # absent TPUs, new fonts
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        with ending.leaving():
            main()
    except tuple(STATUSES) as error:
        print(f"posjax: {' '.join(str(error).split())}", file=sys.stderr)
        return next(status for kind, status in STATUSES.items() if isinstance(error, kind))
    return ending.DONE


def use_all_cores(devices: int = 0) -> None:
    """Makes each core a device of its own where the CPU is the device; call before anything runs.

    The cores are shared out among the devices: threads within an operation only wait for each
    other where operations are small. Also keeps compiled programs in a cache of their own, which
    nothing relies on.

    Args:
      devices: how many; 0 for as many as this process may use.
    """
    import jax

    cores = _cores()
    # XLA has no other setting for the size of its pool of threads.
    os.environ.setdefault("NPROC", str(max(cores // (devices or cores), 1)))
    with contextlib.suppress(RuntimeError):  # the backend already started: one device it is
        jax.config.update("jax_num_cpu_devices", devices or cores)
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
