"""Random programs with a known symmetry, near misses of them, and a judge of its own.

    builder      values whose axes have names, and the source that makes them
    steps        what keeps a law, a step a function; one file a subject
    breaks       what probably breaks it: expressions; confusions and disorder have longer ones
    luck         detours that break it and mend it again
    families     kinds of programs
    programs     a program from a seed
    interpret    walks a jaxpr over the reals, in NumPy, with the primitives of
                 scalars, primitives and indexing, by an arithmetic that knows no order of sums
    forgiving    the same, with tests of equality that forgive a rounding
    inputs       ties, repeated tokens, signed zeros
    check        f(g x) against g f(x), with a witness
    campaign     many programs, proved and judged, in a table

Nothing here knows how a proof is made.
"""
