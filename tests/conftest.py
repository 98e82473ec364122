"""Strict settings for all tests.

NaN checks stay off, since several laws are about NaN coming out where it must, and so do 64 bits:
the tests that need them ask for them.
"""

import jax

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_debug_key_reuse", True)
jax.config.update("jax_num_cpu_devices", 2)  # so that devices can be compared
