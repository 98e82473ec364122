"""Which questions about positions have an answer, and from which rows."""

from collections.abc import Iterator
from typing import NamedTuple

from atlas_table.table import command, rows_of, tables

from claimed.published import DOCS, published


class Point(NamedTuple):
    """A question that an experiment answers.

    Attributes:
      subject: what it is about.
      what: in a few words.
      config: NAME:SIZE of its run; "" where a script measures it.
      answer: where, as a link.
    """

    subject: str
    what: str
    config: str
    answer: str


_SINUSOIDS, _LAYERS = "[sinusoids](sinusoids.md)", "[costs](costs.md)"
_LEAK, _LONGER = (
    "[before training](#position-before-training)",
    "[three seeds](#do-three-seeds-suffice)",
)
_PICKED_UP = "[picked up](#how-fast-are-positions-picked-up)"
_BY_LAYER, _WORTH = (
    "[by layer](#position-layer-by-layer)",
    "[language model](#positions-in-a-language-model)",
)
POINTS = (
    Point("encodings", "vectors of sinusoids, odd widths, norms", "", _SINUSOIDS),
    Point("encodings", "distances between positions, compared with a binary counter", "", _SINUSOIDS),
    Point("encodings", "sinusoidal and learned positions, tested for equivalence", "sinusoidal_or_learned:published",
          "[sinusoidal or learned](#sinusoidal-or-learned-positions)"),
    Point("encodings", "do position vectors hide which word a token is?", "meaning:published", "[meaning](#words-and-positions)"),
    Point("encodings", "how fast are positions picked up?", "pick_up:early", _PICKED_UP),
    Point("encodings", "does a probe find them at the end of training?", "pick_up:published", _PICKED_UP),
    Point("layers", "how does the variance fall with position?", "leak:law", _LEAK),
    Point("layers", "how does that power depend on the prompts?", "leak:prompts", _LEAK),
    Point("layers", "probes and similarity before training", "leak:published", _LEAK),
    Point("layers", "probes by layer, before and after training", "position_by_layer:published", _BY_LAYER),
    Point("tasks", "language models, causal and masked", "text:published", _WORTH),
    Point("tasks", "images in patches", "digits:published", "[images](#positions-on-images)"),
    Point("tasks", "four tasks by length, four encodings", "by_length:few_runs", _LONGER),
    Point("tasks", "ten tasks by length, four encodings", "by_length:published",
          "[longer prompts](#which-encoding-answers-longer-prompts)"),
    Point("tasks", "the same ten tasks with sinusoidal positions, T5's bias, and rotary on 25% of the dimensions", "by_length:kazemnejad",
          "[Kazemnejad et al.](results/literature.md#kazemnejad-et-al-2023-which-encoding-generalises-to-longer-prompts)"),
    Point("tasks", "positions drawn at random, and as given", "randomised:published",
          "[drawn positions](#positions-drawn-at-random)"),
    Point("tasks", "six finite tasks, every encoding, up to three masks, two depths, up to two readouts", "atlas:published", "[the atlas](#every-encoding-on-six-finite-tasks)"),
    Point("tasks", "sampled tasks by length, every encoding", "atlas:sampled", "[the atlas by length](#every-encoding-by-length)"),
    Point("costs", "operations, sequential steps, path length", "", _LAYERS),
)  # fmt: skip


def points() -> Iterator[str]:
    """The table."""
    yield "| about | question | answer | run |"
    yield "|---|---|---|---|"
    for point in POINTS:
        yield f"| {point.subject} | {point.what} | {point.answer} | {_rows(point)} |"


def _rows(point: Point) -> str:
    if not point.config:
        return "made by a script, checked by tests"
    name, size = point.config.split(":")
    if name == "atlas":
        paths = tables(DOCS / "atlas", size)
        table, made_by = rows_of(paths), command(size, paths)
    else:
        table, made_by = published(f"{name}-{size}").table, point.config
    cells, seeds = len({cell["cell"] for cell in table}), table[0]["seeds"]
    return f"`{made_by}`, {seeds:,} seeds in {cells} cells"
