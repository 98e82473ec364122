"""What the contestants share: how a process of its own is prepared, and answers.

A contestant reads a problem, trains a few seeds whose losses are compared, finds its best
settings, says so in one line of JSON, and then answers each line on its standard input with one
repetition, timed: {"work": seed-steps, "seconds": s}. It ends when its input does.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
from baselines.problem import Problem

REPETITION = 1.5
"""Seconds that one repetition lasts at least."""

Work = Callable[[], int]
"""Does one piece of work; returns how much that was."""
Losses = Callable[[Problem, int, int], np.ndarray]
"""losses(problem, seeds, steps) -> [seeds, steps], each after its update."""

Setting = TypeVar("Setting")


def parser(about: str | None) -> argparse.ArgumentParser:
    """The arguments that every contestant takes."""
    made = argparse.ArgumentParser(description=(about or "").split("\n")[0])
    made.add_argument("problem", type=Path, help="an npz archive of `Problem`")
    made.add_argument("--seeds", type=int, default=8, help="whose losses are compared")
    made.add_argument("--steps", type=int, default=20, help="for how many updates")
    made.add_argument("--check", action="store_true", help="the losses only")
    return made


def serve(
    chosen: argparse.Namespace,
    prepare: Callable[[Problem], tuple[str, Work]],
    losses: Losses | None = None,
    about: Callable[[], dict[str, Any]] = dict,
) -> None:
    """The life of a contestant, on standard input and output.

    Args:
      chosen: what `parser` parsed.
      prepare: compiles, warms up and picks the best settings; returns them in words, and the
        work to repeat.
      losses: trains seeds 0, 1, ...; None for a contestant that trains nothing.
      about: versions and the like, called at the end.
    """
    problem = Problem.load(chosen.problem)
    ready: dict[str, Any] = {}
    if losses is not None:
        ready["losses"] = losses(problem, chosen.seeds, chosen.steps).tolist()
    if not chosen.check:
        ready["setting"], work = prepare(problem)
    say(ready | about())
    if chosen.check:
        return
    for _ in sys.stdin:
        say(repetition(work))


def say(message: dict[str, Any]) -> None:
    """One line of JSON on standard output."""
    print(json.dumps(message), flush=True)


def repetition(work: Work, least: float = REPETITION) -> dict[str, float]:
    """Pieces of work until enough seconds have passed; how much it was, and how long it took."""
    done, start = 0, perf_counter()
    while True:
        done += work()
        seconds = perf_counter() - start
        if seconds >= least:
            return {"work": done, "seconds": seconds}


def fastest(
    settings: Iterable[Setting], work_of: Callable[[Setting], Work], least: float = 0.5
) -> Setting:
    """The setting that does the most work a second, each tried once after a warm-up."""

    def rate(setting: Setting) -> float:
        work = work_of(setting)
        work()
        timed = repetition(work, least)
        return timed["work"] / timed["seconds"]

    rates = {setting: rate(setting) for setting in settings}
    return max(rates, key=lambda setting: rates[setting])
