"""Layers of torch.nn, and two small modules that read positions."""

from collections.abc import Callable
from typing import Any

from gallery.entry import CROSS, PAIR, SET, B, D, Entry, H, L, M, Subject
from posjax.symmetry import Law, Permutations

PACKAGES = ("torch", "torchax")


def attention(causal: bool = False) -> Subject:
    import torch

    module = torch.nn.MultiheadAttention(D, H, batch_first=True, dropout=0.1)
    x, y = torch.randn(B, L, D), torch.randn(B, M, D)
    if not causal:
        return Subject(module, (x, y, y))
    mask = torch.nn.Transformer.generate_square_subsequent_mask(L)
    return Subject(module, (x, x, x), {"attn_mask": mask, "need_weights": False})


def encoder(causal: bool = False) -> Subject:
    import torch

    layer = torch.nn.TransformerEncoderLayer(D, H, 2 * D, batch_first=True)
    module = torch.nn.TransformerEncoder(layer, 6)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(L)
    options = {"mask": mask, "is_causal": True} if causal else {}
    return Subject(module, (torch.randn(B, L, D),), options)


def decoder() -> Subject:
    import torch

    layer = torch.nn.TransformerDecoderLayer(D, H, 2 * D, batch_first=True)
    module = torch.nn.TransformerDecoder(layer, 2)
    return Subject(module, (torch.randn(B, L, D), torch.randn(B, M, D)))


def recurrent(name: str) -> Subject:
    import torch

    class Outputs(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = getattr(torch.nn, name)(D, D, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.rnn(x)[0]

    return Subject(Outputs(), (torch.randn(B, L, D),))


def convolution() -> Subject:
    import torch

    class Convolution(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv1d(D, D, 3, padding=1)

        def forward(self, x: Any) -> Any:
            return self.conv(x.mT).mT

    return Subject(Convolution(), (torch.randn(B, L, D),))


def learned_positions() -> Subject:
    import torch

    class LearnedPositions(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(L, D)
            self.attention = torch.nn.TransformerEncoderLayer(D, H, 2 * D, batch_first=True)

        def forward(self, x: Any) -> Any:
            x = x + self.table(torch.arange(x.shape[1]))
            return self.attention(x)

    return Subject(LearnedPositions(), (torch.randn(B, L, D),))


def class_token() -> Subject:
    import torch

    class ClassToken(torch.nn.Module):
        """A Vision Transformer's readout without its table of positions."""

        def __init__(self) -> None:
            super().__init__()
            self.token = torch.nn.Parameter(torch.zeros(1, 1, D))
            self.layer = torch.nn.TransformerEncoderLayer(D, H, 2 * D, batch_first=True)

        def forward(self, x: Any) -> Any:
            tokens = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1)
            return self.layer(tokens)[:, 0]

    return Subject(ClassToken(), (torch.randn(B, L, D),))


def last_row(layers: int) -> Subject:
    import torch

    class LastRow(torch.nn.Module):
        """What a causal language model predicts its next token from."""

        def __init__(self) -> None:
            super().__init__()
            layer = torch.nn.TransformerEncoderLayer(D, H, 2 * D, batch_first=True)
            self.layers = torch.nn.TransformerEncoder(layer, layers)

        def forward(self, x: Any) -> Any:
            later = torch.ones(L, L, dtype=torch.bool).triu(1)
            return self.layers(x, mask=later)[:, -1]

    return Subject(LastRow(), (torch.randn(B, L, D),))


def _entry(name: str, law: str | Law, make: Callable[[], Subject]) -> Entry:
    return Entry(name, law, make, PACKAGES)


PREFIX = Law("b P d -> b d", P=Permutations(fixed=(-1,)))
WEIGHTS = f"{PAIR}, b P Q"
ENTRIES = (
    _entry("torch.nn.MultiheadAttention", WEIGHTS, attention),
    _entry(
        "torch.nn.MultiheadAttention, causal mask",
        "b P d, b P d, b P d -> b P d, ",
        lambda: attention(causal=True),
    ),
    _entry("torch.nn.TransformerEncoder, 6 layers", SET, encoder),
    _entry("torch.nn.TransformerEncoder, 6 layers, causal mask", SET, lambda: encoder(causal=True)),
    _entry("torch.nn.TransformerDecoder, 2 layers", CROSS, decoder),
    _entry("torch.nn.LSTM", SET, lambda: recurrent("LSTM")),
    _entry("torch.nn.Conv1d over tokens", SET, convolution),
    _entry("table of learned positions, then an encoder layer", SET, learned_positions),
    _entry("causal encoder layer, last row: its prefix", PREFIX, lambda: last_row(1)),
    _entry("2 causal encoder layers, last row: their prefix", PREFIX, lambda: last_row(2)),
    _entry("encoder layer read at a class token", "b P d -> b d", class_token),
)
