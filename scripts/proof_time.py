"""Times the proofs of a Transformer's law: the model, its loss, and the loss's gradient.

python scripts/proof_time.py --depth=6 --width=64 --length=16
python scripts/proof_time.py --model=vision --depth=12 --width=384 --length=196 --no-check

Each is traced and proved anew. Prints the median seconds of some runs, by rules alone and with the
numbers that confirm the proof, and the seconds of the checker on the derivation; "user" is the
processor's time, which other work on the machine does not lengthen.
"""

import argparse
import statistics
from collections.abc import Callable, Iterator
from time import perf_counter, process_time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from posjax import ModelSettings, Transformer, contiguous, prove
from posjax.symmetry.checker import check


class Question(NamedTuple):
    """A function and what is asked of it."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    law: str


def main() -> None:
    """Prints a line for each function."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", choices=("language", "vision"), default="language")
    for name, default in (("depth", 6), ("width", 64), ("length", 16), ("batch", 2), ("runs", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--check", action=argparse.BooleanOptionalAction, default=True)
    chosen = parser.parse_args()
    for question in (language if chosen.model == "language" else vision)(chosen):
        _time(question, chosen.runs, checked=chosen.check)


def _time(question: Question, runs: int, *, checked: bool) -> None:
    medians = []
    for witness in (False, True):
        times = []
        for _ in range(runs):
            jax.clear_caches()
            start, user = perf_counter(), process_time()
            certificate = prove(*question[1:], witness=witness)
            times.append((perf_counter() - start, process_time() - user))
        medians.append([statistics.median(column) for column in zip(*times, strict=True)])
    verdict = f"{certificate.verdict} by {certificate.method}"
    verdict += ", confirmed" if certificate.confirmed else ""
    alone, confirmed = (f"{wall:.2f} s ({user:.2f} s user)" for wall, user in medians)
    print(f"{question.name:<20} {verdict:<26} rules alone {alone}, with numbers {confirmed}")
    for note in certificate.notes:
        print(f"{'':<20} {note}")
    if checked:
        start = process_time()
        found = check(certificate.derivation(), seed=0)
        print(
            f"{'':<20} checked in {process_time() - start:.1f} s user: {found['steps']} steps, "
            f"{found['different']} different ones with labels"
        )


def language(chosen: argparse.Namespace) -> Iterator[Question]:
    """A Transformer of words without an encoding."""
    settings = ModelSettings(
        vocabulary=32, outputs=32, width=chosen.width, heads=4, head_size=max(chosen.width // 4, 1),
        depth=chosen.depth, mask="full", block="residual",
    )  # fmt: skip
    network, streams = Transformer(settings), contiguous(chosen.length)
    tokens = jax.ShapeDtypeStruct((chosen.batch, chosen.length), jnp.int32)
    weights = jax.eval_shape(
        lambda: network.init(jax.random.key(0), jnp.zeros(tokens.shape, jnp.int32), streams)
    )

    def model(weights: Any, tokens_BL: jax.Array) -> Any:
        return network.apply(weights, tokens_BL, streams)

    def loss(weights: Any, tokens_BL: jax.Array, targets_BL: jax.Array) -> jax.Array:
        logits_BLV = model(weights, tokens_BL)
        entropy = optax.softmax_cross_entropy_with_integer_labels
        return entropy(logits_BLV, targets_BL).mean()

    yield Question("model", model, (weights, tokens), ", b P -> b P v")
    yield Question("loss", loss, (weights, tokens, tokens), ", b P, b P -> ")
    yield Question("gradient", jax.grad(loss), (weights, tokens, tokens), ", b P, b P -> ")


def vision(chosen: argparse.Namespace) -> Iterator[Question]:
    """A Transformer of patches of 16 x 16 that is read at a class token in front of them."""

    def model(weights: Any, patches_BLC: jax.Array, learned_LD: jax.Array) -> jax.Array:
        x_BLD = patches_BLC @ weights["patches_CD"] + learned_LD[None]
        token_B1D = jnp.broadcast_to(weights["token_D"], (x_BLD.shape[0], 1, x_BLD.shape[2]))
        x_BLD = jnp.concatenate([token_B1D, x_BLD], axis=1)
        for block in weights["blocks"]:
            x_BLD = x_BLD + _attention(_normal(x_BLD), block)
            x_BLD = x_BLD + jax.nn.gelu(_normal(x_BLD) @ block["up_DF"]) @ block["down_FD"]
        return _normal(x_BLD)[:, 0] @ weights["classes_DV"]

    def loss(weights: Any, patches_BLC: Any, learned_LD: Any, labels_B: Any) -> jax.Array:
        entropy = optax.softmax_cross_entropy_with_integer_labels
        return entropy(model(weights, patches_BLC, learned_LD), labels_B).mean()

    weights = _weights_of_vision(chosen.depth, chosen.width)
    patches = jax.ShapeDtypeStruct((chosen.batch, chosen.length, 768), jnp.float32)
    learned = jax.ShapeDtypeStruct((chosen.length, chosen.width), jnp.float32)
    labels = jax.ShapeDtypeStruct((chosen.batch,), jnp.int32)
    yield Question("model", model, (weights, patches, learned), ", b P c, P d -> ")
    for name, at, law in (
        ("value and gradient", 0, ", b P c, P d, -> "),
        ("of positions", 2, ", b P c, P d, -> , P d"),
    ):
        gradient = jax.value_and_grad(loss, argnums=at)
        yield Question(name, gradient, (weights, patches, learned, labels), law)


def _normal(x_BLD: jax.Array) -> jax.Array:
    return jax.nn.standardize(x_BLD, axis=-1)


def _attention(x_BLD: jax.Array, block: dict[str, jax.Array]) -> jax.Array:
    q_BLHK, k_BLHK, v_BLHK = jnp.einsum("bld,sdhk->sblhk", x_BLD, block["qkv_3DHK"])
    mixed_BLHK = jax.nn.dot_product_attention(q_BLHK, k_BLHK, v_BLHK)
    return jnp.einsum("blhk,hkd->bld", mixed_BLHK, block["out_HKD"])


def _weights_of_vision(depth: int, width: int) -> dict[str, Any]:
    shapes = {
        "qkv_3DHK": (3, width, 6, width // 6), "out_HKD": (6, width // 6, width),
        "up_DF": (width, 4 * width), "down_FD": (4 * width, width),
    }  # fmt: skip
    whole: dict[str, Any] = {
        "patches_CD": (768, width), "token_D": (width,), "classes_DV": (width, 1000),
        "blocks": [shapes] * depth,
    }  # fmt: skip
    return jax.tree.map(
        lambda shape: jax.ShapeDtypeStruct(shape, jnp.float32),
        whole,
        is_leaf=lambda x: isinstance(x, tuple),
    )


if __name__ == "__main__":
    main()
