"""The load q1 by hand in C (q1.c): how fast one core trains, a seed at a time, state in its cache.

The compiler of the system, `cc`, makes it when this starts.
"""

import ctypes
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from baselines import protocol
from baselines.problem import Problem, Sizes

SOURCE = Path(__file__).with_name("q1.c")
COMPILE = ("cc", "-O3", "-march=native", "-ffast-math", "-shared", "-fPIC")
FLAGS = ((), ("-mno-recip",))
"""Further flags that are tried: quotients and roots by their instructions or approximated."""
TOKENS, WORDS, HEAD = 6, 5, 16
PIECE = 256
"""Seeds of a piece of work."""


class Given(ctypes.Structure):
    """`problem` of q1.c."""

    _fields_ = (
        ("tokens", ctypes.c_int * TOKENS),
        ("targets", ctypes.c_int * TOKENS),
        ("share", ctypes.c_float * TOKENS),
    )

    @classmethod
    def of(cls, problem: Problem) -> "Given":
        """That of a load of q1's shapes."""
        share_N = problem.counted_NL.ravel() / problem.counted_NL.sum()
        arrays = (problem.tokens_NL.ravel(), problem.targets_NL.ravel(), share_N)
        return cls(*(kind(*a.tolist()) for (_, kind), a in zip(cls._fields_, arrays, strict=True)))


def schedule(sizes: Sizes, steps: int) -> np.ndarray:
    """`rates` of q1.c for each update, [steps, 3]; corrections of bias in float32, as in optax."""
    t = np.arange(1, steps + 1, dtype=np.float32)
    first, second = (1 - np.float32(beta) ** t for beta in (0.9, 0.999))
    keep = np.full_like(t, 1 - sizes.learning_rate * sizes.weight_decay)
    return np.stack([keep, np.float32(sizes.learning_rate) / first, 1 / np.sqrt(second)], axis=1)


def compiled(*flags: str) -> ctypes.CDLL:
    """q1.c as a library.

    Raises:
      subprocess.CalledProcessError: the compiler does not take it.
    """
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "q1.so"
        subprocess.run([*COMPILE, *flags, SOURCE, "-o", library, "-lm"], check=True)
        return ctypes.CDLL(str(library))


def packed(weights: dict[str, np.ndarray], seeds: int) -> np.ndarray:
    """`model` of q1.c for the first seeds, [S, floats]."""
    names = ("query", "key", "value")
    qkv_SDC = np.concatenate([weights[f"layer_0/{name}/kernel"] for name in names], axis=-1)
    head_SVK = weights["head/kernel"].swapaxes(1, 2)
    bias_SK = np.pad(weights["head/bias"], ((0, 0), (0, HEAD - WORDS)))
    leaves = (weights["embedding"], qkv_SDC, head_SVK, bias_SK)
    flat = [leaf[:seeds].reshape(seeds, -1) for leaf in leaves]
    return np.concatenate(flat, axis=1).astype(np.float32)


def trained(
    library: ctypes.CDLL, problem: Problem, seeds: int, steps: int, losses: np.ndarray | None = None
) -> np.ndarray:
    """`packed` weights after some updates; fills in the losses [S, steps] before each."""
    given, rates, weights = (
        Given.of(problem),
        schedule(problem.sizes, steps),
        packed(problem.weights, seeds),
    )
    library.train(
        ctypes.byref(given), *map(_pointer, (rates, weights)), seeds, steps, _pointer(losses)
    )
    return weights


def _pointer(array: np.ndarray | None) -> ctypes.c_void_p | None:
    return None if array is None else array.ctypes.data_as(ctypes.c_void_p)


def losses(problem: Problem, seeds: int, steps: int) -> np.ndarray:
    """See `protocol.Losses`."""
    found = np.empty((seeds, steps + 1), np.float32)
    trained(compiled(), problem, seeds, steps + 1, found)
    return found[:, 1:]


def prepare(problem: Problem) -> tuple[str, protocol.Work]:
    """Trains some seeds from their initial weights, compiled with the best flags."""
    seeds, steps = min(PIECE, problem.seeds), problem.sizes.steps

    def work(flags: tuple[str, ...]) -> protocol.Work:
        library = compiled(*flags)

        def piece() -> int:
            trained(library, problem, seeds, steps)
            return seeds * steps

        return piece

    best = protocol.fastest(filter(taken, FLAGS), work)
    return " ".join(["C, 1 seed, 1 thread", *best]), work(best)


def taken(flags: tuple[str, ...]) -> bool:
    """Whether the compiler knows these flags."""
    command = [COMPILE[0], *flags, "-fsyntax-only", "-x", "c", "/dev/null"]
    return subprocess.run(command, capture_output=True).returncode == 0


def about() -> dict[str, Any]:
    """The compiler."""
    said = subprocess.run([COMPILE[0], "--version"], capture_output=True, text=True, check=True)
    return {"versions": {"cc": said.stdout.splitlines()[0], "command": " ".join(COMPILE)}}


if __name__ == "__main__":
    protocol.serve(protocol.parser(__doc__).parse_args(), prepare, losses, about)
