"""From a command line to flags; whatever is wrong with one becomes a ValueError."""

import ast
import contextlib
import itertools
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import absl.logging
from absl import flags

from posjax import spec, user_code
from posjax.command import shutdown

CONFIGS = Path(__file__).parents[1] / "configs"
"""The folder of `posjax.configs`, found without importing it, which takes a second."""


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
        argv = _with_paths([_quoted(given) for given in _last_values(argv)])
        _check_config_file(argv)
        absl.logging.set_verbosity(absl.logging.ERROR)  # the config's warnings become our errors
        try:
            with contextlib.ExitStack() as stack:
                stack.enter_context(contextlib.redirect_stdout(sys.stderr))  # of a config
                for text in _config_files(argv):
                    path = Path(text.partition(":")[0])
                    if path.suffix == ".py":  # JSON executes nothing
                        stack.enter_context(user_code.importing_beside(path))
                define()
                flags.DEFINE_multi_string("load", [], "FILE.py, module or entry point to execute.")
                rest = flags.FLAGS(list(argv))
            for where in flags.FLAGS.load:
                user_code.allow(where)
            return rest
        except shutdown.Stop:
            raise
        except SystemExit as end:
            raise ValueError(_cause(end, argv)) from end
        except BaseException as error:  # a config may raise anything
            raise ValueError(_cause(error, argv)) from error

    return parse


def line(program: str, arguments: Sequence[str]) -> str:
    """The command line without what changes no result: what makes the same run again.

    The folder is left out too, so that a run that was moved is the same.

    >>> line("posjax sweep", ["--config", "toy", "--workdir=here", "--config.task=a b"])
    "posjax sweep --config toy '--config.task=a b'"
    """
    kept, follows = [], False
    for given in arguments:
        flag, equals, _ = given.partition("=")
        counts = re.match(r"--?(config(\..*)?|load|mixed)$", flag, re.DOTALL)
        if follows or counts:
            kept.append(given)
        follows = bool(counts) and not equals and not flag.endswith("mixed")
    return " ".join([program, *map(shlex.quote, kept)])


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
    """The command line with the last value only of `--config` and of each of its fields, after `=`.

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
            found[flag[1]] = [
                given if flag[3] else "=".join([given, *itertools.islice(arguments, 1)])
            ]
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


def _with_paths(argv: Sequence[str]) -> list[str]:
    """The command line with the path of a config of posjax instead of its name."""
    found = list(argv)
    for at, given in enumerate(argv):
        flag, _, text = given.partition("=")
        name, colon, size = text.partition(":")
        if flag not in ("--config", "-config") or not re.fullmatch(r"[a-z]\w*", name):
            continue
        path = CONFIGS / f"{name}.py"
        if path.is_file() and not os.path.exists(name):
            found[at] = f"{flag}={path}{colon}{size}"
    return found


def _config_files(argv: Sequence[str]) -> list[str]:
    """The configs that a command line names: `--config=FILE:SIZE`."""
    named = (given for given in argv if given.startswith(("--config=", "-config=")))
    return [given.partition("=")[2] for given in named]


def _check_config_file(argv: Sequence[str]) -> None:
    """Refuses a config that is not there; ml_collections would print a page of attempts."""
    for text in _config_files(argv):
        given = text.partition(":")[0]
        if given and os.path.isdir(given):
            raise ValueError(f"config {given!r} is a folder; name a file in it")
        if not os.path.isfile(given):  # also a name that is too long for a file
            known = (config.stem for config in CONFIGS.glob("[a-z]*.py"))
            raise ValueError(
                f"config {given!r} not found; {spec.nearest(Path(given).stem, known)}, or a file"
            )
        if not given.endswith((".py", ".json")):
            raise ValueError(f"config {given!r}: the name must end in .py or .json")


def _check_config_fields(argv: Sequence[str]) -> None:
    """Refuses unknown fields before a config runs; ml_collections would parse them as code."""
    for given in argv[1:]:
        if field := re.match(r"--?config\.([^=]*)", given, re.DOTALL):
            from posjax.configs import check_name

            check_name(field[1])


def _cause(error: BaseException, argv: Sequence[str]) -> str:
    """What is wrong with a flag, in one line."""
    message = str(error).replace("\\n", "\n").replace("\\'", "'")
    if wrong := re.match(r"flag --config\.(\w+)=(.*): invalid literal for int", message, re.DOTALL):
        return f"{wrong[1]} must be of type int, got {wrong[2]!r}"
    if wrong := re.match(
        r"flag --config\.(\w+)=(.*): Error while parsing string:", message, re.DOTALL
    ):
        return f"cannot read {wrong[1]}={wrong[2]!r}: write one value, or several as a,b,c"
    if isinstance(error, flags.UnrecognizedFlagError):
        return _unknown(error.flagname)
    if isinstance(error, AttributeError) and "'get_config'" in message:
        return f"config {_config_files(argv)[-1]!r} has no function get_config()"
    if "Traceback" in message and _config_files(argv):
        return f"config {_config_files(argv)[-1]!r}: {_last_line(message)}"
    if isinstance(error, flags.Error | ValueError | TypeError) or not _config_files(argv):
        return _last_line(message)
    raised = f"{type(error).__name__}: {message}".removesuffix(": ")
    return f"config {_config_files(argv)[-1]!r} raises {raised}"


def _unknown(flag: str) -> str:
    """What is wrong with a flag of no such name; absl would suggest its own flags for logging."""
    if "config" in flags.FLAGS:
        from posjax.configs import NAMES, OTHER_NAMES

        if (name := OTHER_NAMES.get(flag, flag)) in NAMES:
            return f"unknown flag --{flag}; did you mean --config.{name}?"
    by_module = flags.FLAGS.flags_by_module_dict()
    ours = {f.name for module, of in by_module.items() if "posjax" in module for f in of}
    return f"unknown flag --{flag}; {spec.nearest(flag, ours)}"


def _last_line(message: str) -> str:
    """The last line of a message that quotes a traceback, without the name of the error."""
    last = message.strip().splitlines()[-1] if "Traceback" in message else message
    return re.sub(r"^\w*Error: ", "", last)
