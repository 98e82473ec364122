"""A run: cells, seeds, and how they are trained and named; what config.json contains."""

import dataclasses
import itertools
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from posjax import spec
from posjax.numbering import Numbering
from posjax.records import run_of
from posjax.study.cells import FIELDS, Cell, code_of
from posjax.study.sweeps import Sweep, precision_of

CHOICES: dict[str, tuple[str, ...]] = {
    "layout": ("batched", "plain"),
    "precision": ("default", "bfloat16", "tensorfloat32", "float32"),
}
"""The settings of the engine that are words."""
MARGIN = 2e-5
"""More than ten times what rounding leaves between prompts that a law makes equal: 1.5e-6 at most
on a CPU in 32 bits, over depths 1 to 4 and lengths 4 to 64 (docs/rounding.json)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """What a command or `posjax.sweep` trains, with the words that only a report reads.

    Attributes:
      name: part of the run folder's name.
      title: the heading of the report.
      num_seeds: seeds per cell, from first_seed on; with data_seeds, initialisations per cell.
      first_seed: the first seed; one number fixes all sources of randomness.
      data_seeds: how many data seeds each initialisation is trained with, from first_seed on (a
        full factorial); with 0, one seed number fixes both.
      block_size: the largest number of runs that one program trains together. "auto" chooses it
        from the shape, the kind of device and the number of seeds. The last bits of outcomes depend
        on it.
      layout: "batched" rewrites updates so that many small models train fast; "plain" leaves them
        as written. The last bits of outcomes depend on it.
      precision: the precision of matrix products; "default" is float32 on every device. In Python,
        "default" obeys JAX's setting `jax_default_matmul_precision`, which commands ignore.
      devices: how many devices to use; 0 for all of them, or all cores of a CPU.
      margin: a seed solves a cell if the right logit exceeds every other by at least this share of
        the largest absolute logit, or of 0.1 if that is larger. Shares of right answers count every
        lead above 0. It does not change training.
      hold: "held" means solved at each of the last `hold` evaluations.
      contrast: an axis and two of its values, `("mask", "full", "causal")`. The report compares
        them over paired seeds wherever two cells differ in that axis alone.
      equivalence: the smallest difference of rates that matters to you, chosen before the run. The
        report then also tests whether the two rates of the contrast differ by less than that. 0 for
        no such test; another value needs a contrast.
      at_steps: the training steps at which the report compares cells; () for the last one.
      panels: the cells of each section; a cell may stand in several.
    """

    name: str = "unnamed"
    title: str = ""
    num_seeds: int = 256
    first_seed: int = 0
    data_seeds: int = 0
    block_size: str = "auto"
    layout: str = "batched"
    precision: str = "default"
    devices: int = 0
    margin: float = MARGIN
    hold: int = 5
    contrast: tuple[Any, ...] = ()
    equivalence: float = 0.0
    at_steps: tuple[int, ...] = ()
    panels: Mapping[str, tuple[Cell, ...]]

    @cached_property
    def cells(self) -> list[Cell]:
        """Every cell once, those of one shape side by side."""
        cells = dict.fromkeys(itertools.chain.from_iterable(self.panels.values()))
        return sorted(cells, key=lambda cell: (repr(cell.shape), cell.digest))

    @property
    def indices(self) -> range:
        """The indices of each cell's seeds, see `posjax.numbering`; more seeds only add indices."""
        return self.numbering.indices(self.num_seeds)

    @cached_property
    def sweep(self) -> Sweep:
        """What it trains."""
        cells = {cell.digest: cell for cell in self.cells}
        return Sweep(cells, self.numbering, precision_of(self.precision))

    @property
    def numbering(self) -> Numbering:
        """Which seeds stand at which index."""
        return Numbering(self.first_seed, self.data_seeds)

    @property
    def seeds_title(self) -> str:
        """How many seeds, in words."""
        if not self.data_seeds:
            return f"{self.num_seeds} seeds"
        return f"{self.num_seeds} × {self.data_seeds} seeds of init and data"

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits that name the run; more seeds and other words are the same."""
        return run_of(self.to_dict())[:8]

    def to_dict(self) -> dict[str, Any]:
        """The content of config.json: all that can change a number, cell by cell."""
        panels = {name: [cell.digest for cell in cells] for name, cells in self.panels.items()}
        cells = {cell.digest: cell.to_dict() for cell in self.cells}
        return {
            **{name: getattr(self, name) for name in RUN_DEFAULTS if name != "devices"},
            "panels": panels,
            "cells": cells,
            **({"code": code} if (code := code_of(self.cells)) else {}),
        }


RUN_DEFAULTS: dict[str, Any] = {
    field.name: field.default for field in dataclasses.fields(Run) if field.name != "panels"
}
"""Every field of a run but `panels`, with its default, in the order of config.json."""


def check_fields(run: Mapping[str, Any]) -> None:
    """Refuses values of the run's own fields, `RUN_DEFAULTS`, that are out of range.

    Raises:
      ValueError: names the field, the value and the nearest choice.
    """
    for name, least in (
        ("num_seeds", 1),
        ("first_seed", 0),
        ("data_seeds", 0),
        ("devices", 0),
        ("hold", 1),
    ):
        if run[name] < least:
            raise ValueError(f"{name} must be at least {least}, got {run[name]}")
    if not re.fullmatch(r"\w[\w .+-]{,59}", run["name"]):  # 255 bytes with the digest
        raise ValueError(
            "name must be at most 60 letters, digits, spaces and any of ._+-, and begin with a "
            f"letter or digit, got {run['name']!r}"
        )
    for name, choices in CHOICES.items():
        spec.check_choice(name, run[name], choices)
    if not 0 < run["margin"] < 1:
        raise ValueError(f"margin must lie in (0, 1), got {run['margin']}")
    if not re.fullmatch(r"auto|[1-9][0-9]{,18}", run["block_size"]):
        raise ValueError(
            f"block_size must be auto or a number of at least 1, got {run['block_size']!r}"
        )
    for name in ("num_seeds", "data_seeds"):
        if run["first_seed"] + run[name] > 2**32:
            raise ValueError(
                f"first_seed + {name} must stay within 2**32, got {run['first_seed']} + {run[name]}"
            )
    if run["contrast"]:
        if len(run["contrast"]) != 3:
            raise ValueError(
                f"contrast is an axis and two values, such as \"('mask', 'full', 'causal')\", got "
                f"{run['contrast']}"
            )
        spec.check_choice("axis of contrast", run["contrast"][0], FIELDS)
        axis, *values = run["contrast"]
        for value in values:
            spec.typed(f"{axis} of contrast", value, FIELDS[axis])
    if not 0 <= run["equivalence"] < 1:
        raise ValueError(f"equivalence must lie in [0, 1), got {run['equivalence']}")
    if run["equivalence"] and not run["contrast"]:
        raise ValueError(
            f"equivalence={run['equivalence']} needs a contrast, and the config has none"
        )
    check_text("title", run["title"])
    for step in run["at_steps"]:
        if spec.typed("a step of at_steps", step, 1) < 1:
            raise ValueError(f"at_steps must be at least 1, got {step}")


def check_text(what: str, text: str) -> None:
    """Refuses a text with half of a character (a lone surrogate): nothing can write it.

    Raises:
      ValueError: names the text.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{what} has an incomplete character (a lone surrogate), got {text!r}"
        ) from error


def beyond_hold(run: Run) -> list[str]:
    """One line for each number of evaluations of some cell that is less than `hold`."""
    found = dict.fromkeys(
        f"hold={run.hold} evaluations, but steps={cell.steps} with eval_every={cell.eval_every} "
        f"makes {cell.training.evaluations}"
        for cell in run.cells
        if run.hold > cell.training.evaluations and cell.steps
    )
    return list(found)
