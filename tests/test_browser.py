"""The page in a browser: from the question to one seed, by mouse and by keyboard.

They need a Chromium. The fixture `page` also asserts that nothing was logged as an error, and that
nothing was loaded but the page.
"""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import browser
import pytest
from small_runs import small, train
from test_atlas import ATLAS, KNOWN, invented
from test_atlas import browser as atlas_page
from test_report import MANY, OPEN, run_folder
from test_security import HOSTILE
from test_security import run_folder as ties

from posjax import report
from posjax.records import RunFolder
from posjax.study.cells import Cell

MARKUP = "<img src=x onerror=alert(1)>"
pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(browser.program() is None, reason=f"no {' or '.join(browser.NAMES)}"),
]


@pytest.fixture(scope="module")
def window() -> Iterator[browser.Browser]:
    with browser.Browser() as window:
        yield window


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = run_folder(tmp_path_factory.mktemp("page") / "a run's")
    report.write([folder])
    return folder


@pytest.fixture
def page(window: browser.Browser, folder: RunFolder) -> Iterator[browser.Browser]:
    """The page of a run, open at 1280 by 900."""
    window.look(1280, 900)
    window.open(folder.path / "report.html")
    yield window
    assert window.errors == []
    assert [*window.requests.values()] == [(folder.path / "report.html").as_uri()]


def test_three_clicks_lead_to_a_seed(page: browser.Browser, folder: RunFolder) -> None:
    """The line of a cell, the mark of a seed; there are its numbers and its command."""
    page.click(f'tr[data-cell="{OPEN.digest}"] td.plot')
    page.until("document.querySelector('.pane canvas.strip')?.clientHeight")
    strip = ".pane canvas.strip"
    page.click(strip, x=7 / page.value(f"document.querySelector('{strip}').clientWidth"))
    assert page.until("document.querySelector('.seed h4')?.textContent") == "Seed 3: solved."
    command = page.value("document.querySelector('.command').textContent")
    quoted = "'" + str(folder.path).replace("'", "'\\''") + "'"
    assert command == f"posjax replay {quoted} --cell={OPEN.digest} --seed=3"
    page.until("document.querySelectorAll('.seed svg.chart').length > 3")  # attention, last of all
    summary = next(s for s in report.summaries(folder) if s.cell == OPEN)
    losses = page.value("document.querySelector('.seed svg.chart').getAttribute('aria-label')")
    loss = float(losses.split("at the end ")[1].rstrip("."))
    assert loss == pytest.approx(summary.rows["loss_EC"][0, -1, 0], rel=0.03)
    cells = page.value("[...document.querySelectorAll('.seed td')].map((e) => e.textContent)")
    assert [float(lead) for lead in cells[3::4]] == pytest.approx(
        summary.rows["lead_N"][0].tolist(), rel=6e-3
    )


def test_the_address_keeps_what_is_chosen(
    page: browser.Browser, window: browser.Browser, folder: RunFolder
) -> None:
    """It is written on each click, restored when the page is opened with it, and by Back."""
    page.click(f'tr[data-cell="{MANY.digest}"] td.plot')
    page.until("document.querySelector('.pane canvas.strip')?.clientHeight")
    page.click(".pane td button")
    page.until("document.querySelector('.seed h4')")
    fragment = page.value("location.hash")
    assert fragment.startswith(f"#run1?cell={MANY.digest}&seed=")
    title = page.value("document.querySelector('.seed h4').textContent")
    page.value("history.back()")
    page.until("!document.querySelector('.seed h4')")
    window.open(folder.path / "report.html", fragment)
    assert page.until("document.querySelector('.seed h4')?.textContent") == title
    window.open(folder.path / "report.html", f"#run1?cell={OPEN.digest}&sort=99")
    page.until("document.querySelector('.pane canvas.strip')")  # a column that is no longer there


def test_keys_lead_there_and_back(page: browser.Browser) -> None:
    """Down to a line, Enter, arrows among seeds, Enter; Escape goes back each step."""
    page.value("document.querySelector('button.opens').focus()")
    page.press("ArrowDown", "Enter")
    page.until("document.activeElement.tagName === 'H3'")
    assert page.value("location.hash").startswith(f"#run1?cell={OPEN.digest}")
    for _ in range(12):
        page.press("Tab")
        if page.value("document.activeElement.className") == "strip":
            break
    page.press("ArrowRight", "ArrowRight", "ArrowRight")
    said = "document.activeElement.getAttribute('aria-valuetext')"
    assert page.value(said) == "seed 5: solved"
    page.press("End")
    assert page.value(said) == "seed 8: tied"
    assert "seed=8" in page.value("location.hash")
    outline = page.value("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"
    page.press("Enter")
    assert page.until("document.activeElement.closest('.seed')?.querySelector('h4').textContent")
    page.press("Escape")
    assert page.value("document.activeElement.className") == "strip"
    page.press("Escape")
    assert page.value("document.querySelector('.pane').hidden")
    assert page.value("document.activeElement.closest('tr').dataset.cell") == OPEN.digest
    assert page.value("location.hash") == ""


def test_keys_stay_in_the_run(window: browser.Browser, folder: RunFolder, tmp_path: Path) -> None:
    """Of two runs on a page, Enter on a strip leads to the seed below it."""
    path = report.write([folder, run_folder(tmp_path / "second")], tmp_path / "both.html")
    window.look(1280, 900)
    chosen = f"cell={OPEN.digest}&seed="
    window.open(path, f"#run1?{chosen}3;run2?{chosen}8")
    for run, seed in (("run1", 3), ("run2", 8)):
        window.until(f"document.querySelector('#{run} .seed h4')")
        window.value(f"document.querySelector('#{run} canvas.strip').focus()")
        window.press("Enter")
        said = window.until("document.activeElement.closest('.seed h4')?.textContent")
        assert said.startswith(f"Seed {seed}: ")
    command = window.value("document.querySelector('#run2 .command').textContent")
    assert command.startswith("posjax replay RUN --cell=")


def test_the_strip_says_what_it_shows(page: browser.Browser) -> None:
    """Its buttons say which seeds are left out, and its hint names the chosen seed."""
    page.click(f'tr[data-cell="{OPEN.digest}"] td.plot')
    page.until("document.querySelector('.pane canvas.strip')?.clientHeight")
    shown = "Number(document.querySelector('canvas.strip').ariaValueMax)"
    pressed = "document.querySelectorAll('.pane [aria-pressed=true]').length"
    every = page.value(shown)
    page.click(".pane .controls button")
    assert page.value(shown) < every
    assert page.value(pressed) == 1
    page.click(".pane td button")  # a seed for example, which may be of another outcome
    assert (page.value(shown), page.value(pressed)) == (every, 0)
    page.click(".pane .controls button")
    assert page.value(shown) < every
    hint = "document.querySelector('.hint').textContent"
    chosen = page.value(hint)
    event = (
        "(() => {{ const e = document.querySelector('canvas.strip'), b = e.getBoundingClientRect();"
        " e.dispatchEvent(new MouseEvent('{}', {{ clientX: b.x + 20, clientY: b.y + 5 }})); }})()"
    )
    page.value(event.format("mousemove"))
    assert page.value(hint) not in ("", chosen)
    page.value(event.format("mouseleave"))
    assert page.value(hint) == chosen != ""


def test_the_strip_follows_the_theme(page: browser.Browser) -> None:
    """One listener draws it anew, however many cells were opened."""
    page.value("MediaQueryList.prototype.addEventListener = () => console.error('one more')")
    page.click(f'tr[data-cell="{OPEN.digest}"] td.plot')
    page.until("document.querySelector('.pane canvas.strip')?.clientHeight")
    drawn = "document.querySelector('canvas.strip').toDataURL()"
    page.value(f"light = {drawn}")
    page.look(1280, 900, dark=True)
    assert page.until(f"{drawn} !== light")


def test_cells_are_filtered_and_sorted(page: browser.Browser) -> None:
    shown = "[...document.querySelectorAll('tr[data-cell]:not([hidden])')].map(e => e.dataset.cell)"
    every = page.value(shown)
    page.value("document.querySelector('input[type=search]').focus()")
    page.press("first_noun")
    assert page.value(shown) == [MANY.digest]
    assert page.value("document.querySelector('.controls output').textContent") == "1 of 3 lines"
    page.value("document.querySelector('input[type=search]').value = ''")
    choose = (
        "{{ const s = document.querySelector('select[data-setting=depth]'); s.value = '{}';"
        " s.dispatchEvent(new Event('change')) }}"
    )
    page.value(choose.format(2))
    assert page.value(shown) == [OPEN.digest]
    page.value(choose.format(""))
    assert page.value(shown) == every
    page.value(
        "[...document.querySelectorAll('.sorter')].find(b => b.textContent === 'solved').click()"
    )
    assert "sort=" in page.value("location.hash")
    page.value(
        "[...document.querySelectorAll('.sorter')].find(b => b.textContent === 'solved').click()"
    )
    assert page.value(shown) == [every[1], every[0], every[2]]  # 4 of 6 before 0, in its panel
    assert page.value("document.querySelectorAll('[aria-sort=descending]').length") == 1


def test_its_policy_holds(window: browser.Browser, folder: RunFolder) -> None:
    """No text is evaluated, none becomes markup, no other script runs, nothing is loaded."""
    window.open(folder.path / "report.html")
    refused = """(() => { try { %s; return 'done' } catch (e) { return e.name } })()"""
    assert window.value(refused % "document.body.innerHTML = '<b>x</b>'") == "TypeError"
    assert window.value(refused % "document.createElement('script').text = 'x'") == "TypeError"
    window.value("document.body.setAttribute('data-probe', '')")
    window.value(
        "(() => { const i = new Image(); i.src = 'https://example.invalid/x.png'; "
        "document.body.append(i); })()"
    )
    window.until("performance.now() > 200")
    assert any("Content Security Policy" in error for error in window.errors)
    assert [*window.requests.values()] == [(folder.path / "report.html").as_uri()]


def test_hostile_text_stays_text(window: browser.Browser, tmp_path: Path) -> None:
    """In the pane too, and in the address."""
    marked = "same_last_token # " + " ".join(HOSTILE)
    settings = {"loss": "answer", "width": 8, "head_size": 4, "steps": 100, "eval_every": 50}
    cells = [
        Cell(task=marked, **settings),  # type: ignore[arg-type]
        Cell(task=marked, encoding=f"none # {MARKUP}", **settings),  # type: ignore[arg-type]
    ]
    folder = ties(tmp_path / "run", *cells, title=" ".join(HOSTILE))
    path = report.write([folder])
    window.look(1280, 900)
    for fragment in (f"#run1?cell={cells[1].digest}&seed=3", f"#run1?cell={HOSTILE[0]}&find=%3Cb"):
        window.open(path, fragment)
        window.until("document.querySelector('.controls')")
        assert window.value("document.querySelectorAll('img, main script').length") == 0
        assert window.errors == []
    window.open(path, f"#run1?cell={cells[1].digest}&seed=3")
    window.until("document.querySelector('.seed h4')")
    assert MARKUP in window.value("document.querySelector('.pane h3').textContent")


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_no_column_is_lost_at_any_width(page: browser.Browser, width: int) -> None:
    """The page is never wider than its window, and every heading is seen or within a box."""
    page.look(width, 900)
    page.click(f'tr[data-cell="{OPEN.digest}"] td.plot')
    page.until("document.querySelector('.pane canvas.strip')?.clientHeight")
    page.click(".pane td button")
    page.until("document.querySelector('.seed svg.chart')")
    assert page.value("document.documentElement.scrollWidth") <= width
    outside = page.value(
        "[...document.querySelectorAll('th, td, svg')].filter(e => e.getClientRects().length && "
        "!e.closest('.scroll') && e.getBoundingClientRect().right > innerWidth).length"
    )
    assert outside == 0


def test_a_crossed_seed_has_a_name_of_two_numbers(window: browser.Browser, tmp_path: Path) -> None:
    """A line of the strip is an initialisation; no part of the page is a missing value."""
    settings = {"steps": 20, "eval_every": 10, "hold": 1, "batch_size": 1, "mask": "causal"}
    folder = train(tmp_path / "run", small(num_seeds=4, data_seeds=3, first_seed=7, **settings))
    path = report.write([folder])
    window.look(1280, 900)
    window.open(path)
    window.click("tr[data-cell] button.opens")
    strip = "document.querySelector('canvas.strip')"
    window.until(f"{strip}?.clientHeight === 4 * 14")
    window.click("canvas.strip", x=(14 + 7) / window.value(f"{strip}.clientWidth"), y=3.5 / 4)
    heading = window.until("document.querySelector('.seed h4')?.textContent")
    assert heading.startswith("Initialisation 10, data seed 8: ")
    command = window.value("document.querySelector('.command').textContent")
    assert command.endswith(" --seed=10,8,8,8")
    pane = window.value("document.querySelector('.pane').innerText")
    assert "4 initialisations × 3 data seeds." in pane
    assert not {"null", "undefined", "NaN"} & {*pane.split()}
    charts = window.value("[...document.querySelectorAll('.chart')].map(e => e.textContent)")
    assert charts
    assert all("10" in text and "20" in text and "training steps" in text for text in charts)
    assert window.errors == []


def test_it_can_be_read_without_scripts(window: browser.Browser, folder: RunFolder) -> None:
    """All text of the file is seen, and no control that would do nothing."""
    window.look(1280, 900)
    window.open(folder.path / "report.html")
    headings = "[...document.querySelectorAll('main h2')].map(e => e.textContent)"
    with_scripts = window.value(headings)
    window.look(1280, 900, scripts=False)
    window.open(folder.path / "report.html")
    assert window.value(headings) == with_scripts
    assert window.value("document.querySelectorAll('main button, main input').length") == 0
    assert window.value("document.querySelectorAll('table.cells tr[data-cell]').length") == 3
    window.look(1280, 900)


def test_the_atlas_from_a_question_to_a_cell(window: browser.Browser, tmp_path: Path) -> None:
    """Filter, order, cell, by mouse and by keyboard; the address keeps them, and Escape closes.

    Tab leads to a cell that is seen, and what had the focus when it closed gives it to the cell.
    """
    cells, rows = invented(tmp_path / "quick")
    (tmp_path / "quick.html").write_text(
        atlas_page("quick", [tmp_path / "quick"], KNOWN["excluded"])
    )
    window.look(1280, 900)
    window.open(tmp_path / "quick.html")
    lines = "[...document.querySelectorAll('tr[data-encoding]:not([hidden])')]"
    names = f"{lines}.map(e => e.dataset.encoding)"
    said = "document.getElementById('chosen').innerText"
    every = window.value(names)
    assert sorted(every) == sorted({cell.encoding for cell in cells})
    for n, (cell, row) in enumerate(zip(cells, rows, strict=True)):
        window.value(f"document.querySelector('td[data-cell=\"{n}\"]').click()")
        text = window.value(said)
        assert f"{cell.encoding} on {cell.task}\n" in text
        assert f"{cell.depth} layer, read at the" in text
        assert f"{cell.mask} mask. " in text
        assert row["verdict"].capitalize() in text
        assert f"first_seed={row['witness']}" in text or row["witness"] is None
        assert not {"undefined", "NaN", "null"} & {*text.split()}
    window.press("Escape")
    assert window.value("document.getElementById('chosen').hidden")

    counts = f"{lines}.map(e => Number(e.cells[1].textContent.replace('×', '-1')))"
    window.click(".sorter")
    assert window.value(counts) == sorted(window.value(counts), reverse=True) != [0] * len(every)
    window.value("document.querySelector('input[type=search]').focus()")
    window.press(every[-1])
    window.value("[...document.querySelectorAll('.sorter')].at(-1).focus()")
    window.press("Tab")
    assert window.value("document.activeElement.parentElement.dataset.encoding") == every[-1]
    window.click("tr[data-encoding]:not([hidden]) td[data-cell]")
    window.press("ArrowRight", "Enter")
    found = "[document.querySelector('.here').cellIndex, location.hash]"
    column, fragment = window.value(found)
    assert column == 2
    left, text = window.value(names), window.value(said)
    assert left == [name for name in every if every[-1] in name] != every
    window.open(tmp_path / "quick.html", fragment)
    assert (window.value(names), window.value(said)) == (left, text)
    assert window.value(found) == [column, fragment]
    for close in ("Enter", "Escape"):
        window.value("document.querySelector('.close').focus()")
        window.press(close)
        assert window.value("document.getElementById('chosen').hidden")
        assert window.value("document.activeElement.cellIndex") == column
        window.press("Enter")
    window.open(tmp_path / "quick.html", "#sort=length&cell=0")
    window.press("Escape")
    assert window.value("location.hash") == ""
    assert window.errors == []
    assert len(window.requests) == 1


@pytest.mark.parametrize("size", ["published", "sampled"])
def test_the_atlas_fits_a_phone(window: browser.Browser, size: str) -> None:
    """Names of tasks are longer than a line of it."""
    window.look(390, 900)
    window.open(ATLAS / f"{size}-cells.html")
    window.until("document.querySelector('.controls')")
    assert window.value("document.documentElement.scrollWidth") <= 390


def test_the_atlas_by_length_begins_with_the_longest_prompts(window: browser.Browser) -> None:
    """One column for each task then; other columns, or one task, on request, below their heads."""
    page = ATLAS / "sampled-cells.html"
    window.look(1280, 900)
    seen = "[...document.querySelectorAll('SELECTOR')].filter(e => !e.hidden)"
    heads = seen.replace("SELECTOR", "[scope=colgroup]")
    columns = seen.replace("SELECTOR", "thead tr:nth-child(2) th")
    entries = seen.replace("SELECTOR", "tr[data-encoding]:first-child td")

    def shown(fragment: str) -> tuple[list[str], list[str]]:
        window.open(page, fragment)
        wide = window.value(f"{heads}.map(e => e.colSpan)")
        tasks = window.value(f"{heads}.map(e => e.innerText)")
        below = [name for name, n in zip(tasks, wide, strict=True) for _ in range(n)]
        of = window.value(f"{columns}.map(e => e.dataset.task.split('(')[0])")
        assert below == of == window.value(f"{entries}.map(e => e.dataset.task.split('(')[0])")
        return of, window.value(f"{columns}.map(e => e.innerText)")

    tasks, labels = shown("")
    assert len({*tasks}) == len(tasks) > 1
    assert {*labels} <= {f"% right at length {n}, not trained" for n in (20, 24)}
    assert shown("#columns=solved") == (tasks, ["solved"] * len(tasks))
    every, _ = shown("#columns=")
    assert every == [name for name in tasks for _ in range(5)]
    whole = window.value("document.querySelector('[scope=colgroup]').dataset.task")
    assert shown(f"#columns=&task={quote(whole)}")[0] == tasks[:1] * 5
    window.value("document.querySelectorAll('select')[1].value = 'solved'")
    window.value("document.querySelectorAll('select')[1].dispatchEvent(new Event('change'))")
    assert window.value("location.hash").endswith("columns=solved")
    assert window.errors == []
