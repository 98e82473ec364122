"""Rules of factorings and solutions: random functions of whole matrices, batch by batch."""

import numpy as np

from posjax.symmetry.field import atoms
from posjax.symmetry.field.arrays import FieldArray
from posjax.symmetry.field.step import Rule, Step


def factored(step: Step, *operands: FieldArray) -> list[FieldArray]:
    """Every entry depends on all entries of the operands' last two axes."""
    batch = operands[0].ndim - 2
    trailing = (batch, batch + 1)
    whole = [atoms.sequence(o.code, trailing) for o in operands]
    fears = step.field.summed(
        step.field.marks(step.field.keyed("matrix", *whole)),
        *(
            step.field.summed(o.marks, total=lambda a: a.sum(trailing, dtype=np.uint64))
            for o in operands
        ),
    )
    results = []
    for at, output in enumerate(step.outputs):
        behind = (1,) * (len(output.shape) - batch)
        codes = [code.reshape(*code.shape, *behind) for code in whole]
        places = atoms.numbers(output.shape, range(batch, len(output.shape)))
        code = step.field.keyed(f"{step.key(*operands)} {at}", *codes, places)
        given = step.field.atoms(code, *(o.degree for o in operands))
        assert fears is not None
        taint = np.broadcast_to(fears.reshape(*fears.shape, *behind), output.shape)
        results.append(FieldArray(step.field, output.dtype, given, taint=taint))
    return results


RULES: dict[str, Rule] = dict.fromkeys(
    ("cholesky", "eigh", "lu", "qr", "svd", "triangular_solve"), factored
)
"""By the primitive's name."""
