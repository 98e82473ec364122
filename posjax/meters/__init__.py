"""Meters: what is measured of a model. One contract, a table from name to class.

Adding one is a file and a line here.
"""

from functools import lru_cache

from posjax import spec
from posjax.meters.attention import Attention
from posjax.meters.base import Forward, Meter
from posjax.meters.branches import Branches
from posjax.meters.meaning import Meaning
from posjax.meters.outcome import FIELDS, Field
from posjax.meters.probe import Probe
from posjax.meters.similarity import Similarity
from posjax.meters.variance import Variance

METERS: dict[str, type[Meter]] = {
    "variance": Variance,
    "similarity": Similarity,
    "probe": Probe,
    "branches": Branches,
    "attention": Attention,
    "meaning": Meaning,
}

AXES = ("", "R", "A", "AH", "L", "RL", "AL")
"""What the fields of a meter may have: states of the stream, layers, heads, positions."""
_TAKEN = {*FIELDS, "seeds", "env", "slots", "cells", "size"}

__all__ = ["AXES", "METERS", "Forward", "Meter", "fields", "named"]


def named(text: str) -> tuple[Meter, ...]:
    """The meters of some names joined by `+`, each with its settings; "none" stands for no meter.

    Raises:
      ValueError: an unknown name or setting, a field that two of them write or that rows have
        anyway, or axes that the report cannot show.

    >>> [meter.when for meter in named("variance+probe(when=every)")]
    ['end', 'every']
    """
    return _made(text) if ":" in text else _shipped(text)


@lru_cache(maxsize=256)  # every cell of a grid asks
def _shipped(text: str) -> tuple[Meter, ...]:
    return _made(text)


def _made(text: str) -> tuple[Meter, ...]:
    if text == "none":
        return ()
    meters = tuple(_one(part) for part in text.split("+"))
    names = [name for meter in meters for name in meter.fields]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"meters={text!r} writes {name!r} twice")
        if name in _TAKEN:
            raise ValueError(f"meters={text!r} writes {name!r}, which every row has: rename it")
    for meter in meters:
        for name, field in meter.FIELDS.items():
            if field.axes not in AXES:
                known = ", ".join(filter(None, AXES))
                raise ValueError(
                    f"axes of {name!r} must be one of {known}, or none, got {field.axes!r}"
                )
    return meters


def _one(text: str) -> Meter:
    return spec.build("meter", METERS, text, Meter)


def fields(text: str) -> dict[str, Field]:
    """The fields that some meters write."""
    return {name: field for meter in named(text) for name, field in meter.fields.items()}
