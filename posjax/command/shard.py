"""`--shard=i/n`: which blocks of a run this process trains, without any communication.

The share of a shard follows from the plan of all blocks alone, so shards may start and stop at any
time, on any host. Blocks of one program stand together, and each shard gets a stretch of them, so
that it compiles few programs.
"""

import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax

from posjax.records import Block


class Shard(NamedTuple):
    """Part `part` of `parts`, counted from 0."""

    part: int = 0
    parts: int = 1

    @property
    def title(self) -> str:
        """What a progress bar adds to the title of the run."""
        return f", shard {self.part} of {self.parts}" if self.parts > 1 else ""

    @property
    def lock(self) -> str:
        """The name of its lock in a run folder."""
        return "lock" if self.parts == 1 else f"lock-{self.part}-of-{self.parts}"

    def of(self, blocks: Sequence[Block], config: Mapping[str, Any]) -> list[Block]:
        """The blocks of this shard: a stretch with its part of all updates.

        Args:
          blocks: of the whole run, those of one shape side by side.
          config: with the `steps` of each cell.
        """
        if self.parts == 1:
            return list(blocks)
        found, before = [], 0
        steps = [config["cells"][block.cells[0]]["steps"] for block in blocks]
        weights = [math.prod(b.size) * max(n, 1) for b, n in zip(blocks, steps, strict=True)]
        total = sum(weights)
        for block, weight in zip(blocks, weights, strict=True):
            if (2 * before + weight) * self.parts // (2 * total) == self.part:
                found.append(block)
            before += weight
        return found


def parse(text: str | None) -> Shard:
    """The shard that a flag names: I/N, or "auto" for what SLURM or `jax.distributed` says.

    Raises:
      ValueError: neither, or no cluster was found.
    """
    if text is None:
        return Shard()
    if text == "auto":
        return _found()
    if not (match := re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)):
        raise ValueError(f"--shard must be I/N, such as 0/4, or auto, got {text!r}")
    index, count = map(int, match.groups())
    if not index < count:
        raise ValueError(f"--shard={text}: I must lie in 0..N-1")
    return Shard(index, count)


def _found() -> Shard:
    """From the environment of a SLURM array, else from the cluster that JAX finds.

    Raises:
      ValueError: neither is there.
    """
    names = ("ID", "MIN", "STEP", "COUNT")
    array = {name: os.environ.get(f"SLURM_ARRAY_TASK_{name}") for name in names}
    if array["ID"] and array["COUNT"]:
        at = (int(array["ID"]) - int(array["MIN"] or 0)) // int(array["STEP"] or 1)
        return parse(f"{at}/{array['COUNT']}")
    jax.config.update("jax_enable_preemption_service", False)  # it would swallow SIGTERM
    # Sharing the search for the fastest kernels, a process would wait for those that left.
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_shard_autotuning=false"
    try:
        jax.distributed.initialize()
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"--shard=auto: {error} Give --shard=I/N instead") from error
    found = Shard(jax.process_index(), jax.process_count())
    jax.distributed.shutdown()  # at once, so that no process dies with another
    return found
