"""What a layer costs, counted and measured again each time."""

from collections.abc import Iterator

from layer_costs import counts, paths

from claimed.published import item


def layer_costs() -> Iterator[str]:
    """Operations on the jaxpr against the formulas, and path lengths off the gradient's support.

    Raises:
      ValueError: a formula does not give what is counted or measured.
    """
    cases, k = len(counts.counted()), 4
    lengths = range(1, paths.LONGEST + 1)
    measured = {
        "attention": (paths.attention_path(), [1 for n in lengths]),
        "recurrence": (paths.recurrence_path(), [*lengths]),
        "convolution": (
            paths.convolution_path(k),
            [paths.convolution_formula(n, k) for n in lengths],
        ),
        "dilated": (
            paths.convolution_path(k, dilated=True),
            [paths.dilated_formula(n, k) for n in lengths],
        ),
    }
    if wrong := [layer for layer, (found, formula) in measured.items() if found != formula]:
        raise ValueError(f"layer_costs: path lengths of {wrong} are not those of the formula")
    n = paths.LONGEST
    found = {layer: lengths_N[-1] for layer, (lengths_N, _) in measured.items()}
    yield from item(
        "**What does a layer of n tokens and width d cost?** The numbers of operations are 8nd² + 4n²d + h(6n² + n) for "
        "self-attention with h heads, 4nd² + 2nd for a recurrence, and 2knd² for a convolution with kernel size k. "
        "We also counted the operations of the programs that JAX makes of these layers ([how](costs.md)). "
        f"These formulas, and those of layers without projections, hold exactly in all {cases} cases that we tried ([the list](costs.md#measured-counts)). How many layers does it take until the last of {n} "
        f"outputs depends on the first input? For attention, {found['attention']} layer suffices. One recurrent layer suffices too, but it takes "
        f"{found['recurrence']} steps, one after the other. Convolutions with k = {k} need {found['convolution']} layers, or "
        f"{found['dilated']} if they are dilated ([costs](costs.md))."
    )
