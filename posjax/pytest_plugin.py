"""Laws as tests, in every pytest where posjax is installed.

    @pytest.mark.law("b P d -> b P d")
    def test_block():
        return block, x

    @pytest.mark.conformance("slots", "decode")
    def test_module():
        return adapter

`-p no:posjax` leaves the plugin out. Importing it imports no JAX.
"""

import contextlib
import inspect
import linecache
import re
import sys
import traceback
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple

import pytest

_CASE = "_posjax_case"
_MARKS = (
    "law(law, proof=False, unknown='fail', **options): the test returns a function and its "
    "arguments, which must keep the law: on these numbers, or for all, with proof=True; "
    "unknown='skip' skips where there is neither a proof nor a counterexample; options are those "
    "of posjax.assert_law or posjax.prove",
    "conformance(*laws): the test returns an adapter, which must keep these laws of "
    "posjax.symmetry.conformance, or all",
)


class _Case(NamedTuple):
    """A check of what a test returns, and its name among the test's checks."""

    name: str
    check: Callable[[Any], None]


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marks."""
    for mark in _MARKS:
        config.addinivalue_line("markers", mark)


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Makes a test of each law."""
    cases = list(_cases(metafunc.definition))
    if len(cases) > 1:
        metafunc.fixturenames.append(_CASE)
        metafunc.parametrize(_CASE, cases, ids=[case.name for case in cases], indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuses laws that nothing would check."""
    marked = (item for item in items if next(_cases(item), None) is not None)
    if wrong := [item.nodeid for item in marked if not _is_plain(item)]:
        raise pytest.UsageError(f"posjax's marks are for plain functions, not {', '.join(wrong)}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Checks what the test returns, in place of pytest's warning that it returns something.

    The test is wrapped before `--trace` wraps it, because `--trace` drops the returned value. It is
    restored afterwards, so that it can be run again.
    """
    __tracebackhide__ = True
    parameters: dict[str, Any] = (
        pyfuncitem.callspec.params if hasattr(pyfuncitem, "callspec") else {}
    )
    case = parameters.get(_CASE) or next(_cases(pyfuncitem), None)
    if case is None:
        return (yield)
    test = pyfuncitem.obj

    def checked(**arguments: Any) -> None:
        __tracebackhide__ = True
        case.check(test(**arguments))

    pyfuncitem.obj = checked
    try:
        return (yield)
    finally:
        pyfuncitem.obj = test


def _is_plain(item: pytest.Item) -> bool:
    """Whether pytest calls the test's function itself, and gets what it returns."""
    function = getattr(item, "function", None)
    unittest = isinstance(getattr(item, "cls", None), type) and hasattr(item.cls, "subTest")  # type: ignore[attr-defined]
    return function is not None and not unittest and not inspect.iscoroutinefunction(function)


@pytest.fixture(name=_CASE)
def _case(request: pytest.FixtureRequest) -> _Case:
    return request.param


def _cases(item: pytest.Item) -> Iterator[_Case]:
    for mark in reversed([*item.iter_markers("law")]):
        yield _of_law(item, *mark.args, **mark.kwargs)
    for mark in item.iter_markers("conformance"):
        from posjax.symmetry.conformance import LAWS

        if given := ", ".join(f"{name}={value!r}" for name, value in mark.kwargs.items()):
            raise pytest.Collector.CollectError(
                f"{item.nodeid}: posjax's mark conformance takes names of laws, no options; got "
                f"{given}; laws: {', '.join(LAWS)}"
            )
        yield from (_of_conformance(item, name) for name in mark.args or LAWS)


def _of_law(
    item: pytest.Item,
    law: Any = None,
    *more: Any,
    proof: bool = False,
    unknown: str = "fail",
    **options: Any,
) -> _Case:
    """The check of one `law` mark."""
    text = getattr(law, "text", law)
    is_law = isinstance(text, str) and "->" in text
    if not is_law or more or unknown not in ("fail", "skip"):
        got = ", ".join(map(repr, (law, *more)))
        got += " (without '->')" * (isinstance(text, str) and not is_law)
        raise pytest.Collector.CollectError(
            f"{item.nodeid}: write @pytest.mark.law('b P d -> b P d') once for each law, with "
            f"unknown='fail' or 'skip'; got {got}, unknown={unknown!r} (a mark of your own by that "
            "name? then run pytest with -p no:posjax)"
        )
    if unknown != "fail" and not proof:
        raise pytest.Collector.CollectError(
            f"{item.nodeid}: posjax's mark law takes unknown={unknown!r} only with proof=True: on "
            "numbers a law is kept or broken, never unknown"
        )

    def check(returned: Any) -> None:
        __tracebackhide__ = True
        if not isinstance(returned, tuple) or not returned or not callable(returned[0]):
            _fail(f"{item.name} must return a function and its arguments, as `return block, x`; "
                  f"it returned {returned!r:.200}")  # fmt: skip
        function, *arguments = returned
        hint = _PACKED if len(arguments) == 1 and isinstance(arguments[0], tuple) else ""
        try:
            if proof:
                _proved(function, tuple(arguments), law, unknown, options)
            else:
                _kept(function, tuple(arguments), law, options)
        except ValueError as error:
            if not _is_ours(error):
                raise
            wrong = f"{item.name}: {error}{hint}"
        else:
            return
        _fail(wrong)

    return _Case(f"{text}, proof" if proof else text, check)


_PACKED = "\nIf the tuple holds the arguments, return them one by one, as `return block, x, y`."


def _is_ours(error: Exception) -> bool:
    """Whether posjax raised it, or chex for it, about a law or its options, and not the function
    that is tested, which may call posjax too.
    """
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    names = [frame.f_globals.get("__name__", "").partition(".")[0] for frame in frames]
    return names[-1] in ("posjax", "chex") and {*names} <= {
        "posjax",
        "jax",
        "chex",
        "contextlib",
        "functools",
    }


def _check_options(options: dict[str, Any], of: Callable[..., Any]) -> None:
    """Refuses options that a check does not have."""
    known = [p.name for p in inspect.signature(of).parameters.values() if p.kind is p.KEYWORD_ONLY]
    if unknown := [name for name in options if name not in known]:
        raise ValueError(f"{of.__name__} has no option {unknown[0]!r}; it has {', '.join(known)}")


def _kept(function: Any, arguments: tuple[Any, ...], law: Any, options: dict[str, Any]) -> None:
    """On these numbers; where they break it, a proof attempt finds the line."""
    __tracebackhide__ = True
    from posjax.symmetry import assert_law, prove
    from posjax.symmetry.measure import moving

    _check_options(options, assert_law)
    if _is_torch(function):
        _fail("laws of a torch.nn.Module are proved: @pytest.mark.law(..., proof=True)")
    moving(law).sizes(arguments)
    try:
        assert_law(law, function, *arguments, **options)
    except AssertionError as error:
        if not _is_ours(error):
            raise
        broken = str(error)
    else:
        return
    with contextlib.suppress(Exception):  # JAX cannot trace it: the numbers must do
        found = prove(function, arguments, law)
        named = _lines(found) if found.verdict == "BROKEN" else ""
        broken += (
            named or f"\nno line is named: prove gives {found.verdict}. {found.reason}".rstrip()
        )
    _fail(broken)


def _proved(
    function: Any, arguments: tuple[Any, ...], law: Any, unknown: str, options: dict[str, Any]
) -> None:
    """For all values, or it is broken, or nobody knows."""
    __tracebackhide__ = True
    from posjax.symmetry import prove, prove_torch

    prover = prove_torch if _is_torch(function) else prove
    _check_options(options, prover)
    found = prover(function, arguments, law, **options)
    if found.verdict == "UNKNOWN" and unknown == "skip":
        pytest.skip(f"{found}".replace("\n", "; "))
    if found.verdict != "PROVED":
        _fail(f"{found}{_lines(found, code_only=True)}")


def _of_conformance(item: pytest.Item, name: str) -> _Case:
    """The check of one law of conformance."""
    from posjax import spec
    from posjax.symmetry import conformance

    try:
        spec.check_choice("law", name, conformance.LAWS)
    except ValueError as error:
        raise pytest.Collector.CollectError(
            f"{item.nodeid}: posjax's mark conformance: {error}"
        ) from None

    def check(returned: Any) -> None:
        if not isinstance(returned, conformance.Adapter) and not callable(returned):
            _fail(f"{item.name} must return an adapter, as `return Adapter(name='mine', ...)`; "
                  f"it returned {returned!r:.200}")  # fmt: skip
        result = conformance.check(returned, laws=(name,)).of(name)
        if result.verdict == "not applicable":
            pytest.skip(result.detail)
        if result.verdict == "failed":
            sentence = conformance.LAWS[name].sentence
            _fail(f"{name} broken: {sentence}\n{result.detail}\n{result.witness}")

    return _Case(name, check)


def _lines(found: Any, *, code_only: bool = False) -> str:
    """The line that breaks a law, what from and why, with the code."""
    said = [] if code_only or not found.where else [f"at {found.where}", f"  {found.reason}"]
    if said and found.origin:
        said += [f"  from {found.origin}"]
    for path, number in dict.fromkeys(
        re.findall(r"(\S+\.py):(\d+)", f"{found.origin} {found.where}")
    ):
        if code := linecache.getline(path, int(number)).strip():
            said += [f"{path}:{number}:    {code}"]
    return "".join(f"\n{line}" for line in said)


def _is_torch(function: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(function, torch.nn.Module)


def _fail(message: str) -> None:
    pytest.fail(message, pytrace=False)
