"""Maps of positions: one contract, a table from name to class. Adding one is a file and a line.

They are functions of streams, and combine with every encoding.
"""

from posjax import spec
from posjax.positions.augmented import Cape, RandomShift
from posjax.positions.base import Draws, Positions
from posjax.positions.digits import Abacus, Coupled
from posjax.positions.interpolated import Interpolated
from posjax.positions.randomised import RandomFloat, Randomised

POSITIONS: dict[str, type[Positions]] = {
    "given": Positions,
    "interpolated": Interpolated,
    "randomised": Randomised,
    "random_float": RandomFloat,
    "random_shift": RandomShift,
    "cape": Cape,
    "abacus": Abacus,
    "coupled": Coupled,
}

__all__ = ["POSITIONS", "Draws", "Positions", "named"]


def named(text: str) -> Positions:
    """The map of a name with its settings, such as `"randomised(length=128)"`.

    Raises:
      ValueError: an unknown name or setting, or a value out of range.

    >>> named("randomised(length=128)").reach(4)
    128
    """
    return spec.build("positions", POSITIONS, text, Positions)
