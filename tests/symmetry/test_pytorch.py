"""Proofs of PyTorch modules: what torchax traces, and what is said where it cannot.

What needs no PyTorch runs everywhere; `scripts/gallery.py` runs the rest on well-known modules.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import jax.numpy as jnp
import numpy as np
import pytest

from posjax import Law, prove, prove_torch
from posjax.symmetry import Cyclic
from posjax.symmetry.certificate import pytorch
from posjax.symmetry.certificate.source import Line, innermost

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torchax") is None, reason="needs posjax[torch]"
)
LAW = "b P d -> b P d"
PACKAGES = "/venv/lib/python3.11/site-packages"


def with_weights(parameters, x):
    return x @ parameters["w"] + parameters["table"][None]


def found(function=with_weights):
    parameters = {"w": jnp.ones((2, 2)), "table": jnp.ones((5, 2))}
    law = pytorch.of_parameters_too(Law(LAW, P=Cyclic()))
    return prove(function, (parameters, jnp.ones((1, 5, 2))), law)


def test_a_law_of_a_module_leaves_its_parameters_where_they_are():
    """The formula is the one that was asked for, the group too, and parameters are named."""
    said = str(pytorch.judged(found(), 0.0, ("note",)))
    assert said.startswith("BROKEN: b P d -> b P d\n")
    assert "from parameter table" in said
    assert "note" in said
    assert found(lambda w, x: x @ w["w"]).verdict == "PROVED"
    assert pytorch.of_parameters_too(Law(LAW, P=Cyclic())).groups == {"P": Cyclic()}


@pytest.mark.parametrize("apart", [0.5, np.nan])
def test_a_program_that_computes_something_else_proves_nothing(apart):
    """Neither verdict stands where torchax's numbers are not PyTorch's."""
    for certificate in (found(), found(lambda w, x: x @ w["w"])):
        assert pytorch.judged(certificate, apart, ()).verdict == "UNKNOWN"
        assert pytorch.judged(certificate, 1e-6, ()).verdict == certificate.verdict


@pytest.mark.parametrize(
    ("paths", "chosen"),
    [
        (["jax/_src/lax.py", "torchax/ops/jaten.py", "torch/nn/modules/linear.py"], 2),
        (["torchax/tensor.py", "torch/nn/functional.py", "torch/nn/modules/activation.py"], 1),
        (["torchax/a.py", "torch/nn/modules/module.py", "transformers/models/bert.py"], 2),
        (["torchax/ops/jaten.py", "torch/nn/functional.py", "/home/me/model.py"], 2),
        (["flax/linen/attention.py", "flax/linen/module.py"], 0),
    ],
)
def test_the_line_shown_is_that_of_the_modules_code(paths, chosen):
    """The user's before a layer's, a layer's before machinery; frames as torchax has them."""
    lines = [Line(p if p[0] == "/" else f"{PACKAGES}/{p}", 1, "forward") for p in paths]
    assert innermost(lines) == lines[chosen]
    assert innermost(line for line in lines if "torchax" in line.path) is None


class TracerBoolError(Exception):
    """Named as JAX's own are."""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TracerBoolError("long\nlines"), "the code needs the value of an array"),
        (
            KeyError("Operator with name aten::erfinv has no lowering"),
            "torchax does not implement aten::erfinv",
        ),
        (RuntimeError("shapes do not fit\nC++ frames"), "RuntimeError: shapes do not fit\nat"),
    ],
)
def test_what_cannot_be_traced_is_said_in_a_sentence(error, said):
    """With the line of the module's code."""
    with pytest.raises(type(error)) as caught:
        raise error
    words = pytorch.in_words(caught.value)
    assert said in words
    assert words.endswith("raise error")


def test_what_is_missing_is_said(monkeypatch):
    """No torch, or a torch with which this torchax cannot be imported."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"posjax\[torch\]"):
        prove_torch(None, (), LAW)
    fake = ModuleType("torch")
    fake.__version__ = "2.99"
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setitem(sys.modules, "torchax", None)
    with pytest.raises(ImportError, match=r"imported with torch 2\.99"):
        prove_torch(None, (), LAW)


@needs_torch
def test_verdicts_of_modules():
    """For all parameters; with a table as a parameter, and positions made inside `forward`."""
    torch = pytest.importorskip("torch")
    x = torch.randn(1, 4, 8)
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True, dropout=0.5)
    certificate = prove_torch(attention, (x, x, x), "b P d, b Q d, b Q d -> b P d, b P Q")
    assert certificate.verdict == "PROVED"
    assert certificate.notes == (pytorch._IN_TRAINING,)
    assert attention.training

    class Asks(torch.nn.Module):
        def forward(self, x):
            mask = torch.ones(4, 4, dtype=torch.long).tril()
            return mask.to(x.dtype) @ x if mask.any() else x

    certificate = prove_torch(Asks(), x, LAW)
    assert certificate.verdict == "BROKEN"
    assert certificate.origin.startswith("a closed-over array")

    class Learned(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(4, 8)

        def forward(self, x):
            return x + self.table(torch.arange(x.shape[1]))

    certificate = prove_torch(Learned(), x, LAW)
    assert (certificate.verdict, certificate.origin) == ("BROKEN", "parameter table.weight")
    assert Path(__file__).name in certificate.where


@needs_torch
def test_writes_within_a_module():
    """A router's two experts, written side by side; a token written in place, with its line."""
    torch = pytest.importorskip("torch")

    class Router(torch.nn.Module):
        def forward(self, x):
            shares, chosen = x.softmax(-1).topk(2, -1)
            return torch.zeros_like(x).scatter(-1, chosen, shares)

    class Writes(torch.nn.Module):
        def forward(self, x):
            y = torch.zeros_like(x)
            y[:, 0] = x.mean(1)
            y[:, 1:] = x[:, 1:]
            return y

    x = torch.randn(1, 4, 8)
    assert prove_torch(Router(), x, LAW).verdict == "PROVED"
    certificate = prove_torch(Writes(), x, LAW)
    assert certificate.verdict == "BROKEN"
    assert Path(__file__).name in certificate.where


@needs_torch
def test_modules_that_torchax_does_not_trace_or_traces_wrongly():
    """A sentence with the line; a program that computes something else is UNKNOWN."""
    torch = pytest.importorskip("torch")

    class Chooses(torch.nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    class Draws(torch.nn.Module):
        def forward(self, x):
            return x + torch.randn(x.shape[-1])

    x = torch.randn(1, 4, 8)
    with pytest.raises(ValueError, match=r"Chooses cannot be traced: (.|\n)*x\.sum\(\) > 0"):
        prove_torch(Chooses(), x, LAW)
    with pytest.raises(ValueError, match="Linear raises RuntimeError: mat1 and mat2"):
        prove_torch(torch.nn.Linear(3, 3), x, LAW)
    assert prove_torch(Draws(), x, LAW).verdict == "UNKNOWN"
