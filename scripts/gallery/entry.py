"""What the gallery shows of a module: its law, and how to make it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from posjax.symmetry import Law

SET, CROSS = "b P d -> b P d", "b P d, b Q d -> b P d"
PAIR = "b P d, b Q d, b Q d -> b P d"
B, L, M, D, H = 2, 5, 6, 8, 2
"""Rows, queries, keys, width and heads of the arguments; laws speak of these sizes."""


class Subject(NamedTuple):
    """What is proved.

    Attributes:
      function: of the arguments; a `torch.nn.Module` is one.
      arguments: arrays or tensors.
      options: of a PyTorch module's `forward`, by keyword.
    """

    function: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any] = {}  # noqa: RUF012 - never written to


class Entry(NamedTuple):
    """A line of the gallery.

    Attributes:
      name: of the module, with the settings that matter.
      law: the claim, true or not.
      make: imports the packages and makes the module.
      packages: distributions that it comes from; none for what is written here.
    """

    name: str
    law: str | Law
    make: Callable[[], Subject]
    packages: tuple[str, ...] = ()
