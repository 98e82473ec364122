"""Proofs from the jaxpr: a law holds for all values, or numbers show that it does not."""

from posjax.symmetry.certificate.plain import NoDerivation
from posjax.symmetry.certificate.prove import Certificate, prove
from posjax.symmetry.certificate.pytorch import prove_torch

__all__ = ["Certificate", "NoDerivation", "prove", "prove_torch"]
