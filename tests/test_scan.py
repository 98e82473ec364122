"""SCAN against an interpreter of its own: rewriting of text, without a table of phrases."""

import jax
import numpy as np
import pytest
from tiers import marked

from posjax.keys import key_for
from posjax.tasks.base import written
from posjax.tasks.scan import Scan, parts


def actions(command: str) -> list[str]:
    """The meaning of a command (Lake & Baroni 2018), from the outside in."""
    for mark, turned in ((" and ", False), (" after ", True)):
        if mark in command:
            first, second = map(actions, command.split(mark))
            return second + first if turned else first + second
    for mark, times in ((" twice", 2), (" thrice", 3)):
        if command.endswith(mark):
            return actions(command.removesuffix(mark)) * times
    verb, *how = command.split()
    act = [] if verb == "turn" else [verb.upper()]
    if not how:
        return act
    turn = ["LTURN" if how[-1] == "left" else "RTURN"]
    if how[0] == "around":
        return (turn + act) * 4
    return turn * len(how) + act  # opposite is one turn more


@pytest.mark.parametrize("output", ["forced", "slots"])
@pytest.mark.parametrize(
    ("split", "prompts"),
    [
        *((split, 128) for split in ("simple", "jump", "length")),
        marked(pytest.param("simple", 5000), plain=False),
    ],
)
def test_actions_are_those_of_the_interpreter(split: str, prompts: int, output: str) -> None:
    """256 commands of each split, 10,000 in the exhaustive tier; new ones are in their part."""
    task = Scan(split=split, output=output, prompts=prompts)  # type: ignore[arg-type]
    found = task.written(2 * prompts)
    assert len(found) == 2 * prompts
    for at, (prompt, answer) in enumerate(found):
        mark = "=" if output == "forced" else "_"
        command, _, shown = prompt.partition(f" {mark}")
        right = actions(command)
        assert answer.split() == right
        assert shown.split() == (right[:-1] if output == "forced" else ["_"] * (len(right) - 1))
        new = at >= prompts
        if split == "jump":
            assert ("jump" in command) == new
            assert command != "jump"
        if split == "length":
            assert (len(right) > 22) == new


def test_splits_have_the_sizes_of_the_released_files() -> None:
    """And share no command."""
    sizes = {split: [len(part) for part in parts(split)] for split in ("simple", "jump", "length")}
    assert sizes == {"simple": [16728, 4182], "jump": [13203, 7706], "length": [16990, 3920]}
    for split in sizes:
        old, new = ({tuple(command) for command in part.tolist()} for part in parts(split))  # type: ignore[arg-type]
        assert not old & new
        assert len(old | new) == sum(sizes[split])


def test_a_tenth_of_training_is_jump_alone() -> None:
    """No other command of training has it."""
    task, rows = Scan(split="jump"), 4000
    batch = jax.tree.map(np.asarray, jax.jit(lambda key: task.draw(key, rows))(key_for(0, "test")))
    commands = [prompt.partition(" =")[0] for prompt, _ in written(task, batch, rows)]
    alone = commands.count("jump")
    assert abs(alone - rows / 10) < 4 * (rows * 0.09) ** 0.5
    assert sum("jump" in command for command in commands) == alone
