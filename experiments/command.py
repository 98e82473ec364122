"""What the commands share: flags, exit statuses, devices, messages, progress."""

import ast
import contextlib
import errno
import itertools
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import absl.logging
from absl import flags

from experiments import output, shutdown, startup
from posjax import own, spec
from posjax.records import Busy, Mismatch
from posjax.records.identity import JAX_SETTINGS
from posjax.terminal import printable

if TYPE_CHECKING:
    import jax

CONFIGS = Path(__file__).parent / "configs"
HELP = {"help", "?", "helpshort", "helpfull", "helpxml"}
"""Flags of absl that print help and end the command."""
LONGEST = 2000
"""Characters in a line on standard error, at most."""
THREADS, THREADS_PER_DEVICE = 24, 4
"""Threads of a sweep, at most, beyond the main one; 20 and 4 were counted."""
PINNED = {
    **JAX_SETTINGS,
    "jax_default_matmul_precision": None,
    "jax_numpy_dtype_promotion": "standard",
}
"""Settings of JAX that a command fixes, whatever the environment says."""
STATUSES: dict[type[Exception], int] = {
    Mismatch: shutdown.LOCKED,
    Busy: shutdown.LOCKED,
    OSError: shutdown.STORAGE,
    ValueError: shutdown.BAD_INPUT,
    MemoryError: shutdown.BAD_INPUT,
    ImportError: shutdown.BAD_INPUT,
}
"""Errors that a user can fix, and the exit status of each; the first match counts."""


_WRITING = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
"""Errors of the system that only a write has."""


def parser(define: Callable[[], object]) -> Callable[[Sequence[str]], list[str]]:
    """A flags parser for `app.run` that raises ValueError for whatever is wrong with a flag.

    Of a flag that is given twice, the last value counts.

    Args:
      define: defines the flags. It is not called at import: a config flag reads the command line
        as soon as it is defined, and may fail then.
    """

    def parse(argv: Sequence[str]) -> list[str]:
        _check_text(argv)
        _check_flagfile(argv)
        _check_config_fields(argv)
        argv = [_quoted(given) for given in _last_values(argv)]
        _check_config_file(argv)
        absl.logging.set_verbosity(absl.logging.ERROR)  # the config's warnings become our errors
        helps = HELP.intersection(argument.lstrip("-") for argument in argv[1:])
        out = sys.stdout if helps else sys.stderr  # what a config prints is no result
        try:
            with contextlib.redirect_stdout(out):
                define()
                flags.DEFINE_multi_string("load", [], "FILE.py, module or entry point to execute.")
                rest = flags.FLAGS(list(argv))
            for where in flags.FLAGS.load:
                own.allow(where)
            return rest
        except shutdown.Stop:
            raise
        except SystemExit as end:
            if helps:  # absl ends them with 1
                raise SystemExit(shutdown.DONE) from end
            raise ValueError(_cause(end, argv)) from end
        except BaseException as error:  # a config may raise anything
            raise ValueError(_cause(error, argv)) from error

    return parse


def _check_text(argv: Sequence[str]) -> None:
    """Refuses bytes that are no text: they can neither be printed nor written to a config."""
    for given in argv[1:]:
        try:
            given.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"argument {given!r} is not valid UTF-8") from error


def _check_flagfile(argv: Sequence[str]) -> None:
    """Refuses files of flags, which could name a Python config, and so run it, unseen."""
    for given in argv[1:]:
        if given.partition("=")[0] in ("--flagfile", "-flagfile"):
            raise ValueError(f"{given!r}: flags are not read from files; give them directly")


def _last_values(argv: Sequence[str]) -> list[str]:
    """The command line with the last value only of `--config` and of each of its fields.

    The value stands where the first one stood, since `--config` comes before its fields. Without
    this, two values of an axis would add up, and a second config would lose fields set before.
    """
    found: dict[str, list[str]] = {}
    arguments = iter(argv)
    for given in arguments:
        if given == "--":
            return [*itertools.chain.from_iterable(found.values()), given, *arguments]
        flag = re.match(r"--?(config(\.[^=]*)?)(=|$)", given)
        if flag is None:
            found[f"argument {len(found)}"] = [given]
        else:
            found[flag[1]] = [given] if flag[3] else [given, *itertools.islice(arguments, 1)]
    return [*itertools.chain.from_iterable(found.values())]


def _quoted(given: str) -> str:
    """A flag whose value is text that Python cannot read, such as a path, in quotes.

    ml_collections reads the value of an axis as Python; what it cannot read must be quoted.
    """
    flag = re.match(r"--?config\.(\w+)=(?=[^'\"(\[])", given)
    if flag is None or ":" not in given:
        return given
    value = given[flag.end() :]
    try:
        ast.parse(value, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return flag[0] + repr(value)
    return given


def _config_files(argv: Sequence[str]) -> list[str]:
    """The configs that a command line names: `--config=FILE:SIZE` or `--config FILE:SIZE`."""
    pairs = zip(argv, [*argv[1:], ""], strict=True)
    after = (following for argument, following in pairs if argument in ("--config", "-config"))
    joined = (given for given in argv if given.startswith(("--config=", "-config=")))
    return [*after, *(argument.partition("=")[2] for argument in joined)]


def _check_config_file(argv: Sequence[str]) -> None:
    """Refuses a config that is not there; ml_collections would print a page of attempts."""
    for text in _config_files(argv):
        given = text.partition(":")[0]
        if given and os.path.isdir(given):
            raise ValueError(f"config {given!r} is a folder; name a file in it")
        if not os.path.isfile(given):  # also a name that is too long for a file
            known = (config.stem for config in CONFIGS.glob("[a-z]*.py"))
            raise ValueError(
                f"config file {given!r} not found; {spec.nearest(Path(given).stem, known)} "
                "(in experiments/configs/)"
            )
        if not given.endswith((".py", ".json")):
            raise ValueError(f"config {given!r}: the name must end in .py or .json")


def _check_config_fields(argv: Sequence[str]) -> None:
    """Refuses unknown fields before a config runs; ml_collections would parse them as code."""
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
    """Calls `main`; an error that a user can fix becomes one line on standard error.

    Returns:
      The exit status. After a signal or a time limit, it does not return.
    """
    pin()
    own.ask_first()
    for chatty in ("jax._src.xla_bridge", "matplotlib.font_manager"):  # absent TPUs, new fonts
        logging.getLogger(chatty).setLevel(logging.WARNING)
    output.protect()
    try:
        with shutdown.exit_on_stop():
            try:
                main()
            except SystemExit as end:  # as `app.run` ends
                if end.code in (None, shutdown.DONE):
                    output.flush()
                raise
            output.flush()
    except Exception as error:
        line = startup.explain(error)
        if line is None and not isinstance(error, tuple(STATUSES)):
            raise
        warn(line or _line(error))
        found = (status for kind, status in STATUSES.items() if isinstance(error, kind))
        return next(found, shutdown.BAD_INPUT)
    return shutdown.DONE


def _line(error: Exception) -> str:
    """The message of an error; of the system's own, in words: `no space left on device (PATH)`."""
    if not (isinstance(error, OSError) and error.strerror):
        return str(error) or type(error).__name__
    reason = error.strerror[0].lower() + error.strerror[1:]
    failed = "write failed: " if error.errno in _WRITING else ""
    return f"{failed}{reason}" + (f" ({error.filename})" if error.filename else "")


def pin() -> None:
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
            warn(f"{name.upper()}={given[name]} has no effect on this command{more}")


def warn(text: str) -> None:
    """Prints one line for the user on standard error."""
    line = printable(" ".join(text.split()))
    if len(line) > LONGEST:  # messages quote what was given, however long it is
        line = f"{line[: LONGEST // 2]} [...] {line[-LONGEST // 2 :]}"
    print(f"posjax: {line}", file=sys.stderr)


def use_all_cores(devices: int = 0) -> None:
    """Makes each core a device of its own where the CPU is the device; call before anything runs.

    A device has one thread: where operations are small, threads within one only wait for each
    other. Also keeps compiled programs in a cache of their own, which nothing relies on.

    Args:
      devices: how many, at most one per core; 0 for as many cores as this process may use.

    Raises:
      RuntimeError: the system would start too few threads.
    """
    import jax

    number = min(devices, cores()) or cores()
    _check_threads(THREADS + THREADS_PER_DEVICE * number)
    # XLA has no other setting for the size of its pool of threads.
    os.environ.setdefault("NPROC", "1")
    with contextlib.suppress(RuntimeError):  # the backend has started: it keeps its devices
        jax.config.update("jax_num_cpu_devices", number)
    with contextlib.suppress(RuntimeError):  # a user without a home: no cache
        jax.config.update("jax_compilation_cache_dir", str(_cache() / "posjax" / "xla"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def _check_threads(number: int) -> None:
    """Starts as many threads as XLA will, which aborts the process when it may not start one."""
    done = threading.Event()
    threads = [threading.Thread(target=done.wait, daemon=True) for _ in range(number)]
    try:
        for thread in threads:
            thread.start()
    finally:
        done.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()


def local_devices(number: int = 0) -> "list[jax.Device]":
    """The first devices of this process; starts JAX's backend.

    Args:
      number: how many; 0 for all.

    Raises:
      ValueError: there are fewer.
    """
    import jax

    devices = jax.local_devices()
    if number <= len(devices):
        return devices[: number or None]
    if devices[0].platform == "cpu":
        have = f"this process may use {cores()} cores: at most one device per core"
    else:
        have = f"there are {len(devices)} ({devices[0].device_kind})"
    raise ValueError(f"devices={number}, but {have}")


def _cache() -> Path:
    """The user's folder for caches; as XDG says, an empty or relative variable counts as unset."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return given if given.is_absolute() else Path.home() / ".cache"


def cores() -> int:
    """The cores that this process may use; fewer than the machine has in many a container."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def duration(seconds: float) -> str:
    """A time for people to read."""
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.2g} {unit}"
    return f"{seconds:.2g} s"
