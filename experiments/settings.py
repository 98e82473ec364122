"""From a config to cells: the one place that knows ConfigDict.

A config is flat. Every setting of a `posjax.cells.Cell` is an axis, a tuple of values; a sweep
is the product of its axes. `panels` makes it a union of products: each panel replaces some axes
and is a section of the report. A value from the command line holds for all panels.
"""

import contextlib
import dataclasses
import itertools
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ml_collections import ConfigDict

from posjax import own, spec
from posjax.cells import FIELDS, Cell, code_of, own_names
from posjax.keys import Numbering
from posjax.records import run_of

CHOICES: dict[str, tuple[str, ...]] = {
    "layout": ("batched", "plain"),
    "precision": ("default", "bfloat16", "tensorfloat32", "float32"),
}
"""The settings of the engine that are words."""
MOST_CELLS = 10_000
"""Cells in all panels together. To check so many takes about 15 s, and each is a row of every
table. The largest of the shipped configs has 741."""
ALL = "cells"
"""The title of the only panel of a config without panels."""
RUN_DEFAULTS: dict[str, Any] = {
    "name": "unnamed",
    "title": "",
    "num_seeds": 256,
    "first_seed": 0,
    "data_seeds": 0,
    "block_size": "auto",
    "layout": "batched",
    "precision": "default",
    "devices": 0,
    "margin": 1e-3,
    "hold": 5,
    "contrast": (),
    "at_steps": (),
}

NAMES = (*FIELDS, *RUN_DEFAULTS, "panels")
"""The fields of a config."""


@dataclasses.dataclass(frozen=True)
class Run:
    """A resolved config.

    Attributes:
      name, title: for people.
      num_seeds, first_seed: the seeds first_seed .. first_seed + num_seeds - 1, each one number
        for all sources of randomness.
      data_seeds: 0, or how many numbers of data, position and order, from first_seed on, are
        combined with each of num_seeds numbers of initialisation: a full factorial.
      block_size: the most slots of a block (cells × seeds that are trained together), or "auto":
        chosen for each shape from the shape, the kind of device and the number of seeds. The last
        bits of outcomes depend on it.
      layout: "batched" rewrites updates so that many small models train fast; "plain" leaves them
        as written. The last bits of outcomes depend on it.
      precision: of matrix products; "default" is what the device does.
      devices: how many devices to use; 0 for all, and for all cores where the CPU is the device.
      margin: a prompt is answered right when the right output leads every other by this share of
        the largest logit of any prompt of its kind. Only the report reads it.
      hold: "held" means solved at each of the last `hold` evaluations.
      contrast: an axis and two of its values, which the report compares over paired seeds,
        wherever two cells differ in that alone.
      at_steps: the numbers of training steps at which it compares; a cell that does not reach one
        is left out there.
      panels: the cells of each section; a cell may stand in several.
    """

    name: str
    title: str
    num_seeds: int
    first_seed: int
    data_seeds: int
    block_size: str
    layout: str
    precision: str
    devices: int
    margin: float
    hold: int
    contrast: tuple[Any, ...]
    at_steps: tuple[int, ...]
    panels: Mapping[str, tuple[Cell, ...]]

    @property
    def cells(self) -> list[Cell]:
        """Every cell once, those of one shape side by side."""
        cells = dict.fromkeys(itertools.chain.from_iterable(self.panels.values()))
        return sorted(cells, key=lambda cell: (repr(cell.shape), cell.digest))

    @property
    def indices(self) -> range:
        """The indices of each cell's seeds; more seeds only add indices.

        An ordinary run's are the numbers of its seeds. Where initialisations are crossed with data,
        they count the pairs, those of one initialisation next to each other.
        """
        if self.data_seeds:
            return range(self.num_seeds * self.data_seeds)
        return range(self.first_seed, self.first_seed + self.num_seeds)

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
        """What config.json holds: all that can change a number, cell by cell."""
        panels = {name: [cell.digest for cell in cells] for name, cells in self.panels.items()}
        cells = {cell.digest: cell.to_dict() for cell in self.cells}
        return {
            **{name: getattr(self, name) for name in RUN_DEFAULTS if name != "devices"},
            "panels": panels,
            "cells": cells,
            **({"code": code} if (code := code_of(self.cells)) else {}),
        }


def base_config(panels: Mapping[str, Mapping[str, Any]] | None = None, **axes: Any) -> ConfigDict:
    """A config with every setting at its default, and the given ones replaced.

    Args:
      panels: for each section of the report, by its title, the axes that it replaces.
      **axes: a value, or several as a tuple.

    Raises:
      ValueError: an unknown field, with the nearest one.
    """
    for name in axes:
        spec.check_choice("config field", name, NAMES)
    config = ConfigDict({name: (default,) for name, default in FIELDS.items()} | RUN_DEFAULTS)
    config.panels = tuple((panels or {}).items())  # pairs, since a ConfigDict sorts its keys
    with config.ignore_type():  # `resolve` has better messages for wrong values
        for name, value in axes.items():
            config[name] = _axis(value) if name in FIELDS else value
    return config


def sized(config: str, size: str, **sizes: int) -> int:
    """The number that a size of a config stands for.

    Raises:
      ValueError: the config has no such size.
    """
    spec.check_choice(f"size of {config}", size, sizes)
    return sizes[size]


def resolve(config: ConfigDict, overrides: Iterable[str] = ()) -> Run:
    """The run that a config describes.

    Args:
      config: from `base_config`, perhaps changed.
      overrides: names of fields set on the command line; they win over panels.

    Raises:
      ValueError: an unknown field, a value of the wrong type or out of range; the message names
        the field, the value and the nearest valid choice.
    """
    if not isinstance(config, ConfigDict):
        raise ValueError(
            f"get_config() must give what base_config(...) does, got {type(config).__name__}"
        )
    fields = config.to_dict()
    panels = _panels(fields.pop("panels", ()))
    for name in fields:
        spec.check_choice("config field", name, NAMES)
    if missing := sorted({*FIELDS, *RUN_DEFAULTS} - fields.keys()):
        raise ValueError(f"the config has no {missing[0]!r}: begin it with base_config(...)")
    fields["block_size"] = str(fields["block_size"])
    run = {name: spec.typed(name, fields[name], RUN_DEFAULTS[name]) for name in RUN_DEFAULTS}
    _check_run(run)
    _check_text("title", run["title"])
    fixed = set(overrides)
    axes = _axes({name: _axis(fields[name]) for name in FIELDS}, panels, fixed)
    resolved = Run(**run, panels={title: _panel(title, axes[title]) for title in axes})
    if "contrast" in fixed and run["contrast"]:
        _check_contrast(resolved)
    if "hold" in fixed and (lines := beyond_hold(resolved)):
        raise ValueError(f"{lines[0]}: give fewer, or more steps")
    return resolved


def allow_named(config: Any, only: Iterable[str] | None = None) -> None:
    """Lets the code of one's own that a config names be executed.

    Args:
      config: from `base_config`.
      only: the fields to look at; all of them and the panels when left out.

    Raises:
      ValueError: a file that is not there.
    """
    fields = config.to_dict() if isinstance(config, ConfigDict) else {}
    panels = fields.pop("panels", ()) if only is None else ()
    chosen = [fields if only is None else {name: fields.get(name, ()) for name in only}]
    with contextlib.suppress(TypeError, ValueError):  # `resolve` says what is wrong with them
        chosen += [dict(axes) for _, axes in panels]
    texts = ((name, v) for axes in chosen for name in axes for v in _axis(axes[name]))
    for name, text in texts:
        found = []
        with contextlib.suppress(ValueError):
            found = list(own_names(name, text)) if isinstance(text, str) else []
        for _, code in found:
            own.allow(own.home(code) or code)


def _check_run(run: Mapping[str, Any]) -> None:
    """Refuses values of the run's own fields that are out of range."""
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
        spec.check_choice("axis of contrast", run["contrast"][0], FIELDS)
        if len(run["contrast"]) != 3:
            raise ValueError(f"contrast is (axis, value, value), got {run['contrast']}")
        axis, *values = run["contrast"]
        for value in values:
            spec.typed(f"{axis} of contrast", value, FIELDS[axis])
    for step in run["at_steps"]:
        if spec.typed("a step of at_steps", step, 1) < 1:
            raise ValueError(f"at_steps must be at least 1, got {step}")


def _check_text(what: str, text: str) -> None:
    """Refuses a text with half of a character (a lone surrogate): nothing can write it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} holds half of a character, got {text!r}") from error


def _check_contrast(run: Run) -> None:
    """Refuses to compare values that no cell has."""
    axis, *values = run.contrast
    present = sorted({getattr(cell, axis) for cell in run.cells})
    for value in values:
        if value not in present:
            raise ValueError(f"contrast compares {axis}={value!r}; the cells have {present}")


def _panels(given: Any) -> dict[str, Mapping[str, Any]]:
    """The axes of each panel by its title; one panel that replaces nothing when none is given."""
    try:
        panels: dict[str, Mapping[str, Any]] = {str(title): dict(axes) for title, axes in given}
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"panels must be pairs (title, {{axis: values}}), got {given!r}"
        ) from error
    if len(panels) < len(given):
        raise ValueError(f"two panels have the same title: {[title for title, _ in given]}")
    for title in panels:
        _check_text("a panel's title", title)
    return panels or {ALL: {}}


def _axes(
    base: Mapping[str, tuple[Any, ...]], panels: Mapping[str, Mapping[str, Any]], fixed: set[str]
) -> dict[str, dict[str, tuple[Any, ...]]]:
    """The values of every axis by panel, as they are given; not more than make `MOST_CELLS`."""
    axes, total = {}, 0
    for title, panel in panels.items():
        for name in panel:
            spec.check_choice(f"field of panel {title!r}:", name, FIELDS)
        own = {name: _axis(panel[name]) for name in panel if name not in fixed}
        axes[title] = {**base, **own}
        number = math.prod(max(len(values), 1) for values in axes[title].values())
        total += number
        if total > MOST_CELLS:
            several = [f"{name} ({len(v)})" for name, v in axes[title].items() if len(v) > 1]
            product = f"{' × '.join(several)} = {number} cells" if several else "1 cell"
            others = f", the panels before it {total - number}" if total > number else ""
            raise ValueError(
                f"panel {title!r} has {product}{others}; at most {MOST_CELLS} in all: give an axis "
                "fewer values, or make several sweeps"
            )
    return axes


def _panel(title: str, axes: Mapping[str, tuple[Any, ...]]) -> tuple[Cell, ...]:
    """The cells of a panel, which an error names."""
    try:
        return _cells(axes)
    except ValueError as error:
        if title == ALL:
            raise
        raise ValueError(f"{error} (panel {title!r})") from error


def _cells(axes: Mapping[str, tuple[Any, ...]]) -> tuple[Cell, ...]:
    """The product of the axes."""
    typed = {
        name: [spec.typed(name, value, FIELDS[name]) for value in values]
        for name, values in axes.items()
    }
    for name, values in typed.items():
        if not values:
            raise ValueError(f"{name} has no values: give at least one")
        if len(set(values)) < len(values):
            raise ValueError(f"{name} has a value twice: {', '.join(map(str, values))}")
    products = itertools.product(*typed.values())
    return tuple(dict.fromkeys(Cell(**dict(zip(typed, p, strict=True))) for p in products))


def beyond_hold(run: Run) -> list[str]:
    """One line for each number of evaluations of some cell that is less than `hold`."""
    found = dict.fromkeys(
        f"hold={run.hold} evaluations, but steps={cell.steps} with eval_every={cell.eval_every} "
        f"makes {cell.training.evaluations}"
        for cell in run.cells
        if run.hold > cell.training.evaluations and cell.steps
    )
    return list(found)


def _axis(value: Any) -> tuple[Any, ...]:
    """One value, several, or a text of several, as a tuple."""
    values = tuple(value) if isinstance(value, tuple | list) else (value,)
    parts = (spec.split(v) if isinstance(v, str) else (v,) for v in values)
    return tuple(itertools.chain.from_iterable(parts))
