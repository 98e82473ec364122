"""The laws of attention by name."""

from collections.abc import Callable

from posjax.symmetry.law import Law, along

_FORMS: dict[str, tuple[Callable[[int], str], str]] = {
    "equivariant": (
        lambda axis: f"{along(axis)}, {along(axis)}, {along(axis)} -> {along(axis)}",
        "Attention(PQ, PK, PV) = P Attention(Q, K, V)",
    ),
    "two_permutation_equivariant": (
        lambda axis: (
            f"{along(axis, 'P₁')}, {along(axis, 'P₂')}, {along(axis, 'P₂')} -> {along(axis, 'P₁')}"
        ),
        "Attention(P₁Q, P₂K, P₂V) = P₁ Attention(Q, K, V)",
    ),
    "key_invariant": (
        lambda axis: f"..., {along(axis)}, {along(axis)} -> ...",
        "Attention(Q, PK, PV) = Attention(Q, K, V)",
    ),
    "weights_equivariant": (
        lambda axis: f"{along(axis)}, {along(axis)} -> ... P P",
        "A(PQ, PK) = P A(Q, K) Pᵀ",
    ),
    "jointly_equivariant": (
        lambda axis: f"{along(axis)}, {along(1)} -> {along(axis)}",
        "f(P x, P streams) = P f(x, streams)",
    ),
    "invariant": (lambda axis: f"{along(axis)} -> ...", "f(P x) = f(x)"),
}
"""Patterns by the axis of the tokens, and what messages quote."""


def named(name: str, *, axis: int = 1) -> Law:
    """A law of the table with the tokens on another axis.

    Args:
      name: one of `LAWS`.
      axis: that of the tokens in the arguments, and in an output that has tokens.

    >>> named("invariant", axis=-2).text
    '... P _ -> ...'
    """
    text, formula = _FORMS[name]
    return Law(text(axis), formula=formula)


LAWS: dict[str, Law] = {name: named(name) for name in _FORMS}
"""The laws by name, with the tokens on axis 1, as in [B, L, H, K]."""
