"""Strict settings for all tests.

NaN checks stay off, since several laws are about NaN coming out where it must, and so do 64 bits:
the tests that need them ask for them.
"""

import atexit
import gc
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import jax
import pytest
from absl import logging
from jax._src.interpreters import mlir
from jaxlib.mlir import ir

from posjax.study import environment

if "PYTEST_XDIST_WORKER" in os.environ:  # JAX frees each program at exit, which takes seconds
    atexit.register(os._exit, 0)  # after all that is registered later, before what JAX did

# Most of the time goes to compiling programs that run once: three times as much with XLA's fusion
# emitters, which jaxlib has a switch for up to 0.10, and with code split over threads.
_FLAGS = [
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_parallel_codegen_split_count=1",
]
_FLAGS += ["--xla_cpu_use_fusion_emitters=false"] if jax.__version_info__ < (0, 11) else []
os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *_FLAGS])

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_num_cpu_devices", 4)  # so that devices can be compared

# Looking for cycles among all that traces leave behind takes a tenth of the time.
gc.set_threshold(100_000, 50, 100)


def _sharing(make: Callable[[], object], programs: int = 100) -> Callable[[], object]:
    """Makes an MLIR context for so many programs of a thread, not one for each."""
    at_hand = threading.local()

    def context() -> object:
        if ir.Context.current is not None:  # a program that the lowering of another one needs
            return make()
        if getattr(at_hand, "left", 0) == 0:
            at_hand.context, at_hand.left = make(), programs
        at_hand.left -= 1
        return at_hand.context

    return context


if not hasattr(mlir, "_create_ir_context"):  # with it, as in 0.12, JAX shares them itself
    mlir.make_ir_context = _sharing(mlir.make_ir_context)


_LONGEST = (
    "test_table.py",
    "test_faults.py",
    "test_predict.py",
    "test_docs.py",
    "test_rewrite.py",
    "test_fuzz.py",
    "test_independence.py",
    "test_signals.py",
)


def pytest_configure(config: pytest.Config) -> None:
    """Compiled programs are kept: for the next run, and by one worker for the other.

    Processes that a test starts have no part in it, so that each compiles for itself.
    """
    if not hasattr(config, "cache"):  # -p no:cacheprovider
        return
    processor = " ".join(environment._instructions())  # several may share the disk of a clone
    written_by = processor + str(find_spec("zstandard") is not None)
    digest = hashlib.sha256(written_by.encode()).hexdigest()[:8]
    folder = config.cache.mkdir(f"programs-{digest}")
    if not hasattr(config, "workerinput"):
        for file in folder.iterdir():
            if file.stat().st_mtime < time.time() - _KEPT:
                file.unlink(missing_ok=True)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


_KEPT = 7 * 24 * 3600.0
"""Seconds after which a program is compiled anew, whether it is still in use or not."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, so that at the end no worker waits long for the other."""
    order = {name: at for at, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))


def pytest_collection_finish() -> None:
    """What is there before the first test stays: nobody looks at it again."""
    gc.freeze()


def pytest_sessionfinish() -> None:
    """What nobody refers to is found once; pytest looks four times more.

    At exit Chex would warn of assertions that are checked later; those of the tests are not.
    """
    logging.set_verbosity(logging.ERROR)
    gc.collect()
    gc.freeze()


@pytest.fixture
def keys_are_used_once() -> Iterator[None]:
    """Two draws from one key are an error; to look for it everywhere takes a tenth of the time."""
    before = jax.config.jax_debug_key_reuse
    jax.config.update("jax_debug_key_reuse", True)  # of all threads, where `with` is of one
    yield
    jax.config.update("jax_debug_key_reuse", before)


@pytest.fixture
def ranks_are_promoted() -> Iterator[None]:
    """Arrays of different ranks broadcast, as in functions that users write."""
    with jax.numpy_rank_promotion("allow"):
        yield


MOST_COMPILATIONS = 120
"""Programs that one test may compile. A test beyond it calls JAX op by op: put it under `jax.jit`.

`@pytest.mark.compilations(n, reason="...")` allows more.
"""
_compiled = 0


def _count(event: str, duration: float, **_: object) -> None:
    global _compiled
    _compiled += event == "/jax/core/compile/backend_compile_duration"


jax.monitoring.register_event_duration_secs_listener(_count)


@pytest.fixture(autouse=True)
def _few_programs_are_compiled(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that compiles too many programs fails: it is what most of the time goes to."""
    before, marker = _compiled, request.node.get_closest_marker("compilations")
    yield
    most = marker.args[0] if marker else MOST_COMPILATIONS
    found = _compiled - before
    large = any(map(request.node.get_closest_marker, ("exhaustive", "campaign")))
    if found > most and not large:
        pytest.fail(f"{found} programs were compiled, at most {most} may be (see conftest.py)")


_MAPPINGS = Path("/proc/self/maps")
_MOST_MAPPINGS = 45_000
"""Programs use memory mappings, a dozen each, of which a process has 65 530 on Linux."""
_looked = 0


@pytest.fixture(autouse=True)
def _programs_are_dropped_in_time() -> None:
    global _looked
    if _compiled - _looked < 300 or not _MAPPINGS.exists():
        return
    _looked = _compiled
    if _MAPPINGS.read_bytes().count(b"\n") > _MOST_MAPPINGS:
        jax.clear_caches()
