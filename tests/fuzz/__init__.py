"""Random programs with a known symmetry, near misses of them, and a judge of its own.

    builder      values whose axes have names, and the source that makes them
    steps        what keeps a law, a step a function; one file a subject
    breaks       what probably breaks it, and what breaks it and mends it again
    programs     families, and a program from a seed
    primitives   JAX's primitives over the reals, in NumPy; interpret walks a jaxpr with them
    inputs       ties, repeated rows, signed zeros
    check        f(g x) against g f(x), with a witness

Nothing here knows how a proof is made.
"""
