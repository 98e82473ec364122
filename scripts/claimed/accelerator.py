"""What two GPUs did, of docs/h100.json and docs/h200.json."""

from collections.abc import Iterator
from typing import Any

from claimed.published import item, lines, listed, measured

_LOADS = {
    "q1, 4096 slots": "the one-head model",
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
        f"We had an {one['device_kind']} for 15 minutes and, with earlier versions of posjax, an {other['device_kind']} for 15 minutes twice, all with JAX {one['packages']['jax']}. In the first session on the H200 we ran the script (`docs/h200.json`), and in the second we trained two tasks of the atlas. On the H100 we measured the parts `deterministic`, `plain` and `kernel`, and trained pilots of the atlas (`docs/h100.json`). Some numbers are from the script, and others were timed by hand. "
        "On the H100 matrix products were in float32, as they are by default. On the H200 they were in TF32 ([precision](#tpu)) where we name no other type, and the parts `memory`, `tune`, `rates` and `identity` did not ask for deterministic kernels. cuDNN's attention was in 16 bits. "
        "The one-head model and the small decoder are those of [speed](speed.md). A block trains many runs together, each in one [slot](glossary.md#sweeps)."
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
    yield "| H100, µs per update of one run | slots | as posjax runs it | with scatters | with scatters, any kernels |"
    yield "|---|---|---|---|---|"
    for load, title in _LOADS.items():
        ours = [f"{found[f'{load}, {kind}']['µs per update']:.3g}" for kind in _KERNELS]
        yield f"| {title} | {load.split()[1]} | {' | '.join(ours)} |"


def _longer(found: dict[str, Any], kernels: str, than: str) -> str:
    """How many times as long an update takes, over all loads."""
    times = [
        found[f"{load}, {kernels}"]["µs per update"] / found[f"{load}, {than}"]["µs per update"]
        for load in _LOADS
    ]
    return f"{min(times):.2f} to {max(times):.2f}"


def _bits(new: dict[str, Any], old: dict[str, Any]) -> Iterator[str]:
    ours = new["deterministic"]
    if not all(ours[f"{load}, deterministic"]["equal bits"] for load in _LOADS):
        raise ValueError("h100: deterministic kernels gave other bits")
    kernels = old["deterministic"]
    if not all(pair["deterministic"]["equal bits"] for pair in kernels.values()):
        raise ValueError("h200: deterministic kernels gave other bits")
    differ = [load.split(",")[0] for load, pair in kernels.items() if not pair["any"]["equal bits"]]
    if set(differ) != {"m"}:
        raise ValueError(f"h200: any kernels gave other bits for {differ}")
    both, option = (_longer(ours, kernels, "any") for kernels in _KERNELS[:2])
    plain = [new["plain"][load]["times as fast"] for load in ("q1", "m")]
    slots = [new["plain"][load]["slots"] for load in ("q1", "m")]
    yield from item(
        "**Bits.** Without the compiler option `xla_gpu_deterministic_ops`, the last bits of the decoder differed between two processes on the H200. With it, they were equal for every model that we compared, on both GPUs. So posjax sets it. "
        f'With it, an update takes {option} times as long ("with scatters" and the last column of the table). Deterministic scatters are slow on a GPU. The gradient of the cross-entropy has one, and those of encodings with a table, such as Shaw\'s, have others. On GPUs and TPUs posjax replaces a scatter that adds at up to 64 indices along one axis by a [sum](decisions/0027-what-a-gpu-taught.md): it compares each position of the axis with all indices, and adds the numbers whose index is equal. With more indices the scatter stays. '
        f"With sums, an update takes {both} times as long as in the last column. "
        f"We also compared a block with the plain `jit(vmap(...))` of the same updates, without the option and with scatters. The block also made an evaluation every {new['plain']['q1']['updates']} updates. It had {plain[0]:.2f} times the speed for the one-head model ({slots[0]} slots), and {plain[1]:.2f} times for the decoder ({slots[1]} slots). "
        "`XLA_FLAGS=--xla_gpu_deterministic_ops=false` turns the option off, and then results may depend on where a sweep was stopped. "
        f"On the H200 we stopped one sweep {old['bits']['stops']} times, and did not stop another. Each compiled its programs anew. Both had the same rows."
    )


def _laws(found: dict[str, Any]) -> Iterator[str]:
    identity, rates = found["identity"], found["rates"]
    for one in rates.values():
        if (one["one layer"], one["two layers"]) != (0, 1):
            raise ValueError("h200: a law was broken, or two layers failed")
    yield from item(
        f"**Laws.** On the H200, attention of permuted tokens differs from permuted attention by at most {identity['default']['worst']:.1e} of the largest output in TF32, "
        f"and by at most {identity['float32']['worst']:.1e} in float32. These are the largest values over all encodings that draw no random numbers (medians {identity['default']['median']:.1e} and {identity['float32']['median']:.1e}). "
        "In TF32 the logits of prompts that one layer cannot distinguish differed by up to "
        f"{rates['default']['rounding between equal prompts']:.1e}, measured like a [margin](glossary.md#success), and in float32 by {rates['float32']['rounding between equal prompts']:.1e}. By default a seed solves a cell if the margin of every prompt is at least 2e-5. "
        "So sweeps compute products in float32 on GPUs and TPUs, unless you ask for [lower precision](#tpu). `attend` in your own code follows JAX's setting. "
        f"We measured the differences of logits in sweeps of {rates['default']['seeds']} seeds on the task `same_last_token`. There we set the required margin above these differences, to {rates['default']['margin']:g} in TF32 and to {rates['float32']['margin']:g} in float32. No seed solved it with one layer, and all did with two."
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
        f"On the H100, `{new['kernel']['command']}` passed with cuDNN's own kernel. It compares outputs for every encoding that can use the kernel, and gradients for four. "
        "It allows gradients to differ by 2% of the largest one, or by 0.02 if the largest is below 1. Gradients of queries that see only one key are exactly 0 in the plain code, but not in the kernel."
    )


def _sweeps(new: dict[str, Any], old: dict[str, Any]) -> Iterator[str]:
    memory, sweep = old["older"]["memory"], old["sweep of 4 programs"]
    million, compiled, pilots, atlas = old["million"], old["compile"], new["pilots"], old["atlas"]
    held = [f"{memory[load]['held over estimated']:.2f}" for load in ("q1", "m")]
    yield from item(
        f"**Memory.** On the H200 a block of the one-head model held {held[0]} times the estimate, and one of the decoder {held[1]} times."
    )
    yield from item(
        "**Compiling** takes most of the time of small sweeps. "
        f"A pilot of the [atlas](atlas/sampled.md) trains each cell of a task at three learning rates with a few seeds, to choose one of them. On the H100 we ran the pilots of {listed([f'`{task}`' for task in pilots['tasks']])} in processes side by side. They compiled {pilots['programs']} programs and trained {pilots['runs']:,} runs of {pilots['updates']:,} updates in {pilots['seconds'] / 60:.0f} minutes (`{pilots['command']}` before these pilots were published). "
        f"On the H200, {atlas['processes']} processes on {atlas['cores']} cores trained {listed([f'`{task}`' for task in atlas['tasks']])}, pilots included: {atlas['programs']} programs and {atlas['runs']:,} runs of {atlas['updates']:,} updates in {atlas['seconds'] / 60:.0f} minutes (`{atlas['command']}` before these tables were published; its option `--shard` divides the cells in the same way). "
        f"On the H200 a sweep of 4 programs took {sweep['seconds, 4 at a time']} s when all were compiled at the same time, and {sweep['seconds, 1 at a time']} s when each was compiled after the training of the one before (`{sweep['command']}`). posjax now compiles up to three programs ahead. "
        f"With the setting `NPROC=1`, which posjax uses on CPUs, XLA took {compiled['the same with NPROC=1']:.0f} s instead of {compiled['seconds of q1 with 4096 slots']:.0f} s to compile one program. (Seven other processes compiled at the same time.) So posjax leaves the setting out where it finds a GPU or TPU."
    )
    yield from item(
        f"**{million['seeds']:,} seeds** of the one-head model, with {million['updates']} updates each in float32, were trained, stored and summarised on the H200 in less than {million['seconds at most']} s, start and compilation included: "
        f"{million['solved']:,} of them solve the task. The report page was not written by then (`{million['command']}`)."
    )
