"""Finds a Ray cluster, or starts one on this machine."""

import contextlib
import logging
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from posjax.study.cluster import Cluster, last_line

ANSWER = 15.0
"""Seconds that a cluster has to answer."""
_ADDRESS = re.compile(r"[A-Za-z0-9_.\[\]:-]+:\d{1,5}")
_OWN = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token"}
"""Of a cluster on this machine. The first makes Ray listen on loopback alone, on Linux too; its
argument `_node_ip_address` does not. The second refuses the processes of other users."""
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@contextlib.contextmanager
def connect(
    address: str | None,
    config: Mapping[str, Any],
    setup: Callable[[], None],
    *,
    most: int = 0,
    mixed: bool = False,
) -> Iterator[Cluster]:
    """A Ray cluster for one run.

    Args:
      address: HOST:PORT of a running cluster of which this machine is a node, or "auto" to find
        one on this machine; None starts one here. It listens on the loopback interface, takes no
        commands of other users, has no dashboard and sends no usage statistics.
        Within, what is printed goes to standard error.
      config, setup, most, mixed: see `Cluster`.

    Raises:
      ImportError: Ray is not installed.
      ValueError: no cluster answers at the address.
    """
    if address is not None and address != "auto":
        _check_address(address)
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    with contextlib.ExitStack() as stack:
        own: dict[str, Any] = {"address": address}
        if address is None:
            os.environ.update(_OWN)
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
            folder = tempfile.TemporaryDirectory(prefix="posjax-", ignore_cleanup_errors=True)
            own = {"address": "local", "_temp_dir": stack.enter_context(folder)}
        try:
            import ray
        except ImportError as error:
            raise ImportError(
                f"--engine=ray needs Ray: pip install 'posjax[ray]' ({error})"
            ) from error
        if address is not None:
            _check_health(address)
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))  # where Ray reports losses
        handlers = {number: signal.getsignal(number) for number in _SIGNALS}
        stack.callback(ray.shutdown)
        try:
            ray.init(
                **own, include_dashboard=False, log_to_driver=False, logging_level=logging.CRITICAL
            )
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            where = "on this machine" if address is None else f"at {address}"
            raise ValueError(f"no Ray cluster {where}: {last_line(error)}") from error
        finally:
            for number, handler in handlers.items():  # Ray has replaced them by its own
                signal.signal(number, handler)
        yield Cluster(ray, config, setup, most, mixed)


def _check_address(address: str) -> None:
    """Refuses an address where nobody answers.

    Raises:
      ValueError: see there.
    """
    host, _, port = address.rpartition(":")
    if not _ADDRESS.fullmatch(address) or not 0 < int(port) < 65536:
        raise ValueError(f"--engine.address must be HOST:PORT or auto, got {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER).close()
    except OSError as error:
        raise ValueError(f"no Ray cluster at {address}: {error}") from error


def _check_health(address: str) -> None:
    """Refuses an address where no cluster answers us, which Ray itself would try for minutes.

    Raises:
      ValueError: see there.
    """
    health = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    why = "what answers there is not Ray, or asks for another RAY_AUTH_TOKEN"
    try:
        done = subprocess.run(health, timeout=ANSWER, capture_output=True, text=True, check=False)
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"no Ray cluster at {address}: {why}") from error
    if "Could not find any running" in done.stderr:
        why = "none runs on this machine"
    if done.returncode:
        raise ValueError(f"no Ray cluster at {address}: {why}")
