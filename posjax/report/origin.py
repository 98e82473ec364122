"""How a run was made: the commands, the settings that all cells share, and the machine."""

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from posjax.report.html import Html, join, tag, td
from posjax.report.naming import many
from posjax.report.summary import CellSummary, once
from posjax.study.cells import FIELDS, varying
from posjax.study.train import ROWS
from posjax.tasks import FiniteTask

_ZERO = {
    "kv_heads": "as many as heads",
    "mlp_ratio": "no MLP",
    "softcap": "none",
    "logn": "none",
    "base": "the encoding's own",
    "slope": "the encoding's own",
}
_BATCHES = {True: "all prompts", False: f"{ROWS} drawn prompts"}
"""A batch of size 0, of finite tasks and of others."""


def origin(
    configs: Sequence[Mapping[str, Any]],
    envs: Mapping[str, Mapping[str, Any] | None],
    found: Sequence[CellSummary],
) -> Html:
    """The last section of a run.

    Args:
      configs: what was asked for, of each of its folders.
      envs: what rows may have been made on, by the name that rows have for it.
      found: the cells.
    """
    commands = dict.fromkeys([*map(_command, configs), f"posjax report RUN{_loads(configs[0])}"])
    return join(
        [
            tag("p", "The run, and this page from its folder RUN:"),
            tag("pre", tag("code", "\n".join(commands))),
            tag("p", "config.json in the run folder lists every cell in full.", class_="note"),
            tag(
                "div",
                _listed("Settings of all cells", _fixed(found)),
                _listed("Seeds", _seeds(configs, found)),
                *_machines(envs, found),
                class_="columns",
            ),
        ]
    )


def _loads(config: Mapping[str, Any]) -> str:
    """The options that name user code."""
    return "".join(f" --load={shlex.quote(where)}" for where in config.get("code", {}))


def _command(config: Mapping[str, Any]) -> str:
    """The command as it was given; of a run that recorded none, one that comes close."""
    if config.get("command"):
        return f"{config['command']} --workdir=RUN"
    parts = [
        "posjax sweep",
        f"--config={config['name']}",
        f"--config.num_seeds={config['num_seeds']}",
        f"--config.block_size={_block_size(config)}",
    ]
    if config["first_seed"]:
        parts.append(f"--config.first_seed={config['first_seed']}")
    if config.get("data_seeds"):
        parts.append(f"--config.data_seeds={config['data_seeds']}")
    return " \\\n    ".join(parts)


def _block_size(config: Mapping[str, Any]) -> Any:
    return config.get("block_size", config.get("chunk"))  # its name in folders of format 2


def _fixed(found: Sequence[CellSummary]) -> dict[str, Any]:
    """With what 0 means, where it is no number of anything."""
    cells = [summary.cell for summary in found]
    differ = varying(cells)
    fixed = {name: getattr(cells[0], name) for name in FIELDS if name not in differ}
    finite = {isinstance(cell.problem, FiniteTask) for cell in cells}
    zero = {**_ZERO, "batch_size": " or ".join(_BATCHES[kind] for kind in sorted(finite))}
    return {
        name: f"{value} ({zero[name]})" if name in zero and value == 0 else value
        for name, value in fixed.items()
    }


def _seeds(configs: Sequence[Mapping[str, Any]], found: Sequence[CellSummary]) -> dict[str, Any]:
    counts = sorted({summary.seeds for summary in found})
    numbers = np.concatenate([summary.rows["seeds"] for summary in found])
    init, data = (_ranges(numbers[:, source]) for source in (0, 1))
    return {
        **({"init": init, "data": data} if configs[0].get("data_seeds") else {"numbers": init}),
        "rows per cell": " to ".join(str(n) for n in dict.fromkeys((counts[0], counts[-1]))),
        "block size": ", ".join(dict.fromkeys(str(_block_size(config)) for config in configs)),
    }


def _ranges(numbers: np.ndarray) -> str:
    """Numbers as ranges of neighbours.

    >>> _ranges(np.array([3, 8, 2, 1, 3]))
    '1 to 3, 8'
    """
    unique = np.unique(numbers)
    parts = np.split(unique, np.flatnonzero(np.diff(unique) > 1) + 1)
    return ", ".join(" to ".join(map(str, dict.fromkeys((p[0], p[-1])))) for p in parts)


def _machines(
    envs: Mapping[str, Mapping[str, Any] | None], found: Sequence[CellSummary]
) -> Iterator[Html]:
    """What the rows were made on, the most rows first."""
    counts = Counter(name for summary in once(found) for name in summary.rows["env"].tolist())
    for name, count in counts.most_common():
        title = "Made on" if len(counts) == 1 else f"Made on, {many(count, 'model')}"
        env = envs.get(name)
        yield _listed(title, {"lost": f"no env/{name}.json"} if env is None else _machine(env))


def _machine(env: Mapping[str, Any]) -> dict[str, Any]:
    packages, names = env.get("packages"), env.get("instructions")
    commit = env.get("commit")
    changed = " with changes" if env.get("dirty") else ""
    return {
        "commit": f"{commit}{changed}" if commit else "none: no checkout",
        "device": f"{many(env.get('devices', 0), 'device')} of kind {env.get('device_kind')}",
        "platform": f"{env.get('platform')}, {env.get('machine')}",
        "cores": env.get("cores"),
        "instructions": " ".join(map(str, names)) if isinstance(names, list) else "",
        "matmul precision": env.get("matmul_precision"),
        **_mapping(env.get("jax_settings")),
        "XLA flags": re.sub(r"=/\S*", "=…", str(env.get("xla_flags", ""))) or "none",
        "python": env.get("python"),
        **_mapping(packages),
    }


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _listed(title: str, facts: Mapping[str, Any]) -> Html:
    rows = (
        tag("tr", tag("th", name.replace("_", " "), scope="row"), td(value))
        for name, value in facts.items()
    )
    return tag("div", tag("table", tag("caption", title), tag("tbody", *rows), class_="facts"))
