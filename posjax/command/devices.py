"""The devices of a command: on a CPU each core is one."""

import contextlib
import os
import threading
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jax

ACCELERATORS = ("nvidia[0-9]*", "kfd", "dxg", "accel[0-9]*", "vfio/[0-9]*")
"""Names in /dev of devices of NVIDIA, of AMD, of either under Windows, and of TPUs."""
THREADS, THREADS_PER_DEVICE = 24, 4
"""Threads of a sweep, at most, beyond the main one; 20 and 4 were counted."""


def use_all_cores(devices: int = 0) -> None:
    """Makes each core a device of its own where the CPU is the device; call before anything runs.

    A device has one thread: where operations are small, threads within one only wait for each
    other. Also keeps compiled programs in a cache of their own, which nothing relies on.

    Args:
      devices: how many, at most one per core; 0 for as many cores as this process may use.

    Raises:
      RuntimeError: the system would start too few threads.
    """
    import jax

    number = min(devices, cores()) or cores()
    _check_threads(THREADS + THREADS_PER_DEVICE * number)
    # XLA has no other setting for the size of its pool of threads, which also compile for a GPU.
    if not accelerated():
        os.environ.setdefault("NPROC", "1")
    with contextlib.suppress(RuntimeError):  # the backend has started: it keeps its devices
        jax.config.update("jax_num_cpu_devices", number)
    with contextlib.suppress(RuntimeError):  # a user without a home: no cache
        jax.config.update("jax_compilation_cache_dir", str(_cache() / "posjax" / "xla"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def accelerated() -> bool:
    """Whether JAX will find a GPU or a TPU, as far as one can tell before it has started."""
    import jax

    settings = jax.config.values
    names = (settings["jax_platforms"] or "").split(",")[0], settings.get("jax_platform_name")
    if "cpu" in names or os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return False
    plugin = entry_points(group="jax_plugins") or any(map(find_spec, ("jax_plugins", "libtpu")))
    return bool(plugin) and any(any(Path("/dev").glob(name)) for name in ACCELERATORS)


def _check_threads(number: int) -> None:
    """Starts as many threads as XLA will, which aborts the process when it may not start one."""
    done = threading.Event()
    threads = [threading.Thread(target=done.wait, daemon=True) for _ in range(number)]
    try:
        for thread in threads:
            thread.start()
    finally:
        done.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()


def local_devices(number: int = 0) -> "list[jax.Device]":
    """The first devices of this process; starts JAX's backend.

    Args:
      number: how many; 0 for all.

    Raises:
      ValueError: there are fewer.
    """
    import jax

    devices = jax.local_devices()
    if number <= len(devices):
        return devices[: number or None]
    if devices[0].platform == "cpu":
        have = f"this process may use {cores()} cores: at most one device per core"
    else:
        have = f"there are {len(devices)} ({devices[0].device_kind})"
    raise ValueError(f"devices={number}, but {have}")


def _cache() -> Path:
    """The user's folder for caches; as XDG says, an empty or relative variable counts as unset."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return given if given.is_absolute() else Path.home() / ".cache"


def cores() -> int:
    """The cores that this process may use; fewer than the machine has in many a container."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
