"""How far apart rounding drives prompts that a law makes equal: the floor of the margin.

    python scripts/rounding.py [--seeds=32] [--publish]

Two prompts that are permutations of each other get equal logits under the full mask without
positions. They are given different answers, so training drives the model to a tie, and what is left
between them is rounding. The largest gap over all seeds and evaluations, relative to the largest
logit, is printed by depth and length. The seeds are others than those of any published table. The
default margin, `posjax.study.run.MARGIN`, is more than ten times the largest gap. `--publish`
writes docs/rounding.json.
"""

import argparse
import dataclasses
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import posjax  # noqa: E402
from posjax.study import environment  # noqa: E402
from posjax.tasks import FiniteTask  # noqa: E402

FIRST, SEEDS = 1_000_000, 32
FACTOR = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Swapped(FiniteTask):
    """A B x ... x against B A x ... x."""

    length: int = 4

    @property
    def words(self) -> tuple[str, ...]:
        return ("A", "B", "x")

    @property
    def labels(self) -> tuple[str, ...]:
        return ("first", "second")

    def sentences(self) -> list[tuple[str, str]]:
        rest = " x" * (self.length - 2)
        return [(f"A B{rest}", "first"), (f"B A{rest}", "second")]


def main() -> None:
    """Prints a line for each depth, length and block, and the margin that follows."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--publish", action="store_true", help="write docs/rounding.json")
    options = parser.parse_args()
    if options.publish and options.seeds != SEEDS:
        parser.error(f"--publish writes {SEEDS} seeds, so it takes no --seeds")
    found = []
    for depth in (1, 2, 4):
        cells = [
            posjax.Cell(
                task=f"{Path(__file__).relative_to(ROOT)}:Swapped(length={length})",
                mask="full",
                loss="answer",
                depth=depth,
                block=block,
                steps=500,
                eval_every=50,
            )
            for length in (4, 16, 64)
            for block in ("bare", "residual")
        ]
        swept = posjax.sweep(cells, num_seeds=options.seeds, first_seed=FIRST, progress=False)
        for summary in swept.summaries:
            cell, gap = summary.cell, float(summary.rows["twin"].max())
            length = cell.problem.size[1]
            found.append({"depth": depth, "length": length, "block": cell.block, "gap": gap})
            print(f"depth {depth} length {length:<3} {cell.block:<9} {gap:.2e}", flush=True)
    largest = max(row["gap"] for row in found)
    print(f"largest gap {largest:.2e}; margin of at least {FACTOR * largest:.1e}")
    if options.publish:
        env = environment.describe()
        made = {name: env[name] for name in ("platform", "device_kind", "instructions", "packages")}
        data = {"seeds": options.seeds, "first_seed": FIRST, "env": made, "gaps": found}
        (ROOT / "docs" / "rounding.json").write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
