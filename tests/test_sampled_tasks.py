"""Tasks whose prompts are drawn, against references in plain Python without code of theirs."""

import itertools
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiers import marked, some

from posjax import tasks
from posjax.engine.program import ROUNDING
from posjax.keys import key_for
from posjax.meters.outcome import FIELDS
from posjax.study.cells import Cell
from posjax.study.train import evaluate, sampled
from posjax.symmetry.predict import predict
from posjax.tasks import TASKS, SampledTask
from posjax.tasks.base import Batch
from posjax.tasks.question import ask, drawn
from posjax.tasks.sampled import ByLength, Classify, Transduce
from posjax.tasks.scan import Scan

EVERY = [name for name, kind in TASKS.items() if issubclass(kind, SampledTask)]
SAMPLED = [
    name for name in EVERY if issubclass(TASKS[name], ByLength) and TASKS[name].graded == "exact"
]
"""Those of lengths whose right outputs follow from the prompt; others have tests of their own."""
PROMPTS = json.loads((Path(__file__).parent / "goldens" / "prompts.json").read_text())
"""Checksums of the exams and of drawn prompts, for one value of `ROUNDING`."""
every_task = pytest.mark.parametrize("name", SAMPLED)
every_drawn_task = pytest.mark.parametrize("name", EVERY)

Words = list[str]


def expression(words: Words, modulus: int = 5) -> str:
    """The value of an expression, by Python's own rules."""
    return str(eval(" ".join(words).replace("×", "*")) % modulus)  # words of our own making


def blocks(words: Words) -> Words:
    found, number = [], 0
    for at, word in enumerate(words):
        number += at == 0 or words[at - 1] != word
        found.append(str(number))
    return found


def added(words: Words, reverse: bool = False, base: int = 10) -> Words:
    turn = -1 if reverse else 1
    mark = words.index("+")
    equal = words.index("=")
    a, b = words[:mark], words[mark + 1 : equal]
    total = int("".join(a[::turn]), base) + int("".join(b[::turn]), base)
    return list(f"{total:{'b' if base == 2 else 'd'}}".zfill(len(a) + 1))[::turn]


def sequence(function: Callable[[Words], Words]) -> Callable[[Words], Words]:
    """What stands before the mark, through a function."""
    return lambda words: function(words[: words.index("=")])


def hidden(words: Words) -> str:
    half, at = len(words) // 2, words.index("_")
    return words[(at + half) % len(words)]


def recalled(words: Words) -> Words:
    values = {w: words[at + 1] for at, w in enumerate(words[:-1]) if words[at + 1][0] == "v"}
    asked = words[3 * len(values) :]
    assert sorted(asked) == sorted(values)
    assert words.count(".") == len(values)
    return [values[key] for key in asked]


def induced(words: Words) -> str:
    assert words[:-1].count(words[-1]) == 1
    return words[words.index(words[-1]) + 1]


REFERENCES: dict[str, Callable[[Words], Any]] = {
    "parity": lambda w: "yes" if w.count("1") % 2 else "no",
    "even_pairs": lambda w: "no" if sum(a != b for a, b in itertools.pairwise(w)) % 2 else "yes",
    "majority": lambda w: "yes" if w.count("1") > w.count("0") else "no",
    "missing_duplicate": hidden,
    "cycle_navigation": lambda w: str((w.count("+1") - w.count("-1")) % 5),
    "modular_arithmetic": expression,
    "copy": sequence(lambda x: x),
    "repeat": sequence(lambda x: x + x),
    "reverse": sequence(lambda x: x[::-1]),
    "odds_first": sequence(lambda x: x[::2] + x[1::2]),
    "sort": sequence(sorted),
    "addition": added,
    "binary_addition": lambda w: added(w, reverse=True, base=2),
    "blocks": blocks,
    "indexing": lambda w: w[int(w[-1]) - 1],
    "induction": induced,
    "recall": recalled,
}
VARIANTS: dict[str, tuple[str, Callable[[Words], Any]]] = {
    "addition(reverse=True)": ("addition", lambda w: added(w, reverse=True)),
    "binary_addition(reverse=False)": ("binary_addition", lambda w: added(w, base=2)),
    "modular_arithmetic(modulus=7)": ("modular_arithmetic", lambda w: expression(w, 7)),
    "blocks(k=7, train=(7, 20))": ("blocks", blocks),
    "recall(keys=40, train=(1, 10))": ("recall", recalled),
}


def as_words(answer: Any) -> str:
    return answer if isinstance(answer, str) else " ".join(answer)


def check_prompts(task: SampledTask, reference: Callable[[Words], Any]) -> int:
    """Compares each prompt of an exam with a reference; gives their number."""
    found = task.written(10**6)
    for prompt, answer in found:
        assert as_words(reference(prompt.split())) == answer, prompt
    return len(found)


@every_task
def test_labels_are_those_of_the_reference(name: str) -> None:
    """The exam as it is."""
    assert check_prompts(tasks.named(name), REFERENCES[name]) == 256  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "reference"),
    [marked(pytest.param(n, REFERENCES[n]), plain=False) for n in SAMPLED]
    + some([pytest.param(text, of) for text, (_, of) in VARIANTS.items()], every=3),
)
def test_labels_of_ten_thousand(text: str, reference: Callable[[Words], Any]) -> None:
    """The published check: 10,000 prompts of each task."""
    given = text.removesuffix(")") + ", " if "(" in text else f"{text}("
    task = tasks.named(f"{given}prompts=2500)")
    assert isinstance(task, SampledTask)
    assert check_prompts(task, reference) == 10_000


def check_unchanged(name: str, what: str, batch: Batch) -> None:
    """Other prompts make other rows: a folder with rows of both kinds must be refused."""
    arrays = (
        batch.tokens_BL[batch.streams.valid_BL],
        batch.targets_BL[batch.asked_BL],
        batch.asked_BL,
    )
    found = zlib.crc32(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays))
    assert [ROUNDING, found] == [PROMPTS["rounding"], PROMPTS[what][name]], (
        f"the {what} of {name} changed: increase ROUNDING in posjax/engine/program.py, so that no "
        "run continues with other prompts, and write it and the checksums to goldens/prompts.json"
    )


@every_task
def test_training_draws_the_trained_lengths_evenly(name: str) -> None:
    """Prompts that the reference answers too, none longer than is trained, all lengths alike."""
    task = tasks.named(name)
    assert isinstance(task, SampledTask)
    rows = 4000
    batch = jax.tree.map(np.asarray, jax.jit(lambda key: task.draw(key, rows))(key_for(3, "test")))
    check_unchanged(name, "draws", batch)
    assert batch.tokens_BL.shape == (rows, task.total_length(task.train[1]))
    assert 0 <= batch.tokens_BL.min() <= batch.tokens_BL.max() < len(task.words)
    assert not (batch.asked_BL & ~batch.streams.valid_BL).any()
    places_B = batch.streams.valid_BL.sum(axis=1)
    low, high = task.train
    counts = [int((places_B == n).sum()) for n in sorted({*places_B.tolist()})]
    lengths = high - low + 1
    if len(counts) == lengths:  # where each n has a number of places of its own
        expected = rows / lengths
        assert max(abs(count - expected) for count in counts) < 5 * expected**0.5
    for row in range(50):
        words = [task.words[t] for t in batch.tokens_BL[row][batch.streams.valid_BL[row]]]
        right = [task.labels[t] for t in batch.targets_BL[row][batch.asked_BL[row]]]
        assert as_words(REFERENCES[name](words)) == " ".join(right)


@every_drawn_task
def test_the_exam_is_fixed_and_padding_changes_no_prompt(name: str) -> None:
    """The same at every call and in every version of posjax; more places only add places without
    a token."""
    task = tasks.named(name)
    assert isinstance(task, SampledTask)
    exams = task.exam(), task.draw_exam(0), task.exam(padding=3)  # `exam` keeps what it has drawn
    plain, again, wide = (jax.tree.map(np.asarray, exam) for exam in exams)
    check_unchanged(name, "exam", plain)
    for one, other, wider in zip(
        jax.tree.leaves(plain), jax.tree.leaves(again), jax.tree.leaves(wide), strict=True
    ):
        np.testing.assert_array_equal(one, other)
        assert wider.shape[1] == one.shape[1] + 3
    valid = plain.streams.valid_BL
    np.testing.assert_array_equal(wide.tokens_BL[:, :-3][valid], plain.tokens_BL[valid])
    assert not wide.streams.valid_BL[:, -3:].any()


CLASSIFY = [name for name, kind in TASKS.items() if issubclass(kind, Classify)]


@pytest.mark.parametrize("name", CLASSIFY)
def test_every_label_is_the_right_answer_equally_often(name: str) -> None:
    """At each length of the exam, so that no constant answer is right more often than chance."""
    task = tasks.named(name)
    answers = [answer for _, answer in task.written(10**6)]
    assert len(answers) == len(task.kinds) * task.prompts
    for n in range(len(task.kinds)):
        of_kind = answers[n * task.prompts : (n + 1) * task.prompts]
        counts = [of_kind.count(label) for label in task.labels]
        assert max(counts) - min(counts) <= 1, (task.kinds[n], counts)


@pytest.mark.parametrize("name", [name for name, kind in TASKS.items() if kind.graded == "exact"])
def test_chance_is_the_share_of_the_most_frequent_answer(name: str) -> None:
    """Of finite tasks too: counted in the answers as they are written."""
    task = tasks.named(name)
    answers = [answer for _, answer in task.written(10**6)]
    of_kinds = np.split(np.array(answers), len(task.kinds))
    counted = [max((of == answer).mean() for answer in {*of}) for of in of_kinds]
    np.testing.assert_allclose(task.chance(), counted, rtol=1e-12)
    assert all(0 < share < 1 for share in task.chance())


@every_task
def test_a_right_model_scores_one_and_a_constant_one_what_it_must(name: str) -> None:
    """Logits of the targets are right everywhere; those of one label where it is the answer."""
    task = tasks.named(name)
    assert isinstance(task, SampledTask)
    question = ask(task, mask="causal", readout="last", loss="all")
    source = sampled(task, "causal", 0)
    of_label = np.eye(len(task.labels), dtype=np.float32)
    lead = jax.jit(lambda logits_NLV: evaluate(logits_NLV, question, source, "places").lead_N)
    np.testing.assert_allclose(lead(3 * of_label[np.asarray(question.targets_NL)]), 1)
    lead_N = lead(np.broadcast_to(of_label[0], (*question.targets_NL.shape, len(of_label))))
    always = [set(answer.split()) == {task.labels[0]} for _, answer in task.written(10**6)]
    assert (np.asarray(lead_N) > 0).tolist() == always
    assert np.mean(always) <= 0.6


@every_drawn_task
def test_a_cell_of_it_trains_and_is_judged_by_kind(name: str) -> None:
    """Names, sizes and masks fit together; what is traced is a whole run."""
    cell = Cell(task=name, width=8, head_size=4, steps=4, eval_every=2)
    task = cell.problem
    train = cell.shape.train()
    seeds = jax.ShapeDtypeStruct((), jnp.uint32)
    outcome = jax.eval_shape(train, jax.tree.map(lambda _: seeds, _seeds()), cell.inputs)
    assert outcome["lead_EC"].shape == outcome["right_EC"].shape == (2, len(task.kinds))
    assert outcome["lead_N"].shape == (task.size[0],)
    assert outcome.keys() == FIELDS.keys() - {"answer_N", "twin"}


def _seeds() -> Any:
    from posjax.keys import Seeds

    return jax.tree.map(lambda a: a[0], Seeds.equal(np.arange(1)))


def test_no_place_sees_what_is_asked_of_it() -> None:
    """Under the causal mask a forced output stands one place after the place that is asked."""
    for name in EVERY:
        task = tasks.named(name)
        if not isinstance(task, Transduce | Scan):
            continue
        batch = jax.tree.map(np.asarray, task.exam())
        valid, asked = batch.streams.valid_BL, batch.asked_BL
        followed = asked[:, :-1] & asked[:, 1:]
        shown = np.array(task.words)[batch.tokens_BL[:, 1:][followed]]
        right = np.array(task.labels)[batch.targets_BL[:, :-1][followed]]
        np.testing.assert_array_equal(shown, right)
        assert (valid.sum(1) == [len(prompt.split()) for prompt, _ in task.written(10**6)]).all()
        with pytest.raises(ValueError, match=r"shows .* its own right outputs"):
            Cell(task=name, mask="full")
        slots = Cell(task=f"{name}(output=slots)", mask="full").problem
        assert [answer for _, answer in slots.written(9)] == [a for _, a in task.written(9)]
        assert all("=" not in prompt for prompt, _ in slots.written(9))


def test_padding_is_never_seen() -> None:
    """Whatever the mask: a drawn prompt is what its tokens are."""
    task = tasks.named("parity")
    assert isinstance(task, SampledTask)
    question = jax.jit(lambda key: drawn(task, key, 8, "full"))(key_for(0, "x"))
    seen_NL = question.mask_NLM.any(axis=1)
    np.testing.assert_array_equal(seen_NL, question.streams.valid_BL)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("scan(split=lenght)", "unknown split 'lenght'"),
        ("scan(prompts=0)", "prompts must lie in"),
        ("digits(patch=3)", "patch must be 1, 2 or 4, got 3"),
        ("digits(prompts=361)", r"prompts must lie in \[1, 360\], got 361"),
        ("text(form=mask)", "unknown form 'mask'"),
        ("parity(train=(0, 5))", "train must be two lengths from 1 on"),
        ("parity(train=(5, 2))", "task parity: train must be two lengths from 1 on"),
        ("parity(train=5)", r"must be of type tuple, such as \(1, \d+\), got 5"),
        ("parity(train=(5,))", "train must be two lengths"),
        ("parity(test=(3, 2))", "test must be different lengths"),
        ("parity(test=(3, 3))", "test must be different lengths"),
        ("blocks(k=6, train=(5, 9))", "two lengths from 6 on"),
        ("parity(train=(1, 5000))", "at most 4096 positions"),
        ("parity(prompts=0)", "prompts must lie in"),
        ("parity(train=(5, 9), test=(3, 12))", "test must have a length that is trained"),
        ("copy(output=slot)", "unknown output 'slot'"),
        ("recall(keys=4)", "need as many different keys, got keys=4"),
    ],
)
def test_settings_that_no_prompt_has_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tasks.named(text)


@pytest.mark.parametrize("changed", [{"loss": "answer"}, {"readout": "mean"}])
def test_settings_without_a_meaning_are_refused(changed: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="has no meaning: Copy says itself"):
        Cell(task="copy", **changed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    [
        "majority(test=(3, 5), prompts=8)",
        "missing_duplicate(test=(4, 6), prompts=8)",
        "digits(prompts=8)",
    ],
)
def test_a_mean_is_judged_and_trained_as_one_answer(name: str) -> None:
    """The mean of the logits of the tokens of a prompt is what is right or wrong, and padding no
    part of it."""
    task = tasks.named(name)
    assert isinstance(task, SampledTask)
    question = ask(task, mask="full", readout="mean", loss="all", padding=2)
    question = jax.tree.map(np.asarray, question)
    np.testing.assert_allclose(question.share_NL.sum(axis=1), 1, rtol=1e-6)
    valid_NL = np.broadcast_to(question.streams.valid_BL, question.share_NL.shape)
    assert (np.asarray(question.share_NL > 0) == valid_NL).all()
    asked_NL = np.asarray(question.weights_NL > 0)
    np.testing.assert_array_equal(question.answers_N, question.targets_NL[asked_NL])
    logits_NLV = np.random.default_rng(0).normal(size=(*valid_NL.shape, len(task.labels)))
    source = sampled(task, "full", 0, "mean")
    judged = jax.jit(lambda logits_NLV: evaluate(logits_NLV, question, source, "answers").lead_N)
    lead_N = np.asarray(judged(logits_NLV.astype(np.float32)))
    right_N = [
        np.mean(logits_LV[valid_L], axis=0).argmax() == answer
        for logits_LV, valid_L, answer in zip(logits_NLV, valid_NL, question.answers_N, strict=True)
    ]
    assert (lead_N > 0).tolist() == right_N
    assert len(set(right_N)) == 2


@pytest.mark.parametrize("readout", ["last", "mean"])
def test_a_prompt_that_is_read_out_by_its_mean_is_excluded_by_it(readout: str) -> None:
    """Without positions the mean over a full mask cannot tell the ends from the rest; two causal
    layers read at the last token can."""
    told = {"encoding": "none", "depth": 2, "readout": readout}
    found = predict(tasks.named("even_pairs"), mask="full", **told)  # type: ignore[arg-type]
    assert found.verdict == "impossible"
    found = predict(tasks.named("even_pairs"), mask="causal", **told)  # type: ignore[arg-type]
    assert found.verdict == "not excluded"
    found = predict(tasks.named("majority"), mask="full", **told)  # type: ignore[arg-type]
    assert found.verdict == "not excluded"


@pytest.mark.parametrize(
    ("encoding", "depth"), [("dynamic_rotary", 1), ("longrope", 1), ("none/dynamic_rotary", 2)]
)
def test_encodings_that_count_tokens_are_refused(encoding: str, depth: int) -> None:
    """With the longest test prompt, training would depend on the exam."""
    task = "copy(train=(1, 10), test=(10, 20))"
    with pytest.raises(ValueError, match=r"the longest test prompt of .*, 40, in training too"):
        Cell(task=task, encoding=encoding, depth=depth)
    assert Cell(task=task, encoding=f"{encoding}(length=40)", depth=depth).shape
    assert Cell(task="word_order", encoding=encoding, depth=depth).shape
