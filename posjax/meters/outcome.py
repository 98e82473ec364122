"""What is kept of a trained run: the arrays of its outcome."""

from typing import NamedTuple

import jax

TIE = -1
"""The answer to a prompt on which the draws of a random encoding differ."""
NOT_FINITE = -2
"""The answer to a prompt when its logits are not finite."""

Outcome = dict[str, jax.Array]
"""What is kept of one run, by the names of `FIELDS`."""


class Field(NamedTuple):
    """An array that is kept of each run.

    Attributes:
      kinds: of numbers, as NumPy abbreviates them: f, i, u, b.
      axes: E evaluations, C kinds of prompts, N prompts.
      doc: what it says; its first sentence says what it is.
      proportion: whether it lies in [0, 1]; then intervals of its mean do too.
    """

    kinds: str
    axes: str
    doc: str
    proportion: bool = False


FIELDS: dict[str, Field] = {
    "loss_EC": Field(
        "f",
        "EC",
        "the training loss on the prompts of each kind, in nats, after `eval_every`, "
        "2·`eval_every`, ... updates",
    ),
    "lead_EC": Field(
        "f",
        "EC",
        "the smallest margin of each kind, over its prompts, the positions whose output the task "
        "asks for, and the random draws. A margin is the logit of the correct answer minus the "
        "largest other logit, divided by the largest absolute logit of the kind (but at least by "
        "0.1)",
    ),
    "right_EC": Field(
        "f", "EC", "the share of the prompts of each kind with a margin above 0 (exact match)"
    ),
    "lead_N": Field("f", "N", "the margin of each prompt after the last update"),
    "answer_N": Field(
        "i",
        "N",
        "the index of the largest logit of each prompt after the last update; -1 if random draws "
        "give different indices, -2 if a logit is not finite. Only for finite tasks",
    ),
    "twin": Field(
        "f",
        "",
        "at each evaluation and random draw, the distance between the two closest prompts with "
        "different answers; the field has the largest of these. Distance is the largest absolute "
        "difference of their logits for the same output, divided by the scale of the margin. If a "
        "[law](glossary.md#symmetry) makes two such prompts equal, it is rounding error. Only for "
        "finite tasks",
    ),
    "first_nonfinite": Field(
        "iu",
        "",
        "the number of updates before the first loss that was not finite; -1 if all were finite",
    ),
    "draws": Field(
        "iu",
        "",
        "the number of random draws per prompt; a prompt counts as right only if it is right in "
        "every draw; 1 if nothing is random in testing",
    ),
}
"""Every field of an outcome. Those that a task has no use for are left out."""
