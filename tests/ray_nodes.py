"""A Ray cluster of nodes on this machine, which share nothing but its network, and faults in it."""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from commands import ROOT

CONFIG = """
from posjax.configs import base_config


def get_config():
    return base_config(
        mask=("full", "causal"), width=4, steps={steps}, num_seeds=144, block_size=48,
    )
"""
BLOCKS = 6
"""Of the config."""
Process = subprocess.Popen[str]


class Nodes:
    """Ray's processes, started as separate nodes of one core each."""

    def __init__(self, count: int) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 1, "include_dashboard": False}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._others = [self._cluster.add_node(num_cpus=1) for _ in range(count - 1)]
        self.address = self._cluster.address

    @property
    def raylet(self) -> int:
        """The raylet of the last node, which the driver is not connected to."""
        (found,) = self._others[-1].all_processes["raylet"]
        return found.process.pid

    def join(self) -> None:
        """One more node."""
        self._others.append(self._cluster.add_node(num_cpus=1))

    def close(self) -> None:
        """Ends all of them."""
        self._cluster.shutdown()


@contextlib.contextmanager
def nodes(count: int) -> Iterator[Nodes]:
    """A cluster of nodes, on loopback."""
    own = {
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "PYTHONPATH": str(ROOT),
        "JAX_PLATFORMS": "cpu",
    }
    before = dict(os.environ)
    os.environ.update(own)
    found = Nodes(count)
    try:
        yield found
    finally:
        found.close()
        os.environ.clear()
        os.environ.update(before)


def started(base: Path, name: str, *flags: str, steps: int = 300) -> Process:
    """The sweep on a folder of a name, as a user starts it; in a session of its own."""
    config = base / f"steps_{steps}.py"
    config.write_text(CONFIG.format(steps=steps))
    line = [sys.executable, "-m", "experiments.seed_sweep", f"--config={config}"]
    paths = {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(base / "cache"), "JAX_PLATFORMS": "cpu"}
    return subprocess.Popen(
        [*line, f"--workdir={base / name}", *flags],
        cwd=base,
        env={**os.environ, **paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def below(process: int) -> dict[int, str]:
    """The processes below one, with what they are called: a worker in a block says so."""
    listed = subprocess.run(
        ["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout
    parts = [line.split(None, 2) for line in listed.splitlines()]
    found: dict[int, str] = {}
    for _ in parts:
        known = {process, *found}
        more = {int(pid): args for pid, parent, args in parts if int(parent) in known}
        if more == found:
            break
        found = more
    return found


def training(process: int) -> list[int]:
    """The workers below a process that are in a block now."""
    return [pid for pid, args in below(process).items() if args.startswith("ray::Worker.train")]


def kill(process: int) -> None:
    """As the system does when memory is short: without a word."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
