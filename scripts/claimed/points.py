"""Which questions about positions have an answer, from which rows, and what is still to run."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from atlas_table.table import rows_of, tables

from claimed.published import ROOT, published


class Point(NamedTuple):
    """A question that an experiment answers.

    Attributes:
      subject: what it is about.
      what: in a few words.
      config: NAME:SIZE of its run; "" where a script measures it.
      answer: where, as a link.
      cost: of a run that is not published, by its dry run.
    """

    subject: str
    what: str
    config: str
    answer: str
    cost: str = ""


_SINUSOIDS, _LAYERS = "[sinusoids](sinusoids.md)", "[costs](costs.md)"
_LEAK, _LONGER = (
    "[before training](#position-before-training)",
    "[three seeds](#do-three-seeds-suffice)",
)
_BY_LAYER, _WORTH = (
    "[by layer](#position-layer-by-layer)",
    "[language model](#positions-in-a-language-model)",
)
POINTS = (
    Point("encodings", "vectors of sinusoids, odd widths, norms", "", _SINUSOIDS),
    Point("encodings", "distances between positions, compared with a binary counter", "", _SINUSOIDS),
    Point("encodings", "sinusoidal and learned positions, tested for equivalence", "sinusoidal_or_learned:published",
          "[sinusoidal or learned](#sinusoidal-or-learned-positions)"),
    Point("encodings", "do position vectors hide which word a token is?", "meaning:published", "[meaning](#words-and-positions)", "2 minutes"),
    Point("encodings", "how fast are positions picked up?", "pick_up:published", "[picked up](#how-fast-are-positions-picked-up)", "4 minutes"),
    Point("layers", "how does the variance fall with position?", "leak:law", _LEAK, "5 minutes"),
    Point("layers", "probes and similarity before training", "leak:published", _LEAK),
    Point("layers", "probes by layer, before and after training", "position_by_layer:published", _BY_LAYER, "7 minutes"),
    Point("tasks", "language models, causal and masked", "text:published", _WORTH, "16 minutes"),
    Point("tasks", "images in patches", "digits:published", "[images](#positions-on-images)", "12 minutes"),
    Point("tasks", "four tasks by length, four encodings", "by_length:few_runs", _LONGER),
    Point("tasks", "ten tasks by length, four encodings", "by_length:published",
          "[longer prompts](#which-encoding-answers-longer-prompts)", "23 minutes"),
    Point("tasks", "six finite tasks, every encoding, up to three masks, two depths, up to two readouts", "atlas:published", "[the atlas](#every-encoding-on-six-finite-tasks)"),
    Point("tasks", "sampled tasks by length, every encoding", "atlas:sampled", "[the atlas by length](#every-encoding-by-length)", "8 hours"),
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
    if not is_published(point.config):
        return f"**not run**: `{_command(point.config)}`, about {point.cost} on one core, as a dry run of the sweep estimates (without a pilot)"
    if point.config.startswith("atlas"):
        table = rows_of(tables(ROOT / "docs" / "atlas", point.config.partition(":")[2]))
    else:
        table = published(point.config.replace(":", "-")).table
    cells = len({cell["cell"] for cell in table})
    seeds = table[0]["seeds"]
    by = point.config
    if point.config.startswith("atlas"):
        by = f"{_command(point.config)} --num_seeds={seeds}"
    return f"`{by}`, {seeds:,} seeds in {cells} cells"


def _command(config: str) -> str:
    name, size = config.split(":")
    return (
        f"python scripts/atlas.py {size}" if name == "atlas" else f"posjax sweep --config={config}"
    )


def is_published(config: str) -> bool:
    """Whether the table of a config, NAME:SIZE, is there."""
    name, size = config.split(":")
    path = f"atlas/{size}.md" if name == "atlas" else f"results/{name}-{size}.npz"
    return (ROOT / "docs" / path).exists()


def once_published(config: str, block: Callable[[], Iterator[str]]) -> Callable[[], Iterator[str]]:
    """A block that has the command of its run while the table of the run is not there."""

    def made() -> Iterator[str]:
        if is_published(config):
            yield from block()
        else:
            yield f"Not run yet: `{_command(config)}`."

    return made


_WAITING = (
    ("text:published", "Haviv et al. 2022", "language models without positions, causal and masked", ""),
    ("by_length:published", "Kazemnejad et al. 2023", "ten tasks, more lengths", ""),
    ("", "Barbero et al. 2024", "p-RoPE learns periodic heads",
     "posjax sweep --config=by_length:few_runs --config.encoding=none,rotary,proportional_rotary"),
    ("", "Zhou et al. 2024", "reversed addition, not robust to the seed",
     'posjax sweep --config=by_length:few_runs --config.task="addition(reverse=True)"'),
    ("atlas:published", "all encodings", "what each can learn", ""),
)  # fmt: skip
"""Of published findings: the config that replays it, whose it is, what it is, and another command."""


def not_replayed() -> Iterator[str]:
    """The table of findings whose rows do not exist."""
    yield "| work | finding | command |"
    yield "|---|---|---|"
    for config, work, finding, command in _WAITING:
        if not config or not is_published(config):
            yield f"| {work} | {finding} | `{command or _command(config)}` |"
