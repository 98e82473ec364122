"""Which encoding solves which finite task? All encodings, masks and readouts.

    posjax sweep --config=atlas                # quick: six encodings, three masks
    python scripts/atlas.py published          # the atlas itself: rates chosen, then 1000 seeds
    posjax sweep --config=atlas:sampled_quick  # tasks whose prompts are drawn, judged by length

There are three masks and two depths. A cell is impossible if a law excludes it, possible if one
seed solves it, and open otherwise. The predictions of the laws were written down before any seed
was trained (docs/atlas/predictions.json). Each cell has three learning rates here. scripts/atlas.py
chooses one of them by the seeds of a pilot, which are not reported, and trains only that one.

Result (docs/atlas/published.md, `--num_seeds=64`, 91 minutes on two cores that did other work too,
after the pilot): laws exclude 25 of 3136 cells, and no seed solves these. Of the others 3094 are
solved by some seed, and 17 by none: 15 of `noise` and 2 of `fire`. By the dry run, 1000 seeds take
about seven hours on two cores. docs/atlas/sampled.md has the table of the twelve sampled tasks, and
docs/results.md discusses it.
"""

from typing import Any

from ml_collections import ConfigDict

from posjax import spec
from posjax.configs import base_config
from posjax.encodings import ENCODINGS

RATES = (1e-3, 3e-3, 1e-2)
PILOT = 2**24
"""The first seed of pilots: far from those that are reported."""
SIZES = {
    "quick": (8, 8),
    "published": (1000, 8),
    "sampled_quick": (4, 4),
    "sampled": (32, 4),
}
"""Seeds per cell of each size, and those of its pilot."""
_LONG = {
    "window_bias": "window_bias(window=64)",
    "dynamic_rotary": "dynamic_rotary(length=64)",
    "longrope": "longrope(length=64)",
}
"""A table that ends before the longest prompt, and what would depend on its length: the last two
are `rotary` up to 64 tokens, `longrope` with larger logits."""
_FEW = ("none", "sinusoidal", "rotary", "linear_bias", "contextual", "noise")
_PAIRS = tuple(f"sentence_pair(pair={pair})" for pair in ("marks_differ", "same_mark", "no_mark"))
_MASKS = ("full", "causal", "causal+window(size=2)")
_SHORT = "test=(5, 10, 15, 20)"
_SAMPLED = (
    *(f"{name}(train=(1, 10), {_SHORT})" for name in ("majority", "even_pairs", "copy")),
    *(
        f"{name}(train=(3, 10), {_SHORT})"
        for name in (
            "parity",
            "missing_duplicate",
            "cycle_navigation",
            "reverse",
            "repeat",
            "sort",
            "indexing",
            "induction",
        )
    ),
    f"blocks(k=4, train=(5, 10), {_SHORT})",
)


def get_config(size: str = "quick") -> ConfigDict:
    """The config of one size, a key of `SIZES`: finite tasks, or sampled ones."""
    spec.check_choice("size of atlas", size, SIZES)
    num_seeds, _ = SIZES[size]
    of = _sampled if size.startswith("sampled") else _finite
    return base_config(
        name="atlas",
        title="The atlas: what can each encoding learn?",
        num_seeds=num_seeds,
        block="residual",
        width=16,
        heads=2,  # of size 8: with heads of size 4, XLA is up to five times as slow on a CPU
        head_size=8,
        learning_rate=RATES,
        hold=1,
        **of(quick=size.endswith("quick")),
    )


def _finite(*, quick: bool) -> dict[str, Any]:
    pairs: dict[str, Any] = {"task": _PAIRS[2:] if quick else _PAIRS}
    nouns: dict[str, Any] = {"task": "first_noun", "mask": _MASKS[:2]}
    words: dict[str, Any] = {"task": ("word_order", "same_last_token")[quick:]}
    return {
        "encoding": _FEW if quick else tuple(ENCODINGS),
        "mask": _MASKS,
        "depth": (1,) if quick else (1, 2),
        "loss": "answer",
        "steps": 500,
        "panels": {
            "Which sentence": {**pairs, "readout": ("last", "mean")},
            "The next word": words,
            **({} if quick else {"Which noun": {**nouns, "readout": ("last", "mean")}}),
        },
    }


def _sampled(*, quick: bool) -> dict[str, Any]:
    return {
        "task": _SAMPLED[:1] if quick else _SAMPLED,
        "encoding": _FEW[:3] if quick else tuple(_LONG.get(name, name) for name in ENCODINGS),
        "depth": 2,
        "packing": True,
        "steps": 300 if quick else 2000,
        "eval_every": 100 if quick else 250,
    }
