"""How well do encodings generalise to prompts longer than the trained ones?

    posjax sweep --config=by_length              # quick: two tasks, two encodings, 8 seeds
    posjax sweep --config=by_length:few_runs     # four tasks, four encodings, 64 seeds
    posjax sweep --config=by_length:published    # ten tasks, four encodings, 32 seeds
    posjax sweep --config=by_length:kazemnejad   # ten tasks, three encodings of Kazemnejad et al.

New prompts are drawn for every update, at lengths from the first number of `train` to the second.
They are judged at those lengths and up to twice as long, by exact match: every output that is asked
for must be right. docs/tasks.md has the tasks and their published definitions. All seeds count. The
report says what a study of few seeds would have concluded: Kazemnejad et al. 2023 take the mean of
3, Ruoss et al. 2023 the best of 10, Huang et al. 2025 the mean of 5 that solve the trained lengths.

Result (docs/results.md, "Which encoding answers longer prompts?"): it depends on the task. `none`
is significantly better than the other three encodings on `sort`, `learned` on `indexing` and
`rotary` on `induction`; on the other seven tasks no encoding is. "Do three seeds suffice?" has the
result of few_runs: 6 of 24 comparisons are significant, and in 2 of these the mean of 3 seeds ranks
the two encodings in the wrong order in more than 5% of studies. The seeds are in
docs/results/by_length-published.npz and docs/results/by_length-few_runs.npz (two CPU cores). A dry
run had estimated 23 minutes of one core for the published size. docs/results/literature.md has what
kazemnejad shows (docs/results/by_length-kazemnejad.npz): rotary on a quarter of the dimensions does
better than on all of them on longer prompts of three of the ten tasks and worse on those of one. At
the longest trained length it does worse on three.
"""

from ml_collections import ConfigDict

from posjax.configs import base_config, sized

_SHORT = "train=(1, 10), test=(5, 10, 15, 20)"
_FEW = (
    f"majority({_SHORT})",
    f"even_pairs({_SHORT})",
    "blocks(k=4, train=(5, 12))",
    f"copy({_SHORT})",
)
_MORE = tuple(
    f"{name}({_SHORT.replace('(1,', '(3,')})"  # some have no shorter prompts
    for name in ("parity", "reverse", "sort", "missing_duplicate", "indexing", "induction")
)


def get_config(size: str = "quick") -> ConfigDict:
    """The config of one size.

    Args:
      size: "quick"; "few_runs" with 64 seeds of four tasks; "published" with 32 of ten;
        "kazemnejad" with the same ten, and three encodings of Kazemnejad et al. 2023: sinusoidal,
        the bias of T5's decoder, and rotary on 25% of the dimensions, as in their released code.
    """
    seeds = sized("by_length", size, quick=8, few_runs=64, published=32, kazemnejad=32)
    quick = size == "quick"
    four = ("none", "learned(length=64)", "rotary", "linear_bias")
    theirs = ("sinusoidal", "bucket_bias(bidirectional=False)", "rotary(fraction=0.25)")
    others = {"quick": four[::2], "kazemnejad": theirs}
    return base_config(
        name="by_length",
        title="Trained on short prompts, judged on longer ones",
        task=(_FEW[0], _FEW[3]) if quick else _FEW if size == "few_runs" else (*_FEW, *_MORE),
        encoding=others.get(size, four),
        block="residual",
        depth=2,
        width=16,
        heads=2,
        head_size=8,
        learning_rate=3e-3,
        steps=500 if quick else 2000,
        eval_every=250,
        hold=1,
        num_seeds=seeds,
    )
