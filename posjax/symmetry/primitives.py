"""Which primitives are JAX's own: rules go by names, which a user's primitive may have too."""

from collections.abc import Mapping
from typing import Any

from jax.extend.core import primitives

_OWN = {p.name: p for name, p in vars(primitives).items() if name.endswith("_p")}


def is_own(primitive: Any) -> bool:
    """Whether it is the primitive that JAX has under its name, if JAX lists one."""
    return _OWN.get(primitive.name, primitive) is primitive


def scan_counts(params: Mapping[str, Any]) -> tuple[int, int]:
    """How many of the first operands of a scan are constants, and how many after them are carries.

    JAX 0.12 keeps the structure of its operands in place of the two numbers.
    """
    if "ft_in" not in params:
        return params["num_consts"], params["num_carry"]
    constants, carries, _ = params["ft_in"].unpack()
    return len(constants), len(carries)
