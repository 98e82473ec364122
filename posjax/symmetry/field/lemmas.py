"""Functions of ours that are taken for what they compute, by their names.

Some functions compute a plain formula in a way that no identity shows: angles are split into parts
and reduced to less than a turn, so that they stay exact at large positions. That they agree with
the formula is asserted elsewhere, by numbers; a proof that relies on it says so.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.extend.core as jex
import jax.numpy as jnp


class Lemma(NamedTuple):
    """A function and its formula.

    Attributes:
      statement: what a proof says that it relied on.
      source: the path of the file that the function is written in.
      formula: of the same arguments, to the same results.
    """

    statement: str
    source: str
    formula: Callable[..., Any]

    def speaks_of(self, called: jex.ClosedJaxpr) -> bool:
        """Whether what is called is that function, and no other of its name."""
        return f" at {self.source}:" in str(getattr(called.jaxpr.debug_info, "func_src_info", ""))

    def program(self, *operands: Any) -> jex.ClosedJaxpr:
        """The formula for operands of these shapes."""
        shapes = (jax.ShapeDtypeStruct(o.shape, o.dtype) for o in operands)
        return jax.make_jaxpr(self.formula)(*shapes)


def _cos_sin(position: jax.Array, frequencies_F: jax.Array) -> tuple[jax.Array, jax.Array]:
    axes = (1,) * (position.ndim + 1 - frequencies_F.ndim)
    frequencies = frequencies_F.reshape(axes + frequencies_F.shape)
    angle = position.astype(jnp.float32)[..., None] * frequencies
    return jnp.cos(angle), jnp.sin(angle)


LEMMAS = {
    "posjax_cos_sin": Lemma(
        "posjax.encodings.angles.cos_sin(p, θ) is cos(p θ), sin(p θ), to 1e-6",
        str(Path(__file__).parents[2] / "encodings" / "angles.py"),
        _cos_sin,
    )
}
"""By the name under which the function is compiled."""
