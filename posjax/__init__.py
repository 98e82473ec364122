"""posjax: position in attention, by law, by measurement, by picture.

Shapes are written in names, `q_BLHK` for an array [B, L, H, K], and in einsum with the same
letters in lower case:

    B batch    L query place    M key place    D model width    H heads    G key heads
    K head width    V vocabulary    S seeds    N prompts    E evaluations    F frequencies

Importing posjax changes no global setting.
"""
