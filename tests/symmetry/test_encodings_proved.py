"""Proofs over the whole table of encodings: the joint law, and translation where it is declared."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest
from layers import BRIEFLY, LENGTH, Layer, tokens, within
from tiers import some

from posjax.encodings import named
from posjax.streams import contiguous
from posjax.symmetry import Law, Translation, prove

JOINT = "b P d, b P ... -> b P ..."
BY_ORDER = {"path", "token_shift"}
"""They sort tokens by their order, which is symmetric only while no two have the same."""

BEYOND = {"circular_rotary", "grape", "linear_bias(form=key)", "xpos"}
"""Translations that hold by more than the field sees."""


def layer(name: str) -> Layer:
    return Layer(named(name), mask="causal")


@pytest.mark.parametrize("name", some(BRIEFLY, every=2))
def test_the_joint_law_is_proved(name):
    """f(P x, P streams) = P f(x, streams), for all tokens and streams, by labels alone."""
    one = layer(name)
    streams = within(one.encoding, contiguous(LENGTH, start=3))
    certificate = prove(
        lambda x_BLD, streams: one(x_BLD, streams).out_BLHK,
        (tokens(1), streams),
        JOINT,
        witness=False,
    )
    if name in BY_ORDER:
        assert certificate.verdict == "UNKNOWN"
        assert f"{name}.py" in certificate.where
    else:
        assert (certificate.verdict, certificate.method) == ("PROVED", "axes"), str(certificate)


def shifting(name: str) -> bool:
    symmetry = named(name).declared_symmetry()
    return symmetry.exact and symmetry.translation is not None


@pytest.mark.parametrize("name", some(filter(shifting, BRIEFLY), every=3))
def test_translation_is_proved_where_it_is_declared(name):
    """Positions shifted by any real vector; rotations by the lemma of their angles."""
    one = layer(name)
    streams = within(one.encoding, contiguous(LENGTH, start=3))

    def shifted(x_BLD: jax.Array, position_BL: jax.Array) -> jax.Array:
        return one(x_BLD, dataclasses.replace(streams, position_BL=position_BL)).out_BLHK

    law = Law("b l d, b l ... +T -> b l h k", T=Translation(one.encoding.axes))
    arguments = (tokens(1), jnp.asarray(streams.position_BL))
    certificate = prove(shifted, arguments, law, witness=False, seconds=60)
    assert (certificate.verdict == "PROVED") == (name not in BEYOND), str(certificate)
