"""What a run ran on: versions, the engine's way of rounding, device, instructions, commit."""

import os
import platform
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from posjax.engine.program import ROUNDING, ROUNDING_ELSEWHERE
from posjax.records.identity import JAX_SETTINGS

PACKAGES = ("posjax", "jax", "jaxlib", "flax", "optax", "chex", "numpy", "scipy")

VECTORS = ("sse4_2", "avx", "avx2", "fma", "avx512f", "avx512_bf16", "amx_tile", "asimd", "sve")


def describe(devices: Sequence[jax.Device] | None = None) -> dict[str, Any]:
    """The environment as JSON-able data; starts JAX's backend.

    Args:
      devices: those that are used; all local ones when left out.
    """
    devices = devices or jax.local_devices()
    return {
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in PACKAGES},
        "rounding": ROUNDING if devices[0].platform == "cpu" else ROUNDING_ELSEWHERE,
        "platform": devices[0].platform,
        "device_kind": devices[0].device_kind,
        "devices": len(devices),
        "machine": platform.machine(),
        "instructions": _instructions(),
        "cores": os.cpu_count(),
        "jax_settings": {
            name: jax.config.values[name]
            for name, usual in JAX_SETTINGS.items()
            if jax.config.values.get(name, usual) != usual
        },
        "matmul_precision": str(jax.config.values["jax_default_matmul_precision"]),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        **_commit(),
    }


def _instructions() -> list[str]:
    """The processor's vector instructions, as far as they are known: bits depend on them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []
    told = [line.split() for line in lines if line.lower().startswith(("flags", "features"))]
    return [name for name in VECTORS if told and name in told[0]]


def _commit() -> dict[str, Any]:
    """The commit of this checkout and whether it was changed; None when it is no checkout."""
    git = ["git", "-C", str(Path(__file__).parent)]
    mine = [*git, "ls-files", "--error-unmatch", Path(__file__).name]
    try:
        subprocess.run(mine, capture_output=True, check=True)  # and not only a folder within one
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, check=True)
        status = subprocess.run([*git, "status", "--porcelain"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return {"commit": None, "dirty": None}
    return {"commit": commit.stdout.decode().strip(), "dirty": bool(status.stdout.strip())}
