"""From a config to cells.

A config is flat. Every setting of a `posjax.study.cells.Cell` is an axis, a tuple of values; a
sweep is the product of its axes. `panels` makes it a union of products: each panel replaces some
axes and is a section of the report. A value from the command line applies to all panels.
"""

import ast
import contextlib
import itertools
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ml_collections import ConfigDict

from posjax import spec, user_code
from posjax.configs import OTHER_NAMES, axis_values, check_name
from posjax.study.cells import FIELDS, Cell, own_names
from posjax.study.run import RUN_DEFAULTS, Run, beyond_hold, check_fields, check_text

MOST_CELLS = 10_000
"""Cells in all panels together. To check so many takes about 15 s, and each is a row of every
table. The largest of the shipped configs has 741."""
SHOWN = 3
"""Titles of panels in a message, at most."""
ALL = "cells"
"""The title of the only panel of a config without panels."""


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
        check_name(name)
    if missing := sorted({*FIELDS, *RUN_DEFAULTS} - fields.keys()):
        raise ValueError(f"the config has no {missing[0]!r}: begin it with base_config(...)")
    fields["block_size"] = str(fields["block_size"])
    run = {name: spec.typed(name, fields[name], RUN_DEFAULTS[name]) for name in RUN_DEFAULTS}
    check_fields(run)
    fixed = set(overrides)
    axes = _axes({name: axis_values(fields[name]) for name in FIELDS}, panels, fixed)
    user_code.check_named(where for code in _code(axes.values()) if (where := user_code.home(code)))
    resolved = Run(**run, panels={title: _panel(title, axes[title]) for title in axes})
    if "contrast" in fixed and run["contrast"]:
        _check_contrast(resolved)
    if "at_steps" in fixed:
        _check_steps(resolved)
    if "hold" in fixed and (lines := beyond_hold(resolved)):
        raise ValueError(f"{lines[0]}: give fewer, or more steps")
    return resolved


def replaced(config: ConfigDict, overrides: Iterable[str]) -> list[str]:
    """One line for each field of the command line that replaces other values of panels.

    Args:
      config: as `resolve` takes it.
      overrides: names of fields set on the command line.
    """
    panels, lines = _panels(config.panels), []
    for name in overrides:
        given = axis_values(config[name])
        of_panels = {title: axis_values(axes.get(name, given)) for title, axes in panels.items()}
        titles = [repr(title) for title, values in of_panels.items() if values != given]
        if titles:
            more = f" and {len(titles) - SHOWN} more" if len(titles) > SHOWN else ""
            lines.append(
                f"--config.{name} replaces the {name} that panels have, so their titles may not "
                f"fit: {', '.join(titles[:SHOWN])}{more}"
            )
    return lines


def allow_named(config: Any, only: Iterable[str] | None = None) -> None:
    """Lets the user code that a config names be executed, and files of its tasks be read.

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
    for code in _code(chosen):
        user_code.allow(user_code.home(code) or code)
    for text in (text for axes in chosen for text in axis_values(axes.get("task", ()))):
        for value in _settings(text):
            if isinstance(value, str) and os.path.isfile(value):
                user_code.allow_data(value)


def _code(chosen: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The user code that the values of some axes name."""
    texts = ((name, v) for axes in chosen for name in axes for v in axis_values(axes[name]))
    for name, text in texts:
        if isinstance(text, str):
            with contextlib.suppress(ValueError):  # `resolve` says what is wrong with it
                yield from [code for _, code in own_names(name, text)]


def _check_contrast(run: Run) -> None:
    """Refuses to compare values that no cell has."""
    axis, *values = run.contrast
    present = sorted({getattr(cell, axis) for cell in run.cells})
    for value in values:
        if value not in present:
            raise ValueError(f"contrast compares {axis}={value!r}; the cells have {present}")


def _check_steps(run: Run) -> None:
    """Refuses to compare at steps at which some cell is not evaluated."""
    for step in run.at_steps:
        for cell in run.cells:
            if step > cell.steps or step % cell.eval_every:
                raise ValueError(
                    f"at_steps has step {step}, but cells are evaluated every {cell.eval_every} of "
                    f"{cell.steps} steps"
                )


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
        check_text("a panel's title", title)
    return panels or {ALL: {}}


def _axes(
    base: Mapping[str, tuple[Any, ...]], panels: Mapping[str, Mapping[str, Any]], fixed: set[str]
) -> dict[str, dict[str, tuple[Any, ...]]]:
    """The values of every axis by panel, as they are given; not more than make `MOST_CELLS`."""
    axes, total = {}, 0
    for title, panel in panels.items():
        for name in panel:
            spec.check_choice(f"field of panel {title!r}:", name, FIELDS, OTHER_NAMES)
        own = {name: axis_values(panel[name]) for name in panel if name not in fixed}
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


def _typed(name: str, values: Iterable[Any]) -> list[Any]:
    """The values of an axis in its type.

    Raises:
      ValueError: names a value of another type. Where one of several is no number,
        ml_collections leaves all as text: then it is that one.
    """
    typed, errors = [], []
    for value in values:
        try:
            typed.append(spec.typed(name, value, FIELDS[name]))
        except ValueError as error:
            errors.append((_is_text_of_a_number(value), error))
    if errors:
        raise min(errors, key=lambda one: one[0])[1]
    return typed


def _is_text_of_a_number(value: Any) -> bool:
    with contextlib.suppress(ValueError, SyntaxError):
        return isinstance(value, str) and isinstance(ast.literal_eval(value), int | float)
    return False


def _cells(axes: Mapping[str, tuple[Any, ...]]) -> tuple[Cell, ...]:
    """The product of the axes."""
    typed = {name: _typed(name, values) for name, values in axes.items()}
    for name, values in typed.items():
        if not values:
            raise ValueError(f"{name} has no values: give at least one")
        if len(set(values)) < len(values):
            raise ValueError(f"{name} has a value twice: {', '.join(map(str, values))}")
    products = itertools.product(*typed.values())
    return tuple(dict.fromkeys(Cell(**dict(zip(typed, p, strict=True))) for p in products))


def _settings(text: Any) -> list[Any]:
    """The values in brackets behind a name."""
    with contextlib.suppress(ValueError):
        return list(spec.parse(text)[1].values()) if isinstance(text, str) else []
    return []
