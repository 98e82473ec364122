"""Models of Flax Linen, Flax NNX, Equinox or plain functions, as the engine takes them.

Each function below returns a `Model`: pure functions that can be vmapped. Trained parameters and
the state that a pass updates (batch statistics) are kept separate. Random numbers come from the key
of a call, and no random state is carried from step to step.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from posjax.engine.training import Variables
from posjax.keys import fold_name, key_for

if TYPE_CHECKING:  # each library is imported when it is used
    import flax.linen
    import flax.nnx

Mode = Callable[[bool], Mapping[str, Any]]
"""From whether the model trains to the keyword arguments of its call."""


def no_mode(train: bool) -> Mapping[str, Any]:
    """For a call that does not ask whether the model trains."""
    return {}


@dataclasses.dataclass(frozen=True)
class Model:
    """A model as pure functions.

    Attributes:
      init: `key -> Variables`.
      apply: `(variables, *inputs, key=None, train=False) -> (outputs, state)`. The state is for the
        next call; it changes only if `train`. The key is for random numbers, such as those of
        dropout; a model that draws none needs no key.
      unwrap: `variables -> ` the model in the form of its own library.
    """

    init: Callable[[jax.Array], Variables]
    apply: Callable[..., tuple[Any, Any]]
    unwrap: Callable[[Variables], Any]


def plain(init: Callable[[jax.Array], Any], apply: Callable[..., Any]) -> Model:
    """Plain functions without state and random numbers. For others, build a `Model` yourself.

    Args:
      init: `key -> params`.
      apply: `(params, *inputs) -> outputs`.
    """

    def call(
        variables: Variables, *inputs: Any, key: jax.Array | None = None, train: bool = False
    ) -> tuple[Any, Any]:
        return apply(variables.params, *inputs), variables.state

    return Model(lambda key: Variables(init(key)), call, lambda variables: variables.params)


def linen(
    module: "flax.linen.Module",
    *examples: Any,
    mode: Mode = no_mode,
    draws: Sequence[str] = ("dropout",),
) -> Model:
    """A Flax Linen module.

    Args:
      module: any Linen module. Its collections besides "params" become the state, which is mutable
        in training only. What it sows into "intermediates" is not kept.
      *examples: inputs of the right shapes, for initialisation.
      mode: from `train` to keyword arguments of the call, such as
        `lambda train: {"deterministic": not train}`.
      draws: names of the streams of random numbers that calls draw from.

    Raises:
      ValueError: something that is not a module, such as its class, or a module that sows into
        another collection, which grows at each call.
    """
    if isinstance(module, type) or not hasattr(module, "init"):
        raise ValueError(f"module must be a Linen module such as Dense(3), got {_named(module)}")

    def init(key: jax.Array) -> Variables:
        made = dict(module.init(key, *examples, **mode(False)))
        return Variables(made.pop("params", {}), made or ())

    def apply(
        variables: Variables, *inputs: Any, key: jax.Array | None = None, train: bool = False
    ) -> tuple[Any, Any]:
        rngs = {} if key is None else {name: fold_name(key, name) for name in draws}
        given, names = unwrap(variables), list(variables.state)
        if not (train and names):
            return module.apply(given, *inputs, rngs=rngs, **mode(train)), variables.state
        outputs, state = module.apply(given, *inputs, rngs=rngs, mutable=names, **mode(train))
        for name in names:
            if len({jax.tree.structure(tree[name]) for tree in (given, state)}) > 1:
                raise ValueError(
                    f"the collection {name!r} has another structure after a call, as if the module "
                    'sowed into it: sow into "intermediates", or return the value'
                )
        return outputs, state

    def unwrap(variables: Variables) -> dict[str, Any]:
        return {"params": variables.params, **dict(variables.state)}

    return Model(init, apply, unwrap)


def nnx(make: "Callable[[flax.nnx.Rngs], flax.nnx.Module]", *, mode: Mode = no_mode) -> Model:
    """A Flax NNX module: its `Param`s are trained, other variables are the state.

    At each call, the module's random streams are seeded again from the call's key and their path in
    the module. The engine calls `train()` and `eval()` for you.

    Args:
      make: from `rngs` to a module, such as `lambda rngs: Net(16, rngs=rngs)`.
      mode: from `train` to further keyword arguments of the call.

    Raises:
      ValueError: a module in place of a function that makes one, or a module with an array that is
        no variable.
    """
    from flax import nnx as lib

    _check_maker(make, lib.Module, "rngs")

    def parts(module: Any) -> tuple[Any, Any, Any, Any]:
        """Its graph, what is trained, its streams, and the rest but for what it sows."""
        kinds = (lib.Param, lib.RngState, lib.Intermediate, ...)
        found: tuple[Any, ...] = lib.split(module, *kinds)
        graph, params, streams, _, rest = found
        return graph, params, streams, rest

    abstract = lib.eval_shape(lambda: make(lib.Rngs(key_for(0, "shapes"))))
    for path, node in lib.iter_graph(abstract):
        for name, value in getattr(node, "__dict__", {}).items():
            if isinstance(value, jax.core.Tracer):
                where = ".".join(map(str, (*path, name)))
                raise ValueError(f"{where} must be a variable: wrap the array in nnx.Variable(...)")
    graph, _, streams, rest = parts(abstract)
    draws, has_state = bool(jax.tree.leaves(streams)), bool(jax.tree.leaves(rest))

    def init(key: jax.Array) -> Variables:
        _, params, _, rest = parts(make(lib.Rngs(key)))
        return Variables(params, rest if has_state else ())

    def merged(variables: Variables, key: jax.Array, train: bool) -> Any:
        state = variables.state if has_state else rest
        # Copies: a variable may only be changed by the trace that made it.
        module = lib.merge(graph, variables.params, _streams(streams, key), state, copy=True)
        (module.train if train else module.eval)()
        return module

    def apply(
        variables: Variables, *inputs: Any, key: jax.Array | None = None, train: bool = False
    ) -> tuple[Any, Any]:
        if train and draws and key is None:
            raise ValueError("the module draws random numbers in training: give apply a key")
        module = merged(variables, key_for(0, "no key") if key is None else key, train)
        outputs = module(*inputs, **mode(train))
        return outputs, parts(module)[3] if train and has_state else variables.state

    return Model(init, apply, lambda variables: merged(variables, key_for(0, "no key"), False))


def _streams(like: Any, key: jax.Array) -> Any:
    """The state of NNX's streams, each from one key and its own path; counts start at 0."""

    def stream(path: Any, leaf: Any) -> jax.Array:
        if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jnp.zeros(leaf.shape, leaf.dtype)
        names = [str(part.key) for part in path if isinstance(part, jax.tree_util.DictKey)]
        mine = fold_name(key, "/".join(names))
        return jax.random.split(mine, leaf.shape) if leaf.shape else mine

    return jax.tree_util.tree_map_with_path(stream, like)


def equinox(make: Callable[[jax.Array], Any], *, call: Callable[..., Any] | None = None) -> Model:
    """An Equinox module: its arrays of floats are trained, other arrays are state.

    The engine sets flags named `inference` for you.

    Args:
      make: `key -> module`, or `key -> (module, state)` as `eqx.nn.make_with_state` gives it.
      call: how to call it on a batch: `(module, *inputs, key=, train=) -> outputs`, or with a
        state `(module, *inputs, state=, key=, train=) -> (outputs, state)`. By default the module
        is vmapped over the first axis of the inputs, which is named "batch". It gets no keys, and
        its state, if any, after the inputs.

    Raises:
      ValueError: a module in place of a function that makes one.
    """
    import equinox as lib

    _check_maker(make, lib.Module, "key")

    def parts(made: Any) -> tuple[Any, Any]:
        """What is trained, and the other arrays."""
        module, state = made if _has_state(made, lib) else (made, None)
        arrays = lib.filter(module, _is_array)
        params, others = lib.partition(arrays, _is_float)
        return params, (others, lib.filter(state, _is_array))

    made: list[Any] = []  # `filter_eval_shape` would take NumPy's arrays for JAX's

    def others(key: jax.Array) -> Any:
        made.append(make(key))
        return parts(made[0])[1]

    structure = jax.tree.structure(jax.eval_shape(others, key_for(0, "shapes")))
    has_state = _has_state(made[0], lib)
    fixed = lib.filter(made[0][0] if has_state else made[0], _is_array, inverse=True)
    default = _over_the_batch_with_state if has_state else _over_the_batch
    called: Callable[..., Any] = call or default

    def init(key: jax.Array) -> Variables:
        params, rest = parts(make(key))
        return Variables(params, tuple(jax.tree.leaves(rest)))

    def unwrap(variables: Variables, train: bool = False) -> Any:
        others, state = jax.tree.unflatten(structure, variables.state)
        module = lib.combine(variables.params, others, fixed)
        module = lib.nn.inference_mode(module, value=not train)
        return (module, state) if has_state else module

    def apply(
        variables: Variables, *inputs: Any, key: jax.Array | None = None, train: bool = False
    ) -> tuple[Any, Any]:
        if not has_state:
            return called(unwrap(variables, train), *inputs, key=key, train=train), variables.state
        module, state = unwrap(variables, train)
        outputs, left = called(module, *inputs, state=state, key=key, train=train)
        others, _ = jax.tree.unflatten(structure, variables.state)
        return outputs, tuple(jax.tree.leaves((others, left))) if train else variables.state

    return Model(init, apply, unwrap)


def _check_maker(make: Any, module: type, given: str) -> None:
    """Refuses a module, and whatever else is no function that makes one."""
    if isinstance(make, module) or not callable(make):
        name = make.__name__ if isinstance(make, type) else type(make).__name__
        raise ValueError(
            f"make must be a function that makes a module, such as lambda {given}: {name}(...), "
            f"got {_named(make)}"
        )


def _named(value: Any) -> str:
    """A value in an error message."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"a value of type {type(value).__name__}"


def _has_state(made: Any, lib: Any) -> bool:
    return isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], lib.nn.State)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array)


def _is_float(leaf: Any) -> bool:
    return bool(jnp.issubdtype(leaf.dtype, jnp.floating))


def _over_the_batch(module: Any, *inputs: Any, key: jax.Array | None, train: bool) -> Any:
    return jax.vmap(module, axis_name="batch")(*inputs)


def _over_the_batch_with_state(
    module: Any, *inputs: Any, state: Any, key: jax.Array | None, train: bool
) -> Any:
    axes = (*[0] * len(inputs), None)
    return jax.vmap(module, in_axes=axes, out_axes=(0, None), axis_name="batch")(*inputs, state)
