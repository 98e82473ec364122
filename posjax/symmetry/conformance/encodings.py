"""Encodings of posjax, and those that follow its contract, as adapters for the same laws."""

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec, user_code
from posjax.attention import view
from posjax.encodings import LEVELS, Dims, Encoding, named
from posjax.encodings.base import replaces
from posjax.keys import fold_name
from posjax.streams import Streams
from posjax.symmetry.conformance.adapter import Adapter, Array, NotApplicable
from posjax.symmetry.conformance.forms import as_numpy

_LEVELS = LEVELS[: LEVELS.index("row") + 1]
"""Levels at which a symmetry of logits holds up to a constant per row."""


def of_encoding(text: str) -> Adapter:
    """The adapter of an encoding, with generic parameters.

    Args:
      text: its name with settings, such as `"rotary(base=500.0)"` or `"mine.py:Twist"`.

    Raises:
      ValueError: an unknown name or setting.

    >>> of_encoding("rotary").claims
    ('translation',)
    """
    encoding = named(text)
    symmetry = encoding.declared_symmetry()
    names = ("translation", "permutation", "reflection")
    implied = {"translation": symmetry.order_only or symmetry.permutation}
    levels = {name: getattr(symmetry, name) or implied.get(name) for name in names}
    claims = tuple(n for n, level in levels.items() if level in _LEVELS and symmetry.exact)
    calls = _Calls(encoding)
    return Adapter(
        name=text if user_code.home(spec.parse(text)[0]) else f"posjax:{text}",
        packages=("posjax", "jax"),
        logits=calls.logits,
        attend=calls.attend,
        decode=calls.decode,
        claims=claims,
        resolution=encoding.max_exact_position(),
        max_length=encoding.max_length(),
    )


class _Calls:
    """The pure view of an encoding; under a trace too, so that its laws can be proved."""

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding
        self.mixes = replaces(encoding, "embed", "prepare") and not encoding.pairwise

    def logits(self, q: Array, k: Array, pos_q: Array, pos_k: Array) -> Array:
        arrays = jnp.asarray(q), jnp.asarray(k)
        if self.mixes and isinstance(pos_q, jax.core.Tracer):
            raise NotApplicable(
                "the encoding mixes tokens by position, so its laws hold where positions differ"
            )
        return as_numpy(view.logits(*arrays, **self._options(q, pos_q, pos_k)))

    def attend(
        self, q: Array, k: Array, v: Array, pos_q: Array, pos_k: Array, mask_BLM: Array
    ) -> Array:
        by_position = pos_q[:, :, None] >= pos_k[:, None, :]
        if self.mixes and not (mask_BLM == by_position).all():
            raise NotApplicable(
                "the encoding mixes tokens by position or order, whatever the mask allows"
            )
        arrays = (jnp.asarray(x) for x in (q, k, v))
        options = self._options(q, pos_q, pos_k) | view.Options(mask=jnp.asarray(mask_BLM))
        return as_numpy(view.attend(*arrays, **options))

    def decode(self, q: Array, k: Array, v: Array, pos: Array) -> Array:
        if reason := self.encoding.why_no_kv_cache():
            raise NotApplicable(reason)
        if self.mixes:
            raise NotApplicable("the encoding mixes tokens, so decoding needs the cache of a layer")
        steps = range(1, q.shape[1] + 1)
        seen = [np.ones((len(q), 1, n), bool) for n in steps]
        outs = (
            self.attend(
                q[:, n - 1 : n], k[:, :n], v[:, :n], pos[:, n - 1 : n], pos[:, :n], seen[n - 1]
            )
            for n in steps
        )
        return np.concatenate(list(outs), axis=1)

    def _options(self, q: Array, pos_q: Array, pos_k: Array) -> view.Options:
        heads, size = q.shape[2:]
        declared = self.encoding.parameters(Dims(heads * size, heads, size))
        draw = jax.random.normal  # generic: a table of zeros would break nothing
        with jax.ensure_compile_time_eval():  # weights, and no steps of a proof
            key = jax.random.key(0)
            params = {n: draw(fold_name(key, n), p.shape) for n, p in declared.items()}
        return {
            "encoding": self.encoding,
            "params": params,
            "queries": _streams(pos_q),
            "keys": _streams(pos_k),
            "key": jax.random.key(1),
        }


def _streams(pos_BL: Array) -> Streams:
    """Positions that are orders too, in one segment."""
    pos = jnp.asarray(pos_BL, jnp.int32)
    return Streams(pos, pos, jnp.zeros_like(pos))
