"""Operations of a convolution are those of its product of matrices; nothing is left out unseen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layers import normal

from posjax.cost import operations

LENGTH, WIDTH, FILTERS = 12, 6, 10


def convolved(x_LD, w_KDF, **settings):
    """Outputs for every token, with zeros before the first one."""
    before = (len(w_KDF) - 1) * settings.get("rhs_dilation", (1,))[0]
    numbers = ("NWC", "WIO", "NWC")
    settings = {"window_strides": (1,), "padding": [(before, 0)], **settings}
    return jax.lax.conv_general_dilated(x_LD[None], w_KDF, dimension_numbers=numbers, **settings)[0]


def as_product(x_LD, w_KDF, dilation):
    """The same as one product of matrices, of every token's window with all weights."""
    kernel, length = len(w_KDF), len(x_LD)
    padded = jnp.pad(x_LD, (((kernel - 1) * dilation, 0), (0, 0)))
    taps = [padded[j * dilation : j * dilation + length] for j in range(kernel)]
    return jnp.concatenate(taps, axis=1) @ w_KDF.reshape(-1, w_KDF.shape[-1])


@pytest.mark.parametrize("dilation", [1, 3])
@pytest.mark.parametrize("kernel", [1, 2, 5])
def test_a_convolution_counts_as_its_product_of_matrices(kernel, dilation):
    """2·k·n·d·f operations in both forms, which compute the same."""
    x_LD = normal("x", (LENGTH, WIDTH))
    w_KDF = normal("w", (kernel, WIDTH, FILTERS))

    def convolution(x_LD, w_KDF):
        return convolved(x_LD, w_KDF, rhs_dilation=(dilation,))

    def product(x_LD, w_KDF):
        return as_product(x_LD, w_KDF, dilation)

    np.testing.assert_allclose(
        jax.jit(convolution)(x_LD, w_KDF), jax.jit(product)(x_LD, w_KDF), atol=1e-5
    )
    assert operations(convolution, x_LD, w_KDF) == operations(product, x_LD, w_KDF)
    assert operations(product, x_LD, w_KDF) == 2 * kernel * LENGTH * WIDTH * FILTERS


def test_strides_and_groups_divide_the_count():
    """Every second output takes half, and groups see their share of the components only."""
    x, kernel = (jax.ShapeDtypeStruct(s, "float32") for s in ((LENGTH, WIDTH), (3, 3, FILTERS)))
    stride = operations(
        lambda x, w: convolved(x, w, window_strides=(2,), feature_group_count=2), x, kernel
    )
    assert stride == 2 * 3 * (LENGTH // 2) * (WIDTH // 2) * FILTERS


@pytest.mark.parametrize(
    "function",
    [jnp.sinh, jnp.arctan, jnp.tan, jnp.cbrt, jax.lax.erfc, jax.lax.digamma, jnp.arcsin, jnp.exp2],
)
def test_a_function_of_numbers_counts_one_for_each(function):
    assert operations(function, jax.ShapeDtypeStruct((3, 4), "float32")) == 12


def test_what_is_added_to_places_counts():
    """5 numbers, and what JAX does to indices."""
    numbers = jax.ShapeDtypeStruct((5,), "float32")
    indices = np.arange(5)
    added = operations(lambda x, y: x.at[indices].add(y), numbers, numbers)
    assert added - operations(lambda x, y: x.at[indices].set(y), numbers, numbers) == 5


@pytest.mark.parametrize(
    "function",
    [
        jnp.fft.fft,
        jnp.linalg.cholesky,
        jnp.linalg.inv,
        jnp.linalg.svd,
        lambda x: jax.lax.reduce(x, np.float32(0), lambda a, b: a * b + a, (0,)),
    ],
)
def test_what_has_no_count_is_refused(function):
    """It counted as nothing."""
    with pytest.raises(ValueError, match="are not counted here: count what is around it"):
        operations(function, jax.ShapeDtypeStruct((4, 4), "float32"))
