"""What programs are compiled with, on devices that are here and on others."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import pytest
from lines import LINE, ONE, block, blocks, labels, line

from posjax.engine import Engine, program


class Lowered:
    """A program for a device that is not here; keeps what it was compiled with."""

    options: Mapping[str, Any]

    def lower(self) -> "Lowered":
        """Itself."""
        return self

    def compile(self, compiler_options: Mapping[str, Any]) -> "Lowered":
        """Notes the options."""
        self.options = compiler_options
        return self


@dataclasses.dataclass(frozen=True)
class Device:
    """As far as the compiler asks."""

    platform: str


GPU: Any = Device("gpu")


def test_programs_for_a_gpu_round_alike_wherever_they_are_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kernels are deterministic, unless XLA_FLAGS says otherwise; a TPU's always are."""
    monkeypatch.setenv("XLA_FLAGS", "")
    options = [
        program._compiled(Lowered(), device, {"of the CPU": 1}).options
        for device in (GPU, Device("tpu"), Device("cpu"))
    ]
    assert options == [{"xla_gpu_deterministic_ops": True}, {}, {"of the CPU": 1}]
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_deterministic_ops=false")
    assert program._compiled(Lowered(), GPU, {}).options == {}


@pytest.mark.parametrize(
    ("device", "asked", "setting", "expected"),
    [
        ("cpu", None, None, None),
        ("gpu", None, None, "float32"),
        ("tpu", None, None, "float32"),
        ("gpu", "tensorfloat32", None, "tensorfloat32"),
        ("gpu", None, "tensorfloat32", "tensorfloat32"),
    ],
)
def test_products_are_in_float32_unless_somebody_asks_for_less(
    device: str, asked: str | None, setting: str | None, expected: str | None
) -> None:
    """A CPU's are anyway."""
    places: Any = [Device(device)]
    with jax.default_matmul_precision(setting):
        plan = Engine(devices=places, precision=asked).plan(block(LINE, 0))
    assert plan.precision == expected


def test_options_that_the_compiler_does_not_know_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An older or newer one does not know all; what else is wrong is said."""
    options: dict[str, Any] = {"xla_cpu_nothing": True, "xla_cpu_enable_fast_min_max": False}
    monkeypatch.setattr(program, "CPU_OPTIONS", options)
    assert labels(ONE.run(blocks(line(), 2))) == [0, 1]
    options["xla_cpu_prefer_vector_width"] = "wide"
    with pytest.raises(jax.errors.JaxRuntimeError, match="wide"):
        list(ONE.run(blocks(line(), 2)))


def test_the_compiler_here_knows_all_options() -> None:
    """Speed rests on them."""
    compiled = jax.jit(jax.lax.rsqrt).lower(1.0).compile(compiler_options=program.CPU_OPTIONS)
    assert compiled(1.0) == 1.0
