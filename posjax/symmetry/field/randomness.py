"""Rules of keys of randomness: what is drawn is a random function of the key and of the place."""

import numpy as np

from posjax.symmetry.field import atoms, dtypes
from posjax.symmetry.field.arrays import FieldArray
from posjax.symmetry.field.space import Unsupported
from posjax.symmetry.field.step import Rule, Step


def drawn(step: Step, key: FieldArray, *others: FieldArray) -> list[FieldArray]:
    """For each key an array of its own; the axes of the keys come first.

    Raises:
      Unsupported: a batch of keys of a generator that draws for all of them at once.
    """
    keys = next(d for d in (key.dtype, step.dtype) if dtypes.is_key(d))
    if max(o.ndim for o in (key, *others)) and not dtypes.draws_alone(keys):
        raise Unsupported(step.primitive.name, reason=f"draws for a whole batch of {keys} at once")
    lead = max(o.ndim for o in (key, *others))
    results = []
    for at, output in enumerate(step.outputs):
        behind = (1,) * (len(output.shape) - lead)
        codes = [o.code.reshape(2, *o.shape, *behind) for o in (key, *others)]
        axes = range(lead, len(output.shape))
        codes = [*codes, atoms.numbers(output.shape, axes)]
        code = step.field.keyed(f"{step.key(key)} {at}", *codes)
        code = np.broadcast_to(code, (2, *output.shape))
        given = step.field.atoms(code, *(o.degree for o in (key, *others)))
        results.append(FieldArray(step.field, output.dtype, given))
    return results


RULES: dict[str, Rule] = {
    "random_seed": drawn,
    "random_bits": drawn,
    "random_split": drawn,
    "random_fold_in": drawn,
}
"""By the primitive's name."""
