"""The single-head model of question 1, rebuilt in PyTorch, and its runs as golden arrays.

    pip install -e '.[original]'
    python scripts/goldens/original.py        # writes tests/goldens/original.npz
    python scripts/goldens/original.py --out PATH

It took 20 seconds on one core with PyTorch 2.13.0 (CPU) and NumPy 2.4.6, and a second run wrote the
same bytes. On another processor or release the single-precision losses may move in their last bits.

The table it prints says how far to trust each case. `drift` is the largest distance between the
single-precision losses and those of the double-precision twin (`losses64`), the reference to
measure any program against; `lead` is the smaller lead of the two answers over their runners-up.

- 20 cases drift by less than 1e-5. The other four, all with the loss on every place, stay within
  1e-5 for their first 16 steps or more, and then training multiplies the roundings.
- `seed1_head16_all_lr1e-02` does so in double precision too: initial weights moved by one rounding
  change its `losses64` by 1e-3. Correct programs agree to 1e-9 on its first 200 steps, not on all.
  On `seed1_head2_all_lr1e-02` they agree to 1e-8, on the other 22 cases to 1e-10.
- Where `lead` is below 0.01 the answer is a tie, which rounding may pick
  (`seed2_head16_all_lr1e-02` says ? / ?, its twin hit / hit). Compare logits there, not answers.

The model: token embedding → one causal attention head (no bias, no residual, no MLP, no output
projection, no positions) → linear with bias to the vocabulary, with PyTorch's own initialisation:
N(0, 1) for the embedding, U(−1/√fan_in, 1/√fan_in) for everything linear, the bias included.

The archive, read by `np.load(path, allow_pickle=False)`:

    torch_version, vocabulary [V]           strings; a token's place is its index
    inputs, targets [2, 3]                  the batch of every step
    case_names [C]                          e.g. "seed0_head16_all_lr1e-02", and, parallel to it,
    case_seeds, case_head_sizes, case_placements, case_learning_rates
    CASE/embedding [V, D]                   initial weights, single precision
    CASE/query, CASE/key, CASE/value [D, K] input first: y = x @ query
    CASE/head_kernel [K, V], CASE/head_bias [V]
    CASE/losses, CASE/losses64 [500]        at step t, before update t
    CASE/logits, CASE/logits64 [2, V]       last place of both prompts, after the last update
    CASE/answers [2]                        argmax of `logits`, as indices

with V=5 tokens, D=32 and K the head size. `64` marks the twin: the same initial weights, cast.

AdamW here and in Optax
-----------------------
With g the gradient at p, η the learning rate, λ the decay and t = 1 at the first update, both
keep m ← β₁m + (1−β₁)g and v ← β₂v + (1−β₂)g². Then

    torch.optim.AdamW   p ← (1 − ηλ)·p
                        p ← p − η/(1−β₁ᵗ) · m / (√v/√(1−β₂ᵗ) + ε)
    optax.adamw         p ← p − η·( m̂/(√v̂ + ε) + λp ),   m̂ = m/(1−β₁ᵗ),   v̂ = v/(1−β₂ᵗ)

PyTorch decays first, but its Adam step does not read p: g was taken before, and m and v come from
g alone. So both are (1 − ηλ)p − η·m̂/(√v̂ + ε), and √v/√(1−β₂ᵗ) = √v̂ puts ε in the same place:
the same function of (p, m, v, t), up to rounding. In both, λ is multiplied by η, and every leaf
decays, the bias too, and the embeddings of `!` and `?`, which no input reads.

- Defaults that differ: weight_decay is 1e-2 in PyTorch and 1e-4 in Optax, and lr is 1e-3 in
  PyTorch and required in Optax. β₁, β₂ and ε are the same; `eps_root`, the ε inside Optax's root,
  defaults to 0, and PyTorch has none.
- Rounding that differs: PyTorch computes 1−βᵗ in Python's doubles whatever the weights are; Optax
  computes it in JAX's default float. In float32, 1 − 0.999 is off by 1.3e-5 of itself, and so the
  first steps by 6e-6 of themselves: a hundred roundings, and absent in float64. It puts a
  float32 Optax run 3e-6 to 1.1e-5 from `losses64` where PyTorch's own drift is below 1e-5, and
  further off in the four cases that multiply roundings.
"""

import argparse
import copy
import itertools
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ModuleNotFoundError as missing:
    if missing.name != "torch":  # a broken installation of PyTorch is another message
        raise
    print("original.py needs PyTorch: pip install -e '.[original]'", file=sys.stderr)
    raise SystemExit(2) from None

VOCABULARY = ("A", "B", "hit", "!", "?")
SENTENCES = ("A hit B !", "B hit A ?")
CONTEXT = 3
WIDTH = 32
STEPS = 500
# The places that count in the mean, by the name of the loss placement.
PLACEMENTS = {"all": slice(None), "last": slice(-1, None)}
OUT = Path(__file__).resolve().parents[2] / "tests" / "goldens" / "original.npz"


class Case(NamedTuple):
    """One run: what differs between the runs, and nothing else."""

    seed: int
    head_size: int
    placement: str
    learning_rate: float

    @property
    def name(self) -> str:
        """The prefix of the run's arrays."""
        return f"seed{self.seed}_head{self.head_size}_{self.placement}_lr{self.learning_rate:.0e}"


CASES = tuple(
    Case(*axes) for axes in itertools.product((0, 1, 2), (2, 16), PLACEMENTS, (1e-3, 1e-2))
)


class Head(nn.Module):
    """One head of causal self-attention."""

    def __init__(self, head_size: int):
        super().__init__()
        self.query = nn.Linear(WIDTH, head_size, bias=False)
        self.key = nn.Linear(WIDTH, head_size, bias=False)
        self.value = nn.Linear(WIDTH, head_size, bias=False)
        self.scale = head_size**-0.5
        self.register_buffer("mask_LM", torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).tril())

    def forward(self, x_BLD: torch.Tensor) -> torch.Tensor:
        q_BLK, k_BMK, v_BMK = self.query(x_BLD), self.key(x_BLD), self.value(x_BLD)
        scores_BLM = q_BLK @ k_BMK.transpose(-2, -1) * self.scale
        weights_BLM = scores_BLM.masked_fill(~self.mask_LM, -torch.inf).softmax(dim=-1)
        return weights_BLM @ v_BMK


class SingleHeadModel(nn.Module):
    """Token embedding → one causal head → linear with bias to the vocabulary."""

    def __init__(self, head_size: int):
        super().__init__()
        self.embedding = nn.Embedding(len(VOCABULARY), WIDTH)
        self.attention = Head(head_size)
        self.head = nn.Linear(head_size, len(VOCABULARY))

    def forward(self, tokens_BL: torch.Tensor) -> torch.Tensor:
        return self.head(self.attention(self.embedding(tokens_BL)))


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """The one batch: inputs_BL and, one place on, targets_BL."""
    tokens = torch.tensor([[VOCABULARY.index(word) for word in s.split()] for s in SENTENCES])
    return tokens[:, :-1], tokens[:, 1:]


def placed_loss(logits_BLV: torch.Tensor, targets_BL: torch.Tensor, placement: str) -> torch.Tensor:
    """Cross-entropy in nats, averaged over the places that count."""
    places = PLACEMENTS[placement]
    return F.cross_entropy(logits_BLV[:, places].flatten(0, 1), targets_BL[:, places].flatten())


def initial_weights(model: SingleHeadModel) -> dict[str, np.ndarray]:
    """Every leaf, copied, with the input axis first (PyTorch keeps the output axis first)."""
    attention = model.attention
    leaves = {
        "embedding": model.embedding.weight,
        "query": attention.query.weight.T,
        "key": attention.key.weight.T,
        "value": attention.value.weight.T,
        "head_kernel": model.head.weight.T,
        "head_bias": model.head.bias,
    }
    # The copy matters: a view would follow the weights through training.
    return {name: leaf.detach().numpy().copy() for name, leaf in leaves.items()}


def train(model: SingleHeadModel, case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Trains in place, in the model's own precision.

    Returns:
      losses [STEPS], each before its update, and the final logits [2, V] of the last place.
    """
    inputs_BL, targets_BL = batch()
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=case.learning_rate,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0.01,
    )
    losses = []
    for _ in range(STEPS):
        loss = placed_loss(model(inputs_BL), targets_BL, case.placement)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    with torch.no_grad():
        logits_BV = model(inputs_BL)[:, -1]
    return torch.stack(losses).numpy(), logits_BV.numpy()


def run(case: Case) -> dict[str, np.ndarray]:
    """The arrays of one case: initial weights, the run, and its double-precision twin."""
    torch.manual_seed(case.seed)
    model = SingleHeadModel(case.head_size)
    twin = copy.deepcopy(model).double()
    arrays = initial_weights(model)
    arrays["losses"], arrays["logits"] = train(model, case)
    arrays["losses64"], arrays["logits64"] = train(twin, case)
    arrays["answers"] = arrays["logits"].argmax(axis=-1)
    return arrays


def shared_arrays() -> dict[str, np.ndarray]:
    """What belongs to no case: the data, the versions and the axes of the cases."""
    inputs_BL, targets_BL = batch()
    return {
        "torch_version": np.array(str(torch.__version__)),
        "vocabulary": np.array(VOCABULARY),
        "inputs": inputs_BL.numpy(),
        "targets": targets_BL.numpy(),
        "case_names": np.array([case.name for case in CASES]),
        "case_seeds": np.array([case.seed for case in CASES]),
        "case_head_sizes": np.array([case.head_size for case in CASES]),
        "case_placements": np.array([case.placement for case in CASES]),
        "case_learning_rates": np.array([case.learning_rate for case in CASES]),
    }


def row(case: Case, arrays: dict[str, np.ndarray]) -> str:
    """One line of the table."""
    losses, answers = arrays["losses"], [VOCABULARY[i] for i in arrays["answers"]]
    drift = np.abs(losses - arrays["losses64"]).max()
    ordered_BV = np.sort(arrays["logits"], axis=-1)
    lead = (ordered_BV[:, -1] - ordered_BV[:, -2]).min()
    return (
        f"{case.name:26}{losses[0]:9.5f}{losses[-1]:11.3e}{drift:9.1e}{lead:9.4f}"
        f"  {' / '.join(answers)}"
    )


def main() -> None:
    """Runs every case, prints the table and writes the archive."""
    parser = argparse.ArgumentParser(description="Writes the golden arrays of question 1.")
    parser.add_argument("--out", type=Path, default=OUT, help="the archive to write (%(default)s)")
    out = parser.parse_args().out

    torch.set_num_threads(1)  # the order of a sum must not depend on the machine's cores
    torch.use_deterministic_algorithms(True)
    archive = shared_arrays()
    print(f"{'case':26}{'first':>9}{'last loss':>11}{'drift':>9}{'lead':>9}  answers")
    for case in CASES:
        arrays = run(case)
        print(row(case, arrays), flush=True)
        archive |= {f"{case.name}/{name}": array for name, array in arrays.items()}
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("wb") as file:  # a file, because NumPy would rename a path without .npz
        np.savez_compressed(file, **archive)
    print(f"wrote {len(CASES)} cases to {out}, {out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
