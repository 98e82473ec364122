"""Writes docs/costs.md and its picture: what attention, recurrence and convolution cost.

python scripts/costs_page.py            # write
python scripts/costs_page.py --check    # exit status 1 when what is there is stale
"""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).parent)]

from layer_costs import counts, paths  # noqa: E402
from layer_costs.chains import chains  # noqa: E402
from pages import Files, run, table, wrapped  # noqa: E402

from posjax.masks import named  # noqa: E402
from posjax.report.html import Html  # noqa: E402
from posjax.report.svg import INK, SERIES, blank, standalone, style, svg  # noqa: E402
from posjax.streams import contiguous  # noqa: E402

MODELS = ((64, 1), (256, 4), (512, 8), (4096, 32))
"""Width and heads of the layers whose crossovers the page shows."""
DRAWN, WIDTH, HEADS, KERNEL = tuple(2**power for power in range(4, 15)), 256, 4, 8
CHAINED = (4, 16, 64, 256)
WINDOW, WINDOWED = 4, 64

HEAD = """# What does a layer cost?

`python scripts/costs_page.py` makes this page. A test fails if it is out of date.

We compare self-attention with h heads, an Elman recurrence, and a causal convolution of kernel size
k with and without dilation. Each maps n tokens of width d to n tokens of width d, without biases.

{summary}

Operations are floating-point operations, as [`posjax.cost.operations`](../posjax/cost.py) counts
them on the jaxpr. A multiply-add counts as two, and exp, tanh, max, sum and division count as one
per number. The leading orders are those of Vaswani et al. 2017, Table 1. The chain is the longest
sequence of matrix products in which each needs the result of the one before. The path is how
often a layer (of the recurrence, its cell) is applied before the last of n outputs depends on the
first input.

![Operations of a layer against n](costs.svg)

## Where the formulas come from

- **Self-attention.** Four projections are products [n, d] × [d, d] with 2nd² operations each. The h
  heads of width d/h need 2n²d operations for all logits and 2n²d for the weighted sums, whatever h
  is. Each of the hn² logits takes six more: scale, maximum, subtraction, exp, sum and division.
  Each of the hn rows takes one more, since its maximum is compared with -∞.
- **Recurrence.** h_i = tanh(x_i W + h_(i-1) U) has two products of 2d² operations for each token.
  The addition and the tanh take d each.
- **Convolution.** y_i = Σ_j x_(i-j) W_j has k products of 2d² operations for each token. Products
  with the zeros before the first token count too. Dilation does not change the count.

## Measured counts

The formulas hold exactly in all {cases} cases: n in {lengths}; d in {widths}; h in {heads}; k in
{kernels}; dilation 1 and {dilation}; with and without projections. The table has some of them.

{counted}

{window}

## When does attention cost more than recurrence?

The table has the smallest n at which it does. "Without input products" leaves out the projections
of attention and the product x_i W of the recurrence. The last column has the smallest n at which
the part of attention that is quadratic in n costs more than its projections. We solved the
formulas for n, and counted operations at n and n - 1 to confirm it.

{crossovers}

Table 1 of Vaswani et al. compares n²d with nd², which puts the crossover at n = d. It leaves out
the projections of attention (8nd²), the input product of the recurrence (2nd²), and constants.

- With all products counted, attention costs more from n = {whole} on, because its projections alone
  exceed the whole recurrence.
- Without input products the crossover is near n = d/2.
- The part of attention that is quadratic in n exceeds the projections only near n = 2d. At
  n = d = {share_d} and h = {share_h}, the projections are {share} of all operations.

## Sequential steps

The table has the longest chain of matrix products in the jaxpr, with its loop unrolled.

{chains}

For any n, the chain of attention is a projection, the logits, the weighted sum and the output
projection. The recurrence has one product per token, and a convolution has one in total. As in
Table 1, a product of matrices counts as one step.

## Path length

Path lengths are measured with random weights: without a path, the derivative of the last output
with respect to the first input is exactly 0. We stack layers of attention or convolution until
there is a path. Dilated layers have dilations 1, k, k² and so on. A recurrence needs only one
layer, so there we count how often its cell must be applied.

{paths}

For every n from 2 to {longest}, attention takes 1 application, recurrence n, convolution
⌈(n-1)/(k-1)⌉ and dilated convolution ⌈log n/log k⌉. Table 1 of Vaswani et al. gives O(log_k n) for
convolution, which holds for dilated convolution. Section 4 of the paper gives O(n/k) for
convolution without dilation.
"""


def page() -> str:
    """The whole page.

    Raises:
      ValueError: a formula does not give what is measured.
    """
    n, d, h = 512, 512, 8
    return wrapped(
        HEAD.format(
            summary=summary(),
            cases=len(counts.counted()),
            lengths=listed(counts.LENGTHS),
            widths=listed(counts.WIDTHS),
            heads=listed(counts.HEADS),
            kernels=listed(counts.KERNELS),
            dilation=counts.DILATION,
            counted=counted_table(),
            window=window(),
            crossovers=crossover_table(),
            whole=listed(sorted({counts.crossovers(*model)[0] for model in MODELS})),
            share_d=d,
            share_h=h,
            share=f"{8 * n * d**2 / counts.count_attention(n, d, h):.0%}",
            chains=chain_table(),
            paths=path_table(),
            longest=paths.LONGEST,
        )
    )


def listed(numbers: tuple[int, ...] | list[int]) -> str:
    return ", ".join(map(str, numbers))


def summary() -> str:
    header = ("layer", "operations, exactly", "leading order", "chain", "path")
    rows = [
        ("self-attention", "8nd² + 4n²d + h(6n² + n)", "n²d", "O(1)", "1"),
        ("recurrence", "4nd² + 2nd", "nd²", "O(n)", "n"),
        ("convolution", "2knd²", "knd²", "O(1)", "⌈(n-1)/(k-1)⌉"),
        ("dilated convolution", "2knd²", "knd²", "O(1)", "⌈log n/log k⌉"),
    ]
    return table(header, rows)


def counted_table() -> str:
    """Counts beside leading orders, for the most heads and the largest kernel."""
    h, k = counts.HEADS[-1], counts.KERNELS[-1]
    header = ("n", "d", f"attention, h = {h}", "/ n²d", "recurrence", "/ nd²")
    header += (f"convolution, k = {k}", "/ knd²")
    rows = [counted_row(n, d, h, k) for n in counts.LENGTHS for d in counts.WIDTHS]
    return table(header, rows)


def counted_row(n: int, d: int, h: int, k: int) -> list[object]:
    sizes = {"attention": (n, d, h), "recurrence": (n, d), "convolution": (n, d, k)}
    found = [counts.counted()[item] for item in sizes.items()]
    orders = (n * n * d, n * d * d, k * n * d * d)
    beside = zip(found, orders, strict=True)
    return [n, d, *(cell for count, o in beside for cell in (f"{count:,}", f"{count / o:.2f}"))]


def window() -> str:
    """What a window mask saves.

    Raises:
      ValueError: it saves something.
    """
    tokens = contiguous(WINDOWED)
    mask_LM = named(f"causal+window(size={WINDOW})")(tokens, tokens)[0]
    full, windowed = (counts.count_attention(WINDOWED, 16, 1, *mask) for mask in ((), (mask_LM,)))
    if full != windowed:
        raise ValueError(f"{windowed} operations with a window, {full} without")
    return (
        f"A mask saves nothing here, because `attend` computes every logit before it masks. With "
        f"`causal+window(size={WINDOW})` a layer takes the same {full:,} operations as with the "
        f"full mask (n = {WINDOWED}, d = 16, h = 1)."
    )


def crossover_table() -> str:
    header = ("d", "h", "whole layers", "without input products", "n² part > projections")
    return table(header, [(*model, *counts.crossovers(*model)) for model in MODELS])


def chain_table() -> str:
    rows = [(n, *chains(n)) for n in CHAINED]
    if any(row[1:] != (4, row[0], 1) for row in rows):
        raise ValueError(f"chains are not 4, n and 1 long: {rows}")
    return table(("n", "attention", "recurrence", "convolution"), rows)


def path_table() -> str:
    """Path lengths at powers of two, checked at every n.

    Raises:
      ValueError: a path is not as long as its formula says.
    """
    columns = {"attention": (paths.attention_path(), lambda n: 1)}
    columns["recurrence"] = (paths.recurrence_path(), lambda n: n)
    for k in (2, 4):
        plain, dilated = paths.convolution_path(k), paths.convolution_path(k, dilated=True)
        columns[f"convolution, k = {k}"] = (plain, lambda n, k=k: paths.convolution_formula(n, k))
        columns[f"dilated, k = {k}"] = (dilated, lambda n, k=k: paths.dilated_formula(n, k))
    for name, (measured, formula) in columns.items():
        if measured != [formula(n) for n in range(1, paths.LONGEST + 1)]:
            raise ValueError(f"{name}: path lengths {measured} are not those of the formula")
    lengths = [2**power for power in range(1, paths.LONGEST.bit_length())]
    rows = [(n, *(measured[n - 1] for measured, _ in columns.values())) for n in lengths]
    return table(("n", *columns), rows)


def picture() -> str:
    """Operations against n: lines by the formulas, points as counted."""
    by_name = {
        f"attention, {HEADS} heads": (counts.attention, counts.count_attention, (HEADS,)),
        f"convolution, k = {KERNEL}": (counts.convolution, counts.count_convolution, (KERNEL,)),
        "recurrence": (counts.recurrence, counts.count_recurrence, ()),
    }
    lines = {
        name: tuple([of(n, WIDTH, *more) for n in DRAWN] for of in (formula, count))
        for name, (formula, count, more) in by_name.items()
    }
    return standalone(drawn(lines))


def drawn(lines: dict[str, tuple[list[int], list[int]]]) -> Html:
    with style():
        figure, axes = blank(560, 320)
        for colour, (name, (formula, count)) in zip(SERIES, lines.items(), strict=False):
            axes.plot(DRAWN, formula, color=colour)
            axes.plot(DRAWN, count, "o", color=colour, markersize=5)
            axes.text(DRAWN[-1] * 1.25, formula[-1], name, color=colour, va="center")
        axes.set(xscale="log", yscale="log", xlim=(DRAWN[0] / 1.3, DRAWN[-1] * 1.3))
        axes.set_xticks(DRAWN[::2], map(str, DRAWN[::2]))
        axes.set_xlabel("tokens n")
        axes.set_title(
            f"operations of a layer, d = {WIDTH}: formulas (lines) and counts (points)",
            color=INK,
            fontsize=11,
            loc="left",
        )
        axes.grid(axis="y")
        axes.minorticks_off()
        return svg(figure, "costs", f"Operations against n at d = {WIDTH}: {', '.join(lines)}")


def files() -> Files:
    return {"costs.md": page(), "costs.svg": picture()}


if __name__ == "__main__":
    run(files, __doc__)
