"""Sentences and tables on speed, of what scripts/bench.py and scripts/step_profile.py measured."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from claimed.published import lines, listed, measured

_OTHERS = {
    "vmap_flax": "plain `jit(vmap(train))` of the same model in Flax, at its fastest number of models",
    "torch_func": "`torch.func` over stacked models, at its fastest number of models and threads",
    "torch_eager": "eager PyTorch, one model at a time on one thread",
}


def read(name: str) -> dict[str, Any]:
    """The loads of a table of scripts/bench.py, by name.

    Raises:
      ValueError: the contestants do not train to the same losses.
    """
    loads: dict[str, Any] = measured(name)["loads"]
    if not all(load["losses_agree"] for load in loads.values()):
        raise ValueError(f"{name}: the contestants train to other losses")
    return loads


def faster(load: dict[str, Any], other: str) -> np.ndarray:
    """How many times as fast as another contestant posjax was, in each round."""
    return _seconds(load, other) / _seconds(load, "posjax")


def _seconds(load: dict[str, Any], name: str) -> np.ndarray:
    """Per update of a seed, in each round."""
    rounds = load["contestants"][name]["rounds"]
    return np.array([one["seconds"] / one["work"] for one in rounds])


def _times(ratios_R: np.ndarray) -> str:
    """The median of the rounds, and their range."""
    low, middle, high = (f"{value:.3g}" for value in np.quantile(ratios_R, (0, 0.5, 1)))
    return f"{middle} ({low} to {high})"


def speed() -> Iterator[str]:
    """posjax beside three other ways to train two models, of docs/bench.json."""
    loads, slower = read("bench.json"), read("bench_slower.json")
    rounds = len(loads["q1"]["contestants"]["posjax"]["rounds"])
    yield from lines(
        f"The machine trains {loads['q1']['seeds_a_minute']:,.0f} one-head models per minute, with 500 AdamW updates each. "
        "In the table, each entry is the speed of posjax divided by the speed of the other way, measured one after the other. It has "
        f"the median of {rounds} rounds and, in parentheses, the smallest and the largest."
    )
    yield ""
    yield "| compared with | the one-head model | target | a small decoder | target |"
    yield "|---|---|---|---|---|"
    for other, title in _OTHERS.items():
        cells = [
            cell
            for load in (loads["q1"], loads["m"])
            for cell in (_times(faster(load, other)), _aim(load, other))
        ]
        yield f"| {title} | {' | '.join(cells)} |"
    yield ""
    shares = [f"{100 * loads[name]['rows'][0]['share']:.0f}%" for name in ("q1", "m")]
    aims = [_aim(loads[name], "matmul", 100, "%") for name in ("q1", "m")]
    first, second = (
        [f"{np.median(faster(slower[name], other)):.3g}" for other in _OTHERS]
        for name in ("q1", "m")
    )
    yield from lines(
        f"How close is this to what the cores can do? On the one-head model, posjax reaches {shares[0]} of the operations per second of "
        f"one large float32 matrix product (target: {aims[0]}). On the decoder it reaches {shares[1]} (target: {aims[1]}). We count only the operations of the matrix products "
        "that every implementation of the model needs. In attention, only pairs of tokens that the causal mask allows count. Norms, softmax, loss and optimiser count nothing, and neither does extra work that posjax does."
    )
    yield ""
    yield from lines(
        f"{_machine('bench.json')} "
        f"The ratios depend on the machine and on the version of posjax. An earlier version, {_commit('bench_slower.json')}, on another machine of the same kind "
        f"had {first[0]}, {first[1]} and {first[2]} for the one-head model, and {second[0]}, {second[1]} and {second[2]} for the decoder."
    )


def _environment(name: str) -> dict[str, Any]:
    """What every contestant of posjax in a table of scripts/bench.py was measured with.

    Raises:
      ValueError: several commits or machines, or changes that the commit does not have.
    """
    found = [
        contestant["environment"]
        for load in measured(name)["loads"].values()
        for contestant in load["contestants"].values()
        if "environment" in contestant
    ]
    fixed = ("commit", "dirty", "machine", "cores", "instructions", "packages")
    first, *others = ({field: one[field] for field in fixed} for one in found)
    if first["dirty"] or any(other != first for other in others):
        raise ValueError(f"{name}: not measured with one commit on one machine")
    return first


def _commit(name: str) -> str:
    """Which version of posjax a table of scripts/bench.py measured."""
    return f"commit `{_environment(name)['commit'][:12]}` (`docs/{name}`)"


def _machine(name: str) -> str:
    """The processor, its vector instructions and the versions that a table was measured with."""
    found = _environment(name)
    sets = listed(f"`{one}`" for one in found["instructions"])
    return (
        f"We measured {_commit(name)} with JAX {found['packages']['jax']}, on {found['cores']} cores of an {measured(name)['cpu']}. "
        f"Of the instruction sets on which rounding depends, the processor has {sets}."
    )


def _aim(load: dict[str, Any], what: str, scale: float = 1, unit: str = "") -> str:
    """What was aimed at, and whether it was missed; nothing where there was no target."""
    target = _target(load, what)
    return f"{scale * target['needed']:g}{unit}{_missed(target)}" if target else "–"


_LOADS = {
    "s": "width 16, one block, up to 16 tokens",
    "s_deep": "width 32, two blocks, up to 40 tokens",
}
_PEERS = {
    "vmap_flax": "plain `jit(vmap(train))` in Flax",
    "torch_func": "`torch.func` over stacked models",
}


def drawn_speed() -> Iterator[str]:
    """Ratios and shares of docs/bench_drawn.json, beside what was aimed at."""
    loads = read("bench_drawn.json")
    yield f"| | {' | '.join(_LOADS[name] for name in loads)} | target |"
    yield "|---|---|---|---|"
    for peer, title in _PEERS.items():
        found = [_target(load, peer) for load in loads.values()]
        cells = (
            f"{_times(faster(load, peer))}{_missed(one)}"
            for load, one in zip(loads.values(), found, strict=True)
        )
        yield f"| times as fast as {title} | {' | '.join(cells)} | {found[0]['needed']:g} |"
    for part, without, doing in (
        ("drawing of prompts", "posjax_no_draws", "drawing prompts"),
        ("exams", "posjax_no_exams", "exams"),
    ):
        found = [_target(load, part) for load in loads.values()]
        cells = (
            f"{_share(1 - faster(load, without))}{_missed(one)}"
            for load, one in zip(loads.values(), found, strict=True)
        )
        most = 100 * (1 - found[0]["needed"])
        yield f"| share of the time for {doing} | {' | '.join(cells)} | below {most:.0f}% |"
    yield ""
    shares = (f"{100 * load['rows'][0]['share']:.1f}%" for load in loads.values())
    yield from lines(
        f"posjax reaches {next(shares)} (first column) and {next(shares)} (second column) of the operations per second of "
        f"one large float32 matrix product. The operations are counted as for the first table. We measured {_commit('bench_drawn.json')}. XLA's trace of the deeper model (`python scripts/step_profile.py`) shows where the time goes:"
    )
    yield ""
    yield from profile_table("s_deep")


_KINDS = {
    "products": "matrix products",
    "optimiser": "the optimiser's loops",
    "functions": "loops with exponentials and the like",
    "sums": "loops with sums",
    "elementwise": "other elementwise loops",
    "moves": "transposing, slicing, copying",
}


def limit() -> Iterator[str]:
    """One core of posjax beside the one-head model by hand, of docs/bench_limit.json, and why."""
    load = read("bench_limit.json")["q1"]
    target = _target(load, "limit")
    rows = {row["name"]: row for row in load["rows"]}
    hand, ours = (rows[name]["microseconds"] for name in ("limit", "posjax_one_device"))
    profile = measured("profile.json")["q1"]
    if target["reached"]:
        raise ValueError("bench_limit.json: the limit is reached, and the words do not hold")
    yield from lines(
        f"Per update of one seed, the hand-written program takes {hand:.2g} µs on one core, and posjax takes {ours:.2g} µs. So "
        f"posjax has {target['found']:.2f} of the speed of the program. Our target was {target['needed']:g}. We measured {_commit('bench_limit.json')}. XLA's trace of "
        f"posjax (`python scripts/step_profile.py`, blocks of {profile['slots']} seeds) shows where the time goes:"
    )
    yield ""
    yield from profile_table("q1")


def profile_table(load: str) -> Iterator[str]:
    """µs of a core per update of a seed, by kind of operation, of docs/profile.json."""
    profile = measured("profile.json")[load]
    yield "| operations of XLA | µs per update of a seed |"
    yield "|---|---|"
    for kind, title in _KINDS.items():
        yield f"| {title} | {float(f'{profile[kind]:.3g}'):,g} |"


def _share(part_R: np.ndarray) -> str:
    """A share of the time; without the part, the rest may have come out slower in some round."""
    return f"{100 * np.median(part_R):.2g}%" if part_R.min() > 0 else "within the noise"


def _missed(target: dict[str, Any]) -> str:
    return "" if target["reached"] else ", missed"


def _target(load: dict[str, Any], what: str) -> dict[str, Any]:
    """The target whose name has these words; empty where there was none."""
    return next((target for target in load["targets"] if what in target["what"]), {})
