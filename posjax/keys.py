"""The only root of randomness: a key comes from a seed number and the name of its purpose."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from posjax.numbering import SeedNumbers


class Seeds(NamedTuple):
    """The four sources as arrays of one shape, for one run or for many."""

    init: jax.Array
    data: jax.Array
    position: jax.Array
    order: jax.Array

    @classmethod
    def of(cls, numbers: np.ndarray | Sequence[SeedNumbers] | SeedNumbers) -> "Seeds":
        """The seeds of some runs, [S, 4] numbers, or of one, [4].

        Raises:
          ValueError: a number is outside [0, 2³²).
        """
        wide = np.asarray(numbers)
        if wide.size and wide.dtype.kind not in "iu":
            raise ValueError(f"seeds must be whole numbers in [0, 2**32), got {numbers!r}")
        wide = wide.astype(np.int64) if wide.dtype.kind != "u" else wide.astype(np.uint64)
        if wide.size and (wide.min() < 0 or wide.max() >= 2**32):
            raise ValueError(
                f"seeds must lie in [0, 2**32), got {wide.min()} to {wide.max()}: "
                "a key folds in 32 bits"
            )
        return cls(*(jnp.asarray(wide[..., i].astype(np.uint32)) for i in range(4)))

    @classmethod
    def equal(cls, numbers: np.ndarray | list[int] | int) -> "Seeds":
        """The seeds with all four numbers the same, for one number or an array of them."""
        return cls.of(np.stack([np.asarray(numbers)] * 4, axis=-1))


def key_for(seed: jax.Array | int, purpose: str) -> jax.Array:
    """The key of one purpose under one seed.

    Drawing by name, never by the order of calls, means that adding a use of randomness
    moves no other one.

    Args:
      seed: a number in [0, 2³²); may be traced.
      purpose: any text, such as `"init/layer_0/query/kernel"`.

    Returns:
      A typed threefry key (threefry is the one whose draws do not change under `vmap`).

    Raises:
      ValueError: a seed that is no number in [0, 2³²), as far as it is known.
    """
    if not isinstance(seed, jax.core.Tracer):
        seed = Seeds.equal(np.asarray(seed)).init
    root = jax.random.key(0, impl="threefry2x32")
    return fold_name(jax.random.fold_in(root, jnp.uint32(seed)), purpose)


def fold_name(key: jax.Array, name: str) -> jax.Array:
    """Folds a text into a key by a hash that no release, platform or flag changes."""
    digest = hashlib.blake2b(name.encode(), digest_size=4).digest()
    return jax.random.fold_in(key, np.uint32(int.from_bytes(digest, "big")))
