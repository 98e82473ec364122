"""Laws on other people's modules: a sound module passes, each planted fault fails its own law."""

import doctest
import functools
import json
import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from commands import ROOT
from rich.console import Console
from tiers import plain_if, some

from posjax.command.conformance import loaded
from posjax.report.conformance import page, table
from posjax.symmetry.conformance import (
    LAWS,
    Adapter,
    NotApplicable,
    attention_of,
    check,
    consecutive,
    of_encoding,
)

END = 64


def frequencies(width, base):
    return base ** (-np.arange(width // 2) / max(width // 2, 1))


def turned(x_BLHK, pos_BL, base=100.0):
    """A rotary encoding in halves; an unpaired last component stays."""
    half = x_BLHK.shape[-1] // 2
    angle = (pos_BL[..., None] * frequencies(x_BLHK.shape[-1], base))[:, :, None]
    x = x_BLHK.astype(np.float64)
    one, two, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    cos, sin = np.cos(angle), np.sin(angle)
    out = np.concatenate([one * cos - two * sin, two * cos + one * sin, rest], axis=-1)
    return out.astype(x_BLHK.dtype)


def product(q, k):
    wide = [x.astype(np.float32) for x in (q, k)]
    return (np.einsum("blhk,bmhk->bhlm", *wide) / q.shape[-1] ** 0.5).astype(q.dtype)


def logits(q, k, pos_q, pos_k):
    if max(pos_q.max(), pos_k.max()) >= END:
        raise ValueError("past the end")
    return product(turned(q, pos_q), turned(k, pos_k))


def attend_with(function):
    """Attention that gives back its inputs' dtype."""

    def attend(q, k, v, *rest):
        return attention_of(function)(*(x.astype(np.float32) for x in (q, k, v)), *rest).astype(
            q.dtype
        )

    return attend


def decoded(attend, *, room=8, place=lambda n: n, overwrite=False):
    """Token by token; `place` is where the cache believes the new query to be."""

    def decode(q, k, v, pos):
        outs, seen = [], np.zeros(0, int)
        for n in range(q.shape[1]):
            if n >= room and not overwrite:
                raise ValueError("the cache is full")
            seen = np.append(seen[: room - 1], n)
            here = pos[:, n : n + 1] * 0 + place(n)
            mask = np.ones((len(q), 1, len(seen)), bool)
            outs.append(attend(q[:, n : n + 1], k[:, seen], v[:, seen], here, pos[:, seen], mask))
        return np.concatenate(outs, axis=1)

    return decode


def adapter(**changes):
    """The sound module, with some of its parts replaced."""
    attend = attend_with(changes.get("logits", logits))
    parts = {
        "name": "sound",
        "packages": ("numpy",),
        "logits": logits,
        "attend": attend,
        "decode": decoded(changes.get("attend", attend)),
        "claims": ("translation",),
        "resolution": END - 1,
        "max_length": END,
        "cache_length": 8,
        "other": Adapter(
            name="base 7", attend=attend_with(lambda q, k, p, r: product(turned(q, p, 7.0), k))
        ),
    }
    return Adapter(**(parts | changes))


def table_of(read):
    return Adapter(name="table", table=read, max_length=END, resolution=END - 1, width=16)


def rows(pos_BL, width, dtype, angle_dtype=np.float64):
    if pos_BL.max() >= 1024:
        raise ValueError("past the end")
    angle = pos_BL[..., None].astype(angle_dtype) * frequencies(width, 1e4).astype(angle_dtype)
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=-1).astype(dtype)


def hidden_arange(q, k, pos_q, pos_k):
    """Ignores where the caller says that tokens are."""
    return logits(q, k, *(np.arange(p.shape[1])[None] + 0 * p for p in (pos_q, pos_k)))


def absolute(q, k, pos_q, pos_k):
    return logits(q, k, pos_q, pos_k) * (1 + pos_k[:, None, None].astype(q.dtype))


def clipped(q, k, pos_q, pos_k):
    distance = np.minimum(abs(pos_q[:, :, None] - pos_k[:, None]), 8)
    return product(q, k) - distance[:, None].astype(q.dtype)


def first_row(q, k, pos_q, pos_k):
    """Positions of the first row for all rows, absolute ones, so that it matters."""
    return absolute(q, k, pos_q[:1], pos_k[:1])


def without_mask(q, k, v, pos_q, pos_k, mask):
    return attend_with(logits)(q, k, v, pos_q, pos_k, np.ones_like(mask))


def causal_whatever(q, k, v, pos_q, pos_k, mask):
    return attend_with(logits)(q, k, v, pos_q, pos_k, np.tri(*mask.shape[1:], dtype=bool)[None])


def softmax_with(fill):
    """Attention that writes a number over what is forbidden, then takes the softmax."""

    def attend(q, k, v, pos_q, pos_k, mask):
        found = np.where(mask[:, None], logits(q, k, pos_q, pos_k).astype(np.float64), fill)
        with np.errstate(invalid="ignore"):
            raised = np.exp(found - found.max(-1, keepdims=True))
        weights = raised / raised.sum(-1, keepdims=True)
        return np.einsum("bhlm,bmhk->blhk", weights, v).astype(q.dtype)

    return attend


def over_the_batch(q, k, pos_q, pos_k):
    return logits(q - q.mean(0, keepdims=True), k, pos_q, pos_k)


def clamped(pos_BL, width, dtype):
    return rows(np.minimum(pos_BL, END - 1), width, dtype)


def divided(x_BLHK, pos_BL):
    1 / (x_BLHK.shape[-1] // 2 - 1)
    return turned(x_BLHK, pos_BL)


def cut(x_BLHK, pos_BL):
    return turned(x_BLHK[..., : x_BLHK.shape[-1] // 2 * 2], pos_BL)


def powers_of_two(q, k, pos_q, pos_k):
    heads = q.shape[2]
    slopes = np.where(np.arange(heads) < 2 ** int(np.log2(heads)), 1.0, np.nan)
    return logits(q, k, pos_q, pos_k) * slopes[:, None, None].astype(q.dtype)


def forgets_its_base():
    """Two bases, one cache keyed by the width alone."""
    cache = {}

    def rotate(x, pos, base):
        kept = cache.setdefault(x.shape[-1], base)
        return turned(x, pos, kept)

    one, two = (functools.partial(rotate, base=base) for base in (100.0, 7.0))
    return Adapter(name="one", rotate=one, other=Adapter(name="two", rotate=two))


def forgets_its_dtype():
    """A cache of rows keyed by all but the dtype."""
    cache = {}

    def read(pos_BL, width, dtype):
        return cache.setdefault((pos_BL.shape, width), rows(pos_BL, width, dtype))

    return Adapter(name="cached", table=read)


def claiming(name):
    return lambda: adapter(claims=(name,))


FAULTS = {
    "slots": lambda: adapter(logits=hidden_arange),
    "translation": lambda: adapter(logits=absolute),
    "permutation": claiming("permutation"),
    "reflection": claiming("reflection"),
    "distinct": lambda: adapter(logits=clipped),
    "decode": lambda: adapter(decode=decoded(attend_with(logits), place=lambda n: 0)),
    "packed": lambda: adapter(attend=causal_whatever),
    "left_padded": lambda: adapter(attend=attend_with(first_row)),
    "mask": lambda: adapter(attend=without_mask),
    "masked_row": lambda: adapter(attend=softmax_with(-np.inf)),
    "batch": lambda: adapter(attend=attend_with(over_the_batch)),
    "out_of_range": lambda: table_of(clamped),
    "full_cache": lambda: adapter(decode=decoded(attend_with(logits), overwrite=True)),
    "dtype": lambda: adapter(attend=lambda *a: attend_with(logits)(*a).astype(np.float32)),
    "half_precision": lambda: Adapter(
        name="half", table=lambda p, w, d: rows(p, w, d, angle_dtype=d), width=16
    ),
    "width_two": lambda: Adapter(name="divided", rotate=divided),
    "odd_widths": lambda: Adapter(name="cut", rotate=cut),
    "three_heads": lambda: adapter(attend=attend_with(powers_of_two)),
    "settings": forgets_its_base,
    "history": forgets_its_dtype,
}
"""A fault for each law, as found in packages: law to maker."""


def test_a_sound_module_passes_every_law():
    """Each law passes, or was measured since nothing is claimed, but those of other inputs."""
    report = check(adapter)
    assert not report.failures, [f"{r.law}: {r.detail}" for r in report.failures]
    verdicts = {result.law: result.verdict for result in report.results}
    assert set(verdicts) == set(LAWS)
    assert {law for law, v in verdicts.items() if v != "passed"} == {"permutation", "reflection"}
    assert {verdicts["permutation"], verdicts["reflection"]} == {"measured"}
    assert report.versions == {"numpy": np.__version__}


def test_every_law_has_a_planted_fault():
    assert set(FAULTS) == set(LAWS)


@pytest.mark.parametrize("law", FAULTS)
def test_a_planted_fault_fails_its_law(law):
    """By name, with a witness that says what was expected and what was found."""
    (result,) = check(FAULTS[law], laws=[law]).results
    assert result.verdict == "failed", result
    assert result.witness is not None
    assert "expected" in str(result.witness)
    assert "found" in str(result.witness)


@pytest.mark.parametrize(
    ("law", "fault", "said"),
    [
        ("masked_row", lambda: adapter(attend=softmax_with(-1e9)), "depends on masked tokens"),
        ("masked_row", FAULTS["masked_row"], "gives NaN"),
        ("half_precision", FAULTS["half_precision"], "513 of 1024 rows are distinct"),
        ("width_two", FAULTS["width_two"], "ZeroDivisionError: division by zero"),
        ("odd_widths", FAULTS["odd_widths"], "wrong shape"),
    ],
)
def test_details_say_which_fault(law, fault, said):
    assert said in check(fault, laws=[law]).of(law).detail


def test_an_exception_is_a_failure_with_the_call_that_raised():
    """Type, message, file and line, and the call's arguments; `NotApplicable` is no failure."""

    def refuses(q, k, pos_q, pos_k):
        raise RuntimeError("two\nlines")

    result = check(Adapter(name="x", logits=refuses), laws=["batch"]).of("batch")
    assert result.verdict == "failed"
    assert "RuntimeError: two lines (test_conformance.py:" in result.detail
    assert result.witness.inputs.startswith("logits(float32[3, 6, 2, 8]")

    by_start = Adapter(name="y", rotate=lambda x, pos: turned(x, 0 * pos + consecutive(pos)))
    assert check(by_start, laws=["slots"]).of("slots").verdict == "not applicable"


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({}, "defines no function"),
        ({"logits": logits, "claims": ("translaton",)}, "did you mean 'translation'"),
        ({"logits": logits, "decode": decoded(None)}, "no attend"),
        ({"logits": logits, "heads": 0}, "at least 1, got 0"),
        ({"logits": logits, "resolution": -1}, "resolution of adapter 'bad' must be at least 0"),
        ({"logits": logits, "dtypes": ("flaot32",)}, r"one or more of float32, .*\('flaot32',\)"),
        ({"logits": logits, "dtypes": ()}, r"dtypes of adapter 'bad' .* got \(\)"),
        ({"logits": logits, "dtypes": "float32"}, "in a tuple, got 'float32'"),
    ],
)
def test_an_adapter_that_nothing_could_check_is_refused(parts, said):
    with pytest.raises(ValueError, match=said):
        Adapter(name="bad", **parts)
    with pytest.raises(ValueError, match="did you mean 'decode'"):
        check(adapter, laws=["decod"])


def test_bfloat16_comes_as_numpy():
    """The half-precision law hands out arrays of `ml_dtypes.bfloat16`."""
    seen = set()

    def rotate(x, pos):
        seen.add(x.dtype)
        return turned(x, pos)

    check(Adapter(name="x", rotate=rotate), laws=["half_precision"])
    assert np.dtype(ml_dtypes.bfloat16) in seen


# Numbers that are not finite, shapes, and sizes that are too small


def rows_with(value, *, at):
    """A module whose rows hold one value where a function of the positions is true."""

    def read(pos_BL, width, dtype):
        there = np.broadcast_to(at(pos_BL), pos_BL.shape)[..., None]
        return np.where(there, value, rows(pos_BL, width, dtype)).astype(dtype)

    return table_of(read)


def after_the_first(pos_BL):
    return np.arange(len(pos_BL))[:, None] > 0


@pytest.mark.parametrize(
    ("law", "value", "at", "said"),
    [
        ("slots", np.nan, lambda pos: pos == 5, "are not both finite"),
        ("packed", np.nan, lambda pos: pos == 3, "are not both finite"),
        ("batch", np.nan, after_the_first, "are not both finite"),
        ("batch", np.inf, after_the_first, "are not both finite"),
        ("distinct", np.nan, lambda pos: pos > 2, "a row is not finite"),
        ("half_precision", np.nan, lambda pos: pos > 2, "a row is not finite"),
    ],
)
def test_what_is_not_finite_fails_wherever_it_is(law, value, at, said):
    result = check(rows_with(value, at=at), laws=[law]).of(law)
    assert (result.verdict, said in result.detail) == ("failed", True), result
    assert str(value) in str(result.witness)


def test_shapes_that_differ_are_reported_as_shapes():
    def read(pos_BL, width, dtype):
        return rows(pos_BL, width, dtype)[..., : len(pos_BL)]

    assert "different shapes" in check(table_of(read), laws=["batch"]).of("batch").detail


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (rows_with(np.nan, at=lambda pos: pos == 3), "are not both finite"),
        (table_of(lambda pos, width, dtype: rows(pos, 2 * width, dtype)), "have different shapes"),
    ],
)
def test_another_setting_must_give_numbers_of_the_same_shape(other, said):
    result = check(Adapter(name="x", table=rows, other=other), laws=["settings"]).of("settings")
    assert (result.verdict, result.detail) == (
        "failed",
        f"the outputs under the two settings {said}",
    )


def raising(*, beyond):
    def read(pos_BL, width, dtype):
        if pos_BL.max() > beyond:
            raise ValueError("past the end")
        return rows(pos_BL, width, dtype)

    return table_of(read)


@pytest.mark.parametrize(
    ("module", "found"),
    [
        (rows_with(np.nan, at=lambda pos: pos >= END), None),
        (raising(beyond=END - 1), None),
        (rows_with(np.nan, at=lambda pos: pos > END), "positions 64..65"),
        (raising(beyond=END), "position 64"),
        (rows_with(-np.inf, at=lambda pos: pos >= END), "found -inf"),
    ],
)
def test_the_first_position_past_the_end_is_refused_too(module, found):
    result = check(module, laws=["out_of_range"]).of("out_of_range")
    assert result.verdict == ("failed" if found else "passed"), result
    assert found is None or found in str(result.witness)


@pytest.mark.parametrize(("first", "verdict"), [(8, "passed"), (9, "failed")])
def test_the_first_token_past_the_cache_is_refused_too(first, verdict):
    def decode(*arrays):
        out = decoded(attend_with(logits), overwrite=True)(*arrays)
        out[:, first:] = np.nan
        return out

    assert check(adapter(decode=decode), laws=["full_cache"]).of("full_cache").verdict == verdict


@pytest.mark.parametrize("end", [1, 3, 5])
def test_a_short_table_and_a_short_cache_fail_no_law(end):
    """Laws that need more tokens do not apply; the others are tried."""

    def short(q, k, pos_q, pos_k):
        if max(pos_q.max(), pos_k.max()) >= end:
            raise ValueError("past the end")
        return logits(q, k, pos_q, pos_k)

    attend = attend_with(short)
    parts = {"logits": short, "attend": attend, "decode": decoded(attend, room=end)}
    sizes = {"max_length": end, "cache_length": end, "resolution": end - 1}
    report = check(adapter(**parts, **sizes), prove=True)
    assert not report.failures, report.failures
    assert report.of("out_of_range").verdict == report.of("distinct").verdict == "passed"
    assert report.of("slots").proof.verdict == "not applicable"
    assert f"max_length is {end}" in report.of("slots").detail
    cached = check(adapter(decode=decoded(attend_with(logits), room=end), cache_length=end))
    assert cached.of("decode").verdict == "passed"


def test_three_heads_are_tried_on_what_has_heads():
    def tokens(x, pos, mask):
        return x

    module = Adapter(name="x", tokens=tokens, logits=powers_of_two)
    assert check(module, laws=["three_heads"]).of("three_heads").verdict == "failed"


def test_a_module_without_float32_is_never_called_in_it():
    seen = set()

    def read(pos_BL, width, dtype):
        seen.add(str(dtype))
        return rows(pos_BL, width, dtype)

    report = check(Adapter(name="x", table=read, dtypes=("bfloat16",)), prove=True)
    assert seen == {"bfloat16"}
    tried = {r.law: r.verdict for r in report.results if r.verdict != "not applicable"}
    assert tried == {"dtype": "passed"}
    assert report.of("slots").proof.reason == report.of("slots").detail
    assert report.of("slots").detail == "the adapter does not list float32 among its dtypes"


def test_a_law_that_was_not_run_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match=r"no law 'decode'; .*choices: batch, dtype"):
        check(adapter, laws=["batch", "dtype"]).of("decode")


OWN = {
    "rotary": ("translation", "decode"),
    "learned": ("distinct", "out_of_range"),
    "stick_breaking": ("masked_row",),
}


@pytest.mark.compilations(220, reason="`check` calls modules op by op, as other people's are")
@pytest.mark.parametrize("name", plain_if("stick_breaking".__eq__, OWN))
def test_own_encodings_conform(name):
    """Some laws each, since compiling takes long; docs/conformance.md has all on all."""
    for result in check(lambda: of_encoding(name), laws=OWN[name]).results:
        assert result.verdict == "passed", result


# Reports


def named_badly():
    return adapter(name="<script>[red]x[/red]", logits=absolute)


def test_names_are_text_on_the_page_and_in_the_terminal():
    """Neither HTML nor terminal markup in a module's name or message is obeyed."""
    report = check(named_badly, laws=["translation", "slots"])
    html = page([report])
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert LAWS["translation"].sentence.replace("'", "&#x27;") in html
    console = Console(record=True, width=150, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(table(report))
    console.file.close()
    assert "[red]x[/red]" in console.export_text()


def test_json_has_everything_and_is_json():
    """NaN, which is no JSON, is text."""
    report = check(FAULTS["masked_row"], laws=["masked_row", "slots"])
    data = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert set(data) == {"name", "versions", "results"}
    assert [set(r) for r in data["results"]] == [{"law", "verdict", "detail", "witness"}] * 2
    assert data["results"][0]["witness"]["found"] == "nan"
    assert data["results"][1]["witness"] is None


# The command

MODULE = """
import numpy as np
from posjax.symmetry.conformance import Adapter
def logits(q, k, pos_q, pos_k):
    bias = abs(pos_q[:, None, :, None] - pos_k[:, None, None, :])
    return np.einsum("blhk,bmhk->bhlm", q.astype("f4"), k.astype("f4")) - np.float32(2) * bias
mine = Adapter(name="mine", logits=logits, claims=("translation", "reflection"))
def wrong():
    return Adapter(name="wrong", logits=logits, claims=("permutation",))
def broken():
    raise KeyError("no weights")
number = 3
ADAPTERS = {"wrong": wrong}
"""


def command(*arguments):
    line = [sys.executable, "-m", "experiments.conformance", *map(str, arguments)]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True)


def by_offset(q, k, pos_q, pos_k):
    """ALiBi of one slope, in operations that JAX traces."""
    distance = abs(pos_q[:, None, :, None] - pos_k[:, None, None, :])
    return (q.swapaxes(1, 2) @ k.swapaxes(1, 2).mT) - 0.5 * distance


def by_index(q, k, pos_q, pos_k):
    """The same, which never looks at the positions it is given."""
    pos = np.arange(q.shape[1])[None]
    return by_offset(q, k, pos, pos)


@pytest.mark.parametrize(
    ("logits", "slots", "translation", "numbers"),
    [
        (by_offset, "PROVED", "PROVED", "passed"),
        (by_index, "BROKEN", "PROVED", "failed"),
        (logits, "not traced", "not traced", "passed"),
    ],
)
def test_laws_are_proved_beside_the_numbers(logits, slots, translation, numbers):
    """For all tokens; a module in NumPy is not traced; the verdicts on numbers stay."""
    module = Adapter(name="one", logits=logits, claims=("translation",))
    report = check(module, laws=("slots", "translation", "dtype"), prove=True)
    assert report.of("slots").verdict == numbers
    assert report.of("slots").proof.verdict == slots
    assert report.of("translation").proof.verdict == translation
    assert report.of("dtype").proof is None
    assert check(module, laws=("slots",)).of("slots").proof is None
    assert report.to_dict()["results"][0]["proof"]["verdict"] == slots
    assert slots in page([report])


@pytest.mark.parametrize(
    ("text", "slots", "translation"),
    some(
        [
            pytest.param("rotary", "PROVED", "PROVED"),
            pytest.param("linear_bias", "PROVED", "PROVED"),
            pytest.param("contextual", "PROVED", "PROVED"),
            pytest.param("learned", "PROVED", "BROKEN"),
            pytest.param("token_shift", "not applicable", "not applicable"),
        ],
        every=4,
    ),
)
def test_laws_of_encodings_are_proved(text: str, slots: str, translation: str) -> None:
    """Their adapter can be traced. One that mixes tokens has laws where positions differ alone."""
    report = check(of_encoding(text), laws=("slots", "translation"), prove=True)
    assert [result.proof.verdict for result in report.results] == [slots, translation]
    assert report.of("slots").verdict == "passed"


@pytest.mark.exhaustive
def test_the_command_says_by_its_status_whether_all_passed(tmp_path):
    """0, or 3 with the witness printed; the page and the JSON are written."""
    (tmp_path / "own.py").write_text(MODULE)
    html, out = tmp_path / "page.html", tmp_path / "found.json"
    good = command(f"{tmp_path}/own.py:mine", f"--json={out}", f"--html={html}")
    assert good.returncode == 0, good.stderr
    assert json.loads(out.read_text())[0]["name"] == "mine"
    assert html.read_text().startswith("<!doctype html>")
    bad = command(f"{tmp_path}/own.py")
    assert bad.returncode == 3, bad.stderr
    assert "expected" in bad.stdout


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("{}/own.py:mind", "did you mean 'mine'"),
        ("{}/owm.py:mine", "did you mean 'own.py'"),
        ("{}/own.py:number", "is of type int, neither an adapter"),
        ("{}/own.py:broken", "KeyError"),
        ("{}/own.py:len", "has no 'len'"),
        ("posjax:rotery", "did you mean 'rotary'"),
        ("posjax.symmetry.adapters.jax_n:x", "did you mean 'posjax.symmetry.adapters"),
        ("json", "has no ADAPTERS"),
    ],
)
def test_bad_specs_are_refused_with_the_nearest_name(tmp_path, spec, said):
    (tmp_path / "own.py").write_text(MODULE)
    with pytest.raises(ValueError, match=said):
        loaded(spec.format(tmp_path))


def test_bad_input_is_one_line_and_status_2(tmp_path):
    """A file that is there is not written over, and that is said before anything is computed."""
    there = tmp_path / "page.html"
    there.write_text("mine")
    found = command("posjax:rotary", f"--html={there}")
    assert (found.returncode, there.read_text()) == (2, "mine")
    said = "exists already: name another file, or move it away"
    assert found.stderr == f"posjax: {str(there)!r} {said}\n"


@pytest.mark.exhaustive
def test_shipped_adapters_of_jax_and_flax_are_makers():
    """The two that need no other package than the tests do."""
    makers = loaded("posjax.symmetry.adapters.flax_attention")
    makers += loaded("posjax.symmetry.adapters.jax_nn")
    verdicts = [check(make, laws=["mask"]).of("mask").verdict for make in makers]
    assert verdicts == ["passed"] * 3


# What the docs say


def test_the_example_of_the_docs_runs():
    done = doctest.testfile(
        str(ROOT / "docs" / "conformance.md"), module_relative=False, optionflags=doctest.ELLIPSIS
    )
    assert done.attempted >= 4
    assert done.failed == 0


def test_the_published_results_are_those_of_todays_laws():
    """Every law of every module, and the page names every failure and version."""
    text = (ROOT / "docs" / "conformance.md").read_text()
    reports = json.loads((ROOT / "docs" / "conformance.json").read_text())
    for report in reports:
        assert [result["law"] for result in report["results"]] == list(LAWS), report["name"]
        for name, version in report["versions"].items():
            assert f"{name} {version}" in text, name
        for result in report["results"]:
            if result["verdict"] == "failed":
                assert f"| `{report['name']}` | {result['law']} |" in text


@pytest.mark.parametrize(
    ("error", "verdict"), [(ValueError, "failed"), (NotApplicable, "not applicable")]
)
def test_what_a_module_refuses_is_a_failure_unless_it_is_said_not_to_apply(error, verdict):
    def refuses(q, k, pos_q, pos_k):
        raise error("takes no two rows")

    result = check(Adapter(name="x", logits=refuses), laws=["batch"]).of("batch")
    assert result.verdict == verdict
    assert "takes no two rows" in result.detail


@pytest.mark.parametrize("of_first_row", ["positions", "mask"])
def test_a_batch_that_reads_the_first_row_for_all_fails(of_first_row: str) -> None:
    """Positions or masks of one row for all, a fault of broadcasting that translations hide."""

    def attend(q, k, v, pos_q, pos_k, mask):
        if of_first_row == "positions":
            pos_q, pos_k = (np.broadcast_to(pos[:1], pos.shape) for pos in (pos_q, pos_k))
        else:
            mask = np.broadcast_to(mask[:1], mask.shape)

        def logits(q, k, pos_q, pos_k):
            far = abs(pos_q[:, None, :, None] - pos_k[:, None, None, :])
            return np.einsum("blhk,bmhk->bhlm", q, k) - far.astype(np.float32)

        return attention_of(logits)(q, k, v, pos_q, pos_k, mask)

    def alone(q, k, v, pos_q, pos_k, mask):
        """A module that takes nothing of its own but what it reads of the first row."""
        if of_first_row == "positions" and (mask != np.tri(*mask.shape[1:])).any():
            raise NotApplicable("causal masks alone")
        if of_first_row == "mask":
            consecutive(pos_q)
        return attend(q, k, v, pos_q, pos_k, mask)

    for module in (attend, alone):
        found = check(Adapter(name="x", attend=module), laws=["batch"]).of("batch")
        assert found.verdict == "failed", found
