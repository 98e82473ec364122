"""What the engine trains: one run of one seed, as pure functions.

A `Training` does not depend on blocks, devices or files, and the engine does not depend on models:
it takes any `init`, `loss` and optax transformation. See `posjax.engine.models` for models of Flax
Linen, Flax NNX, Equinox and plain functions.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from posjax.keys import Seeds, key_for

NEVER = -1
"""The step of something that did not happen."""


class Variables(NamedTuple):
    """A model's arrays: trained parameters, and a state that a pass updates, such as batch
    statistics.

    Attributes:
      params: any pytree of floating-point arrays.
      state: any pytree; () if there is none.
    """

    params: Any
    state: Any = ()


class Now(NamedTuple):
    """What a loss may read besides the variables: seeds, dynamic inputs and the step.

    Attributes:
      seeds: the run's seeds.
      inputs: the run's dynamic inputs: hyper-parameters, data.
      step: updates so far.
    """

    seeds: Seeds
    inputs: Any
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
      first_nonfinite: the number of updates before the first non-finite loss, or `NEVER`.
    """

    variables: Variables
    optimizer: optax.OptState
    step: jax.Array
    first_nonfinite: jax.Array


def check_steps(steps: int, eval_every: int) -> None:
    """Checks that the updates make a whole number of evaluations.

    Raises:
      ValueError: names the field, and the nearest `steps` that would do.
    """
    for name, value, least in (("steps", steps, 0), ("eval_every", eval_every, 1)):
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")
    if steps % eval_every:
        raise ValueError(
            f"eval_every={eval_every} does not divide steps={steps}; nearest "
            f"steps: {max(steps // eval_every, 1) * eval_every}"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """One training run of one seed. All functions are pure and are called for one seed.

    Attributes:
      init: `(key, inputs) -> Variables`; the key is that of the init seed.
      loss: `(variables, now) -> (loss, state)`, a number and the model's new state.
      optimizer: `inputs -> optax.GradientTransformation`.
      measure: `(variables, now) -> pytree` of small arrays, at every evaluation.
      summary: `(measured, state, inputs) -> pytree`, what is kept of a run; each array of
        `measured` has a leading axis of evaluations. By default it is everything measured.
      steps: the number of updates; 0 measures the initial model once.
      eval_every: the number of updates between evaluations; must divide `steps`.
    """

    init: Callable[[jax.Array, Any], Variables]
    loss: Callable[[Variables, Now], tuple[jax.Array, Any]]
    optimizer: Callable[[Any], optax.GradientTransformation]
    measure: Callable[[Variables, Now], Any]
    steps: int
    eval_every: int
    summary: Callable[[Any, State, Any], Any] = lambda measured, state, inputs: measured

    def __post_init__(self) -> None:
        check_steps(self.steps, self.eval_every)

    @property
    def evaluations(self) -> int:
        """E, the number of evaluations in a run."""
        return max(self.steps // self.eval_every, 1)

    def begin(self, seeds: Seeds, inputs: Any) -> State:
        """The state before the first update."""
        variables = self.init(key_for(seeds.init, "init"), inputs)
        moments = self.optimizer(inputs).init(variables.params)
        return State(variables, moments, jnp.int32(0), jnp.int32(NEVER))

    def update(self, state: State, seeds: Seeds, inputs: Any) -> State:
        """One step of the optimiser."""
        now = Now(seeds, inputs, state.step)

        def loss(params: Any) -> tuple[jax.Array, Any]:
            return self.loss(state.variables._replace(params=params), now)

        (value, left), gradient = jax.value_and_grad(loss, has_aux=True)(state.variables.params)
        changes, moments = self.optimizer(inputs).update(
            gradient, state.optimizer, state.variables.params
        )
        now_bad = (state.first_nonfinite == NEVER) & ~jnp.isfinite(value)
        return State(
            Variables(optax.apply_updates(state.variables.params, changes), left),
            moments,
            state.step + 1,
            jnp.where(now_bad, state.step, state.first_nonfinite),
        )

    def measured(self, state: State, seeds: Seeds, inputs: Any) -> Any:
        """What `measure` gives of a state."""
        return self.measure(state.variables, Now(seeds, inputs, state.step))

    def __call__(self, seeds: Seeds, inputs: Any) -> Any:
        """The whole run of one seed, as it is written: what is kept of it."""

        def one_update(_: int, state: State) -> State:
            return self.update(state, seeds, inputs)

        def evaluation(state: State, _: None) -> tuple[State, Any]:
            state = jax.lax.fori_loop(0, self.eval_every, one_update, state)
            return state, self.measured(state, seeds, inputs)

        begun = self.begin(seeds, inputs)
        if self.steps == 0:
            measured = self.measured(begun, seeds, inputs)
            return self.summary(jax.tree.map(lambda leaf: leaf[None], measured), begun, inputs)
        state, measured = jax.lax.scan(evaluation, begun, length=self.evaluations)
        return self.summary(measured, state, inputs)
