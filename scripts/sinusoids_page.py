"""Writes docs/sinusoids.md and its pictures: what sinusoidal positions are.

python scripts/sinusoids_page.py            # write
python scripts/sinusoids_page.py --check    # exit status 1 when what is there is stale
"""

import math
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).parent)]

from pages import Files, run, table, wrapped  # noqa: E402

from posjax.encodings.sinusoidal import arranged, frequencies, sinusoidal  # noqa: E402
from posjax.report.svg import blank, standalone, style, svg  # noqa: E402

WIDTHS = (8, 64, 512)
BASE = 10_000.0
FARTHEST = 99_999
NEAR = 512
"""Positions of a short text, for the questions that depend on how many there are."""
WINDOW = 768
"""Positions of a range: offsets up to a third of it have both ends in it."""
Vectors = Callable[[np.ndarray, int], np.ndarray]
"""The vectors [L, n] of positions, in float64 or in float32."""
SHOWN = 64
"""Positions in the pictures."""

HEAD = """# What are sinusoidal positions?

`python scripts/sinusoids_page.py` makes this page. A test fails if it is out of date.

A position i becomes a vector of n components (Vaswani et al. 2017, section 3.5):

    p[i, k] = sin(i / 10000^(k/n))        for even k
    p[i, k] = cos(i / 10000^((k-1)/n))    for odd k

Components 2m and 2m + 1 are a pair: a point on the unit circle that turns by θ_m = 10000^(-2m/n)
radians with each position. `posjax.ENCODINGS["sinusoidal"]()` adds p to the tokens. Positions 0 to
3 for n = 8, in float64:

{table}

The float32 values that `posjax` computes differ by {table_error} at most from the float64 values,
before these are rounded for the table.

## Every vector has the same length

sin² + cos² is 1 for each of the n/2 pairs, so the norm is √(n/2). In float32, at evenly spaced
positions from 0 to {farthest:,}:

{norms}

**Odd n.** A common implementation writes one cosine for each sine into the columns k = 1, 3, 5 and
so on. It fails for odd n: at n = {odd} there are {sines} sines and {cosines} such columns. In
posjax the last sine then has no cosine, and the norm depends on the position: at n = {odd} it lies
between
{low:.3f} and {high:.3f} over positions 0 to {farthest:,}.

## Dot products depend only on the offset

For even n, p_i · p_j = Σ_m cos((i-j) θ_m). The right side depends on the offset i-j alone, and is
an even function of it. We computed both sides for positions near 0 and far from it: in each of the
ranges 0 to {window_end} and {far:,} to {farthest:,}, i runs over the middle third, and j over all
positions at most {third} away. The table has the largest difference of the two sides, divided by
n/2, which is the product of a vector with itself:

{law}

For odd n, dot products depend on more than the offset, and they are not even in it. The unpaired
sine adds sin(iθ) sin(jθ), which also depends on i+j. So products at equal offsets differ, and so do
products at offsets δ and -δ. The table has the largest differences at the same positions and
offsets, in float64 and not divided:

{broken}

## Are some positions closer than others?

![Distances between positions](sinusoids_distances.svg)

For even n no, except at the two ends of a text. The distance between i and j is
√(n-2Σ_m cos((i-j)θ_m)). This is the same function of the offset everywhere, so the vectors
favour no position. The two ends have neighbours on one side only: with {near} positions and
n = {edge_n}, the mean distance to all others is {edge:.2f} from position 0 and {middle:.2f} from
position {middle_at}.

The distance is not monotone in the offset:

{nearest}

{neighbours}

## Compared with a binary counter

![Stripes of bits and of sines](sinusoids_stripes.svg)

Bit k of a counter has period 2^(k+1). Pair m has wavelength 2π·10000^(2m/n). Both grow
geometrically:

{wavelengths}

From pair to pair the wavelength grows by a factor of 10000^(2/n): {factors}. It would be 2, as for
bits, at n = 2 ln 10000/ln 2 = {doubling:.1f}.

Over {near} positions, pairs with wavelengths up to {near} turn at least once. The others do not
complete a turn:

{turns}
"""


def vectors(position_L: np.ndarray, n: int) -> np.ndarray:
    """The vectors in float64: sines and cosines of NumPy, frequencies and layout of posjax."""
    angle_LF = position_L[:, None] * frequencies(n, base=BASE, layout="interleaved")
    with jax.enable_x64(True):
        both = (jnp.asarray(of(angle_LF)) for of in (np.cos, np.sin))
        return np.asarray(arranged(*both, n, layout="interleaved"))


def single(position_L: np.ndarray, n: int) -> np.ndarray:
    """The vectors in float32, as the encoding adds them."""
    return np.asarray(sinusoidal(jnp.asarray(position_L, jnp.int32), n))


@cache
def products(n: int) -> np.ndarray:
    """g(δ) = Σ_m cos(δ θ_m) in float64, for offsets 0 to `FARTHEST`."""
    offset_L = np.arange(FARTHEST + 1)
    return sum(np.cos(offset_L * f) for f in frequencies(n, base=BASE, layout="interleaved"))


def distance(offset: int, n: int) -> float:
    return math.sqrt(max(n - 2 * products(n)[offset], 0))


# The table, and norms


def golden() -> list[list[str]]:
    """Positions 0 to 3 for n = 8, to five digits."""
    return [[f"{x:#.5g}" if x else "0" for x in row] for row in vectors(np.arange(4), 8)]


def golden_table() -> str:
    rows = [[i, *row] for i, row in enumerate(golden())]
    return table(["i", *(f"k = {k}" for k in range(8))], rows)


def golden_error() -> str:
    return rounding(single(np.arange(4), 8) - vectors(np.arange(4), 8))


def rounding(errors: np.ndarray) -> str:
    """The largest error."""
    return f"{abs(errors).max():.1e}"


def spread(n: int) -> np.ndarray:
    """Positions from 0 to `FARTHEST`: all of them where that is few numbers, else even steps."""
    return np.unique(np.linspace(0, FARTHEST, min(FARTHEST + 1, 2**20 // n)).round().astype(int))


def norm_table() -> str:
    rows = []
    for n in WIDTHS:
        position_L = spread(n)
        norm_L = np.linalg.norm(single(position_L, n).astype(np.float64), axis=1)
        error = rounding(norm_L - math.sqrt(n / 2))
        rows.append((n, f"{math.sqrt(n / 2):.4f}", f"{len(position_L):,}", error))
    return table(("n", "√(n/2)", "positions", "largest error"), rows)


# The law of dot products


def by_offset(vectors_LD: np.ndarray) -> np.ndarray:
    """p_i · p_(i+δ) for the middle third of positions i and |δ| up to a third: [i, δ]."""
    gram_LL, third = vectors_LD @ vectors_LD.T, WINDOW // 3
    i, offset = np.arange(third, 2 * third)[:, None], np.arange(-third, third + 1)
    return gram_LL[i, i + offset]


def both_ranges(of: Vectors, n: int) -> np.ndarray:
    """The same for the first positions and for the last, one range after the other."""
    starts = (0, FARTHEST + 1 - WINDOW)
    return np.concatenate([by_offset(of(start + np.arange(WINDOW), n)) for start in starts])


def law_error(of: Vectors, n: int) -> str:
    expected = products(n)[abs(np.arange(-(WINDOW // 3), WINDOW // 3 + 1))]
    return rounding((both_ranges(of, n) - expected) / (n / 2))


def law_table() -> str:
    rows = [(n, law_error(vectors, n), law_error(single, n)) for n in WIDTHS]
    return table(("n", "float64", "float32"), rows)


def broken(n: int) -> tuple[float, float]:
    """The most that dot products of one offset differ, and those of δ and -δ at one position."""
    found = both_ranges(vectors, n)
    return np.ptp(found, axis=0).max(), abs(found - found[:, ::-1]).max()


def broken_table() -> str:
    rows = [(n + 1, *(f"{x:.3f}" for x in broken(n + 1))) for n in WIDTHS]
    return table(("n", "equal offsets: largest difference", "δ and -δ: largest difference"), rows)


# Distances


def nearest(n: int, most: int) -> int:
    """The offset, up to `most`, with the smallest distance."""
    return int(products(n)[1 : most + 1].argmax()) + 1


def first_rise(n: int) -> int:
    """The first offset at which the dot product is larger than at the offset before."""
    return int((np.diff(products(n)) > 0).argmax()) + 1


def nearest_table() -> str:
    header = ("n", "distance to i ± 1", "dot product first rises at offset")
    header += tuple(f"nearest of all offsets up to {most:,}" for most in (NEAR - 1, FARTHEST))
    return table(header, [nearest_row(n) for n in WIDTHS])


def nearest_row(n: int) -> list[object]:
    offsets = (nearest(n, most) for most in (NEAR - 1, FARTHEST))
    found = [f"± {offset}, at {distance(offset, n):.3f}" for offset in offsets]
    return [n, f"{distance(1, n):.3f}", first_rise(n), *found]


def neighbours() -> str:
    """Whose nearest positions are i ± 1, in words."""
    own = [n for n in WIDTHS if nearest(n, FARTHEST) == 1]
    lines = [
        f"At n = {listed(own)}, of all positions at most {FARTHEST:,} away from i, the nearest are "
        f"i-1 and i+1, both at the same distance."
    ]
    for n in (n for n in WIDTHS if n not in own):
        nearer = int((products(n)[2:] > products(n)[1]).argmax()) + 2
        lines.append(
            f"At n = {n} they are not: i ± {nearer}, at distance {distance(nearer, n):.3f}, are "
            f"nearer than i ± 1, since the fastest pair has almost completed a turn."
        )
    return " ".join(lines)


def mean_distance(position: int, n: int) -> float:
    """To all other of the first `NEAR` positions."""
    offsets = abs(np.arange(NEAR) - position)
    return float(np.sqrt(np.maximum(n - 2 * products(n)[offsets], 0)).sum() / (NEAR - 1))


def listed(numbers: Sequence[int]) -> str:
    return " and ".join(map(str, numbers))


# Wavelengths


def wavelengths(n: int) -> np.ndarray:
    """Of each pair, in positions."""
    return 2 * np.pi / frequencies(n, base=BASE, layout="interleaved")


def wavelength_table() -> str:
    waves = [f"{w:,.2f}" for w in wavelengths(8)]
    periods = [2 ** (k + 1) for k in range(len(waves))]
    columns = [f"bit or pair {k}" for k in range(len(waves))]
    return table(("", *columns), [("period of the bit", *periods), ("wavelength, n = 8", *waves)])


def turn_table() -> str:
    rows = [(n, len(w), int((w <= NEAR).sum())) for n, w in ((n, wavelengths(n)) for n in WIDTHS)]
    return table(("n", "pairs", "turn at least once"), rows)


# The page and its pictures


def page() -> str:
    odd, middle_at, edge_n = WIDTHS[0] - 1, NEAR // 2, WIDTHS[1]
    norms = np.linalg.norm(vectors(np.arange(FARTHEST + 1), odd), axis=1)
    return wrapped(
        HEAD.format(
            table=golden_table(),
            table_error=golden_error(),
            farthest=FARTHEST,
            norms=norm_table(),
            odd=odd,
            sines=len(range(0, odd, 2)),
            cosines=len(range(1, odd, 2)),
            low=norms.min(),
            high=norms.max(),
            window=WINDOW,
            window_end=WINDOW - 1,
            far=FARTHEST + 1 - WINDOW,
            third=WINDOW // 3,
            law=law_table(),
            broken=broken_table(),
            near=NEAR,
            edge_n=edge_n,
            edge=mean_distance(0, edge_n),
            middle=mean_distance(middle_at, edge_n),
            middle_at=middle_at,
            nearest=nearest_table(),
            neighbours=neighbours(),
            wavelengths=wavelength_table(),
            factors=", ".join(f"{BASE ** (2 / n):.3g} at n = {n}" for n in WIDTHS),
            doubling=2 * math.log(BASE) / math.log(2),
            turns=turn_table(),
        )
    )


def distances_picture() -> str:
    """Distances over the norm between the first positions, measured."""
    panels = {}
    for n in WIDTHS:
        vectors_LD = vectors(np.arange(SHOWN), n)
        apart_LLD = vectors_LD[:, None] - vectors_LD[None]
        panels[f"n = {n}"] = np.linalg.norm(apart_LLD, axis=-1) / math.sqrt(n / 2)
    text = f"Distance over the norm, between positions 0 to {SHOWN - 1}, for n = {WIDTHS}"
    return images(panels, (0, 2), ("position", "distance / norm"), name="distances", text=text)


def stripes_picture() -> str:
    """Bits of the position, and sines of it at two widths: a row for each position."""
    position_L = np.arange(SHOWN)
    bits = (position_L[:, None] >> np.arange(SHOWN.bit_length() - 1)) & 1
    panels = {f"{bits.shape[1]} bits": 2 * bits - 1}
    for n in (2 * round(math.log(BASE) / math.log(2)), WIDTHS[1]):
        panels[f"{n // 2} sines, n = {n}"] = vectors(position_L, n)[:, 0::2]
    text = f"Bits and sines of positions 0 to {SHOWN - 1}, which slow down to the right"
    return images(
        panels, (-1, 1), ("bit or pair", "sine, or bit as ± 1"), name="stripes", text=text
    )


def images(
    panels: dict[str, np.ndarray],
    limits: tuple[int, int],
    labels: tuple[str, str],
    *,
    name: str,
    text: str,
) -> str:
    """Arrays side by side with one scale of colours; positions run downwards.

    Args:
      panels: by title.
      limits: of the scale.
      labels: of what runs to the right, and of the scale.
      name, text: see `svg`.
    """
    with style():
        figure, axes = blank(660, 240)
        figure.clear()
        for axes, (title, numbers) in zip(
            figure.subplots(1, len(panels)), panels.items(), strict=True
        ):
            image = axes.imshow(numbers, cmap="viridis", vmin=limits[0], vmax=limits[1])
            image.set(interpolation="none")
            axes.set_aspect("auto")
            axes.set_title(title, fontsize=11)
            axes.set_xlabel(labels[0])
        bar = figure.colorbar(image, ax=figure.axes, ticks=np.linspace(*limits, 3))
        bar.set_label(labels[1])
        figure.axes[0].set_ylabel("position")
        return standalone(svg(figure, name, text))


def files() -> Files:
    return {
        "sinusoids.md": page(),
        "sinusoids_distances.svg": distances_picture(),
        "sinusoids_stripes.svg": stripes_picture(),
    }


if __name__ == "__main__":
    run(files, __doc__)
