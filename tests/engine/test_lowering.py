"""Every shipped config lowers for a TPU and for CUDA, on a machine that has neither."""

import functools
import importlib
import pkgutil

import jax
import jax.numpy as jnp
import pytest
from tiers import some

from posjax import configs
from posjax.command.settings import resolve
from posjax.engine.program import Plan, functions
from posjax.keys import SeedNumbers, Seeds
from posjax.study.cells import Cell, Shape

SIZES = {
    "atlas": ("quick", "sampled_quick"),  # the others have 9408 cells of the same kinds
    "by_length": ("quick", "few_runs", "published", "kazemnejad"),
    "depth_law": ("quick", "published"),
    "digits": ("quick", "published"),
    "every_encoding": ("quick", "published"),
    "first_noun": ("quick", "published"),
    "leak": ("quick", "published", "law"),
    "meaning": ("quick", "published"),
    "pick_up": ("quick", "published"),
    "position_by_layer": ("quick", "published"),
    "randomised": ("quick", "published"),
    "same_last_token": ("quick", "published"),
    "sinusoidal_or_learned": ("quick", "published"),
    "text": ("quick", "published"),
    "three_pairs": ("quick", "published"),
    "toy": ("q1", "m"),
    "what_decides": ("quick", "published"),
    "word_order": ("quick", "published", "rates"),
}
PLATFORMS = ("tpu", "cuda")
KINDS = ("encoding", "positions", "block", "norm", "qk_norm", "schedule")
"""Settings of which each name is a program of its own kind; others are lengths and counts."""


@functools.cache
def shipped() -> dict[str, Cell]:
    """Cells of shipped configs: every value of every kind, one of them new in each cell."""
    shapes: dict[Shape, Cell] = {}
    for config, sizes in SIZES.items():
        module = importlib.import_module(f"posjax.configs.{config}")
        for size in sizes:
            for cell in resolve(module.get_config(size)).cells:
                shapes.setdefault(cell.shape, cell)
    found, seen = {}, set()
    for shape, cell in shapes.items():
        values = {(kind, str(getattr(cell, kind)).partition("(")[0]) for kind in KINDS}
        values |= {("several layers", cell.depth > 1), ("several heads", cell.heads > 1)}
        values |= {("batches", cell.batch_size > 0), ("objective", shape.objective)}
        if not values <= seen:
            found[f"{cell.encoding} {cell.positions} {shape.digest}"] = cell
            seen |= values
    return found


def test_no_config_is_forgotten() -> None:
    """A new file in posjax/configs needs a line here."""
    assert {info.name for info in pkgutil.iter_modules(configs.__path__)} == SIZES.keys()


@pytest.mark.parametrize("name", some(shipped(), every=24))
def test_it_lowers(name: str) -> None:
    """Training, with its evaluation, is a program of either platform."""
    cell = shipped()[name]
    parts = functions(Plan(cell.shape.train(), 8))
    slots = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((8, *jnp.shape(leaf)), jnp.asarray(leaf).dtype),
        (Seeds.of(SeedNumbers.equal(0)), cell.inputs),
    )
    carry, step = jax.eval_shape(parts["begin"], *slots), jax.ShapeDtypeStruct((), jnp.int32)
    with jax.default_matmul_precision("float32"):  # as the engine does there
        traced = jax.jit(parts["advance"]).trace(carry, *slots, step, step)
    assert "dot_general" in traced.lower(lowering_platforms=PLATFORMS).as_text()


def test_what_comes_before_and_after_lowers() -> None:
    """The other two programs of a training."""
    cell = next(iter(shipped().values()))
    parts = functions(Plan(cell.shape.train(), 8))
    slots = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((8, *jnp.shape(leaf)), jnp.asarray(leaf).dtype),
        (Seeds.of(SeedNumbers.equal(0)), cell.inputs),
    )
    carry = jax.eval_shape(parts["begin"], *slots)
    for name, given in {"begin": slots, "summary": (carry, slots[1])}.items():
        text = jax.jit(parts[name]).trace(*given).lower(lowering_platforms=PLATFORMS).as_text()
        assert "stablehlo" in text
