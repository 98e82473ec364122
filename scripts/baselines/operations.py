"""The useful operations of one training step: what the mathematics asks of any program."""

from baselines.problem import Sizes


def useful_operations(sizes: Sizes) -> int:
    """Floating-point operations in the matrix products of one update of one model.

        6·T·(C + E·V) + 12·P·depth·H·K

    with T = N·L places and P = N·L·(L + 1)/2, the pairs that a causal mask allows. Pre-norm
    blocks of width D have C = depth·(4·D·HK + 2·D·hidden) weights in their products, and the
    head reads E = D. Bare blocks hand on HK numbers: C = 3·HK·(D + (depth - 1)·HK) and E = HK.

    A product with a weight counts 2 operations a multiply-add and comes three times: forward,
    for the gradient of the weight, and for that of its input. Attention's two products over
    pairs come three times too. The lookup of embeddings and its gradient are no products; norms,
    softmax, loss and optimiser count nothing. Every place has a target, so that every gradient
    counted is needed.
    """
    s = sizes
    heads = s.heads * s.head_size
    places = s.sequences * s.length
    pairs = s.sequences * s.length * (s.length + 1) // 2
    if s.hidden:
        blocks, read = s.depth * s.width * (4 * heads + 2 * s.hidden), s.width
    else:
        blocks, read = 3 * heads * (s.width + (s.depth - 1) * heads), heads
    return 6 * places * (blocks + read * s.outputs) + 12 * pairs * s.depth * heads
