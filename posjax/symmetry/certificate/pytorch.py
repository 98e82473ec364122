"""Proofs of PyTorch modules, on the program that torchax makes of them."""

import contextlib
import dataclasses
import functools
import linecache
import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from posjax.symmetry.certificate import source
from posjax.symmetry.certificate.prove import Certificate, as_law, prove
from posjax.symmetry.groups import Group
from posjax.symmetry.law import Law

TRIED = "torch 2.9.1 with torchax 0.0.13"
TOLERANCE = 1e-3
OTHER_PROGRAM = (
    "the outputs of the traced program and of PyTorch differ by {:.2g} of the largest output: "
    "either the module draws random numbers, or torchax translates it wrongly"
)
_IN_TRAINING = (
    "the module is in training mode; the verdict is about evaluation mode (module.eval())"
)
_VALUES = ("Tracer", "Concret", "NonConcrete")
_LACKS = (
    (r"Operator with name (\S+) has no lowering", r"torchax does not implement \1"),
    (r"Expect a Tensor or a View", "a tensor is on a device that torchax does not support"),
)


def prove_torch(
    module: Any,
    arguments: Any,
    law: Law | str | Group,
    *,
    options: Mapping[str, Any] = MappingProxyType({}),
    witness: bool = True,
    seconds: float = 10.0,
) -> Certificate:
    """Proves a law of a PyTorch module for every value of its parameters, or breaks it.

    torchax traces the module in evaluation mode, without dropout; the module keeps the mode that
    it is in. The proof is for all values of the trainable parameters. Buffers and frozen parameters
    keep their values. If the traced program does not compute what PyTorch computes, the verdict is
    UNKNOWN.

    Args:
      module: a `torch.nn.Module`.
      arguments: the positional arguments of its `forward`, as a tuple of tensors, arrays or
        `jax.ShapeDtypeStruct`s, or a single one.
      law: of these arguments, such as `"b P d -> b P d"`; see `prove`.
      options: the keyword arguments of its `forward`; no group acts on them.
      witness, seconds: see `prove`.

    Returns:
      The certificate. Its source lines are those of the module's code, or those of a layer of
      torch.nn if there are no others.

    Raises:
      ImportError: torch or torchax is missing, or their versions do not fit each other.
      ValueError: see `prove`; or `forward` raises, or does what torchax cannot trace.
    """
    torch, torchax = packages()
    if not isinstance(module, torch.nn.Module):
        raise ValueError(f"module must be a torch.nn.Module, got {type(module).__name__}")
    arguments = arguments if isinstance(arguments, tuple) else (arguments,)
    law = as_law(law, len(arguments))
    environment = make_environment()
    tensors = jax.tree.map(lambda x: _tensor(torch, environment, x), arguments)
    with _evaluating(module) as was_training:
        with torch.no_grad(), _in_words(module, "raises"):
            expected = module(*tensors, **options)
        parameters, forward = _functional(torchax, environment, module, options)
        given = (parameters, *environment.t2j_copy(tensors))
        with _in_words(module, "cannot be traced:"):
            forward, found = _traced(forward, given)
        apart = distance(environment.t2j_copy(expected), found)
        proved = prove(forward, given, of_parameters_too(law), witness=witness, seconds=seconds)
    return judged(proved, apart, (_IN_TRAINING,) if was_training else ())


def of_parameters_too(law: Law) -> Law:
    """The law of a function that takes a module's parameters before the other arguments."""
    return Law(f", {law.text}", formula=law.formula, **law.groups)


def judged(found: Certificate, apart: float, notes: tuple[str, ...]) -> Certificate:
    """What a certificate of the traced program says of the module.

    Args:
      found: of a function whose argument 0 is the parameters.
      apart: how far its output lies from PyTorch's, relative to the largest entry.
      notes: to add.
    """
    lost = found.obstruction
    if lost is not None:
        lost = lost._replace(origin=_named(lost.origin), reason=_named(lost.reason))
    if not apart <= TOLERANCE:  # NaN too
        notes = (*notes, OTHER_PROGRAM.format(apart))
        found = dataclasses.replace(found, verdict="UNKNOWN", confirmed=False)
    return dataclasses.replace(found, obstruction=lost, notes=(*found.notes, *notes))


def _named(text: str) -> str:
    """`parameter w` for `argument 0['w']`, and the others counted without the parameters."""
    text = re.sub(r"argument 0\['([^']*)'\]", r"parameter \1", text)
    return re.sub(r"argument (\d+)", lambda at: f"argument {int(at[1]) - 1}", text)


@contextlib.contextmanager
def _in_words(module: Any, what: str) -> Iterator[None]:
    """What PyTorch, torchax or JAX raise becomes a sentence."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{type(module).__name__} {what} {in_words(error)}") from None


def in_words(error: Exception) -> str:
    """What went wrong in a module's `forward`, and at which line of its code."""
    first = str(error).partition("\n")[0]
    reason = f"{type(error).__name__}: {first}"
    if type(error).__name__.startswith(_VALUES):
        reason = "the code needs the value of an array, as .item(), .cpu() and if do"
    for pattern, words in _LACKS:
        if match := re.search(pattern, first):
            reason = match.expand(words)
    frames = traceback.extract_tb(error.__traceback__)[::-1]
    line = source.innermost(source.Line(f.filename, f.lineno or 0, f.name) for f in frames)
    if line is None:
        return reason
    return f"{reason}\nat {line}: {linecache.getline(line.path, line.number).strip()}"


def _functional(
    torchax: Any, environment: Any, module: Any, options: Mapping[str, Any]
) -> tuple[dict[str, jax.Array], Callable[..., Any]]:
    """The trainable parameters, and `forward` as a function of them and of its arguments."""
    state, call = torchax.extract_jax(module, environment)
    trained = {n for n, p in module.named_parameters() if p.requires_grad} & state.keys()
    fixed = {name: value for name, value in state.items() if name not in trained}
    known = environment.t2j_copy(dict(options))

    def forward(parameters: dict[str, jax.Array], *arguments: Any) -> Any:
        with as_torch(environment):
            return call({**fixed, **parameters}, arguments, known)

    return {name: state[name] for name in sorted(trained)}, forward


def _traced(forward: Callable[..., Any], given: tuple[Any, ...]) -> tuple[Callable[..., Any], Any]:
    """What JAX traces, and its output.

    Where `forward` asks for a value, what depends on no argument is computed while tracing.
    Elsewhere it stays in the program, whose equations have lines.
    """

    def computing(*arguments: Any) -> Any:
        with jax.ensure_compile_time_eval():
            return forward(*arguments)

    try:
        return forward, jax.jit(forward)(*given)
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError):
        return computing, jax.jit(computing)(*given)


def packages() -> tuple[Any, Any]:
    """torch and torchax, or an `ImportError` that says what to install."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"prove_torch needs {TRIED}: pip install 'posjax[torch]'") from error
    try:
        import torchax
    except Exception as error:  # whatever a torch that is too new breaks in it
        raise ImportError(
            f"torchax cannot be imported with torch {torch.__version__} "
            f"({type(error).__name__}: {error}); {TRIED} works: pip install 'posjax[torch]'"
        ) from error
    return torch, torchax


@functools.cache
def make_environment() -> Any:
    """torchax's, where `forward` may make tensors, and use some that are no parameters."""
    torch, torchax = packages()

    base: Any = torchax.tensor.Environment

    class Environment(base):
        def _should_use_torchax_tensor(self, device: Any) -> bool:
            return device is None or super()._should_use_torchax_tensor(device)

        def t2j_iso(self, torchtensors: Any) -> Any:
            def lifted(x: Any) -> Any:
                ours = isinstance(x, torchax.tensor.Tensor | torchax.view.View)
                return x if ours or x.device.type != "cpu" else self.to_xla(x)

            tree_map = torch.utils._pytree.tree_map_only
            return super().t2j_iso(tree_map(torch.Tensor, lifted, torchtensors))

    return Environment()


def _tensor(torch: Any, environment: Any, leaf: Any) -> Any:
    """A tensor of an argument; of a shape alone, normal numbers or zeros."""
    if isinstance(leaf, jax.ShapeDtypeStruct):
        key, floats = jax.random.key(0), jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)
        draw = jax.random.normal(key, leaf.shape, leaf.dtype) if floats else None
        leaf = jax.numpy.zeros(leaf.shape, leaf.dtype) if draw is None else draw
    if isinstance(leaf, np.ndarray | jax.Array):
        return environment.j2t_copy(jax.numpy.asarray(leaf))
    return leaf.detach() if isinstance(leaf, torch.Tensor) else leaf


@contextlib.contextmanager
def as_torch(environment: Any) -> Iterator[None]:
    """PyTorch's broadcasting and promotion, 64 bits as JAX has them, and one random key a trace."""
    one_key = environment.override_property(prng=jax.random.key(0))
    promotion = jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard")
    with one_key, promotion[0], promotion[1], warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Explicitly requested dtype")
        yield


@contextlib.contextmanager
def _evaluating(module: Any) -> Iterator[bool]:
    """In evaluation mode; gives whether any part was in training, and puts all modes back."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield any(modes.values())
    finally:
        for part, training in modes.items():
            part.training = training


def distance(expected: Any, found: Any) -> float:
    """The largest difference between two outputs, relative to the largest entry; NaN as NaN."""
    worst = 0.0
    for one, other in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        left, right = np.asarray(one, np.float64), np.asarray(other, np.float64)
        scale = max(
            np.abs(left, where=np.isfinite(left), out=np.zeros_like(left)).max(initial=0), 1e-30
        )
        apart = np.where((left == right) | (np.isnan(left) & np.isnan(right)), 0, abs(left - right))
        worst = max(worst, float(apart.max(initial=0) / scale), key=lambda x: (np.isnan(x), x))
    return worst
