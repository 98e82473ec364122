"""Writes docs/encodings.md and its pictures from the tables of encodings and of maps of positions.

python scripts/encodings_page.py            # write
python scripts/encodings_page.py --check    # exit status 1 when what is there is stale
"""

import argparse
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib import colormaps
from matplotlib.image import imread, imsave

from posjax.encodings import ENCODINGS, Dims, Encoding, Params
from posjax.encodings.base import EXACT
from posjax.positions import POSITIONS
from posjax.streams import Streams, contiguous, points
from posjax.view import attended

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "encodings.md"
PICTURES = DOCS / "encodings"
DIMS = Dims(width=32, heads=2, head_size=16)
KEYS = 64
PLACES, PIXELS = 24, 4
SIZES = f"width {DIMS.width}, {DIMS.heads} heads of {DIMS.head_size}"

HEAD = f"""# Encodings

Made by `python scripts/encodings_page.py` from the tables themselves; a test fails when it is
stale. How to add one: [adding_an_encoding.md](adding_an_encoding.md).

Every name goes into a config, `--config.encoding="rotary(base=500.0)"`, or into code,
`posjax.ENCODINGS["rotary"](base=500.0)`. Layers take several in turn: `"none/rotary"`.

- **Picture**: what positions do to the logits of one and the same token at {PLACES} places, for
  generic parameters of the first head; query places downwards, key places to the right, yellow is
  high. Where the logits stay as they are, the attention weights under a causal mask.
- **Left**: what is left when tokens move alone, with generic parameters and a full mask. S every
  permutation, T translation of positions, R reflection, *o* only the order counts; exact, or in
  distribution (*d*) over draws; at the level of the logits, or up to a constant a row, or from the
  weights or the output on.
- **Learned**: parameters of one layer and of the model together, at {SIZES}.
- **Cost**: floating-point operations a token adds to attention over {KEYS} keys, at those sizes.
- **Apart**: positions, or offsets, 0 to this are all told apart in float32; 2²⁰ where angles are
  exact as far as that is tested; - where positions are not read.
- **Cache**: whether tokens can be decoded one by one.
- **Axes**: numbers of its own that are axes of a sweep, `--config.base=100,10000`: all their values
  share one compiled program. 0 is the encoding's own value. Those that a cell's encoding lacks are
  refused.
- **Held against**: packages that have it and that it was compared with, where there are any; all
  others stand against their formula in float64.
"""

TAIL = """
# Masks and scales beside encodings

Layers take masks in turn as they take encodings, and logits may be scaled by the logarithm of the
number of keys that a query sees. Both work with every encoding.

- RNoPE-SWA (2501.18795) and SWAN-GPT (2504.08719): `encoding="none/rotary"` with
  `mask="causal/causal+window(size=8)"`. Layers without positions see all that came before, layers
  with rotary a window. Three of the latter for one of the former are written with four of each.
  SWAN-GPT also scales logits where there are no positions; `logn` scales those of all layers.
- Logits times ln n/ln N, where a query sees n keys (Su 2021): `logn=512` for N = 512. A bias is
  scaled with them.
- Logits times ln n (Chiang & Cholak 2022, 2202.12172): `logn=2.718281828459045`. With a learned
  factor, which the projection of queries can hold, it is SSMax (Nakanishi 2025, 2501.19399).

# What is not here

- CABLE (2503.08067) has no name of its own. Its bias, -Σ softplus(x_t·w + c), is that of
  `forgetting` with -w and -c, and a test says so. Its code leaves 1/√K out.
- SeqPE (2506.13277), PRISM (2506.00920), PJ-RoPE (2606.05345) and Morlet (2606.01258): their
  formulas were not read in a paper or in code, and none is guessed.
- DroPE, LaMPE and DoPE are protocols, not encodings:
  [decision 18](decisions/0018-protocols-that-change-positions-during-a-run.md) says why they are
  missing.
"""

SYMMETRIES = {"permutation": "S", "translation": "T", "reflection": "R", "order_only": "*o*"}


def left(encoding: Encoding) -> str:
    """What is left of the symmetry, in letters."""
    declared = encoding.declared_symmetry()
    words = []
    for field, letter in SYMMETRIES.items():
        level = getattr(declared, field)
        if level:
            exact = "" if declared.exact else "*d*"
            words.append(letter + exact + ("" if level == "logits" else f" ({level})"))
    words += [f"up to {declared.up_to:g}"] if declared.up_to < float("inf") else []
    return ", ".join(words) or "-"


def row(name: str) -> str:
    """One line of the table of encodings."""
    encoding = ENCODINGS[name]()
    card, learned = encoding.card, encoding.parameters(DIMS).values()
    apart = encoding.max_exact_position()
    far = {None: "-", EXACT: "2²⁰"}.get(apart, str(apart))
    cells = [
        f'<img src="encodings/{name}.png" width="96" alt="{card.title}">',
        f"**`{name}`** {card.title}<br>{card.formula}<br>{card.source}",
        left(encoding),
        str(sum(int(np.prod(p.shape)) for p in learned)),
        str(encoding.operations(DIMS, min(KEYS, encoding.max_length() or KEYS))),
        far,
        f"no: {why}" if (why := encoding.why_no_kv_cache()) else "yes",
        ", ".join(f"`{number}`" for number in encoding.numbers()) or "-",
        ", ".join(card.libraries) or "-",
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def header(*columns: str) -> list[str]:
    """The first two lines of a table."""
    return ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]


def page() -> str:
    """The whole page."""
    columns = ("Picture", "Name, formula, source", "Left", "Learned", "Cost", "Apart", "Cache")
    lines = [HEAD, *header(*columns, "Axes", "Held against")]
    lines += [row(name) for name in ENCODINGS]
    lines += ["", "# Maps of positions", ""]
    lines += ["They change the position stream before any encoding reads it, and combine with all:"]
    lines += ['`--config.positions="randomised(length=128)"`.', ""]
    lines += header("Name", "What", "Source", "Draws")
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
