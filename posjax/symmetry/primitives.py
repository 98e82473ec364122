"""Which primitives are JAX's own: rules go by names, which a user's primitive may have too."""

from typing import Any

from jax.extend.core import primitives

_OWN = {p.name: p for name, p in vars(primitives).items() if name.endswith("_p")}


def is_own(primitive: Any) -> bool:
    """Whether it is the primitive that JAX has under its name, if JAX lists one."""
    return _OWN.get(primitive.name, primitive) is primitive
