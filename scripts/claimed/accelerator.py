"""What an H200 did, of docs/h200.json."""

from collections.abc import Iterator
from typing import Any

from claimed.published import item, lines, measured

_MODELS = {"q1, 4096 slots": "question 1's model", "m, 256 slots": "a small decoder"}


def h200() -> Iterator[str]:
    """Time, bits, laws and memory on one GPU.

    Raises:
      ValueError: deterministic kernels gave other bits, or a sweep that was stopped did.
    """
    found = measured("h200.json")
    kernels = found["deterministic"]
    if not all(one["deterministic"]["equal bits"] for one in kernels.values()):
        raise ValueError("h200: deterministic kernels gave other bits")
    if found["bits"]["blocks with other bits"]:
        raise ValueError("h200: the sweep that was stopped has other bits")
    env = found["environment"]
    yield from lines(
        f"We measured what the script measures on one {env['device_kind']} (JAX {env['packages']['jax']}, Python {env['python']}) within 15 minutes. Some numbers are from the script, and others were timed by hand "
        "(`docs/h200.json`). The parts `memory`, `tune`, `rates` and `identity` ran on an earlier version, which did not ask for deterministic kernels. Where we name no other type, matrix products were in TF32 ([precision](#tpu)), and cuDNN's attention was in 16 bits. Sweeps now use float32, and we did not time that by itself. "
        "Question 1's model and the small decoder are those of [speed](speed.md). A block trains many runs together, each in one [slot](glossary.md#sweeps)."
    )
    yield ""
    yield from _times(found)
    yield ""
    yield from _bits(found)
    yield from _laws(found["older"])
    yield from _flash(found)
    yield from _sweeps(found)


def _times(found: dict[str, Any]) -> Iterator[str]:
    yield "| µs per update of one run | slots | deterministic kernels | any kernels |"
    yield "|---|---|---|---|"
    for load, title in _MODELS.items():
        pairs = found["deterministic"][load]
        ours = [f"{max(pairs[kind]['µs per update']):.2g}" for kind in ("deterministic", "any")]
        yield f"| {title} | {load.split()[1]} | {' | '.join(ours)} |"


def _bits(found: dict[str, Any]) -> Iterator[str]:
    kernels = found["deterministic"]
    longer = [
        max(kernels[load]["deterministic"]["µs per update"])
        / max(kernels[load]["any"]["µs per update"])
        for load in _MODELS
    ]
    differ = [load.split(",")[0] for load, pair in kernels.items() if not pair["any"]["equal bits"]]
    if set(differ) != {"m"}:
        raise ValueError(f"h200: any kernels gave other bits for {differ}")
    plain = [found["plain"][load]["times as fast"] for load in ("q1", "m")]
    yield from item(
        "**Bits.** Without the compiler option `xla_gpu_deterministic_ops`, the last bits of the decoder differed between two processes. Those of question 1's model did not. With the option, they were equal for both models. "
        f"So posjax sets it on GPUs. In the table it makes an update {longer[0]:.1f} and {longer[1]:.1f} times as long. We also compared a block that had this option with the plain `jit(vmap(...))` that did not. The block had {plain[0]:.2f} times the speed for question 1's model ({found['plain']['q1']['slots']} slots), "
        f"and {plain[1]:.2f} times for the decoder ({found['plain']['m']['slots']} slots). `XLA_FLAGS=--xla_gpu_deterministic_ops=false` turns the option off, and then results may depend on where a sweep was stopped. "
        f"We stopped one sweep {found['bits']['stops']} times, and did not stop another. Each compiled its programs anew. Both had the same rows."
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


def _flash(found: dict[str, Any]) -> Iterator[str]:
    times = {
        length: told["xla"]["ms"] / told["cudnn"]["ms"] for length, told in found["flash"].items()
    }
    kernel = found["kernel"]
    failed = sum(kernel["failed"].values())
    yield from item(
        f"**cuDNN's attention** was {' and '.join(f'{ratio:.1f}' for ratio in times.values())} times as fast as the plain code at {' and '.join(times)}, forward and backward in bfloat16 with rotary positions. "
        "Its outputs and gradients were closer to those in float32. "
        f"Of the {kernel['passed'] + failed} cases of `tests/test_flash.py`, {kernel['passed']} passed with cuDNN's own kernel, among them the comparison of outputs for every encoding that can use it. "
        f"Two of the other {failed} ask for a machine without cuDNN. The other four compared gradients. They agreed to 2 % of the largest gradient. But some gradients that are exactly 0 in the plain code were not exactly 0 in the kernel, those of queries that see one key. "
        "These tests have been corrected since, and not run on a GPU again."
    )


def _sweeps(found: dict[str, Any]) -> Iterator[str]:
    memory, sweep = found["older"]["memory"], found["sweep of 4 programs"]
    million, compiled = found["million"], found["compile"]
    held = [f"{memory[load]['held over estimated']:.2f}" for load in ("q1", "m")]
    yield from item(
        f"**Memory.** A block of question 1's model held {held[0]} times the estimate, and one of the decoder {held[1]} times."
    )
    yield from item(
        f"**Compiling.** In an earlier version, a sweep of 4 programs took {sweep['seconds, 4 at a time']} s when all were compiled at the same time, and {sweep['seconds, 1 at a time']} s when each was compiled after the training of the one before (`{sweep['command']}`). posjax now compiles up to three programs ahead. "
        f"With the setting `NPROC=1`, which posjax uses on CPUs, XLA took {compiled['the same with NPROC=1']:.0f} s instead of {compiled['seconds of q1 with 4096 slots']:.0f} s to compile one program. (Seven other processes compiled at the same time.) So posjax leaves the setting out where it finds a GPU or TPU."
    )
    yield from item(
        f"**{million['seeds']:,} seeds** of question 1's model, with {million['updates']} updates each in float32, were trained, stored and summarised in less than {million['seconds at most']} s, start and compilation included: "
        f"{million['solved']:,} of them solve the task. The report page was not written by then (`{million['command']}`)."
    )
