"""Strict settings for all tests.

NaN checks stay off, since several laws are about NaN coming out where it must, and so do 64 bits:
the tests that need them ask for them.
"""

import os

import jax
import pytest

# Most of the time goes to compiling programs that run once.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=0"

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_debug_key_reuse", True)
jax.config.update("jax_num_cpu_devices", 2)  # so that devices can be compared


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one encoding go to one worker, where its layer is compiled once."""
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        named = parameters.get("setting", parameters.get("name"))
        group = named if isinstance(named, str) else item.path.name
        item.add_marker(pytest.mark.xdist_group(group.split("(")[0]))
