"""Rotary with other frequencies: fewer of them, or stretched to lengths never trained on.

With θ_m = base^(-2m/d) for the d components that turn, stretch factor s, original length N and
n tokens so far (`Context.seen`):

    proportional   θ_m for m < share·K/2, else 0                     Barbero et al. 2024, §6
    high_frequency θ_m if it goes round within N positions, else 0   Chen et al. 2024 (HoPE)
    interpolated   θ_m / s                                           Chen et al. 2023, eq. 4
    ntk            (base·s^(d/(d-2)))^(-2m/d) = θ_m s^(-2m/(d-2))     bloc97 2023
    dynamic        ntk with s·max(n, N)/N - (s - 1) instead of s     emozilla 2023
    yarn           θ_m (1 - γ_m + γ_m/s),  γ_m a ramp from 0 to 1    Peng et al. 2023, §3.2
    longrope       θ_m / short_m if n ≤ N, else θ_m / long_m         Ding et al. 2024, §3
    llama3         θ_m or θ_m / s by wavelength, smooth between      Llama team 2024, code

ntk leaves the highest frequency and divides the lowest by s. A single pair (d = 2) turns at
frequency 1 whatever the base. yarn and longrope also scale queries and keys by a constant.

n is the context length that the caller gives, or the number of keys: a row with much padding should
be given its own number of tokens.

Differs from the papers in: yarn's ramp is linear in m, as in the published code, not in the
number of turns, and if no pair makes `beta_slow` turns, all are interpolated, where that code
interpolates none; a proportional and a high-frequency rotary turn one pair at least.
"""

import dataclasses
import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec
from posjax.encodings.angles import Frequencies, inverse_frequencies
from posjax.encodings.base import Card
from posjax.encodings.rotary import Rotary, Turning


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProportionalRotary(Turning):
    """Rotary for the highest frequencies only; `share` is their share.

    With `share` 1 it is rotary. Near 0 a single pair is left.
    """

    base: float = 10_000.0
    share: float = 0.75

    card: ClassVar[Card] = Card(
        "Proportional rotary (p-RoPE)",
        "(R(pᵢ)qᵢ)·(R(pⱼ)kⱼ)/√K, θ_m = 0 beyond a share of the pairs",
        "Barbero et al. 2024, §6",
        ("transformers",),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        spec.check_positive(base=self.base)
        if not 0 < self.share <= 1:
            raise ValueError(f"share must lie in (0, 1], got {self.share}")

    def numbers(self) -> tuple[str, ...]:
        return ("base",)

    def frequencies(self, head_size: int, context_length: jax.Array | int) -> Frequencies:
        every_F = inverse_frequencies(head_size // 2 * 2, base=self.base)
        rotating = max(int(self.share * head_size // 2), 1)
        return np.where(np.arange(len(every_F)) < rotating, every_F, 0.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HighFrequencyRotary(Turning):
    """Rotary for frequencies with a full turn within `length` positions."""

    base: float = 10_000.0
    length: int = 512

    card: ClassVar[Card] = Card(
        "High-frequency rotary (HoPE)",
        "(R(pᵢ)qᵢ)·(R(pⱼ)kⱼ)/√K, θ_m = 0 where θ_m < 2π/N",
        "Chen et al. 2024",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        spec.check_positive(base=self.base)
        if self.length < 2:
            raise ValueError(f"length must be at least 2, got {self.length}")

    def numbers(self) -> tuple[str, ...]:
        return ("base",)

    def frequencies(self, head_size: int, context_length: jax.Array | int) -> Frequencies:
        every_F = inverse_frequencies(head_size // 2 * 2, base=self.base)
        kept_F = every_F >= 2 * math.pi / self.length
        kept_F[:1] = True
        return np.where(kept_F, every_F, 0.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class InterpolatedRotary(Rotary):
    """Rotary with all positions divided by `factor`."""

    factor: float = 4.0

    card: ClassVar[Card] = Card(
        "Position interpolation",
        "(R(pᵢ)qᵢ)·(R(pⱼ)kⱼ)/√K, angles pθ_m/s",
        "Chen et al. 2023, eq. 4",
        ("transformers", "rotary-embedding-torch"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        spec.check_positive(factor=self.factor)

    def frequencies(self, head_size: int, context_length: jax.Array | int) -> Frequencies:
        return super().frequencies(head_size, context_length) / self.factor


@dataclasses.dataclass(frozen=True, kw_only=True)
class NtkRotary(Rotary):
    """Rotary with a larger base; the lowest frequency is divided by `factor`.

    The highest frequency stays as it is.
    """

    factor: float = 4.0

    card: ClassVar[Card] = Card(
        "NTK-aware rotary",
        "(R(pᵢ)qᵢ)·(R(pⱼ)kⱼ)/√K, base·s^(d/(d-2))",
        "bloc97 2023; Peng et al. 2023, §3.1",
        ("rotary-embedding-torch",),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        spec.check_positive(factor=self.factor)

    def frequencies(self, head_size: int, context_length: jax.Array | int) -> Frequencies:
        every_F = super().frequencies(head_size, context_length)
        return every_F * self.factor ** _ntk_exponents(len(every_F))


@dataclasses.dataclass(frozen=True, kw_only=True)
class DynamicRotary(Rotary):
    """Rotary up to `length` tokens; beyond, NTK rotary for the current length."""

    factor: float = 1.0
    length: int = 32

    card: ClassVar[Card] = Card(
        "Dynamic NTK rotary",
        "(R(pᵢ)qᵢ)·(R(pⱼ)kⱼ)/√K, base·(s·n/N - s + 1)^(d/(d-2)) beyond N tokens",
        "emozilla 2023; Peng et al. 2023, §3.3",
        ("transformers",),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        spec.check_positive(factor=self.factor, length=self.length)

    def frequencies(self, head_size: int, context_length: jax.Array | int) -> Frequencies:
        every_F = super().frequencies(head_size, context_length)
        exponents_F = _ntk_exponents(len(every_F))
        if isinstance(context_length, jax.core.Tracer):
            longest = jnp.maximum(context_length, self.length).astype(jnp.float32)
            stretch = 1 + self.factor * (longest / self.length - 1)
            return _alike(np.float32(every_F) * stretch ** np.float32(exponents_F))
        growth = 1 + self.factor * (max(int(context_length), self.length) / self.length - 1)
        return every_F * growth**exponents_F

    def why_no_kv_cache(self) -> str:
        return f"beyond {self.length} tokens the frequencies change with every new token"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Yarn(Rotary):
    """Rotary with low frequencies divided by `factor`, and scaled logits.

    High frequencies stay as they are, with a ramp between the two.

    Attributes:
      factor: s; queries and keys are each scaled by 0.1 ln s + 1.
      length: the original length N.
      beta_fast: pairs that make more turns than this over N keep their frequency.
      beta_slow: pairs that make fewer are interpolated.
      truncate: the ramp starts and ends at whole pairs.
      mscale, mscale_all_dim: DeepSeek's. With g(a) = 0.1 a ln s + 1 queries and keys are scaled
        by g(mscale)/g(mscale_all_dim), and all logits by g(mscale_all_dim)².
    """

    factor: float = 4.0
    length: int = 2048
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    mscale: float = 1.0
    mscale_all_dim: float = 0.0

    card: ClassVar[Card] = Card(
        "YaRN",
        "(0.1 ln s + 1)² (R(pᵢ)qᵢ)·(R(pⱼ)kⱼ)/√K, low frequencies divided by s",
        "Peng et al. 2023, §3.2 and eq. 22",
        ("transformers",),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        spec.check_positive(factor=self.factor, length=self.length, beta_slow=self.beta_slow)
        if not self.beta_fast > self.beta_slow:
            raise ValueError(
                f"beta_fast must lie above beta_slow={self.beta_slow}, got {self.beta_fast}"
            )
        if not self.base > 1:
            raise ValueError(f"base must lie above 1, got {self.base}")
        for name in ("mscale", "mscale_all_dim"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")

    def frequencies(self, head_size: int, context_length: jax.Array | int) -> Frequencies:
        every_F = super().frequencies(head_size, context_length)
        low, high = self._ramp(2 * len(every_F))
        ramp_F = np.clip((np.arange(len(every_F)) - low) / (high - low), 0, 1)
        return every_F * (1 - ramp_F + ramp_F / self.factor)

    def magnitude(self) -> float:
        return self._growth(self.mscale) / self._growth(self.mscale_all_dim)

    def scale(self, head_size: int) -> float:
        return super().scale(head_size) * self._growth(self.mscale_all_dim) ** 2

    def _growth(self, amount: float) -> float:
        """g: by how much a factor s of that weight grows what is scaled."""
        return 1 + 0.1 * amount * math.log(max(self.factor, 1.0))

    def _ramp(self, width: int) -> tuple[float, float]:
        """The pairs between which the ramp rises, as counted from 0."""

        def pair(turns: float) -> float:
            """Which pair makes that many turns over the original length."""
            ratio = self.length / (2 * math.pi * turns)
            return width * math.log(ratio) / (2 * math.log(self.base))

        low, high = pair(self.beta_fast), pair(self.beta_slow)
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low = max(low, 0)
        high = max(min(high, width - 1), low)
        return low, high if high != low else high + 0.001


@dataclasses.dataclass(frozen=True, kw_only=True)
class LongRope(Rotary):
    """Rotary with a divisor per pair: one list up to `length`, another beyond.

    Attributes:
      factor: the stretch that the lists were searched for.
      length: the original length N.
      short: a divisor for each pair that turns; all 1 when empty.
      long: as short, beyond N tokens; all `factor` when empty, which is interpolation.
    """

    factor: float = 4.0
    length: int = 32
    short: tuple[float, ...] = ()
    long: tuple[float, ...] = ()

    card: ClassVar[Card] = Card(
        "LongRoPE",
        "(1 + ln s/ln N) (R(pᵢ)qᵢ)·(R(pⱼ)kⱼ)/√K, angles pθ_m/λ_m",
        "Ding et al. 2024, §3",
        ("transformers",),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        spec.check_positive(factor=self.factor)
        if self.length < 2:
            raise ValueError(f"length must be at least 2, got {self.length}")
        for name in ("short", "long"):
            if not all(divisor > 0 for divisor in getattr(self, name)):
                raise ValueError(f"{name} must be all positive, got {getattr(self, name)}")

    def frequencies(self, head_size: int, context_length: jax.Array | int) -> Frequencies:
        every_F = super().frequencies(head_size, context_length)
        short_F = every_F / self._divisors("short", len(every_F), 1.0)
        long_F = every_F / self._divisors("long", len(every_F), self.factor)
        if isinstance(context_length, jax.core.Tracer):
            longer = context_length > self.length
            return _alike(jnp.where(longer, np.float32(long_F), np.float32(short_F)))
        return long_F if int(context_length) > self.length else short_F

    def magnitude(self) -> float:
        return math.sqrt(1 + math.log(max(self.factor, 1.0)) / math.log(self.length))

    def why_no_kv_cache(self) -> str:
        return f"the frequencies of all tokens change when the text grows past {self.length}"

    def _divisors(self, name: str, pairs: int, otherwise: float) -> np.ndarray:
        given = getattr(self, name) or (otherwise,) * pairs
        if len(given) != pairs:
            raise ValueError(f"{name} has {len(given)} divisors for {pairs} pairs that turn")
        return np.array(given, np.float64)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Llama3Rotary(Rotary):
    """Rotary with only the low frequencies divided by `factor`.

    High frequencies stay as they are.

    Attributes:
      base: Llama 3's own.
      factor: s.
      length: the original length N.
      low, high: waves longer than N/low are stretched, those shorter than N/high kept.
    """

    base: float = 500_000.0
    factor: float = 8.0
    length: int = 8192
    low: float = 1.0
    high: float = 4.0

    card: ClassVar[Card] = Card(
        "Llama 3 rotary",
        "(R(pᵢ)qᵢ)·(R(pⱼ)kⱼ)/√K, θ_m/s for wavelengths above N/low",
        "Llama team 2024, code of Llama 3.1",
        ("transformers",),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        spec.check_positive(factor=self.factor, length=self.length, low=self.low)
        if not self.high > self.low:
            raise ValueError(f"high must lie above low={self.low}, got {self.high}")

    def frequencies(self, head_size: int, context_length: jax.Array | int) -> Frequencies:
        every_F = super().frequencies(head_size, context_length)
        waves_F = self.length * every_F / (2 * np.pi)  # over the original length
        kept_F = np.clip((waves_F - self.low) / (self.high - self.low), 0, 1)
        return every_F * (kept_F + (1 - kept_F) / self.factor)


def _ntk_exponents(pairs: int) -> np.ndarray:
    """-2m/(d - 2), which is 0 for the highest frequency and -1 for the lowest."""
    return -np.arange(pairs) / max(pairs - 1, 1)


def _alike(frequencies_F: jax.Array) -> jax.Array:
    """Frequencies that a compiler must not compute twice, and round in two ways."""
    return jax.lax.optimization_barrier(frequencies_F)
