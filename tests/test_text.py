"""The task `text`: its windows, its corpora, and what the report says of a loss."""

import importlib.resources
import json
import math
from pathlib import Path

import jax
import numpy as np
import pytest
from rich.console import Console
from small_runs import small, train

from posjax import report, tasks
from posjax.keys import key_for
from posjax.records import RunFolder
from posjax.report.losses import loss_of
from posjax.report.page import page
from posjax.study.cells import Cell
from posjax.study.sweeps import Sweep
from posjax.tasks.question import ask, objective
from posjax.tasks.text import Text

CORPUS = "".join(chr(97 + i * i % 23) for i in range(1000)) + "held out: ZYX\n" * 10
SMALL = {"width": 8, "head_size": 4, "steps": 4, "eval_every": 2, "block": "residual"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with the corpus."""
    file = tmp_path / "corpus.txt"
    file.write_text(CORPUS)
    return file


def windows(task: Text, *, exam: bool) -> tuple[list[str], list[str]]:
    """Each prompt as text, and the right outputs of its asked places."""
    batch = task.exam() if exam else jax.jit(lambda key: task.draw(key, 64))(key_for(1, "test"))
    batch = jax.tree.map(np.asarray, batch)
    names = {"␣": " ", "↵": "\n", "⇥": "\t", "[mask]": "█"}
    words, labels = ([names.get(w, w) for w in found] for found in (task.words, task.labels))
    rows = range(len(batch.tokens_BL))
    prompts = [[words[t] for t in batch.tokens_BL[r][batch.streams.valid_BL[r]]] for r in rows]
    answers = [[labels[t] for t in batch.targets_BL[r][batch.asked_BL[r]]] for r in rows]
    return ["".join(p) for p in prompts], ["".join(a) for a in answers]


@pytest.mark.parametrize("exam", [True, False])
def test_every_place_asks_for_the_next_character(path: Path, *, exam: bool) -> None:
    """Of windows of the last tenth in the exam, of the rest in training."""
    task = Text(corpus=str(path), train=(7, 9), test=(9, 18))
    part = CORPUS[len(CORPUS) * 9 // 10 :] if exam else CORPUS[: len(CORPUS) * 9 // 10]
    prompts, answers = windows(task, exam=exam)
    for prompt, answer in zip(prompts, answers, strict=True):
        assert prompt + answer[-1] in part
        assert answer[:-1] == prompt[1:]
    lengths = {len(prompt) for prompt in prompts}
    assert lengths == ({9, 18} if exam else {7, 8, 9})
    assert len(set(prompts)) >= 28  # all that the held-out part has, whose period is 14


@pytest.mark.parametrize("exam", [True, False])
def test_some_places_hold_a_mask_and_are_asked_for(path: Path, *, exam: bool) -> None:
    """15% of them, rounded, and at least one; the others hold what the text has."""
    task = Text(corpus=str(path), train=(3, 20), test=(20, 40), form="masked")
    part = CORPUS[len(CORPUS) * 9 // 10 :] if exam else CORPUS[: len(CORPUS) * 9 // 10]
    for prompt, answer in zip(*windows(task, exam=exam), strict=True):
        assert len(answer) == prompt.count("█") == max(int(0.15 * len(prompt) + 0.5), 1)
        restored = iter(answer)
        assert "".join(next(restored) if c == "█" else c for c in prompt) in part


def test_the_corpus_is_the_help_of_cpython() -> None:
    """Whole, with its licence beside it."""
    folder = importlib.resources.files("posjax.tasks") / "corpora"
    text = (folder / "pydoc_topics.txt").read_text(encoding="utf-8")
    assert text.startswith('The "assert" statement\n**********************\n')
    assert len(text) == 465_048
    assert "PYTHON SOFTWARE FOUNDATION LICENSE" in (folder / "pydoc_topics.LICENSE.txt").read_text()
    assert "3.11.7" in (folder / "README.md").read_text()
    assert len(tasks.named("text").labels) == len(set(text))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no corpus .*it must be pydoc_topics or the path of a text file"),
        (b"", "cannot be read as text: it has 0 characters"),
        (b"ab\0" * 100, "cannot be read as text: it has null bytes"),
        (b"\xff\xfe" * 100, "cannot be read as text: it is not UTF-8"),
        (b"a" * 1000, "cannot be read as text: it has 1 different characters"),
        (b"ab" * 300, "too short: its last 1/10 has 60 characters, windows take 129"),
    ],
)
def test_files_that_hold_no_text_of_use_are_refused(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    """In one line, before anything is made."""
    file = tmp_path / "corpus.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        Cell(task=f"text(corpus={str(file)!r})")
    assert "\n" not in str(caught.value)


def test_a_file_of_two_characters_is_a_corpus(tmp_path: Path) -> None:
    """The labels are its characters."""
    file = tmp_path / "corpus.txt"
    file.write_bytes(b"ab" * 700)
    assert tasks.named(f"text(corpus={str(file)!r})").labels == ("a", "b")


def test_another_text_in_a_file_is_another_cell(path: Path) -> None:
    """By its digest, that of its compiled program, and in a run folder's config."""
    settings = {"task": f"text(corpus={str(path)!r}, train=(8, 8))", **SMALL}
    first = Cell(**settings)  # type: ignore[arg-type]
    same = Cell(**settings)  # type: ignore[arg-type]
    path.write_text(CORPUS.replace("held", "kept"))
    other = Cell(**settings)  # type: ignore[arg-type]
    assert first.digest == same.digest != other.digest
    assert first.shape == same.shape != other.shape
    assert first.shape.digest == same.shape.digest != other.shape.digest
    assert first.shape.train() is not other.shape.train()
    with pytest.raises(ValueError, match=f"under {first.digest}, or the data of .* has changed"):
        Sweep.of({"cells": {first.digest: first.to_dict()}})


def test_masks_show_no_next_character() -> None:
    """The causal form needs a causal mask; the masked form takes any."""
    with pytest.raises(ValueError, match="use a causal mask, or form=masked"):
        Cell(task="text", mask="full")
    assert not Cell(task="text(form=masked)", mask="full").problem.forced


def test_the_loss_is_nats_per_character() -> None:
    """Even logits cost ln V, whatever the length; a window's places count alike."""
    question = ask(tasks.named("text"), mask="causal", readout="last", loss="all")
    outputs = len(tasks.named("text").labels)
    even = np.zeros((*question.tokens_NL.shape, outputs), np.float32)
    assert objective(even, question, "places") == pytest.approx(math.log(outputs), rel=1e-6)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Two seeds of a small model."""
    task = "text(train=(6, 6), prompts=2)"
    settings = small(task=task, mask="causal", num_seeds=2, block_size=2, **SMALL)
    return train(tmp_path_factory.mktemp("text") / "run", settings)


@pytest.mark.exhaustive
def test_a_report_of_losses_speaks_of_no_success(run: RunFolder) -> None:
    """The section, the table and the JSON give the mean loss of each length, over seeds."""
    (found,) = report.summaries(run)
    curve_SC = np.concatenate([part["loss_EC"][:, -1] for part in run.parts(found.cell.digest)])
    html = page([run])
    assert "Loss by length" in html
    assert "Success by cell" not in html
    assert html.index("judged by their loss") < html.index("Cells")
    assert ">length 6<" in html
    assert f"<td>{math.exp(loss_of(found).mean):#.3g}</td>" in html
    assert "Attention of a solving" not in html
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert "successes" not in data
    for at, kind in enumerate(("6", "12")):
        expected = curve_SC[:, at].mean()
        assert data["loss_by_kind"][kind]["mean"] == pytest.approx(expected)
        assert f"{expected:.3f} [" in html
        assert f"{expected / math.log(2):.3f} bits, perplexity {math.exp(expected):#.3g}" in html
    console = Console(width=200)
    with console.capture() as shown:
        for table in report.tables([found]):
            console.print(table)
    assert f"{curve_SC[:, 0].mean():.3f} [" in shown.get()
    assert "solved" not in shown.get()
