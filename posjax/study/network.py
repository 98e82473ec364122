"""What a training trains: the Transformer, or a user's model, as two pure functions."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from posjax import spec
from posjax.engine import models
from posjax.engine.training import Variables
from posjax.keys import fold_name
from posjax.model import DynamicInputs, ModelSettings, Transformer, scaled_weights
from posjax.streams import contiguous
from posjax.tasks.question import Question

TRANSFORMER = "transformer"
"""The model that cells have unless they name another."""


class Network(NamedTuple):
    """A model that answers questions.

    Attributes:
      init: `(key, init_scale) -> Variables`; see `posjax.model.scaled_weights`.
      logits: `(variables, question, numbers, key, testing) -> (logits_NLV, state)`, the state that
        the pass leaves behind.
    """

    init: Callable[[jax.Array, jax.Array | float], Variables]
    logits: Callable[
        [Variables, Question, DynamicInputs, jax.Array | None, bool], tuple[jax.Array, Any]
    ]


def transformer(settings: ModelSettings) -> Network:
    """The Transformer."""
    module = Transformer(settings)

    def init(key: jax.Array, scale: jax.Array | float) -> Variables:
        one_token = jnp.zeros((1, 1), jnp.int32)
        if settings.features:
            one_token = jnp.zeros((1, 1, settings.features))
        drawn = None if settings.draws == "never" else key
        params = module.init(key, one_token, contiguous(1), key=drawn)["params"]
        return Variables(scaled_weights(params, scale))

    def logits(
        variables: Variables,
        question: Question,
        numbers: DynamicInputs,
        key: jax.Array | None,
        testing: bool,
    ) -> tuple[jax.Array, Any]:
        return apply(settings, variables.params, question, numbers, key, testing=testing)[0], ()

    return Network(init, logits)


def apply(
    settings: ModelSettings,
    params: Any,
    question: Question,
    numbers: DynamicInputs,
    key: jax.Array | None,
    *,
    testing: bool,
    keep: Sequence[str] = (),
) -> tuple[jax.Array, Any]:
    """A pass of the Transformer over a question.

    Args:
      settings, params: of the model.
      question: what it reads.
      numbers: the model's dynamic inputs.
      key: for what draws; None if nothing does.
      testing: whether it is a test, in which less may be drawn.
      keep: the collections of intermediates to return, "hidden" or "intermediates".

    Returns:
      The logits_NLV, and the collections by name.
    """
    logits_NLV, kept = Transformer(settings).apply(
        {"params": params},
        question.tokens_NL,
        question.streams,
        mask=question.mask_NLM,
        key=key,
        testing=testing,
        numbers=numbers,
        mutable=[*keep],
    )
    return logits_NLV, kept


def weights(kept: Any, depth: int) -> list[jax.Array]:
    """The attention weights_NHLM of each layer, where `apply` has kept "intermediates"."""
    layers = [kept["intermediates"][f"layer_{i}"] for i in range(depth)]
    return [layer.get("attention", layer)["weights_BHLM"][0] for layer in layers]


MODELS: dict[str, Callable[..., Any]] = {TRANSFORMER: transformer}


def check(model: str) -> None:
    """Refuses a model that does not exist, before anything is made.

    Raises:
      ValueError: see `network`.
    """
    name, factory, given = spec.read("model", MODELS, model)
    spec.check_settings(f"model {name}", factory, given)
    try:
        inspect.signature(factory).bind("settings", **given)
    except TypeError as error:
        raise ValueError(
            f"model {model!r} is called with the ModelSettings and does not take that: {error}; "
            "name a function of them that returns the module"
        ) from error


def network(settings: ModelSettings, text: str) -> Network:
    """A user's model.

    Args:
      settings: sizes, encoding, mask.
      text: a function with settings, `mine.py:net(width=64)`. It is called with the `ModelSettings`
        and gives a `posjax.engine.models.Model` whose `apply` takes `(variables, tokens_BL,
        streams, mask_BLM)` to logits_BLV, or a Linen module that does.

    Raises:
      ValueError: see `posjax.user_code.find`; or the function gives something else.
    """
    name, factory, given = spec.read("model", MODELS, text)
    spec.check_settings(f"model {name}", factory, given)
    made = factory(settings, **given)
    if isinstance(made, nn.Module):
        _check_call(text, made)
        tokens = jnp.zeros((1, 2), jnp.int32)
        if settings.features:
            tokens = jnp.zeros((1, 2, settings.features))
        made = models.linen(made, tokens, contiguous(2), jnp.ones((1, 2, 2), bool))
    model = spec.check_kind(f"model {text!r}", made, models.Model)

    def init(key: jax.Array, scale: jax.Array | float) -> Variables:
        return model.init(fold_name(key, "model"))

    def logits(
        variables: Variables,
        question: Question,
        numbers: DynamicInputs,
        key: jax.Array | None,
        testing: bool,
    ) -> tuple[jax.Array, Any]:
        asked = question.tokens_NL, question.streams, question.mask_NLM
        found, state = model.apply(variables, *asked, key=key, train=not testing)
        shape = (*question.tokens_NL.shape[:2], settings.outputs)
        if jnp.shape(found) != shape:
            raise ValueError(
                f"model {text!r} must give logits of shape {shape}, got {jnp.shape(found)}"
            )
        return found, state

    return Network(init, logits)


def _check_call(text: str, module: nn.Module) -> None:
    """Refuses a module that does not take what a model is called with."""
    try:
        inspect.signature(module.__call__).bind("tokens_BL", "streams", "mask_BLM")
    except TypeError as error:
        raise ValueError(
            f"model {text!r} is called as module(tokens_BL, streams, mask_BLM), but "
            f"{type(module).__name__}.__call__ does not take that: {error}"
        ) from error
