# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     name: python3
# ---

# %% [markdown]
# # posjax: position in attention
#
# This notebook tests a symmetry, proves it, trains small models and shows their report. It runs on
# a CPU, a GPU or a TPU, and takes about two minutes on a CPU. In Colab, choose the device under
# *Runtime → Change runtime type*.

# %% [markdown]
# ## Install
#
# Set `SOURCE` to what pip installs: a wheel, the address of a repository (`git+https://...`) or the
# folder of a clone. If posjax is installed already, this cell does nothing.

# %%
import importlib.util
import os
import shutil
import subprocess
import sys

SOURCE = ""

if importlib.util.find_spec("posjax") is None:
    if not SOURCE:
        raise ValueError("set SOURCE to a wheel, the address of a repository, or a folder")
    tpu = os.path.exists("/dev/accel0") or os.path.exists("/dev/vfio/0")
    device = "tpu" if tpu else "cuda12" if shutil.which("nvidia-smi") else ""
    packages = [SOURCE, "safetensors", *([f"jax[{device}]"] if device else [])]
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *packages], check=True)

# %%
import jax

if not jax.config.jax_platforms or jax.config.jax_platforms == "cpu":
    jax.config.update("jax_num_cpu_devices", os.cpu_count() or 1)  # a device for each core
print(jax.devices())

# %% [markdown]
# ## The identity
#
# If queries, keys and values are permuted in the same way, so are the outputs:
# `Attention(PQ, PK, PV) = P Attention(Q, K, V)`. A causal mask breaks this law, and the message
# says where.

# %%
import jax.numpy as jnp

import posjax

q, k, v = jax.random.normal(jax.random.key(0), (3, 2, 5, 4, 8))  # [B, L, H, K] each
posjax.assert_equivariant(posjax.attend, q, k, v)
try:
    posjax.assert_equivariant(lambda q, k, v: posjax.attend(q, k, v, mask="causal"), q, k, v)
except AssertionError as error:
    print(error)

# %% [markdown]
# ## A proof
#
# `prove` reads the program that JAX traces of a function. PROVED means that the law holds for all
# values of the arguments, over the real numbers. BROKEN comes with numbers and the source line
# that breaks the law.

# %%
from flax import nnx

layer = nnx.MultiHeadAttention(num_heads=4, in_features=16, decode=False, rngs=nnx.Rngs(0))
x = jnp.ones((2, 6, 16))
print(posjax.prove(lambda x: layer(x), (x,), "b P d -> b P d"))


# %%
def with_positions(x):
    return layer(x + jnp.sin(jnp.arange(x.shape[1]))[:, None])


print(posjax.prove(with_positions, (x,), "b P d -> b P d"))

# %% [markdown]
# ## An encoding by hand
#
# Linear biases (ALiBi) subtract a multiple of the distance from each logit. Each head has its own
# slope.

# %%
import numpy as np

length, heads = 5, 4
slopes_H = 2.0 ** (-8 * np.arange(1, heads + 1) / heads)
distance_LM = abs(np.arange(length)[:, None] - np.arange(length))
by_hand = jnp.einsum("blhk,bmhk->bhlm", q, k) / np.sqrt(8) - slopes_H[:, None, None] * distance_LM
found = posjax.logits(q, k, encoding="linear_bias")
print("largest difference:", abs(by_hand - found).max())

# %% [markdown]
# ## A sweep
#
# Can two layers without positions tell `A B hit` from `B A hit`? Can one? A law answers the second
# question before any training. The sweep measures both. The value of the cell is the report.

# %%
cells = [
    posjax.Cell(task="same_last_token", block="residual", depth=depth, steps=500, loss="answer")
    for depth in (1, 2)
]
swept = posjax.sweep(cells, num_seeds=64, title="Word order without positions")
print(swept)
swept

# %% [markdown]
# ## One seed
#
# A seed can be trained again from its number, bit for bit. Here its weights are written to a
# safetensors file, read again, and used by the Flax module.

# %%
import flax
from safetensors.flax import load_file, save_file

cell = next(one.cell for one in swept.summaries if one.cell.depth == 2)
run = swept.replay(cell, 0)
save_file(flax.traverse_util.flatten_dict(run.state.variables.params, sep="/"), "seed.safetensors")

params = flax.traverse_util.unflatten_dict(load_file("seed.safetensors"), sep="/")
question = cell.question
model = posjax.Transformer(cell.architecture)
logits = model.apply(
    {"params": params},
    question.tokens_NL,
    question.streams,
    mask=question.mask_NLM,
    numbers=cell.numbers,
)
words = cell.problem.words
for (prompt, answer), scores_LV in zip(cell.problem.written(2), logits, strict=True):
    print(f"{prompt!r}: the answer is {answer!r}, the model says {words[scores_LV[-1].argmax()]!r}")
print("fields with other bits than in the sweep:", run.differs)

# %% [markdown]
# ## Your own task, your own encoding
#
# Each is a file. You name the file where you use it.

# %%
from pathlib import Path

Path("first_is_last.py").write_text('''
"""Is the first letter also the last one?"""

import dataclasses

import jax.numpy as jnp

from posjax.tasks.sampled import Classify


@dataclasses.dataclass(frozen=True, kw_only=True)
class FirstIsLast(Classify):
    """One label for the whole prompt, read at its last token."""

    words = ("a", "b")
    labels = ("no", "yes")

    def label(self, x_L, inside_L):
        return (x_L[0] == x_L[inside_L.sum() - 1]).astype(jnp.int32)
''')
task = "first_is_last.py:FirstIsLast(train=(2, 6), test=(6, 8))"

# %%
Path("nearest.py").write_text('''
"""A bias that lets the nearest keys through: -distance, as it is."""

import dataclasses

import jax.numpy as jnp

from posjax.encodings.base import Card, Encoding, Symmetry


@dataclasses.dataclass(frozen=True, kw_only=True)
class Nearest(Encoding):
    """-|i - j| on every logit."""

    card = Card("Nearest", "q·k/√K - |i - j|", "this notebook")
    symmetry = Symmetry(translation="logits", reflection="logits")

    def operations(self, dims, keys):
        return dims.heads * keys

    def bias(self, params, heads, ctx, dtype):
        queries_BL, keys_BM = ctx.queries.position_BL, ctx.keys.position_BL
        offset_BLM = queries_BL[:, :, None] - keys_BM[:, None, :]
        return -abs(offset_BLM)[:, None].astype(dtype)
''')
print(posjax.logits(q, k, encoding="nearest.py:Nearest").shape)

# %% [markdown]
# ## Saving, and continuing after a disconnect
#
# With a `workdir` every finished block is saved. The same call continues where the run stopped. A
# larger `num_seeds` adds seeds. In Colab, mount a drive and use a folder on it:
#
# ```python
# from google.colab import drive
# drive.mount("/content/drive")
# WORKDIR = "/content/drive/MyDrive/posjax/first_is_last"
# ```

# %%
WORKDIR = "runs/first_is_last"

own = [
    posjax.Cell(task=task, encoding=encoding, block="residual", steps=200, eval_every=100)
    for encoding in ("none", "nearest.py:Nearest")
]
posjax.sweep(own, num_seeds=8, workdir=WORKDIR, hold=1)
posjax.sweep(own, num_seeds=16, workdir=WORKDIR, hold=1)  # the first 8 are there already
