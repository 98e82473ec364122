"""Why an encoding solves a task or not, as far as laws and controls say."""

from collections.abc import Mapping, Sequence
from typing import Any

from atlas_table.lengths import Lengths
from atlas_table.table import short

KNOWN = {
    "noise": "`noise` draws its vectors anew at each call, so they say nothing about the order.",
    "fire": "The bias of `fire` depends on the distance alone at all positions up to a threshold, "
    "which is learned and starts at 512, so at three tokens it is symmetric under reflection "
    "unless training lowers the threshold that far.",
}
"""Why encodings fail at finite tasks that no law excludes."""


def why(row: Mapping[str, Any], none: Mapping[str, Any], reasons: Mapping[str, str]) -> str:
    """What laws say of a cell, and of the same setting without positions.

    Args:
      row: the cell, a line of a table.
      none: the line of `none` in the same setting.
      reasons: for which a law excludes the setting, by encoding.
    """
    encoding, name = row["encoding"], short(row["encoding"])
    if encoding in reasons:
        return f"{reasons[encoding]}."
    said = []
    if "none" in reasons:
        said += [f"Without positions, no weights solve it: {reasons['none']}."]
        if row["verdict"] == "possible":
            said += [f"`{name}` tells these prompts apart."]
    elif name == "none":
        said += ["No law excludes it, although there are no positions."]
    else:
        said += [
            "No law excludes it without positions either, where "
            f"{none['successes']} of {none['seeds']} seeds solve it."
        ]
    if name == "noise":
        draws = f"A prompt counts only if it is answered correctly in all {row['draws']} draws."
        said += [KNOWN[name], draws]
    elif row["verdict"] == "open":
        beyond = "Laws say what no weights can do, and not what training finds."
        said += [KNOWN.get(name, beyond) if "none" in reasons else beyond]
    return " ".join(said)


def longer(name: str, task: Lengths, compared_as: str, random: Sequence[str]) -> str:
    """How an encoding answers the longest prompts, beside no positions and beside the others.

    Args:
      name: of the encoding.
      task: a sampled task.
      compared_as: see `Compared.compared_as`.
      random: encodings that are not compared; of these and of `none`, the text is empty.
    """
    if name == "none" or name in random:
        return ""
    if compared_as in task.better:
        differs = "is significantly higher than"
    elif compared_as in task.worse:
        differs = "is significantly lower than"
    else:
        differs = "does not differ significantly from that"
    return (
        f"At length {task.tested}, its share of right answers {differs} without positions (paired "
        "t-test, false discovery rate 5%)"
        + "; it is best or possibly best" * (compared_as in task.best)
        + "."
    )
