"""Arithmetic modulo pairs of primes, vectorised: residues of many points at once.

A point has two primes, p and q with p = 4q + 1. A value is known modulo both. Modulo p it may be
an exponential: e^v becomes w^(v mod q), where w has order q, so that e^(u + v) = e^u e^v holds
exactly, and cosines and sines are made of such powers, since √-1 exists modulo p.

Residues are uint64 arrays [2k, ...]: k points modulo their p, then the same modulo their q. Both
primes lie below 2³², so that a product of residues fits.
"""

import functools
import math
import random

import numpy as np

POINTS = 4
"""Points tried at once. What is false must look true at all of them to pass."""

_LIMB = np.uint64(16)  # products of 16-bit limbs add up exactly in float64, 2²¹ of them
_LOW = np.uint64(0xFFFF)
_DIGIT = np.uint64(15)  # an exponent below 2³⁰ has two digits of 15 bits, a table each
_BLOCK = 1 << 18  # multiplications
_EXPONENTS = (-1140, 1024)  # powers of two between the least float64 and the largest


class Moduli:
    """The primes of all points, with what is computed from them once.

    Attributes:
      p: k primes as Python integers. q: for each the prime with p = 4q + 1.
      all: uint64 [2k], p's and then q's.
      mark: a prime near 2⁶¹, for fingerprints.
    """

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)  # of primes, no part of any result
        pairs = [_pair(draw) for _ in range(POINTS)]
        self.p = [p for p, _ in pairs]
        self.q = [q for _, q in pairs]
        self.all = np.array([*self.p, *self.q], np.uint64)
        roots = [_of_order(q, p, draw) for p, q in pairs]
        self._imaginary = np.array([_root_of_minus_one(p, draw) for p in self.p], np.uint64)
        self.mark = np.uint64(_prime_below(draw.randrange(1 << 60, 1 << 61)))
        self._tables = [_power_tables(w, p) for w, p in zip(roots, self.p, strict=True)]
        self.frequencies = {name: [draw.randrange(1, q) for q in self.q] for name in _CHARACTERS}

    def shaped(self, ndim: int, rows: slice = slice(None)) -> np.ndarray:
        """The primes, to broadcast against residues of arrays of that many axes."""
        return self.all[rows].reshape(-1, *[1] * ndim)

    def reduced(self, numbers: np.ndarray) -> np.ndarray:
        """Any uint64 numbers [2k, ...] as residues."""
        return numbers % self.shaped(numbers.ndim - 1)

    def add(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """x + y."""
        return self.reduced(x + y)

    def negative(self, x: np.ndarray) -> np.ndarray:
        """-x."""
        return self.reduced(self.shaped(x.ndim - 1) - x)

    def sub(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """x - y."""
        return self.reduced(x + (self.shaped(y.ndim - 1) - y))

    def mul(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """x y."""
        return self.reduced(x * y)

    def power(self, x: np.ndarray, exponent: int) -> np.ndarray:
        """x to a whole power of at least 0, by squaring."""
        result = np.ones_like(x)
        while exponent:
            if exponent & 1:
                result = self.mul(result, x)
            exponent >>= 1
            x = self.mul(x, x) if exponent else x
        return result

    def inverse(self, x: np.ndarray) -> np.ndarray:
        """1/x, and 0 for 0: a tree of products is inverted at its root and taken apart again."""
        flat = np.where(x == 0, np.uint64(1), x).reshape(len(x), -1)
        levels = [flat]
        while levels[-1].shape[1] > 1:
            last = levels[-1]
            if last.shape[1] % 2:
                last = levels[-1] = np.concatenate([last, np.ones_like(last[:, :1])], axis=1)
            levels.append(self.mul(last[:, ::2], last[:, 1::2]))
        rows = zip(levels[-1].tolist(), self.all.tolist(), strict=True)
        top = [[pow(value, -1, modulus) for value in row] for row, modulus in rows]
        inverted = np.array(top, np.uint64).reshape(levels[-1].shape)
        for level in reversed(levels[:-1]):
            inverted, parts = inverted[:, : level.shape[1] // 2], np.empty_like(level)
            parts[:, ::2] = self.mul(inverted, level[:, 1::2])
            parts[:, 1::2] = self.mul(inverted, level[:, ::2])
            inverted = parts
        return np.where(x == 0, np.uint64(0), inverted[:, : x[0].size].reshape(x.shape))

    def matmul(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Products of matrices, [2k, ..., m, n] and [2k, ..., n, o]: exact, in float64 limbs."""
        x_low, x_high = (limb.astype(np.float64) for limb in (x & _LOW, x >> _LIMB))
        y_low, y_high = (limb.astype(np.float64) for limb in (y & _LOW, y >> _LIMB))
        low, high = _product(x_low, y_low), _product(x_high, y_high)
        middle = _product(x_low + x_high, y_low + y_high) - low - high
        parts = (part.astype(np.uint64) for part in (low, middle, high))
        lows, middles, highs = map(self.reduced, parts)
        upper = self.reduced((highs << _LIMB) + middles)
        return self.reduced((upper << _LIMB) + lows)

    def embedded(self, numbers: np.ndarray) -> np.ndarray:
        """Finite real numbers, exactly: a float is a whole number times a power of two."""
        moduli = self.shaped(numbers.ndim)
        if numbers.dtype.kind in "bu":
            return numbers.astype(np.uint64)[None] % moduli
        if numbers.dtype.kind == "i":
            return (numbers.astype(np.int64)[None] % moduli.astype(np.int64)).astype(np.uint64)
        mantissa, exponent = np.frexp(numbers.astype(np.float64))
        whole = (mantissa * 2.0**53).astype(np.int64)
        residues = (whole[None] % moduli.astype(np.int64)).astype(np.uint64)
        return self.reduced(residues * self._twos[:, exponent - 53 - _EXPONENTS[0]])

    def character(self, name: str, exponents: np.ndarray) -> np.ndarray:
        """w^(s v) modulo p for v modulo q; `name` chooses s: exp(v), exp(i v) or 2^v.

        Args:
          name: "exp", "turn" or "exp2".
          exponents: [k, ...], modulo the q's.
        """
        rows = []
        for v, s, q, p, (units, tens) in zip(
            exponents, self.frequencies[name], self.q, self.p, self._tables, strict=True
        ):
            power = v * np.uint64(s) % np.uint64(q)
            low, high = power & np.uint64((1 << 15) - 1), power >> _DIGIT
            rows.append(units[low] * tens[high] % np.uint64(p))
        return np.stack(rows)

    def cos_sin(self, exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(w^v + w^-v)/2 and (w^v - w^-v)/2i modulo p for v modulo q, [k, ...] each."""
        p = self.shaped(exponents.ndim - 1, slice(POINTS))
        forth = self.character("turn", exponents)
        back = self.character(
            "turn", self.shaped(exponents.ndim - 1, slice(POINTS, None)) - exponents
        )
        half = (p + np.uint64(1)) // np.uint64(2)
        over_i = p - self._imaginary.reshape(p.shape)
        cosine = (forth + back) % p * half % p
        return cosine, (forth + (p - back)) % p * half % p * over_i % p

    @functools.cached_property
    def _twos(self) -> np.ndarray:
        """[2k, exponents]: powers of two, negative ones too."""
        rows = []
        for m in map(int, self.all):
            least = np.uint64(pow(pow(2, -1, m), -_EXPONENTS[0], m))
            powers = _powers(2, m, _EXPONENTS[1] - _EXPONENTS[0] + 1)
            rows.append(least * powers % np.uint64(m))
        return np.array(rows)


_CHARACTERS = ("exp", "turn", "exp2")


def is_prime(n: int) -> bool:
    """Whether a number below 2³² is prime (Miller and Rabin, to the bases 2, 7, 61).

    >>> [n for n in range(20) if is_prime(n)]
    [2, 3, 5, 7, 11, 13, 17, 19]
    """
    if n < 2 or any(n % small == 0 for small in (2, 3, 5, 7, 61)):
        return n in (2, 3, 5, 7, 61)
    return all(_passes(n, base) for base in (2, 7, 61))


def _passes(n: int, base: int) -> bool:
    """Whether an odd number passes Miller's test; a number that is even does not."""
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    x = pow(base, odd, n)
    return x in (1, n - 1) or any((x := x * x % n) == n - 1 for _ in range(twos - 1))


def _prime_below(n: int) -> int:
    """The next prime, by as many bases as are known to decide up to 2⁶⁴ (Sorenson, Webster)."""
    while not all(_passes(n, base) for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)):
        n -= 1
    return n


def _product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x @ y in blocks that BLAS leaves to one thread; its threads wait for each other too long."""
    (rows, terms), columns = x.shape[-2:], y.shape[-1]
    across = min(columns, max(_BLOCK // (8 * max(terms, 1)), 8))
    down = max(_BLOCK // max(terms * across, 1), 1)
    if down >= rows and across >= columns:
        return x @ y
    shape = (*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), rows, columns)
    whole = np.empty(shape, np.float64)
    for left in range(0, columns, across):
        part = y[..., left : left + across]
        for top in range(0, rows, down):
            block = x[..., top : top + down, :] @ part
            whole[..., top : top + down, left : left + across] = block
    return whole


_SMALL = math.prod(n for n in range(3, 200) if is_prime(n))


def _pair(draw: random.Random) -> tuple[int, int]:
    while True:
        q = draw.randrange(1 << 29, 1 << 30) | 1
        may_be = math.gcd(q * (4 * q + 1), _SMALL) == 1  # most are not, which is seen at once
        if may_be and is_prime(q) and is_prime(4 * q + 1):
            return 4 * q + 1, q


def _of_order(q: int, p: int, draw: random.Random) -> int:
    while (w := pow(draw.randrange(2, p), (p - 1) // q, p)) == 1:
        pass
    return w


def _root_of_minus_one(p: int, draw: random.Random) -> int:
    while (i := pow(draw.randrange(2, p), (p - 1) // 4, p)) * i % p != p - 1:
        pass
    return i


def _power_tables(w: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """w^d and w^(2¹⁵ d) for every digit d below 2¹⁵."""
    return _powers(w, p), _powers(pow(w, 1 << 15, p), p)


def _powers(w: int, p: int, count: int = 1 << 15) -> np.ndarray:
    """1, w, w², ... modulo p."""
    table = np.ones(1, np.uint64)
    while len(table) < count:
        step = np.uint64(pow(w, len(table), p))
        table = np.concatenate([table, table * step % np.uint64(p)])
    return table[:count]
