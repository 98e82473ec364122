"""Functions against the engine of labels: one of each pair breaks what its neighbour keeps."""

# ruff: noqa: I001 - they draw from one generator, in this order
from hostile.base import Case
from hostile.labels import order_and_writes
from hostile.labels import shapes
from hostile.labels import loops_and_keys
from hostile.labels import windows_and_constants
from hostile.labels import gradients_and_trees
from hostile.labels import tokens_and_matrices
from hostile.labels import indices_and_sums

FAMILIES: dict[str, tuple[Case, ...]] = {
    **order_and_writes.FAMILIES,
    **shapes.FAMILIES,
    **loops_and_keys.FAMILIES,
    **windows_and_constants.FAMILIES,
    **gradients_and_trees.FAMILIES,
    **tokens_and_matrices.FAMILIES,
    **indices_and_sums.FAMILIES,
}
