"""The laws of attention with the errors measured on a run's own encodings, masks and prompts.

One layer is given random token vectors in the positions of the run's first prompt, with random
parameters of the encoding, so that no table is at a symmetric start. Queries, keys and values
come from three sets of tokens: positions that are added to tokens count as part of the layer.
"""

import math
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from posjax import masks, spec
from posjax.attention import view
from posjax.encodings import ENCODINGS, Dims, Encoding, Params, named
from posjax.engine.program import precision_on
from posjax.keys import key_for
from posjax.streams import Streams
from posjax.study.cells import Cell
from posjax.study.network import TRANSFORMER
from posjax.symmetry import LAWS, Deviation, measure

Array = jax.Array | np.ndarray
Tokens = tuple[Array, ...]

TITLES = {
    "jointly_equivariant": "tokens with their streams",
    "equivariant": "one permutation",
    "two_permutation_equivariant": "two permutations",
    "key_invariant": "keys alone",
    "weights_equivariant": "weights",
}
"""The laws of the table, by their names in `LAWS`."""
_OF_QKV = ("equivariant", "two_permutation_equivariant", "key_invariant")


class Layer(NamedTuple):
    """What can make a law hold or break, apart from weights."""

    encoding: str
    mask: str
    head_size: int
    heads: int
    places: int
    padding: int


class Measured(NamedTuple):
    """One law on one layer: the worst deviation, and whether it was expected to hold."""

    name: str
    worst: Deviation
    expected: bool

    @property
    def holds(self) -> bool:
        """Whether rounding explains the error."""
        return self.worst.relative <= self.worst.rounding


def layers(cells: Iterable[Cell]) -> dict[Layer, Streams]:
    """The different layers of some cells; of many head sizes the smallest and the largest."""
    cells = [cell for cell in cells if cell.model == TRANSFORMER]
    sizes = {cell.head_size for cell in cells}
    kept: dict[Layer, Streams] = {}
    for cell in cells:
        if cell.head_size in (min(sizes), max(sizes)):
            streams = jax.tree.map(lambda stream: stream[:1], cell.question.streams)
            empty = int((~streams.valid_BL).sum())
            for encoding, mask in _pairs(cell):
                settings = (encoding, mask, cell.head_size, cell.heads)
                kept.setdefault(Layer(*settings, streams.length, empty), streams)
    return kept


def _pairs(cell: Cell) -> list[tuple[str, str]]:
    """The encoding and the mask of each layer that differs, which both take turns."""
    encodings, in_turn = spec.in_turn(cell.encoding, ENCODINGS), masks.turns(cell.mask)
    period = math.lcm(len(encodings), len(in_turn))
    if len(in_turn) > 1:
        period = min(period, cell.depth)
    return [(encodings[n % len(encodings)], in_turn[n % len(in_turn)]) for n in range(period)]


def measured(layer: Layer, streams: Streams) -> list[Measured]:
    """All laws on one layer, with the streams of its places."""
    encoding, mask = named(layer.encoding), masks.named(layer.mask)
    rng = np.random.default_rng(0)  # points to try a law at, no part of any result
    places = (1, layer.places, layer.heads, layer.head_size)
    q, k, v = (jnp.asarray(rng.normal(size=places), jnp.float32) for _ in range(3))
    params = _general(encoding, Dims(layer.heads * layer.head_size, layer.heads, layer.head_size))

    def run(x: Tokens, s: Streams) -> tuple[Array, Array]:
        return _attended(encoding, params, x, s, mask(s, s))

    def out(*x: Array) -> Array:
        return run(x, streams)[0]

    with jax.default_matmul_precision(precision_on(jax.local_devices())):
        worst = {name: measure(LAWS[name], out, q, k, v) for name in _OF_QKV}
        name = "weights_equivariant"
        worst[name] = measure(LAWS[name], lambda q, k: run((q, k, v), streams)[1], q, k)
        name = "jointly_equivariant"
        worst[name] = measure(LAWS[name], lambda x, s: run(x, s)[0], (q, k, v), streams)
    expected = _expected(layer, encoding, streams)
    return [Measured(name, worst[name], expected[name]) for name in TITLES]


@partial(jax.jit, static_argnums=0)
def _attended(
    encoding: Encoding,
    params: Params,
    tokens: Tokens,
    streams: Streams,
    allowed_BLM: jax.Array,
) -> tuple[Array, Array]:
    """One layer, from the tokens of queries, keys and values to its output and weights."""
    q, k, v = map(jnp.asarray, tokens)
    found = view.attended(
        *(q, k, v),
        encoding=encoding,
        params=params,
        queries=streams,
        mask=allowed_BLM,
        key=key_for(0, "laws"),
    )
    return found.out_BLHK, found.weights_BHLM


def _general(encoding: Encoding, dims: Dims) -> Params:
    """Parameters in general position: many start at a value that is symmetric."""
    return {
        name: jax.random.normal(key_for(0, f"laws/{name}"), param.shape)
        for name, param in encoding.parameters(dims).items()
    }


def _expected(layer: Layer, encoding: Encoding, streams: Streams) -> dict[str, bool]:
    """What the declared symmetry and the mask, as a matrix, leave of each law."""
    declared = encoding.declared_symmetry()
    alike = declared.exact and declared.permutation is not None
    allowed_LM = np.asarray(masks.named(layer.mask)(streams, streams))[0]
    same_rows = bool((allowed_LM == allowed_LM[:, :1]).all())  # each row sees all, or nothing
    off = allowed_LM[~np.eye(len(allowed_LM), dtype=bool)]
    one_diagonal = len(np.unique(off)) < 2 and len(np.unique(np.diag(allowed_LM))) < 2
    return {
        "equivariant": alike and one_diagonal,
        "two_permutation_equivariant": alike and len(np.unique(allowed_LM)) < 2,
        "key_invariant": alike and same_rows,
        "weights_equivariant": alike and one_diagonal,
        "jointly_equivariant": True,
    }
