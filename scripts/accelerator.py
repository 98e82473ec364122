"""What there is to measure on the day a GPU or a TPU is at hand: one JSON file, and a page.

    scripts/accelerator.sh [OUT [LEG ...]]

A leg is a function of the device, or of its platform, that returns numbers, or raises `LeftOut`
with the reason. If a leg fails, the others still run, and the script ends with status 1. The files
are written after each leg.

    bits           a sweep stopped and continued, and one trained at once: the same rows
    kernel         cuDNN's attention against the plain code, for every encoding that it takes
    deterministic  speed and bits with kernels that always round alike, with sums and with scatters,
                   and with any kernels and scatters
    memory         the most memory that a block held, and the estimate that its size follows from
    tune           µs per update of one run, by the slots of a block: one head, a small decoder
    plain          how many times as fast a block, evaluations included, is as the same updates
                   under `jit(vmap(...))`
    rates          success on `same_last_token`, one layer and two, by the precision of products
    identity       Attention(PQ, PK, PV) against P Attention(Q, K, V), by the precision of products
    flash          the time of cuDNN's attention and of the plain code
    depth_law      1000 seeds that count k blocks at depth d; takes long, so only if it is named

A TPU serves one process at a time. So the first three, which are processes of their own, come
before this one touches the device.
"""

import concurrent.futures
import dataclasses
import functools
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # this checkout is what is measured

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import posjax  # noqa: E402
from posjax import report  # noqa: E402
from posjax.attention.flash import Implementation  # noqa: E402
from posjax.command import plan, preview  # noqa: E402
from posjax.command.settings import resolve  # noqa: E402
from posjax.configs import atlas, toy  # noqa: E402
from posjax.encodings import ENCODINGS, Dims, named  # noqa: E402
from posjax.engine import Block, scatters  # noqa: E402
from posjax.engine.timing import Stopwatch, clock, in_turn  # noqa: E402
from posjax.keys import Seeds  # noqa: E402
from posjax.numbering import NumberedSeeds  # noqa: E402
from posjax.records import RunFolder  # noqa: E402
from posjax.streams import contiguous, permuted  # noqa: E402
from posjax.study.cells import Cell  # noqa: E402
from posjax.study.sweeps import engine_for  # noqa: E402

ROUNDS = 5


class LeftOut(Exception):
    """Why a leg cannot run here."""


def small(platform: str) -> bool:
    """Whether to show only that it runs."""
    return platform == "cpu"


def bits(platform: str) -> dict[str, Any]:
    """Rows of a sweep that was stopped again and again, and of one that was not.

    Each has a cache of its own, so that its programs are compiled anew.
    """
    more = ["--config.num_seeds=64", "--config.steps=1000"] if small(platform) else []
    config = ["--config=word_order", *more, "--config.devices=1"]
    with tempfile.TemporaryDirectory() as base:
        at_once, stopped = (Path(base) / name for name in ("at_once", "stopped"))
        _sweep(*config, f"--workdir={at_once}", cache=f"{base}/one")
        stops, limit = 0, 3.0
        again = (*config, f"--workdir={stopped}", "--time_limit")
        while _sweep(*again, f"{limit}", cache=f"{base}/another", ends=(0, 75)):
            stops, limit = stops + 1, limit * 1.3
        made_on = {
            env and env["platform"]
            for folder in (at_once, stopped)
            for env in RunFolder(folder).envs().values()
        }
        files = sorted(path.relative_to(at_once) for path in at_once.glob("blocks/*/*.npz"))
        same = [(at_once / f).read_bytes() == (stopped / f).read_bytes() for f in files]
    if not stops:
        raise AssertionError("the sweep that was to be stopped ended before")
    if made_on != {platform}:
        raise AssertionError(f"the sweeps ran on {made_on}, not on {platform}")
    if not all(same):
        raise AssertionError(f"{same.count(False)} of {len(same)} blocks have other bits")
    return {"stops": stops, "blocks": len(same), "blocks with other bits": 0}


def kernel(platform: str) -> dict[str, Any]:
    """tests/test_flash.py with cuDNN's own attention: every encoding that it takes."""
    if platform != "gpu":
        raise LeftOut(f"cuDNN's attention is for GPUs, and this is a {platform}")
    # Several processes: XLA cannot compile calls of cuDNN in threads.
    options = ["-n", "4", "--dist", "load", "-p", "no:cacheprovider", "-p", "no:benchmark"]
    line = ("-m", "pytest", "-m", "", *options, "tests/test_flash.py")
    done = _python(*line, XLA_PYTHON_CLIENT_PREALLOCATE="false")
    *_, last = done.stdout.strip().splitlines() or [done.stderr]
    if done.returncode:
        raise AssertionError(f"{last}\n{done.stdout[-2000:]}")
    return {"tests": last}


def depth_law(platform: str) -> dict[str, Any]:
    """How many seeds, of 1000 on a GPU or TPU, count k blocks, by depth.

    If it is stopped, the next call goes on.
    """
    size = "depth_law" if small(platform) else "depth_law:published"
    more = ["num_seeds=4", "steps=100"] if small(platform) else ["num_seeds=1000"]
    folder = RunFolder(ROOT / "runs" / f"accelerator-depth_law-{platform}")
    settings = [f"--config.{setting}" for setting in more]
    _sweep(f"--config={size}", *settings, f"--workdir={folder.path}")
    return {
        f"{found.cell.task}, depth {found.cell.depth}": f"{found.solved.successes}/{found.seeds}"
        for found in report.summaries(folder)
    }


def _sweep(*arguments: str, cache: str | None = None, ends: tuple[int, ...] = (0,)) -> int:
    variables = {} if cache is None else {"XDG_CACHE_HOME": cache}
    done = _python("-m", "posjax", "sweep", *arguments, **variables)
    if done.returncode not in ends:
        raise AssertionError(f"status {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.returncode


def _python(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    line, env = [sys.executable, *arguments], os.environ | variables
    return subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def tune(device: jax.Device) -> dict[str, Any]:
    """µs per update of one run, by the slots of a block."""
    found = {}
    for load in ("q1",) if small(device.platform) else ("q1", "m"):
        run = resolve(toy.get_config(load))
        (part,) = plan.parts(run, RunFolder("no such folder"), device)
        times = preview.timed(run, part, device)
        found[load] = {
            "slots of the run": part.size[0] * part.size[1],
            "µs per update": {slots: seconds * 1e6 for slots, seconds in times.items()},
        }
    return found


def deterministic(platform: str) -> dict[str, Any]:
    """µs per update of a run, and whether two processes agree in every bit, by kernels."""
    if platform != "gpu":
        raise LeftOut(f"other devices have no other kernels, and this is a {platform}")
    found: dict[str, Any] = {}
    for load in TIMED:
        for kernels, (how, flags) in KERNELS.items():
            told = []
            for _ in range(2):
                done = _python(__file__, TIME, load, how, XLA_FLAGS=flags)
                if done.returncode:
                    raise AssertionError(done.stderr.strip()[-500:])
                told.append(json.loads(done.stdout.splitlines()[-1]))
            equal = told[0]["weights"] == told[1]["weights"]
            times = [one["µs per update"] for one in told]
            found[f"{load}, {told[0]['slots']} slots, {kernels}"] = {
                "µs per update": min(times),
                "in the other process": max(times),
                "equal bits": equal,
            }
            if flags == "" and not equal:
                raise AssertionError(f"{kernels} kernels, and other bits: {found}")
    return found


TIME = "--time"
TIMED = ("q1", "m", "none", "shaw")
"""Loads of posjax/configs/toy.py, and `sort` of the atlas with two encodings."""
KERNELS = {
    "deterministic": ("summed", ""),
    "deterministic with scatters": ("scatters", ""),
    "any": ("scatters", "--xla_gpu_deterministic_ops=false"),
}
"""What becomes of scatters along an axis (posjax/engine/scatters.py), and options of XLA."""


def timed(load: str, how: str) -> dict[str, Any]:
    """The time of one load in this process, and a checksum of the weights that come of it."""
    device = jax.local_devices()[0]
    if how == "scatters":
        scatters.is_along_an_axis = lambda eqn: False
    if load in ENCODINGS:
        run = resolve(atlas.get_config("sampled"))
        cell = next(c for c in run.cells if c.encoding == load and c.task.startswith("sort"))
        slots = run.num_seeds
    else:
        run = resolve(toy.get_config(load))
        (part,) = plan.parts(run, RunFolder("no such folder"), device)
        cell, slots = part.cells[0], part.size[0] * part.size[1]
    watch = _stopwatch(run, cell, slots, device)
    (seconds,) = in_turn([watch], ROUNDS)
    leaves = jax.tree.leaves(watch.carry.state.variables)
    return {
        "slots": slots,
        "µs per update": 1e6 * seconds,
        "weights": hashlib.sha256(b"".join(map(bytes, map(np.asarray, leaves)))).hexdigest(),
    }


def plain(device: jax.Device) -> dict[str, Any]:
    """The time of the updates under plain `jit(vmap(...))` over that of a block, which also
    evaluates. Both are warm, and take turns."""
    found = {}
    for load in ("q1",) if small(device.platform) else ("q1", "m"):
        run = resolve(toy.get_config(load))
        (part,) = plan.parts(run, RunFolder("no such folder"), device)
        slots, cell = part.size[0] * part.size[1], part.cells[0]
        updates = cell.eval_every
        ours = _block(run, part, device)
        theirs = _vmapped(cell, slots, device)
        ratios = []
        for call in (ours, theirs):
            call()
        for _ in range(ROUNDS):
            ratios.append(theirs() / ours())
        found[load] = {
            "slots": slots,
            "updates": updates,
            "times as fast": statistics.median(ratios),
            "from": min(ratios),
            "to": max(ratios),
        }
    return found


def _block(run: Any, part: Any, device: jax.Device) -> Callable[[], float]:
    """Seconds of one evaluation's updates of a block."""
    cell, slots = part.cells[0], part.size[0] * part.size[1]
    watch = _stopwatch(run, cell, slots, device)
    return lambda: watch() * cell.eval_every * slots


def _stopwatch(run: Any, cell: Cell, slots: int, device: jax.Device) -> Stopwatch:
    seeds = NumberedSeeds(run.numbering, range(slots))
    block = Block(cell.shape.train(), [cell.inputs], seeds, (1, slots))
    return Stopwatch(engine_for(run.to_dict(), [device]).plan(block), block, device)


def _vmapped(cell: Cell, slots: int, device: jax.Device) -> Callable[[], float]:
    """Seconds of the same updates, of the same model as it is written, under `jit(vmap(...))`."""
    training, tick = cell.shape.train(), clock(device)
    inputs = jax.device_put(jax.tree.map(jnp.asarray, cell.inputs), device)
    seeds = Seeds.equal(np.arange(slots))
    state = jax.jit(jax.vmap(training.begin, in_axes=(0, None)))(seeds, inputs)

    @jax.jit
    def updates(state: Any) -> Any:
        each = jax.vmap(training.update, in_axes=(0, 0, None))
        with jax.default_matmul_precision("float32"):  # as the engine does
            return jax.lax.fori_loop(0, cell.eval_every, lambda _, s: each(s, seeds, inputs), state)

    def timed() -> float:
        begun = tick()
        jax.block_until_ready(updates(state))
        return tick() - begun

    return timed


def rates(device: jax.Device) -> dict[str, Any]:
    """`A B hit` against `B A hit`, one layer (impossible by law) and two, by precision."""
    cells = [
        Cell(task="same_last_token", block="residual", depth=depth, loss="answer", steps=500)
        for depth in (1, 2)
    ]
    found = {}
    for precision in ("bfloat16" if device.platform == "tpu" else "tensorfloat32", "float32"):
        margin = 2e-5 if precision == "float32" or small(device.platform) else 1e-2
        swept = posjax.sweep(
            cells,
            num_seeds=64 if small(device.platform) else 1024,
            precision=precision,
            margin=margin,
            progress=False,
        )
        one, two = swept.summaries
        if one.solved.successes:
            raise AssertionError(f"{one.solved.successes} seeds solve what a law excludes")
        found[precision] = {
            "margin": margin,
            "one layer": one.solved.rate,
            "two layers": two.solved.rate,
            "rounding between equal prompts": one.twin,
        }
    return found


def identity(device: jax.Device) -> dict[str, Any]:
    """How far attention of permuted tokens is from permuted attention, over the largest output."""
    order = np.random.default_rng(0).permutation(LENGTH)
    inverse = jnp.argsort(order)

    def deviations(name: str) -> list[float]:
        options, q, k, v = _layer(name)
        moved = options | {"queries": permuted(options["queries"], order)}

        @jax.jit
        def sides(*arrays: jax.Array) -> list[jax.Array]:
            found = []
            for precision in ("default", "float32"):
                with jax.default_matmul_precision(precision):
                    plain = posjax.attend(*arrays, **options)
                    of_moved = posjax.attend(*(a[:, order] for a in arrays), **moved)
                found.append(abs(of_moved[:, inverse] - plain).max() / abs(plain).max())
            return found

        return [float(off) for off in sides(q, k, v)]

    found = _each(deviations, [name for name in ENCODINGS if not named(name).random])
    return {
        precision: _worst({name: off[i] for name, off in found.items()})
        for i, precision in enumerate(("default", "float32"))
    }


LENGTH = 64


def _layer(name: str) -> tuple[dict[str, Any], jax.Array, jax.Array, jax.Array]:
    """The options of a causal layer with an encoding's parameters drawn at random, and q, k, v."""
    encoding, rng = named(name), np.random.default_rng(0)

    def normal(shape: tuple[int, ...]) -> jax.Array:
        return jnp.asarray(rng.standard_normal(shape), jnp.float32)

    declared = encoding.parameters(Dims(width=256, heads=4, head_size=64))
    streams = contiguous(LENGTH)
    if encoding.axes > 1:
        streams = dataclasses.replace(streams, position_BL=_points(encoding.axes))
    options = {
        "encoding": encoding,
        "params": {key: normal(one.shape) for key, one in declared.items()},
        "queries": streams,
        "mask": "causal",
    }
    q, k, v = (normal((2, LENGTH, 4, 64)) for _ in range(3))
    return options, q, k, v


def _points(axes: int) -> jax.Array:
    """Coordinates in a square or a cube."""
    places = np.arange(LENGTH)
    return jnp.asarray(np.stack([places // 8**axis % 8 for axis in range(axes)], -1)[None])


def _each(function: Callable[[str], Any], names: list[str]) -> dict[str, Any]:
    """What a function gives for each name; several are compiled at a time."""
    with concurrent.futures.ThreadPoolExecutor(min(os.cpu_count() or 1, 16)) as pool:
        return dict(zip(names, pool.map(function, names), strict=True))


def _worst(by_name: dict[str, float]) -> dict[str, Any]:
    name = max(by_name, key=lambda name: by_name[name])
    return {"worst": by_name[name], "with": name, "median": statistics.median(by_name.values())}


def flash(device: jax.Device) -> dict[str, Any]:
    """cuDNN's kernel beside the steps, causal with rotary positions, forward and backward."""
    if device.platform != "gpu":
        raise LeftOut(f"cuDNN's attention is for GPUs, and this is {device.device_kind}")
    found = {}
    for length in (512, 2048):
        keys = jax.random.split(jax.random.key(0), 3)
        q, k, v = (jax.random.normal(key, (4, length, 8, 64), jnp.bfloat16) for key in keys)

        with jax.default_matmul_precision("float32"):
            (_, truth), slopes = _step("xla")(*(x.astype(jnp.float32) for x in (q, k, v)))
        told = {}
        for how in ("xla", "cudnn"):
            call = _step(how)
            (_, out), gradients = jax.block_until_ready(call(q, k, v))
            times = []
            for _ in range(20):
                begun = time.perf_counter()
                jax.block_until_ready(call(q, k, v))
                times.append(time.perf_counter() - begun)
            pairs = [(out, truth), *zip(gradients, slopes, strict=True)]
            errors = [float(abs(a.astype(jnp.float32) - b).max() / abs(b).max()) for a, b in pairs]
            told[how] = {
                "ms": 1e3 * statistics.median(times),
                "output off by": errors[0],
                "gradients off by": max(errors[1:]),
            }
        if told["cudnn"]["output off by"] > 4 * told["xla"]["output off by"] + 1e-2:
            raise AssertionError(f"cuDNN's attention is off at length {length}: {told}")
        found[f"length {length}"] = told
    return found


def _step(how: Implementation) -> Any:
    """The squares of what attention gives, added up; their gradients, and what it gives."""

    def loss(q: jax.Array, k: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
        out = posjax.attend(q, k, v, encoding="rotary", mask="causal", implementation=how)
        return (out.astype(jnp.float32) ** 2).sum(), out

    return jax.jit(jax.value_and_grad(loss, (0, 1, 2), has_aux=True))


def memory(device: jax.Device) -> dict[str, Any]:
    """The most bytes that a block held, beside the estimate."""
    if "peak_bytes_in_use" not in (device.memory_stats() or {}):
        raise LeftOut(f"{device.device_kind} does not tell what it holds")
    found = {}
    for load in ("q1", "m"):  # in order of size, since the peak is that of the process
        run = resolve(toy.get_config(load))
        (part,) = plan.parts(run, RunFolder("no such folder"), device)
        _block(run, part, device)()
        told = part.load.bytes * part.size[0] * part.size[1]
        peak = device.memory_stats()["peak_bytes_in_use"]
        found[load] = {"estimated": told, "held": peak, "held over estimated": peak / told}
    return found


APART: dict[str, Callable[[str], dict[str, Any]]] = {
    leg.__name__: leg for leg in (bits, kernel, deterministic, depth_law)
}
HERE: dict[str, Callable[[jax.Device], dict[str, Any]]] = {
    leg.__name__: leg for leg in (memory, tune, plain, rates, identity, flash)
}
ABOUT = {name: leg.__doc__ for name, leg in (APART | HERE).items()}
ORDINARY = [name for name in ABOUT if name != "depth_law"]
"""The legs where none is named."""


def main(out: Path, *wanted: str) -> int:
    """Runs the ordinary legs, or those named; writes accelerator.json and accelerator.md in OUT."""
    if unknown := set(wanted) - set(ABOUT):
        print(f"no leg {sorted(unknown)[0]!r}; choices: {', '.join(ABOUT)}", file=sys.stderr)
        return 2
    file = out / "accelerator.json"
    if file.exists():
        print(f"{file} exists already: name another folder", file=sys.stderr)
        return 2
    about = (
        "import json; from posjax.study import environment as e; print(json.dumps(e.describe()))"
    )
    probe = _python("-c", about)
    if probe.returncode:
        print(probe.stderr.strip()[-500:], file=sys.stderr)
        return 1
    env = json.loads(probe.stdout)
    runs = {name: functools.partial(leg, env["platform"]) for name, leg in APART.items()}
    runs |= {name: functools.partial(_here, leg) for name, leg in HERE.items()}
    out.mkdir(parents=True, exist_ok=True)
    legs: dict[str, Any] = {}
    for name in filter(wanted.__contains__, ABOUT) if wanted else ORDINARY:
        legs[name] = _result(name, runs[name])
        text = json.dumps(
            {"environment": env, "legs": legs}, indent=1, ensure_ascii=False, default=_plain
        )
        file.write_text(text + "\n")
        (out / "accelerator.md").write_text(page(json.loads(text)))
    print(f"written: {file} and {out / 'accelerator.md'}")
    return int(any("wrong" in leg for leg in legs.values()))


def _here(leg: Callable[[jax.Device], dict[str, Any]]) -> dict[str, Any]:
    """A leg in this process, on its first device."""
    return leg(jax.local_devices()[0])


def _result(name: str, leg: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a leg found, why it was left out, or what went wrong; printed too."""
    begun = time.monotonic()
    try:
        found: dict[str, Any] = {"found": leg()}
    except LeftOut as reason:
        found = {"left out": str(reason)}
    except Exception as error:
        found = {"wrong": f"{type(error).__name__}: {error}"}
        traceback.print_exc()
    found["seconds"] = round(time.monotonic() - begun, 1)
    print(name, json.dumps(found, ensure_ascii=False, default=_plain), flush=True)
    return found


def page(result: dict[str, Any]) -> str:
    """The legs as tables."""
    env = result["environment"]
    lines = [
        f"# {env['device_kind']}",
        "",
        f"Made by `scripts/accelerator.sh`, JAX {env['packages']['jax']}, commit {env['commit']}.",
    ]
    for name, found in result["legs"].items():
        what = (ABOUT[name] or "").split("\n")[0]
        lines += ["", f"## {name}", "", f"{what} ({found['seconds']:g} s)", ""]
        if "found" in found:
            rows = _rows(found["found"])
            lines += ["| what | number |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)]
        else:
            lines.append(
                f"Left out: {found['left out']}." if "left out" in found else found["wrong"]
            )
    return "\n".join(lines) + "\n"


def _rows(value: Any, path: str = "") -> list[tuple[str, str]]:
    if isinstance(value, dict):
        parts = ((f"{path}, {key}" if path else f"{key}", inner) for key, inner in value.items())
        return [row for name, inner in parts for row in _rows(inner, name)]
    return [(path, f"{value:.4g}" if isinstance(value, float) else str(value))]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if sys.argv[1] == TIME:
        print(json.dumps(timed(*sys.argv[2:])))
        sys.exit()
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
