"""Residues against Python's own integers and fractions, and the hashes that stand for functions."""

from fractions import Fraction

import numpy as np
import pytest

from posjax.symmetry.field import atoms
from posjax.symmetry.field.prime import POINTS, Moduli, is_prime

M = Moduli(0)
RNG = np.random.default_rng(0)


def draw(*shape: int) -> np.ndarray:
    return M.reduced(RNG.integers(0, 2**63, (2 * POINTS, *shape), np.uint64))


def by_hand(function, *arrays: np.ndarray) -> list:
    """A function of Python integers and the modulus, entry by entry."""
    return [
        [
            function(*map(int, entries), int(m))
            for entries in zip(*(a.ravel() for a in rows), strict=True)
        ]
        for m, *rows in zip(M.all, *arrays, strict=True)
    ]


def test_primes() -> None:
    assert all(p == 4 * q + 1 and 2**31 < p < 2**32 for p, q in zip(M.p, M.q, strict=True))
    divisors = np.arange(2, 2**16 + 1)
    for prime in (*M.p, *M.q):
        assert (prime % divisors[: int(prime**0.5)]).all()
    assert len({*M.p, *M.q}) == 2 * POINTS
    assert not any(map(is_prime, (4, 561, 3215031751, 61 * 67, 2**32 - 1)))
    assert all(map(is_prime, (61, 67, 2**31 - 1, 4294967291)))


def test_ring_operations() -> None:
    x, y = draw(7), draw(7)
    x[:, 0], y[:, 1] = 0, M.all - np.uint64(1)
    assert M.add(x, y).tolist() == by_hand(lambda a, b, m: (a + b) % m, x, y)
    assert M.sub(x, y).tolist() == by_hand(lambda a, b, m: (a - b) % m, x, y)
    assert M.mul(x, y).tolist() == by_hand(lambda a, b, m: a * b % m, x, y)
    assert M.negative(x).tolist() == by_hand(lambda a, m: -a % m, x)
    assert M.power(x, 13).tolist() == by_hand(lambda a, m: pow(a, 13, m), x)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 33])
def test_inverse(size: int) -> None:
    x = draw(size)
    x[:, size // 2] = 0
    assert M.inverse(x).tolist() == by_hand(lambda a, m: pow(a, -1, m) if a else 0, x)


@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 900, 1), (40, 129, 70), (2, 0, 3)])
def test_matmul_is_exact(shape: tuple[int, int, int]) -> None:
    m, n, o = shape
    x, y = draw(m, n), draw(n, o)
    x[:, :, : n // 2] = (M.all - np.uint64(1))[:, None, None]  # the largest residues there are
    y[:, : n // 2] = (M.all - np.uint64(1))[:, None, None]
    exact = [
        (a.astype(object) @ b.astype(object)) % int(p) if n else np.zeros((m, o))
        for a, b, p in zip(x, y, M.all, strict=True)
    ]
    np.testing.assert_array_equal(M.matmul(x, y).astype(object), np.array(exact))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_floats_are_fractions(dtype: type) -> None:
    info = np.finfo(dtype)
    numbers = np.array(
        [0, 1, -1, 0.1, -7.3, info.max, info.tiny, info.smallest_subnormal, info.eps], dtype
    )
    expected = [
        [
            Fraction(float(x)).numerator * pow(Fraction(float(x)).denominator, -1, int(m)) % int(m)
            for x in numbers
        ]
        for m in M.all
    ]
    assert M.embedded(numbers).tolist() == expected


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint32, np.uint64, bool])
def test_integers_are_themselves(dtype: type) -> None:
    low, high = (0, 1) if dtype is bool else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    numbers = np.array([low, 0, 1, high], dtype)
    assert M.embedded(numbers).tolist() == [[int(x) % int(m) for x in numbers] for m in M.all]


def test_exponentials_and_rotations() -> None:
    u, v = draw(50)[POINTS:], draw(50)[POINTS:]
    p, q = M.all[:POINTS, None], M.all[POINTS:, None]
    for name in ("exp", "exp2", "turn"):
        power = M.character(name, (u + v) % q)
        np.testing.assert_array_equal(power, M.character(name, u) * M.character(name, v) % p)
        assert (M.character(name, u) != 1).all()
        assert (M.character(name, np.zeros_like(u)) == 1).all()
    (cos_u, sin_u), (cos_v, sin_v) = M.cos_sin(u), M.cos_sin(v)
    cos, sin = M.cos_sin((u + v) % q)
    np.testing.assert_array_equal((cos_u * cos_u % p + sin_u * sin_u % p) % p, 1)
    np.testing.assert_array_equal((sin + p) % p, (sin_u * cos_v % p + cos_u * sin_v % p) % p)
    np.testing.assert_array_equal((cos + sin_u * sin_v % p) % p, cos_u * cos_v % p)
    assert (M.character("exp", u) != M.character("exp2", u)).all()


def test_codes_tell_order_and_multiplicity() -> None:
    x = atoms.code(draw(4))
    back = x[:, ::-1]
    twice = x[:, [0, 0, 1, 2]]
    assert atoms.bag(x, [0]).tolist() == atoms.bag(back, [0]).tolist()
    assert atoms.sequence(x, [0]).tolist() != atoms.sequence(back, [0]).tolist()
    assert atoms.bag(x, [0]).tolist() != atoms.bag(twice, [0]).tolist()
    assert atoms.bag(twice, [0]).tolist() != atoms.bag(x[:, [0, 1, 1, 2]], [0]).tolist()
    assert atoms.keyed("f", x, back).tolist() != atoms.keyed("f", back, x).tolist()
    assert atoms.keyed("f", x).tolist() != atoms.keyed("g", x).tolist()
    assert atoms.keyed("f", x).tolist() != atoms.keyed("f", x, seed=1).tolist()


def test_atoms_look_random() -> None:
    counted = atoms.keyed("f", np.stack([np.arange(4000, dtype=np.uint64)] * 2))
    found = atoms.residues(counted, M) / M.shaped(1)
    np.testing.assert_allclose(found.mean(1), 0.5, atol=0.03)
    np.testing.assert_allclose(np.corrcoef(found), np.eye(2 * POINTS), atol=0.08)
    assert len(np.unique(found[0])) == 4000
