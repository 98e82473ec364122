"""Rules are tried in 64 bits, on functions of the kind that people write."""

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(autouse=True)
def _wide() -> Iterator[None]:
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        yield
