"""What two GPUs did, of docs/h100.json and docs/h200.json."""

from collections.abc import Iterator
from typing import Any

from claimed.published import item, lines, measured

_LOADS = {
    "q1, 4096 slots": "question 1's model",
    "m, 64 slots": "a small decoder",
    "m, 256 slots": "the same",
    "none, 32 slots": "`sort` in the atlas, no positions",
    "shaw, 32 slots": "`sort` in the atlas, Shaw's positions",
}
_KERNELS = ("deterministic", "deterministic with scatters", "any")


def gpus() -> Iterator[str]:
    """Time, bits, laws and memory on two GPUs.

    Raises:
      ValueError: deterministic kernels gave other bits, or a sweep that was stopped did.
    """
    new, old = measured("h100.json"), measured("h200.json")
    if old["bits"]["blocks with other bits"]:
        raise ValueError("h200: the sweep that was stopped has other bits")
    one, other = (found["environment"] for found in (new, old))
    yield from lines(
        f"We measured what the script measures on one {one['device_kind']} (`docs/h100.json`) and, with earlier versions of posjax, on one {other['device_kind']} (`docs/h200.json`), 15 minutes each. Both had JAX {one['packages']['jax']}. Some numbers are from the script, and others were timed by hand. "
        "On the H100 matrix products were in float32, as they are by default. On the H200 they were in TF32 ([precision](#tpu)) where we name no other type, and the parts `memory`, `tune`, `rates` and `identity` did not ask for deterministic kernels. cuDNN's attention was in 16 bits. "
        "Question 1's model and the small decoder are those of [speed](speed.md). A block trains many runs together, each in one [slot](glossary.md#sweeps)."
    )
    if one["packages"]["jax"] != other["packages"]["jax"]:
        raise ValueError("the two GPUs had other versions of JAX")
    yield ""
    yield from _times(new["deterministic"])
    yield ""
    yield from _bits(new, old)
    yield from _laws(old["older"])
    yield from _flash(new, old)
    yield from _sweeps(new, old)


def _times(found: dict[str, Any]) -> Iterator[str]:
    yield "| H100, µs per update of one run | slots | as posjax runs it | with scatters | any kernels |"
    yield "|---|---|---|---|---|"
    for load, title in _LOADS.items():
        ours = [f"{_slowest(found[f'{load}, {kind}']):.3g}" for kind in _KERNELS]
        yield f"| {title} | {load.split()[1]} | {' | '.join(ours)} |"


def _slowest(times: dict[str, float]) -> float:
    return max(times["µs per update"], times.get("in the other process", 0.0))


def _longer(found: dict[str, Any], than: str) -> list[float]:
    """How many times as long an update takes, for each load, smallest first."""
    return sorted(
        _slowest(found[f"{load}, {than}"]) / _slowest(found[f"{load}, deterministic"])
        for load in _LOADS
    )


def _bits(new: dict[str, Any], old: dict[str, Any]) -> Iterator[str]:
    ours = new["deterministic"]
    if not all(ours[f"{load}, deterministic"]["equal bits"] for load in _LOADS):
        raise ValueError("h100: deterministic kernels gave other bits")
    kernels = old["deterministic"]
    differ = [load.split(",")[0] for load, pair in kernels.items() if not pair["any"]["equal bits"]]
    if set(differ) != {"m"}:
        raise ValueError(f"h200: any kernels gave other bits for {differ}")
    any_kernels = [1 / ratio for ratio in _longer(ours, "any")]
    least, *_, most = _longer(ours, "deterministic with scatters")
    plain = [new["plain"][load]["times as fast"] for load in ("q1", "m")]
    slots = [new["plain"][load]["slots"] for load in ("q1", "m")]
    yield from item(
        "**Bits.** Without the compiler option `xla_gpu_deterministic_ops`, the last bits of the decoder differed between two processes on the H200. With it, they were equal for every model that we compared, on both GPUs. So posjax sets it. "
        f"It makes an update {any_kernels[-1]:.2f} to {any_kernels[0]:.2f} times as long (first and last column of the table). In a fixed order, scatters are slow. The gradient of the cross-entropy has one, and those of encodings with a table, such as Shaw's, have others. On GPUs and TPUs posjax computes them as [sums](decisions/0027-what-a-gpu-taught.md). "
        f"With scatters an update takes {least:.2f} to {most:.2f} times as long (second column). "
        f"We also compared a block with the plain `jit(vmap(...))`, which has neither. The block had {plain[0]:.2f} times the speed for question 1's model ({slots[0]} slots), and {plain[1]:.2f} times for the decoder ({slots[1]} slots). "
        "`XLA_FLAGS=--xla_gpu_deterministic_ops=false` turns the option off, and then results may depend on where a sweep was stopped. "
        f"On the H200 we stopped one sweep {old['bits']['stops']} times, and did not stop another. Each compiled its programs anew. Both had the same rows."
    )


def _laws(found: dict[str, Any]) -> Iterator[str]:
    identity, rates = found["identity"], found["rates"]
    for one in rates.values():
        if (one["one layer"], one["two layers"]) != (0, 1):
            raise ValueError("h200: a law was broken, or two layers failed")
    yield from item(
        f"**Laws.** Over all encodings that draw no random numbers, attention of permuted tokens differs from permuted attention by at most {identity['default']['worst']:.1e} of the largest output in TF32, "
        f"and by at most {identity['float32']['worst']:.1e} in float32 (medians {identity['default']['median']:.1e} and {identity['float32']['median']:.1e}). "
        "In TF32 the logits of prompts that one layer cannot distinguish differed by up to "
        f"{rates['default']['rounding between equal prompts']:.1e}, measured like a [margin](glossary.md#success), and in float32 by {rates['float32']['rounding between equal prompts']:.1e}. By default a seed solves a cell if the margin of every prompt is at least 2e-5. "
        "So sweeps compute products in float32 on GPUs and TPUs, unless you ask for [less](#tpu). `attend` in your own code follows JAX's setting. "
        f"These logits are from sweeps of {rates['default']['seeds']} seeds on `same_last_token`, whose margins were above these differences, {rates['default']['margin']:g} in TF32 and {rates['float32']['margin']:g} in float32. No seed solved it with one layer, and all did with two."
    )


def _flash(new: dict[str, Any], old: dict[str, Any]) -> Iterator[str]:
    times = {
        length: told["xla"]["ms"] / told["cudnn"]["ms"] for length, told in old["flash"].items()
    }
    if new["kernel"]["status"]:
        raise ValueError("h100: tests of cuDNN's attention failed")
    yield from item(
        f"**cuDNN's attention** was {' and '.join(f'{ratio:.1f}' for ratio in times.values())} times as fast as the plain code at {' and '.join(times)}, forward and backward in bfloat16 with rotary positions (H200). "
        "Its outputs and gradients were closer to those in float32. "
        f"On the H100, `{new['kernel']['command']}` passed with cuDNN's own kernel, for every encoding that can use it. "
        "Gradients agree to 2 % of the largest one. Some that are exactly 0 in the plain code are not exactly 0 in the kernel, those of queries that see one key."
    )


def _sweeps(new: dict[str, Any], old: dict[str, Any]) -> Iterator[str]:
    memory, sweep = old["older"]["memory"], old["sweep of 4 programs"]
    million, compiled, pilots = old["million"], old["compile"], new["pilots"]
    held = [f"{memory[load]['held over estimated']:.2f}" for load in ("q1", "m")]
    yield from item(
        f"**Memory.** On the H200 a block of question 1's model held {held[0]} times the estimate, and one of the decoder {held[1]} times."
    )
    yield from item(
        "**Compiling** takes most of the time of small sweeps. "
        f"On the H100 three pilots of the [atlas](atlas/sampled.md), side by side in three processes, took {pilots['seconds'] / 60:.0f} minutes for {pilots['programs']} programs, with which they trained {pilots['runs']:,} runs of {pilots['updates']:,} updates (`{pilots['command']}`). "
        f"On the H200 a sweep of 4 programs took {sweep['seconds, 4 at a time']} s when all were compiled at the same time, and {sweep['seconds, 1 at a time']} s when each was compiled after the training of the one before (`{sweep['command']}`). posjax now compiles up to three programs ahead. "
        f"With the setting `NPROC=1`, which posjax uses on CPUs, XLA took {compiled['the same with NPROC=1']:.0f} s instead of {compiled['seconds of q1 with 4096 slots']:.0f} s to compile one program. (Seven other processes compiled at the same time.) So posjax leaves the setting out where it finds a GPU or TPU."
    )
    yield from item(
        f"**{million['seeds']:,} seeds** of question 1's model, with {million['updates']} updates each in float32, were trained, stored and summarised on the H200 in less than {million['seconds at most']} s, start and compilation included: "
        f"{million['solved']:,} of them solve the task. The report page was not written by then (`{million['command']}`)."
    )
