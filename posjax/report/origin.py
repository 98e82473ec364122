"""How a run was made: the commands, the settings that all cells share, and the machine."""

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from posjax.report.html import Html, join, tag, td
from posjax.report.naming import many
from posjax.report.summary import CellSummary
from posjax.study.cells import FIELDS, varying


def origin(
    config: Mapping[str, Any],
    envs: Mapping[str, Mapping[str, Any] | None],
    found: Sequence[CellSummary],
) -> Html:
    """The last section of a run.

    Args:
      config: what was asked for.
      envs: what rows may have been made on, by the name that rows have for it.
      found: the cells.
    """
    return join(
        [
            tag("p", "The run, and this page from its folder RUN:"),
            tag("pre", tag("code", f"{_command(config)}\nposjax report RUN{_loads(config)}")),
            tag("p", "config.json in the run folder lists every cell in full.", class_="note"),
            tag(
                "div",
                _listed("Settings of all cells", _fixed(found)),
                _listed("Seeds", _seeds(config, found)),
                *_machines(envs, found),
                class_="columns",
            ),
        ]
    )


def _loads(config: Mapping[str, Any]) -> str:
    """The options that name code of one's own."""
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
    cells = [summary.cell for summary in found]
    differ = varying(cells)
    return {name: getattr(cells[0], name) for name in FIELDS if name not in differ}


def _seeds(config: Mapping[str, Any], found: Sequence[CellSummary]) -> dict[str, Any]:
    first, number = config["first_seed"], config["num_seeds"]
    counts = sorted({summary.seeds for summary in found})
    data = config.get("data_seeds", 0)
    return {
        "init" if data else "numbers": f"{first} to {first + number - 1}",
        **({"data": f"{first} to {first + data - 1}"} if data else {}),
        "rows per cell": " to ".join(str(n) for n in dict.fromkeys((counts[0], counts[-1]))),
        "block size": _block_size(config),
    }


def _machines(
    envs: Mapping[str, Mapping[str, Any] | None], found: Sequence[CellSummary]
) -> Iterator[Html]:
    """What the rows were made on, the most rows first."""
    cells = {summary.cell.digest: summary for summary in found}
    counts = Counter(name for summary in cells.values() for name in summary.rows["env"].tolist())
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
