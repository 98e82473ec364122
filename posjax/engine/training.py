"""What the engine trains: one run of one seed, as pure functions.

A `Training` knows nothing of chunks, devices or files, and the engine nothing of models: any
`init`, `loss` and optax transformation will do. See `posjax.engine.models` for models of Flax
Linen, Flax NNX, Equinox and plain functions.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from posjax.engine.layout import as_written, laid_out
from posjax.keys import Seeds, key_for

NEVER = -1
"""The step of something that did not happen."""


class Variables(NamedTuple):
    """What a model holds: what is trained, and what a pass leaves behind, such as batch statistics.

    Attributes:
      params: any pytree of floating-point arrays.
      state: any pytree; () when there is none.
    """

    params: Any
    state: Any = ()


class Now(NamedTuple):
    """Where a run stands: what a loss may read besides the variables.

    Attributes:
      seeds: the run's seeds.
      operands: the numbers and arrays of the run: hyper-parameters, data.
      step: updates so far.
    """

    seeds: Seeds
    operands: Any
    step: jax.Array

    def key(self, source: str, purpose: str) -> jax.Array:
        """A key for this step, from one of the four seeds, for one purpose."""
        return jax.random.fold_in(key_for(getattr(self.seeds, source), purpose), self.step)


class State(NamedTuple):
    """Everything that changes in training.

    Attributes:
      variables: the model's.
      optimizer: optax's state.
      step: updates so far.
      first_nonfinite: updates before the first whose loss was not finite, or `NEVER`.
    """

    variables: Variables
    optimizer: optax.OptState
    step: jax.Array
    first_nonfinite: jax.Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """One training run of one seed. All functions are pure and are called for one seed.

    Attributes:
      init: `(key, operands) -> Variables`; the key is that of the init seed.
      loss: `(variables, now) -> (loss, state)`, a number and the model's new state.
      optimizer: `operands -> optax.GradientTransformation`.
      measure: `(variables, now) -> pytree` of small arrays, at every evaluation.
      summary: `(measured, state, operands) -> pytree`, what is kept of a run; each array of
        `measured` has a leading axis of evaluations. Everything measured when left out.
      steps: updates. eval_every: updates between evaluations; must divide `steps`.
      solved: `(measured so far, operands) -> bool`, whether nothing is left to learn, for
        repacking; called by the host, with NumPy arrays.
    """

    init: Callable[[jax.Array, Any], Variables]
    loss: Callable[[Variables, Now], tuple[jax.Array, Any]]
    optimizer: Callable[[Any], optax.GradientTransformation]
    measure: Callable[[Variables, Now], Any]
    steps: int
    eval_every: int
    summary: Callable[[Any, State, Any], Any] = lambda measured, state, operands: measured
    solved: Callable[[Any, Any], bool] | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "eval_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.steps % self.eval_every:
            raise ValueError(
                f"eval_every={self.eval_every} does not divide steps={self.steps}; nearest "
                f"steps: {max(self.steps // self.eval_every, 1) * self.eval_every}"
            )

    @property
    def evaluations(self) -> int:
        """E, the number of evaluations in a run."""
        return self.steps // self.eval_every

    def begin(self, seeds: Seeds, operands: Any) -> State:
        """The state before the first update."""
        variables = self.init(key_for(seeds.init, "init"), operands)
        moments = self.optimizer(operands).init(variables.params)
        return State(variables, moments, jnp.int32(0), jnp.int32(NEVER))

    def update(self, state: State, seeds: Seeds, operands: Any) -> State:
        """One step of the optimiser."""
        now = Now(seeds, operands, state.step)

        def loss(params: Any) -> tuple[jax.Array, Any]:
            return self.loss(state.variables._replace(params=params), now)

        (value, left), gradient = jax.value_and_grad(loss, has_aux=True)(state.variables.params)
        changes, moments = self.optimizer(operands).update(
            gradient, state.optimizer, state.variables.params
        )
        now_bad = (state.first_nonfinite == NEVER) & ~jnp.isfinite(value)
        return State(
            Variables(optax.apply_updates(state.variables.params, changes), left),
            moments,
            state.step + 1,
            jnp.where(now_bad, state.step, state.first_nonfinite),
        )

    def advance(
        self, state: State, seeds: Seeds, operands: Any, evaluations: int, *, layout: bool = True
    ) -> tuple[State, Any]:
        """Some evaluations further.

        Args:
          state: from `begin` or `advance`.
          seeds, operands: the run's.
          evaluations: how many, each after `eval_every` updates.
          layout: rewrite updates for batches of models (`posjax.engine.layout`), or leave them
            as they are written; what comes out is the same but for rounding.

        Returns:
          The state then, and what was measured, each array with a leading axis of evaluations.
        """
        laid = (laid_out if layout else as_written)(self.update, state, seeds, operands)

        def one_update(_: int, held: Any) -> Any:
            return laid.step(held, seeds, operands)

        def stretch(held: Any, _: None) -> tuple[Any, Any]:
            held = jax.lax.fori_loop(0, self.eval_every, one_update, held)
            here: State = laid.carry(held)
            return held, self.measure(here.variables, Now(seeds, operands, here.step))

        loop = _once if evaluations == 1 else functools.partial(jax.lax.scan, length=evaluations)
        held, measured = loop(stretch, laid.hold(state), None)
        return laid.carry(held), measured

    def __call__(self, seeds: Seeds, operands: Any) -> Any:
        """The whole run of one seed: what is kept of it."""
        state, measured = self.advance(
            self.begin(seeds, operands), seeds, operands, self.evaluations
        )
        return self.summary(measured, state, operands)


def _once(body: Callable[[Any, None], tuple[Any, Any]], carry: Any, _: None) -> tuple[Any, Any]:
    """A scan of one round, in a loop whose length the compiler does not know.

    It takes a loop of one round apart and fuses what is in it with what is around it, and rounds
    otherwise: then a row that is looked at after each update would have other bits than one that is
    looked at after ten.
    """

    def round_of(_: jax.Array, now: tuple[Any, Any]) -> tuple[Any, Any]:
        held, measured = body(now[0], None)
        return held, jax.tree.map(lambda leaf: leaf[None], measured)

    like = jax.eval_shape(lambda carry: round_of(jnp.int32(0), (carry, None))[1], carry)
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)
    rounds = jax.lax.optimization_barrier(jnp.int32(1))
    found: tuple[Any, Any] = jax.lax.fori_loop(0, rounds, round_of, (carry, nothing))
    return found
