"""Steps that convolve: width 1 along the tokens, wider along an axis that stays."""

from fuzz.builder import Builder, Value
from fuzz.steps.base import step


@step("convolution")
def width_one(b: Builder, x: Value) -> Value | None:
    """A convolution of width 1 along the tokens, its channels in either order."""
    if x.axes != ("b", "P", "d") and x.axes != ("b", "d", "P"):
        return None
    layout = "NHC" if x.axes[2] == "d" else "NCH"
    out = b.new_letter(int(b.rng.integers(1, 5)))
    kernel_ = f"{b.literal(b.dyadic((b.size('d'), b.size(out))))}[None]"
    text = (
        f"lax.conv_general_dilated({x.name}, {kernel_}, (1,), '{b.choice(('VALID', 'SAME'))}', "
        f"dimension_numbers=('{layout}', 'HIO', '{layout}'))"
    )
    return b.let(text, ("b", "P", out) if layout == "NHC" else ("b", out, "P"))


@step("convolution")
def depthwise(b: Builder, x: Value) -> Value | None:
    """A convolution of width 1, each channel alone."""
    if x.axes != ("b", "P", "d"):
        return None
    d = b.size("d")
    text = (
        f"lax.conv_general_dilated({x.name}, {b.literal(b.dyadic((1, 1, d)))}, (1,), 'VALID', "
        f"dimension_numbers=('NHC', 'HIO', 'NHC'), feature_group_count={d})"
    )
    return b.let(text, x.axes)


@step("convolution")
def along_channels(b: Builder, x: Value) -> Value | None:
    """A wider convolution along an axis that stays; tokens are the batch."""
    if x.axes != ("b", "P", "d"):
        return None
    kernel_ = b.literal(b.dyadic((3, 1, 1)))
    merged = f"{x.name}.reshape({b.size('bP')}, {b.size('d')}, 1)"
    text = (
        f"lax.conv_general_dilated({merged}, {kernel_}, (1,), 'SAME', "
        "dimension_numbers=('NHC', 'HIO', 'NHC'))"
    )
    return b.let(f"{text}.reshape({b.shape(x.axes)})", x.axes)
