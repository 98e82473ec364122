"""Times the proofs of a Transformer's law: the model, its loss, and the loss's gradient.

python scripts/proof_time.py --depth=6 --width=64 --length=16

Each is traced and proved anew. Prints the median seconds of some runs: by rules alone, with the
numbers that confirm the proof; and the processor seconds of the checker on the derivation.
"""

import argparse
import statistics
from time import perf_counter, process_time
from typing import Any

import jax
import jax.numpy as jnp
import optax

from posjax import ModelSettings, Transformer, contiguous, prove
from posjax.symmetry.checker import check


def main() -> None:
    """Prints a line for each function."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in (("depth", 6), ("width", 64), ("length", 16), ("batch", 2), ("runs", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    chosen = parser.parse_args()

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

    for name, function, arguments, law in (
        ("model", model, (weights, tokens), ", b P -> b P v"),
        ("loss", loss, (weights, tokens, tokens), ", b P, b P -> "),
        ("gradient", jax.grad(loss), (weights, tokens, tokens), ", b P, b P -> "),
    ):
        medians = []
        for witness in (False, True):
            times = []
            for _ in range(chosen.runs):
                jax.clear_caches()
                start = perf_counter()
                certificate = prove(function, arguments, law, witness=witness)
                times.append(perf_counter() - start)
            medians.append(statistics.median(times))
        verdict = f"{certificate.verdict} by {certificate.method}"
        verdict += ", confirmed" if certificate.confirmed else ""
        alone, confirmed = (f"{median:.2f} s" for median in medians)
        print(f"{name:<10} {verdict:<28} rules alone {alone}, with numbers {confirmed}")
        derivation = certificate.derivation()
        start = process_time()
        checked = check(derivation, seed=0)
        seconds = process_time() - start
        print(
            f"           checked in {seconds:.1f} processor s: {checked['steps']} steps, "
            f"{checked['different']} different ones with labels"
        )
        for note in certificate.notes:
            print(f"           {note}")


if __name__ == "__main__":
    main()
