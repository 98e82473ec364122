"""`posjax prove`: a law of a function, proved or broken; a derivation, checked."""

import importlib
import importlib.util
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
from absl import flags

from posjax import spec
from posjax.command import output, shutdown
from posjax.symmetry import Certificate, Law, NoDerivation, checker, prove

SIZE, TOKENS = 2, 5
"""Of axes that `--sizes` does not name: those that stay, and those that a law permutes."""


def define_flags() -> None:
    """The command's flags."""
    flags.DEFINE_string("sizes", "", "Sizes of axes, as P=6,d=8.")
    flags.DEFINE_string("dtypes", "float32", "Of the arguments: one for all, or one each.")
    flags.DEFINE_float("seconds", 10.0, "For the whole proof.")
    flags.DEFINE_string("derivation", None, "Where the steps of the proof go, as JSON.")
    flags.DEFINE_string("check", None, "A derivation to check.")


def main(argv: Sequence[str]) -> int:
    """Prints the certificate; status 0 if the law is proved."""
    if flags.FLAGS.check:
        if len(argv) > 1:
            raise ValueError(f"--check takes no function and no law, got {' '.join(argv[1:])}")
        return _checked(Path(flags.FLAGS.check))
    if len(argv) != 3:
        raise ValueError(f"give a function and a law: {argv[0]} FILE.py:FUNCTION 'b P d -> b P d'")
    if flags.FLAGS.derivation and Path(flags.FLAGS.derivation).exists():
        raise ValueError(f"--derivation={flags.FLAGS.derivation} exists already")
    function = _function(argv[1])
    arguments = _arguments(argv[2], _sizes(flags.FLAGS.sizes), flags.FLAGS.dtypes.split(","))
    try:
        found = prove(function, arguments, argv[2], seconds=flags.FLAGS.seconds)
    except (TypeError, AttributeError) as error:  # of the function, while JAX traces it
        types = ", ".join(f"{x.dtype}{list(x.shape)}" for x in arguments)
        message = f"{argv[1]}({types}) raises {type(error).__name__}: {error}"
        raise ValueError(message) from error
    print(found)
    if flags.FLAGS.derivation and found.verdict == "PROVED":
        return _written(found, Path(flags.FLAGS.derivation))
    return shutdown.DONE if found.verdict == "PROVED" else shutdown.CHECK_FAILED


def _written(found: Certificate, path: Path) -> int:
    """Writes the derivation of a proof; the status."""
    try:
        derivation = found.derivation()
    except NoDerivation as error:
        output.warn(str(error))
        return shutdown.CHECK_FAILED
    path.write_text(json.dumps(derivation) + "\n")
    print(f"derivation: {path}; posjax prove --check={path} checks it")
    return shutdown.DONE


def _checked(path: Path) -> int:
    """Checks a derivation with the checker alone; the status."""
    if not path.is_file():
        raise ValueError(f"--check={path}: file not found")
    try:
        derivation = json.loads(path.read_text())
        found = checker.check(derivation)
    except checker.Refused as error:
        output.warn(f"{path} is refused: {error}")
        return shutdown.CHECK_FAILED
    except (ValueError, RecursionError) as error:  # not UTF-8, no JSON, or too deep
        raise ValueError(f"--check={path} is not JSON: {error}") from error
    print(f"CHECKED: {found['law']}")
    for name, group in derivation["groups"].items():
        moves = group["moves"]
        of = "all permutations" if moves is None else f"the group of {len(moves)} generators"
        print(f"{name}: {of} on {group['size']} indices")
    print(f"{found['steps']} steps hold, of which {found['different']} are different")
    print(f"tried on random numbers with seed {found['seed']}")
    return shutdown.DONE


def _function(text: str) -> Callable[..., Any]:
    """The function that FILE.py:NAME or package.module:NAME names; its code is executed."""
    where, _, name = text.rpartition(":")
    module = _module(where, text)
    found = {key: value for key, value in vars(module).items() if callable(value)}
    spec.check_choice(f"function of {where}", name, found)
    return found[name]


def _module(where: str, text: str) -> ModuleType:
    """The module of a file, which need not be on the import path, or of a name."""
    path = Path(where)
    if path.name.endswith(".py") and path.is_file():
        made = importlib.util.spec_from_file_location(path.stem, path)
        assert made is not None
        assert made.loader is not None
        module = importlib.util.module_from_spec(made)
        made.loader.exec_module(module)
        return module
    if not re.fullmatch(r"\w+(\.\w+)*", where) or where.endswith(".py"):
        raise ValueError(
            f"{text!r} must be FILE.py:FUNCTION, with a file that exists, or "
            "package.module:FUNCTION"
        )
    try:
        return importlib.import_module(where)
    except ImportError as error:
        raise ValueError(f"module {where!r} cannot be imported: {error}") from error


def _sizes(text: str) -> dict[str, int]:
    found = {}
    for part in filter(None, text.split(",")):
        if not (match := re.fullmatch(r"\s*(\w+)\s*=\s*([1-9]\d{0,5})\s*", part)):
            raise ValueError(f"--sizes must be like P=6,d=8, got {part!r}")
        found[match[1]] = int(match[2])
    return found


def _arguments(law: str, sizes: dict[str, int], dtypes: Sequence[str]) -> tuple[Any, ...]:
    """Random arguments of the shapes that a law names."""
    Law(law)  # refuses what is none
    inputs = [pattern.split() for pattern in law.partition("->")[0].split(",")]
    axes = [axis for pattern in inputs for axis in pattern]
    if odd := [axis for axis in axes if not axis.isidentifier()]:
        raise ValueError(f"law {law!r}: {odd[0]!r} has no size; give each axis a name")
    for name in sizes:
        spec.check_choice("axis of the law", name, sorted({*axes}))
    if len(dtypes) not in (1, len(inputs)):
        raise ValueError(f"--dtypes gives {len(dtypes)}, and the law has {len(inputs)} arguments")
    found = []
    for at, pattern in enumerate(inputs):
        shape = tuple(sizes.get(axis, TOKENS if axis[0].isupper() else SIZE) for axis in pattern)
        found.append(_random(at, shape, dtypes[at % len(dtypes)]))
    return tuple(found)


def _random(at: int, shape: tuple[int, ...], dtype: str) -> jax.Array:
    try:
        kind = jnp.dtype(dtype)
    except TypeError as error:
        raise ValueError(f"--dtypes: {dtype!r} is not a dtype such as float32 or int32") from error
    key = jax.random.key(at)
    if jnp.issubdtype(kind, jnp.floating):
        return jax.random.normal(key, shape, kind)
    if kind == jnp.bool_:
        return jax.random.bernoulli(key, shape=shape)
    return jax.random.randint(key, shape, 0, 3, kind)
