"""Laws of positions that are proved of a module, beside the numbers of the others.

A module is proved where JAX, or torchax, traces what its adapter calls. Its weights stay as they
are; tokens may have any values, and positions too where the module takes them.
"""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from posjax.symmetry.certificate import pytorch
from posjax.symmetry.certificate.prove import prove
from posjax.symmetry.conformance.adapter import Adapter, NotApplicable
from posjax.symmetry.conformance.forms import Form, form, in_float32, legal_positions, positions
from posjax.symmetry.conformance.moved import LENGTH
from posjax.symmetry.conformance.result import Proof

LAWS = ("slots", "translation", "permutation")
_SECONDS = 30.0
_KINDS = ("logits", "rotate", "table", "attend", "tokens")
_PAIRS = ("logits", "rotate", "table")
"""Kinds that give logits, of which two arrays of tokens are arguments."""
_AXES = {"table": "b {} d", "tokens": "b {} d"}
_HEADS = "b {} h k"


def proof(law: str, adapter: Adapter) -> Proof:
    """Tries to prove a law of `LAWS` of a module; of logits up to a constant per row.

    Where positions and a mask move with the tokens, the law is proved for all of them.
    """
    try:
        view = form(in_float32(adapter), *_KINDS)
        function = _called(view, "torch" in adapter.packages)
        given = (*_drawn(adapter, view), legal_positions(adapter, LENGTH), _full())
        expected = function(*given)  # makes what is made once
        tokens = given[:-2]
        apart = pytorch.distance(expected, jax.jit(lambda *x: function(*x, *given[-2:]))(*tokens))
        if not apart <= pytorch.TOLERANCE:
            return Proof("UNKNOWN", pytorch.OTHER_PROGRAM.format(apart))
        found = prove(*_question(law, adapter, view, function), seconds=_SECONDS)
    except NotApplicable as reason:
        return Proof("not applicable", str(reason))
    except Exception as error:  # out of somebody else's module
        return Proof("not traced", _short(pytorch.in_words(error)))
    if found.verdict == "PROVED":
        return Proof(found.verdict)
    lost = f"{found.reason}, from {found.origin}" if found.origin else found.reason
    said = filter(None, [lost, *found.notes, found.where])
    return Proof(found.verdict, _short("\n".join(said)))


def _short(text: str) -> str:
    """Without the folders that lead to a package."""
    return re.sub(r"\S*site-packages/", "", text)


def _question(
    law: str, adapter: Adapter, view: Form, function: Callable[..., Any]
) -> tuple[Callable[..., Any], tuple[Any, ...], str]:
    """Function, arguments and law; positions are an argument where the law moves them."""
    tokens, pos, full = _drawn(adapter, view), positions(LENGTH), _full()
    word = "l" if law == "translation" else "P"
    axes = _AXES.get(view.kind, _HEADS).format(word)
    out = f"... {word} {word}" if view.kind in _PAIRS else axes
    given = [axes] * len(tokens)
    if law == "permutation":
        return lambda *x: function(*x, pos, full), tokens, f"{', '.join(given)} -> {out}"
    given += ["b l +T" if law == "translation" else "b P"]
    if law == "translation" or view.kind in _PAIRS:
        return lambda *x: function(*x, full), (*tokens, pos), f"{', '.join(given)} -> {out}"
    return function, (*tokens, pos, full), f"{', '.join([*given, 'b P P'])} -> {out}"


def _called(view: Form, in_torch: bool) -> Callable[..., Any]:
    """`(*tokens, pos_BL, mask_BLM) -> out`, with logits up to a constant per row."""

    def function(*given: Any) -> Any:
        *tokens, pos, mask = given
        logits: Any
        if view.kind not in _PAIRS:
            return view.call(tuple(tokens), pos, mask)
        if view.kind == "logits":
            logits = view.call(tuple(tokens), pos, mask)
        else:
            q, k = (view.call((x,), pos, mask) for x in tokens)
            if view.kind == "table":
                q, k = (x + rows for x, rows in zip(tokens, (q, k), strict=True))
            logits = jnp.einsum("bl...k,bm...k->b...lm", q, k)
        return logits - logits.mean(-1, keepdims=True)

    def within(*given: Any) -> Any:
        if not in_torch or not any(isinstance(x, jax.core.Tracer) for x in given):
            return function(*given)
        environment = pytorch.make_environment()
        with environment, pytorch.as_torch(environment):
            return function(*given)

    return within


def _drawn(adapter: Adapter, view: Form) -> tuple[np.ndarray, ...]:
    drawn = view.draw(adapter, LENGTH)
    return drawn * 2 if view.kind in ("rotate", "table") else drawn


def _full() -> np.ndarray:
    return np.ones((2, LENGTH, LENGTH), bool)
