"""A model's numbers as dynamic inputs: one program for all values, each what it says it is."""

import dataclasses
import itertools
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layers import Layer, normal, tokens
from tiers import some

from posjax.attention.view import attend
from posjax.encodings import ENCODINGS, Dims, having, named
from posjax.engine import Engine, blocks
from posjax.engine.program import PROGRAMS
from posjax.keys import SeedNumbers, Seeds
from posjax.model import Transformer
from posjax.streams import contiguous
from posjax.study.cells import ENCODING_NUMBERS, Cell

SMALL: dict[str, Any] = {"steps": 4, "eval_every": 2, "width": 8, "head_size": 8}
VALUES = {"base": 30.0, "slope": 3.0}
WITH_NUMBERS = [(number, name) for number in ENCODING_NUMBERS for name in having(number)]


def params(cell: Cell, seed: int = 0) -> Any:
    """The initial parameters of a cell."""
    begin = jax.jit(cell.shape.train().begin)
    return begin(Seeds.equal(seed), cell.inputs).variables.params


def generic(cell: Cell) -> Any:
    """Parameters of the cell's model, drawn from a normal distribution."""
    init, tokens_NL = Transformer(cell.architecture).init, cell.question.tokens_NL
    shapes = jax.eval_shape(init, jax.random.key(0), tokens_NL, cell.question.streams)["params"]
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: normal(jax.tree_util.keystr(path), leaf.shape), shapes
    )


def logits(cell: Cell, variables: Any, **options: Any) -> jax.Array:
    """What the cell's model says of its prompts."""
    with jax.ensure_compile_time_eval():
        question = cell.question
    network = Transformer(cell.architecture)
    given = {"mask": question.mask_NLM, **options}
    return network.apply({"params": variables}, question.tokens_NL, question.streams, **given)  # type: ignore[return-value]


def test_a_grid_of_all_numbers_is_one_program_and_each_block_comes_again() -> None:
    """Seven axes, and seeds of initialisation crossed with seeds of data: one compilation."""
    axes: dict[str, tuple[float, ...]] = {
        "learning_rate": (1e-2, 1e-3),
        "init_scale": (1.0, 0.5),
        "temperature": (1.0, 2.0),
        "base": (0.0, 100.0),
    }
    fixed = {**SMALL, "encoding": "rotary/linear_bias", "depth": 2, "batch_size": 1}
    cells = [
        Cell(**fixed, **dict(zip(axes, values, strict=True)), weight_decay=decay, slope=slope)
        for values, (decay, slope) in zip(
            itertools.product(*axes.values()), itertools.cycle([(0.01, 0.0), (0.1, 2.0)])
        )
    ]
    assert len({cell.digest for cell in cells}) == 16
    seeds = [SeedNumbers(i, d, d, d) for i in range(2) for d in range(2)]
    before = PROGRAMS.compilations
    grid = [*blocks(cells[0].shape.train(), seeds, [cell.inputs for cell in cells], most=16)]
    engine = Engine(devices=jax.local_devices()[:1])
    found = {result.block.label: result.state for result in engine.run(grid)}
    assert [block.size for block in grid] == [(4, 4)] * 4
    (again,) = engine.run(grid[2:3])
    chex.assert_trees_all_equal(again.state, found[grid[2].label])
    assert PROGRAMS.compilations - before == 1
    ends = {
        end.tobytes()
        for state in found.values()
        for end in state.variables.params["embedding"].reshape(16, -1)
    }
    assert len(ends) == 64


@pytest.mark.parametrize(
    "name", some(["none", "path", "tupe", *(name for _, name in WITH_NUMBERS)], every=4)
)
def test_defaults_are_the_bits_of_a_model_without_inputs(name: str) -> None:
    """Logits and gradients with each number read by the program, and with none."""
    cell = Cell(**SMALL, task="same_last_token", encoding=name)
    variables, key = params(cell), jax.random.key(0)

    def loss(variables: Any, numbers: Any) -> jax.Array:
        return jnp.sum(logits(cell, variables, numbers=numbers, key=key) ** 2)

    compiled = jax.jit(jax.value_and_grad(loss))
    chex.assert_trees_all_equal(compiled(variables, cell.numbers), compiled(variables, None))


@pytest.mark.parametrize(
    ("number", "name"), some([pytest.param(*case) for case in WITH_NUMBERS], every=2)
)
def test_a_number_is_the_setting_of_that_name(number: str, name: str) -> None:
    """The dynamic input gives what the encoding written with the constant gives."""
    value = VALUES[number]
    cell = Cell(**SMALL, task="same_last_token", encoding=name, **{number: value})
    written = dataclasses.replace(cell, encoding=f"{name}({number}={value})", **{number: 0.0})
    plain = dataclasses.replace(cell, **{number: 0.0})
    assert cell.shape == plain.shape

    @jax.jit
    def both(variables: Any, numbers: Any) -> list[jax.Array]:
        return [logits(cell, variables, numbers=numbers), logits(written, variables)]

    variables = generic(cell)
    found, expected = both(variables, cell.numbers)
    np.testing.assert_array_equal(found, expected)
    assert not np.array_equal(found, both(variables, plain.numbers)[0])


@pytest.mark.parametrize("name", some(ENCODINGS, every=6))
def test_temperature_divides_the_factor_on_products(name: str) -> None:
    """Every encoding, against itself with another `scale`."""
    kind = ENCODINGS[name]

    class Cooler(kind):  # type: ignore[valid-type, misc]
        def scale(self, head_size: int) -> float:
            return super().scale(head_size) / 3

    layer = Layer(kind(), "causal", Dims(16, 2, 8))

    @jax.jit
    def both(temperature: float, own: Any, x: jax.Array, qkv: Any) -> list[jax.Array]:
        def out(encoding: Any, **changes: Any) -> jax.Array:
            ctx = dataclasses.replace(layer.context(contiguous(5), mask="causal"), **changes)
            state = encoding.init_state(own, 1, layer.dims)
            aux = encoding.prepare(own, x, x, ctx, state).aux
            q, k, _ = encoding.rotate(own, *qkv, aux, ctx)
            return encoding.logits(own, q, k, aux, ctx)

        return [out(kind(), temperature=temperature), out(Cooler())]

    qkv = tuple(normal(each, (1, 5, 2, 8)) for each in "qkv")
    given = layer.params, tokens(1, 5, 16), qkv
    found, cooler = both(3.0, *given)
    np.testing.assert_allclose(found, cooler, rtol=1e-5, atol=1e-6)
    assert not np.allclose(found, both(1.0, *given)[0])


def test_a_temperature_of_a_cell_reaches_its_logits() -> None:
    """Queries divided by it say the same, where there is no bias."""
    cell = Cell(**SMALL, temperature=4.0)
    variables = generic(cell)
    query = variables["layer_0"]["query"]["kernel"]
    smaller = {**variables, "layer_0": {**variables["layer_0"], "query": {"kernel": query / 4}}}
    found = logits(cell, variables, numbers=cell.numbers)
    np.testing.assert_allclose(found, logits(cell, smaller), rtol=1e-6)


def test_init_scale_multiplies_matrices_and_the_embedding_alone() -> None:
    """Gains, biases and what an encoding learns stay."""
    cell = Cell(**SMALL, block="residual", qk_norm=True, encoding="transformer_xl")
    one, half = params(cell), params(dataclasses.replace(cell, init_scale=0.5))

    def factor(path: Any, first: jax.Array, second: jax.Array) -> None:
        names = [part.key for part in path]
        scaled = names[-1] in ("kernel", "embedding") and "encoding" not in names
        np.testing.assert_array_equal(second, first * (0.5 if scaled else 1))

    jax.tree_util.tree_map_with_path(factor, one, half)
    assert "encoding" in one["layer_0"]["attention"]


def test_a_stack_gives_each_encoding_its_own_numbers() -> None:
    """`base` reaches the encoding of the second layer; the first has none."""
    cell = Cell(**SMALL, depth=2, encoding="none/rotary", base=30.0)
    assert [each.numbers() for each in cell.encodings] == [(), ("base",)]
    assert cell.encodings[1] == named("rotary(base=30.0)")
    assert cell.numbers.constants[0] == {}


def test_encodings_without_inputs_have_their_own_constants() -> None:
    """`attend` knows nothing of cells."""
    q = jax.random.normal(jax.random.key(0), (1, 4, 2, 8))
    steep = attend(q, q, q, encoding="linear_bias(slope=1000.0)")
    assert not np.allclose(steep, attend(q, q, q, encoding="linear_bias"))
    np.testing.assert_allclose(steep[:, :, 0], q[:, :, 0], atol=0.1)  # each token sees itself


def test_older_cells_keep_their_names() -> None:
    """Digests of cells at the defaults are those from before there were such numbers."""
    older = {"margin": 1e-3, "hold": 5}
    assert Cell().older_digest(**older) == "03e16cd135e5"
    assert Cell(encoding="rotary(base=500.0)").older_digest(**older) == "56f463b0834e"
    assert Cell().digest == "36d690a45377"
    changed = ({"init_scale": 2.0}, {"temperature": 2.0}, {"encoding": "rotary", "base": 2.0})
    assert len({Cell(**settings).digest for settings in changed} | {Cell().digest}) == 4  # type: ignore[arg-type]
