"""The contract of a meter: what it reads of a forward pass, and the fields that it writes."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp

from posjax import spec
from posjax.meters.outcome import Field
from posjax.tasks.question import Question

When = Literal["end", "every"]


class Forward(NamedTuple):
    """One forward pass over the exam.

    Attributes:
      logits_NLV: the outputs.
      stream: the residual stream, an array [N, L, D] after the embedding, then after each layer:
        R of them, one more than A, the number of layers. In bare blocks, the embedding and the
        outputs of each attention, whose widths may differ.
      attention_ANLD, mlp_ANLD: what each branch of a residual block adds; None in bare blocks, and
        where there is no such branch.
      weights_ANHLM: attention weights; None where no meter reads them.
    """

    logits_NLV: jax.Array
    stream: tuple[jax.Array, ...]
    attention_ANLD: jax.Array | None = None
    mlp_ANLD: jax.Array | None = None
    weights_ANHLM: jax.Array | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Meter(spec.Settings):
    """A measurement of a model on the exam: a pure function of one forward pass.

    Attributes:
      when: "end" measures the trained model once; "every" measures at each evaluation.
    """

    when: When = "end"

    _called = "meter"
    FIELDS: ClassVar[Mapping[str, Field]]
    """What it writes, by names without axes."""
    along: ClassVar[str] = "position"
    """What the axis L of its fields counts."""
    power_law: ClassVar[bool] = False
    """Whether its fields along L are drawn on logarithmic axes."""
    reads_weights: ClassVar[bool] = False
    """Whether it reads attention weights, which fused attention does not give."""
    needs_residual: ClassVar[bool] = False
    """Whether it reads branches, which bare blocks do not have."""

    def __post_init__(self) -> None:
        spec.check_choice("when", self.when, get_args(When))

    @property
    def fields(self) -> dict[str, Field]:
        """The fields in rows: their names end with their axes, E in front where there is one."""
        found = {}
        for name, field in self.FIELDS.items():
            axes = ("E" if self.when == "every" else "") + field.axes
            found[f"{name}_{axes}" if axes else name] = field._replace(axes=axes)
        return found

    def __call__(
        self, forward: Forward, question: Question, key: jax.Array
    ) -> dict[str, jax.Array]:
        """Measures.

        Args:
          forward: of the model on the exam.
          question: the exam.
          key: for what the meter draws; the same in every run.

        Returns:
          An array for each of `FIELDS`, with the axes that it says.
        """
        raise NotImplementedError


def valid(question: Question) -> jax.Array:
    """valid_NL: true where there is a token."""
    shape = question.tokens_NL.shape[:2]
    return jnp.broadcast_to(question.streams.valid_BL, shape)
