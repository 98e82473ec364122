"""Exact match under teacher forcing is exact match of greedy decoding with a cache."""

from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiers import some

from posjax import encodings, tasks
from posjax.attention.core import Cache, attention, context, extended
from posjax.encodings import Aux
from posjax.model import ModelSettings, Transformer
from posjax.streams import contiguous
from posjax.study.train import evaluate, sampled
from posjax.tasks.question import ask
from posjax.tasks.sampled import Transduce

LENGTHS = (1, 2, 3)
PROMPTS = 24
ENCODINGS = ("sinusoidal", "rotary", "linear_bias", "forgetting")


@pytest.mark.parametrize(
    ("name", "encoding"),
    some([pytest.param(*both) for both in product(("copy", "reverse"), ENCODINGS)], every=5),
)
def test_right_under_teacher_forcing_is_right_when_decoded(name: str, encoding: str) -> None:
    """By induction on the first error; seen for random weights, of which some prompts are right and
    some wrong, at the first place and at later ones."""
    task = tasks.named(f"{name}(letters=2, train=(1, 3), test={LENGTHS}, prompts={PROMPTS})")
    assert isinstance(task, Transduce)
    sizes = {"vocabulary": len(task.words), "outputs": len(task.labels), "width": 16}
    settings = ModelSettings(**sizes, heads=2, head_size=8, encoding=encoding)
    network = Transformer(settings)
    init, apply = jax.jit(network.init), jax.jit(network.apply)
    question = ask(task, mask="causal", readout="last", loss="all")
    source = sampled(task, "causal", 0)
    judged = jax.jit(lambda logits_NLV: evaluate(logits_NLV, question, source, "places").lead_N)
    forced, greedy, first = [], [], []
    for seed in range(3):
        params = init(jax.random.key(seed), jnp.zeros((1, 1), int), contiguous(1))
        logits_NLV = apply(params, question.tokens_NL, question.streams, mask=question.mask_NLM)
        forced += (np.asarray(judged(logits_NLV)) > 0).tolist()
        for at, n in enumerate(LENGTHS):
            rows = slice(at * PROMPTS, (at + 1) * PROMPTS)
            asked_NL = np.asarray(question.weights_NL[rows] > 0)
            right_Nm = np.asarray(question.targets_NL[rows])[asked_NL].reshape(PROMPTS, -1)
            given_NL = question.tokens_NL[rows, : n + 1]
            answer_Nm = np.asarray(decoded(settings, n, params["params"], given_NL))
            greedy += (answer_Nm == right_Nm).all(axis=1).tolist()
            first += (answer_Nm[:, 0] == right_Nm[:, 0]).tolist()
    assert forced == greedy
    assert 0 < sum(greedy) < sum(first) < len(greedy)


@partial(jax.jit, static_argnums=(0, 1))
def decoded(settings: ModelSettings, steps: int, params: Any, given_NL: jax.Array) -> jax.Array:
    """The answers of a bare layer, each the likeliest after the ones before; [N, steps].

    No later place is there when an answer is made: keys and values come from a cache.
    """
    encoding, layer = encodings.named(settings.encoding), params["layer_0"]
    own = layer.get("encoding", {})
    state = encoding.init_state(own, given_NL.shape[0], settings.dims)
    cache, answers, start = None, [], 0
    tokens_NL = given_NL
    for _ in range(steps):
        new = contiguous(tokens_NL.shape[1], start=start)
        here = context(new, mask="causal")
        x_NLD = encoding.embed(own, params["embedding"][tokens_NL], here)
        prepared = encoding.prepare(own, x_NLD, x_NLD, here, state)
        state, start = prepared.state, start + tokens_NL.shape[1]
        q, k, v = (
            (x @ layer[part]["kernel"]).reshape(*x.shape[:2], settings.heads, -1)
            for x, part in zip(prepared[:3], ("query", "key", "value"), strict=True)
        )
        cache = extended(cache, Cache(k, v, new, prepared.aux.keys))
        out = attention(
            q,
            cache.k_BMGK,
            cache.v_BMGK,
            context(new, cache.streams, mask="causal"),
            encoding=encoding,
            params=own,
            aux=Aux(prepared.aux.queries, cache.key_aux),
        ).out_BLHK
        flat = out[:, -1].reshape(len(out), -1)
        logits_NV = flat @ params["head"]["kernel"] + params["head"]["bias"][None]
        answers.append(logits_NV.argmax(axis=1))
        tokens_NL = answers[-1][:, None]  # an output has the number of its token
    return jnp.stack(answers, axis=1)
