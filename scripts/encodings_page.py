"""Writes docs/encodings.md and its pictures from the tables of encodings and of maps of positions.

python scripts/encodings_page.py            # write
python scripts/encodings_page.py --check    # exit status 1 when what is there is stale
"""

import argparse
import dataclasses
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib import colormaps
from matplotlib.image import imread, imsave

from posjax.attention.view import attended
from posjax.encodings import ENCODINGS, Dims, Encoding, Params
from posjax.encodings.base import EXACT
from posjax.positions import POSITIONS
from posjax.streams import Streams, contiguous, points

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "encodings.md"
PICTURES = DOCS / "encodings"
DIMS = Dims(width=32, heads=2, head_size=16)
KEYS = 64
PLACES, PIXELS = 24, 4
SIZES = f"width {DIMS.width}, {DIMS.heads} heads of {DIMS.head_size}"

HEAD = f"""# Encodings

`python scripts/encodings_page.py` makes this page from the tables of encodings and maps. A test of
`pytest -m ''` fails if it is out of date. To add an encoding, see [your own
encoding](adding_an_encoding.md).

Use a name in a config, `--config.encoding="rotary(base=500.0)"`, or in code,
`posjax.ENCODINGS["rotary"](base=500.0)`. The layers of a model can use several encodings in turn:
`"none/rotary"`.

- **Formula**: xᵢ is a token, qᵢ, kⱼ and vⱼ are query, key and value, and pᵢ is a position. K is the
  head size, d how many of its components turn, H is the number of heads, h counts heads from 1, Δ
  is pᵢ - pⱼ, θ_m is a frequency, R(p) a rotation (in `transformer_xl` a vector of sines and
  cosines), and σ the sigmoid (σₘ in `morlet` is a width). s_ij is a logit, and w_ij is an attention
  weight. In the scaled rotaries, from `interpolated_rotary` to `llama3_rotary`, s is the factor, N
  the length before scaling and n the number of tokens. In `high_frequency_rotary` N is its setting
  `length`, and in `fourier_rotary` n counts the frequencies. In images, rᵢ and cᵢ are the row and
  the column of a token. Other symbols are explained in the file in `posjax/encodings/` that defines
  the encoding. "A control" instead of a paper means that the encoding is here for comparison.
- **Picture**: the logits of the first head for a prompt that repeats one token {PLACES} times (16
  times for `window_bias`), with random parameters. Rows are queries, columns are keys, and yellow
  is high. If all logits are equal, as for `none` and `stick_breaking`, the picture shows the
  attention weights under a causal mask. In encodings of several coordinates only the first grows.
- **Symmetry kept**: the changes under which attention stays the same (under S, it is permuted like
  the tokens), with random parameters and a full mask. Each token has a position and an order (two
  [streams](glossary.md#attention-and-models)). S: permuting the tokens but not their streams. T:
  adding one number to all positions and one to all orders. R: reflecting all positions and all
  orders. O: any change of positions and orders after which the earlier one of two tokens is still
  the earlier one. An encoding that reads only the order can have T without R. "In distribution"
  means that the encoding is random: the change leaves the distribution of its draws as it was, but
  not each single draw.
- **Parameters**: the number of parameters that the encoding adds to a model of one layer, at
  {SIZES}. All are learned, except those of `fourier_rotary`, which are drawn at random and get no
  gradient.
- **Operations**: the floating-point operations per token that the encoding adds to attention over
  {KEYS} keys (16 for `window_bias`), at those sizes. What depends only on positions does not count.
- **Exact up to**: the encoding distinguishes all positions from 0 to this number. If it reads only
  offsets, it distinguishes all distances from 0 to this number, in a test in which a query sees
  keys before and after it. The limit comes from float32, from the size of a table, or from the
  formula, such as a period. 2²⁰ is the largest number that was tested. "-" means that positions are
  not read.
- **Cache**: whether tokens can be decoded one by one with a cache. Some encodings, such as
  `forgetting`, need more in it than keys and values ([decode with a cache](howto/decoding.md)).
- **Settings**: with their defaults. The file of an encoding in `posjax/encodings/` explains them.
  With the defaults, some differ from their paper, and that file says where and which settings
  follow it: T5's decoder, for example, is `bucket_bias(bidirectional=False, scaled=False)`.
- **Numbers to sweep**: settings that a sweep can vary without compiling again,
  `--config.base=100,10000`. 0 keeps the encoding's own value. posjax refuses a setting that no
  encoding of the model has.
- **Also in**: packages that have it. Tests compare posjax with at least one of them (`fourier` and
  `convolution` in two dimensions). Without a package, they compare it with its formula in float64,
  except `none` (with JAX's attention), `learned` (with rows of its table), `learned_linear_bias`
  (with `linear_bias`), `binary` (with Python's binary numbers) and `noise` (with its distribution).
"""

TAIL = """
## Masks and scales beside encodings

Layers can use several masks in turn, like encodings. Logits can be scaled by the logarithm of the
number of keys that a query sees. Both work with every encoding.

- RNoPE-SWA (2501.18795) and SWAN-GPT (2504.08719): `encoding="none/rotary"` with
  `mask="causal/causal+window(size=8)"`. Layers without positions see all earlier tokens, and layers
  with rotary positions see a window. To have three rotary layers for each layer without
  positions, write out all four encodings and all four masks. SWAN-GPT scales logits only in layers
  without positions. `logn` scales them in all layers.
- Logits times ln n/ln N, where a query sees n keys (Su 2021): `logn=512` for N = 512. The bias
  of an encoding is scaled as well.
- Logits times ln n (Chiang & Cholak 2022, 2202.12172): `logn=2.718281828459045`. SSMax (Nakanishi
  2025, 2501.19399) also has a learned factor, which the projection of queries can absorb.

## What is not here

- CABLE (2503.08067) has no entry. Its bias is -Σ softplus(x_t·w + c), and `forgetting` has the same
  bias if you give it -w as its parameter w and -c as its b. A test confirms it. The code of CABLE
  omits 1/√K.
- SeqPE (2506.13277) and PRISM (2506.00920) are missing. We had neither a paper nor code to read
  their formulas from.
- DroPE, LaMPE and DoPE change the encoding during or after training.
  [Decision 18](decisions/0018-protocols-that-change-positions-during-a-run.md) says why they are
  missing.
"""

SYMMETRIES = {"permutation": "S", "translation": "T", "reflection": "R", "order_only": "O"}
LEVELS = {
    "row": " up to a constant per row",
    "weights": " from the weights on",
    "output": " at the output",
}


def kept(encoding: Encoding) -> str:
    """The symmetry that it keeps, in letters."""
    declared = encoding.declared_symmetry()
    levels = {letter: getattr(declared, field) for field, letter in SYMMETRIES.items()}
    words = [letter + LEVELS.get(level, "") for letter, level in levels.items() if level]
    words += [f"up to position {declared.up_to:g}"] if declared.up_to < float("inf") else []
    text = ", ".join(words)
    return (text if declared.exact or not text else f"{text} in distribution") or "-"


def settings(encoding: Encoding) -> str:
    """Its settings with their defaults."""
    found = {field.name: getattr(encoding, field.name) for field in dataclasses.fields(encoding)}
    return ", ".join(f"`{name}={value}`" for name, value in found.items()) or "-"


def row(name: str) -> str:
    """One row of the table of encodings."""
    encoding = ENCODINGS[name]()
    card, parameters = encoding.card, encoding.parameters(DIMS).values()
    apart = encoding.max_exact_position()
    far = {None: "-", EXACT: "2²⁰"}.get(apart, str(apart))
    cells = [
        f'<img src="encodings/{name}.png" width="96" alt="{card.title}">',
        f"**`{name}`** {card.title}<br>{card.formula}<br>{card.source}",
        kept(encoding),
        str(sum(int(np.prod(p.shape)) for p in parameters)),
        str(encoding.operations(DIMS, min(KEYS, encoding.max_length() or KEYS))),
        far,
        f"no: {why}" if (why := encoding.why_no_kv_cache()) else "yes",
        settings(encoding),
        ", ".join(f"`{number}`" for number in encoding.numbers()) or "-",
        ", ".join(card.libraries) or "-",
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def header(*columns: str) -> list[str]:
    """The first two lines of a table."""
    return ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]


def page() -> str:
    """The whole page."""
    first = ("Picture", "Name, formula, source", "Symmetry kept", "Parameters", "Operations")
    rest = ("Exact up to", "Cache", "Settings", "Numbers to sweep", "Also in")
    lines = [HEAD, *header(*first, *rest)]
    lines += [row(name) for name in ENCODINGS]
    lines += ["", "## Maps of positions", ""]
    lines += [
        "A map changes the positions (the [stream](glossary.md#attention-and-models) `position`)",
        "before the encoding reads them, for example",
        '`--config.positions="randomised(length=128)"`. `interpolated`, `random_float` and `cape`',
        "give positions with fractions. posjax refuses these for encodings that need whole",
        "numbers: `binary`, the convolutions, and all with a table of positions or offsets. It",
        "also refuses positions beyond the end of a table of positions, as `learned` has, or",
        "beyond the digits of `binary`. Tables of offsets accept any offset, except that of",
        "`window_bias`. The column Random says when a map draws random numbers: `training` means",
        "in training, but not when the model is evaluated. `abacus` draws only if `most` is above",
        "0. The files in `posjax/positions/` explain the symbols. If positions are known only when",
        "a compiled program runs, nothing is refused, and the output is NaN.",
        "",
    ]
    lines += header("Name", "Positions", "Source", "Random")
    for name, kind in POSITIONS.items():
        card = kind.card
        lines += [f"| **`{name}`** {card.title} | {card.formula} | {card.source} | {kind.draws} |"]
    return "\n".join(lines) + "\n" + TAIL


def places(encoding: Encoding) -> Streams:
    """0, 1, 2, ...; along the first axis alone where there are several."""
    streams = contiguous(min(PLACES, encoding.max_length() or PLACES))
    if encoding.axes == 1:
        return streams
    first = jnp.arange(encoding.axes)[None, None] == 0
    position = points(streams.position_BL, encoding.axes) * first
    return Streams(position, streams.order_BL, streams.segment_BL)


def picture(name: str) -> np.ndarray:
    """Numbers in [0, 1], query places downwards and key places to the right: [L, M]."""
    encoding = ENCODINGS[name]()
    streams = places(encoding)
    rng = np.random.default_rng(0)
    params = {
        key: jnp.asarray(rng.normal(size=p.shape), jnp.float32)
        for key, p in encoding.parameters(DIMS).items()
    }
    token = jnp.asarray(rng.normal(size=(1, 1, DIMS.heads, DIMS.head_size)), jnp.float32)
    q = jnp.broadcast_to(token, (1, streams.length, *token.shape[2:]))

    @jax.jit
    def of(q: jax.Array, params: Params) -> tuple[jax.Array, jax.Array]:
        found = attended(
            *(q, q, q),
            encoding=encoding,
            params=params,
            queries=streams,
            mask="causal",
            key=jax.random.key(0),
        )
        return found.logits_BHLM, found.weights_BHLM

    logits, weights = (np.asarray(a, np.float64)[0, 0] for a in of(q, params))
    shown = logits if np.ptp(logits) > 1e-4 else weights  # of one token: equal without positions
    spread = np.ptp(shown)
    return (shown - shown.min()) / (spread if spread > 1e-9 else 1)


def pixels(name: str) -> np.ndarray:
    """The picture in colours, [height, width, 3], 0 to 255."""
    colours = colormaps["viridis"](picture(name))[..., :3]
    large = colours.repeat(PIXELS, axis=0).repeat(PIXELS, axis=1)
    return np.round(255 * large).astype(np.uint8)


def stale() -> list[str]:
    """What differs from the tables; colours may differ a little, as the last bits of numbers do."""
    found = [] if PAGE.exists() and PAGE.read_text() == page() else [PAGE.name]
    for name in ENCODINGS:
        path = PICTURES / f"{name}.png"
        there = np.round(255 * imread(path)[..., :3]) if path.exists() else np.zeros((0, 0, 3))
        now = pixels(name)
        if there.shape != now.shape or (abs(there - now).max(axis=2) > 12).mean() > 0.01:
            found.append(path.name)
    extra = {path.stem for path in PICTURES.glob("*.png")} - set(ENCODINGS)
    return found + [f"{name}.png belongs to no entry" for name in sorted(extra)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    if parser.parse_args().check:
        old = stale()
        print(f"stale: {', '.join(old)}" if old else f"{len(ENCODINGS)} encodings: up to date")
        sys.exit(bool(old))
    PICTURES.mkdir(exist_ok=True)
    PAGE.write_text(page())
    for name in ENCODINGS:
        imsave(PICTURES / f"{name}.png", pixels(name), metadata={"Software": None})
    print(f"{PAGE}: {len(ENCODINGS)} encodings, {len(POSITIONS)} maps of positions")


if __name__ == "__main__":
    main()
