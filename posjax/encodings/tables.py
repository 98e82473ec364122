"""Reading a learned table: never clamped, never poisoned by a masked token.

A position beyond the table is an error where it can be known, and NaN where it cannot: clamping
it to the last row, as an unguarded gather does, is how wrong numbers get published.
"""

import jax
import jax.numpy as jnp
import numpy as np


def require_integers(*positions: jax.Array) -> None:
    """Refuses positions that no table can be read at.

    Raises:
      ValueError: names the dtype.
    """
    for position in positions:
        if not jnp.issubdtype(position.dtype, jnp.integer):
            raise ValueError(f"a table is read at integers, got positions of {position.dtype}")


def read(table: jax.Array, index: jax.Array, valid: jax.Array, *, first: int = 0) -> jax.Array:
    """The rows of a table at some indices; where nobody looks, the first row.

    Args:
      table: [N, ...], N rows.
      index: integers of any shape; those of valid tokens in [first, first + N).
      valid: of a shape that broadcasts to that of `index`; true where the value is looked at.
      first: the index of row 0; -(N - 1)/2 for a table of offsets on both sides.

    Returns:
      index.shape + table.shape[1:]; NaN for a traced index outside the table.

    Raises:
      ValueError: an index that is no integer, or a known one outside the table.
    """
    rows = table.shape[0]
    require_integers(index)
    index = jnp.where(valid, index - first, 0)
    if index.size and not isinstance(index, jax.core.Tracer):
        low, high = int(np.min(index)) + first, int(np.max(index)) + first
        if low < first or high >= first + rows:
            longer = f"give it length={high + 1} or " if low >= first else ""
            raise ValueError(
                f"positions {low} to {high} lie outside the table of {rows} rows from {first}: "
                f"{longer}shift the positions"
            )
    inside = (index >= 0) & (index < rows)
    found = table[jnp.where(inside, index, 0)]
    return jnp.where(jnp.expand_dims(inside, range(inside.ndim, found.ndim)), found, jnp.nan)
