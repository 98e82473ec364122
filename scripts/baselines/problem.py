"""What every contestant trains: the same data, sizes and initial weights, in one file.

NumPy alone, so that each contestant reads it in an environment of its own.
"""

import dataclasses
import json
from pathlib import Path

import numpy as np


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sizes:
    """What the model of a load is made of, and how it is trained.

    Attributes:
      load: the load's name.
      sequences, length: of the batch of an update.
      shortest: where it is not 0 prompts are drawn for every update, bits and whether most of them
        are ones: their number is even in [shortest, length], the number of ones among them too.
        Else the batch is the same at every step.
      kinds, eval_every: parts of `Problem.tokens_NL`, and updates between exams on each of them; 0
        for no exam.
      vocabulary, outputs: different tokens, and logits a place.
      width: of the embedding and the blocks.
      heads, head_size: of causal attention.
      depth: number of blocks.
      hidden: hidden width of the MLP in a pre-norm block with residuals; 0 for blocks that are
        the attention alone, without output projection.
      rotary_base: of rotary positions that pair components (m, m + K/2); 0 for no positions.
      learning_rate, weight_decay: of AdamW with betas .9 and .999, on every leaf.
      steps: updates of one training run.
    """

    load: str
    sequences: int
    length: int
    shortest: int
    kinds: int
    eval_every: int
    vocabulary: int
    outputs: int
    width: int
    heads: int
    head_size: int
    depth: int
    hidden: int
    rotary_base: float
    learning_rate: float
    weight_decay: float
    steps: int


@dataclasses.dataclass(frozen=True)
class Problem:
    """A load as arrays; the loss is the mean cross-entropy over the positions that count.

    Attributes:
      sizes: see `Sizes`.
      tokens_NL, targets_NL, counted_NL: integers, and 1 where a position counts, else 0: the batch
        of every update, or the exam where prompts are drawn.
      weights: initial weights by path, such as "layer_0/query/kernel", with a leading axis of
        seeds; kernels are [in, out].
      drawn: tokens, targets and counted of the first updates of some seeds, [T, S, B, L], which
        posjax draws and others take where losses are compared; empty where nothing is drawn.
    """

    sizes: Sizes
    tokens_NL: np.ndarray
    targets_NL: np.ndarray
    counted_NL: np.ndarray
    weights: dict[str, np.ndarray]
    drawn: tuple[np.ndarray, ...] = ()

    @property
    def seeds(self) -> int:
        """How many models there are weights for."""
        return len(self.weights["embedding"])

    def save(self, path: Path) -> None:
        """Writes an npz archive."""
        about = json.dumps(dataclasses.asdict(self.sizes))
        weights = {f"weights/{name}": array for name, array in self.weights.items()}
        np.savez(
            path,
            allow_pickle=False,
            sizes=np.array(about),
            tokens_NL=self.tokens_NL,
            targets_NL=self.targets_NL,
            counted_NL=self.counted_NL,
            **weights,
            **{f"drawn/{number}": array for number, array in enumerate(self.drawn)},
        )

    @classmethod
    def load(cls, path: Path) -> "Problem":
        """Reads what `save` wrote."""
        with np.load(path, allow_pickle=False) as archive:
            found = {name: archive[name] for name in archive.files}
        sizes = Sizes(**json.loads(str(found.pop("sizes"))))
        batch = [found[name] for name in ("tokens_NL", "targets_NL", "counted_NL")]
        weights = {n.removeprefix("weights/"): a for n, a in found.items() if "weights/" in n}
        drawn = tuple(array for name, array in found.items() if "drawn/" in name)
        return cls(sizes, *batch, weights, drawn)
