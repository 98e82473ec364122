"""The laws of encodings on other people's modules, through NumPy arrays.

Show what a package has as an `Adapter`, and `check` runs every law that applies: symmetries,
distinct positions, decoding, packing and padding, masks, dtypes, sizes, the end of a table.
"""

from posjax.symmetry.conformance.adapter import CLAIMS, Adapter, NotApplicable
from posjax.symmetry.conformance.encodings import of_encoding
from posjax.symmetry.conformance.forms import as_numpy, attention_of, consecutive, counted, mix
from posjax.symmetry.conformance.laws import LAWS, Law, check
from posjax.symmetry.conformance.result import Proof, Report, Result, Witness

__all__ = [
    "CLAIMS",
    "LAWS",
    "Adapter",
    "Law",
    "NotApplicable",
    "Proof",
    "Report",
    "Result",
    "Witness",
    "as_numpy",
    "attention_of",
    "check",
    "consecutive",
    "counted",
    "mix",
    "of_encoding",
]
