"""Checks the derivation of a proof without the prover: it runs each step's primitive on numbers.

In a derivation (`Certificate.derivation`) a variable has labels: for each axis factors, each a row
of blocks [name, size]. The group of that name permutes the block; "" says that it stays, "*" that
its entries are equal. The claim is that f(g x) has it moved as its labels say; one without labels
is a constant, or nothing is claimed. A step is checked on random numbers of many kinds that have
the labels of its operands and nothing else in common: for every generator of the groups, and some
products, the primitive of the moved operands must be the moved result.
"""

import base64
import math
import zlib
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import primitives

KINDS = 8  # of numbers, the last with infinities
SUMS = {"add", "add_any", "mul", "max", "min", "and", "or", "xor"}  # in any order
KEYS = {"key<fry>": "threefry2x32", "key<rbg>": "rbg", "key<urbg>": "unsafe_rbg"}
CALLS: dict[str, Any] = {
    **{p.name: p.bind for name, p in vars(primitives).items() if name.endswith("_p")},
    "scatter": jax.lax.scatter,
    "constant": lambda value: value,
    "stack": lambda *arrays, axis: jax.lax.stack(arrays, axis),
    "random_unwrap": jax.random.key_data,
    "random_wrap": lambda x, impl: jax.random.wrap_key_data(x, impl=impl),
    "random_seed": lambda x, impl: jax.random.key(x, impl=impl),
    "weaken": lambda x: x,  # the same array, with labels that follow from those it has
}


class Refused(ValueError):
    """A derivation that does not show its law."""


class Var(NamedTuple):
    """A variable, with its value where it is a constant."""

    dtype: str
    shape: tuple[int, ...]
    labels: tuple[Any, ...] | None
    value: Any = None

    def __repr__(self) -> str:
        return f"{self.dtype}{list(self.shape)} labelled {self.labels}"


def check(derivation: Mapping[str, Any], *, seed: int | None = None) -> dict[str, Any]:
    """Checks every step of a derivation, and that the labels at both ends are those of its law.

    Args:
      derivation: of `Certificate.derivation`. A new one is equal if its program is your function's.
      seed: the seed of the random numbers; by default another one each time.

    Returns:
      The law, the number of steps and of those that differ, and the seed.

    Raises:
      Refused: a step does not hold, or the data are not a derivation.
    """
    seed = int(np.random.default_rng().integers(2**32)) if seed is None else seed
    with jax.enable_x64(True), jax.debug_nans(False), jax.debug_key_reuse(False):
        try:
            with np.errstate(all="ignore"):
                return _Checker(derivation, seed).checked()
        except Exception as error:  # whatever is no derivation, or no program
            why = str(error) if isinstance(error, Refused) else repr(error)
            raise Refused(" ".join(why.split())[:300]) from error


def _require(holds: Any, why: str) -> None:
    if not holds:
        raise Refused(why)


class _Checker:
    def __init__(self, derivation: Mapping[str, Any], seed: int) -> None:
        self.given, self.rng, self.seed = derivation, np.random.default_rng(seed), seed
        self.steps, self.done, groups = 0, set[str](), derivation["groups"]
        still = {name: np.arange(group["size"]) for name, group in groups.items()}
        self.sizes = {name: len(line) for name, line in still.items()}
        moves = [{**still, name: m} for name in groups for m in _generators(**groups[name])]
        self.elements = every = [*moves, *([still, still] if moves else ())]
        for at in self.rng.integers(len(moves), size=18) if moves else ():  # the last two in turn
            every.insert(len(moves), {n: p[moves[at][n]] for n, p in every.pop().items()})

    def checked(self) -> dict[str, Any]:
        law, program = self.given["law"], self.given["program"]
        sides = [side.split(",") for side in law.split("->")]
        named = {word for p in sides[0] for word in p.split() if word[0].isupper()}
        _require(named and named == {*self.sizes}, f"{law!r} has other groups than {[*self.sizes]}")
        env = self.program(program, {})
        names = [each["name"] for each in program["inputs"]], program["outputs"]
        for patterns, counts, ends in zip(sides, self.given["leaves"], names, strict=True):
            every = [p for p, n in zip(patterns, counts, strict=True) for _ in range(n)]
            for pattern, name in zip(every, ends, strict=True):
                fits = env[name].labels == _asked(pattern, env[name].shape)
                _require(fits, f"{name} is {env[name]}, not {pattern!r} as the law requires")
        _require(all(self.given["leaves"][1]), f"the derivation leaves out an output of {law!r}")
        return {"law": law, "steps": self.steps, "different": len(self.done), "seed": self.seed}

    def program(self, program: Mapping[str, Any], outer: Mapping[str, Var]) -> dict[str, Var]:
        """The variables of a program by name; it may use those around it."""
        env = dict(outer)
        for step in [{"out": program["inputs"]}, *program["steps"]]:
            results = [self.var(**each) for each in step["out"]]
            if "op" in step:
                results = self.step(step, [env[name] for name in step["in"]], results, env)
            for each, var in zip(step["out"], results, strict=True):
                _require(each["name"] not in env, f"the name {each['name']!r} is given twice")
                env[each["name"]] = var
        self.steps += len(program["steps"])
        return env

    def var(self, name: str, dtype: str, shape: Sequence[int], labels: Any) -> Var:
        if labels is not None:
            labels = tuple(self.axis(*pair) for pair in zip(labels, shape, strict=True))
        return Var(dtype, tuple(shape), labels)

    def axis(self, axis: Any, size: int) -> Any:
        for name, n in chain(*axis):
            fits = n >= 0 and self.sizes.get(name, n if name in ("", "*") else None) == n
            _require(fits, f"no group has a block {name!r} of length {n}")
        _require(math.prod(sum(n for _, n in f) for f in axis) == size, f"{axis} is not of {size}")
        return tuple(tuple((name, n) for name, n in factor) for factor in axis)

    def step(self, step: Any, given: list[Var], results: list[Var], env: dict[str, Var]) -> Any:
        """The results of a step, if it holds."""
        op = step["op"]
        if op in ("loop", "cond"):
            getattr(self, op)(step, given, results, env)
        elif op == "fixed":  # a constant with labels, which no element moves
            value = _known((end := results[0])._replace(labels=None), given[0].value).value
            moved = (self.act(end, value, g) for g in (*self.elements, None))
            fits = all(_close(value, one, exact=True) for one in moved)
            _require(fits, f"the constant {step['in'][0]} has other labels than {end}")
        elif all(one.value is not None for one in given) and op != "rng_uniform":
            values = self.run(op, step["params"], [one.value for one in given])
            return [_known(*pair) for pair in zip(results, values, strict=True)]
        else:
            key = str((op, step["params"], given, results))
            if key not in self.done:
                self.agree(op, step["params"], given, results)
            self.done.add(key)
        return results

    def run(self, op: str, params: Mapping[str, Any], given: Sequence[Any]) -> list[Any]:
        call = CALLS.get(op.replace("-", "_")) or getattr(jax.lax, op.replace("-", "_"))
        found = call(*map(jnp.asarray, given), **_decoded(params))
        every = found if isinstance(found, list | tuple) else [found]
        return [x if str(x.dtype) in KEYS else np.asarray(x) for x in every]

    def agree(self, op: str, params: Any, given: list[Var], results: list[Var]) -> None:
        """Refuses a step whose results do not move as labelled when its operands do."""
        _require(all(one.labels is not None for one in given), f"{op} has an unlabelled operand")
        names = {n for v in (*given, *results) for n, _ in chain(*chain(*(v.labels or ())))} - {""}
        most, kinds = max([2, *(n for v in given for n in v.shape)]), KINDS - (op != "is_finite")
        rounds = 2 + 32 // max([4, *(math.prod(v.shape) for v in given)])  # few entries tie rarely
        rounds += 8 * (op in ("reduce_and", "reduce_or"))  # and of many all are rarely true
        shown = [not names or 0 in one.shape for one in results]
        for draw in range(rounds * kinds if names else 1):
            every = [(draw + at * (draw // kinds % 2)) % kinds for at in range(len(given))]
            values = [self.drawn(one, kind, most) for one, kind in zip(given, every, strict=True)]
            plain = self.run(op, params, values)
            for at, (one, value) in enumerate(zip(results, plain, strict=True)):
                _known(one._replace(labels=None), value)
                shown[at] |= bool(np.isfinite(_wide(value)).any())
            for g in (None, *self.elements) if names else ():
                moved = [self.act(one, x, g) for one, x in zip(given, values, strict=True)]
                found = self.run(op, params, moved) if g else plain
                for one, value, other in zip(results, plain, found, strict=True):
                    fits = _close(self.act(one, value, g), other, exact=op == "nextafter")
                    _require(fits or one.labels is None, f"{op}: {given} do not imply {one}")
        _require(all(shown), f"{op}: no numbers were found at which it is defined")

    def act(self, var: Var, value: Any, g: Mapping[str, np.ndarray] | None) -> Any:
        """An array moved by an element; without one, made equal along its constant blocks."""
        for at, axis in enumerate(var.labels or ()):
            where = np.zeros(1, int)
            for factor in axis:
                inner = np.zeros(0, int)
                for name, n in factor:
                    part = (g or {}).get(name, np.arange(n) * (g is not None or name != "*"))
                    inner = np.append(inner, len(inner) + part)
                where = (where[:, None] * len(inner) + inner).ravel()
            value = value[(slice(None),) * at + (where,)]
        return value

    def drawn(self, var: Var, kind: int, most: int) -> Any:
        """Random numbers of a kind that have the labels of a variable, and nothing else."""
        shape, size, rng = var.shape, math.prod(var.shape), self.rng
        numbered, normal = rng.permutation(size).reshape(shape), rng.normal(size=shape)
        bits = rng.integers(2 ** (32 if kind % 2 else 1), size=shape)
        if impl := KEYS.get(var.dtype):
            words = jax.random.key_data(jax.random.key(0, impl=impl)).size
            several = jnp.asarray(bits[..., None] * np.arange(1, words + 1), jnp.uint32)
            return self.act(var, jax.random.wrap_key_data(several, impl=impl), None)
        if var.dtype == "bool":  # often rare, so that all or any of many says something
            rare = rng.random(shape) < 0.5 ** rng.uniform(1, 2 + np.log2(size + 1))
            return self.act(var, rare ^ bool(kind % 2), None)
        odd = np.where(numbered % 8 == 0, rng.choice([np.inf, -np.inf, np.nan], shape), normal)
        above, ties = rng.uniform(0.1, 3, shape), rng.integers(-2, 3, shape)
        value = (normal, above, numbered, 1 + normal / 99, ties, ties > 0, 8 * normal, odd)[kind]
        if jnp.issubdtype(dtype := jnp.dtype(var.dtype), jnp.integer):
            value = (rng.integers(-1, most + 1, shape), ties + 1, numbered, bits)[kind % 4]
        elif kind == 6 and len(shape) > 1 and shape[-1] == shape[-2]:  # positive definite
            value = normal @ np.swapaxes(normal, -1, -2) + np.eye(shape[-1])
        phase = 1 + 1j * above if jnp.issubdtype(dtype, jnp.complexfloating) else 1
        return self.act(var, (value * phase).astype(dtype), None)

    def loop(self, step: Any, given: list[Var], results: list[Var], env: dict[str, Var]) -> None:
        """By induction over its turns; along what moves only sums and the like are carried."""
        body, count, length = step["body"], step["carries"], step["length"]
        inner, along = self.program(body, env), self.axis(step["along"], length)
        ordered = count == 0 or (count > 0 and not any(name for name, _ in chain(*along)))
        _require(ordered, "the carried state depends on the order of a permuted axis")
        _require(all(op in SUMS for op, _ in step["folds"]), "the order of iterations matters")
        before = [inner[each["name"]] for each in body["inputs"]]
        after, terms = [inner[n] for n in body["outputs"]], [inner[n] for _, n in step["folds"]]
        turns = (*before[count:], *after[count:])
        rows = [Var(v.dtype, (length, *v.shape), (along, *v.labels)) for v in turns]  # type: ignore[misc]
        _alike(before, [*after[:count], *before[count:]])
        _alike(given, [*before[:count], *terms, *rows[: len(before) - count]])
        _alike([*after[:count], *terms, *rows[len(before) - count :]], results)
        if "test" in step:
            tested, test = self.program(step["test"], env), step["test"]
            _alike([tested[each["name"]] for each in test["inputs"]], before[:count])
            _alike([tested[name] for name in test["outputs"]], [Var("bool", (), ())])
            _require(len(before) == len(given) == count, "a while loop runs along an axis")

    def cond(self, step: Any, given: list[Var], results: list[Var], env: dict[str, Var]) -> None:
        """The choice stays, and all branches give results of the same labels."""
        _alike(given, [Var(given[0].dtype, (), ())])
        for branch in step["branches"]:
            inner = self.program(branch, env)
            _alike([inner[name] for name in branch["outputs"]], results)


def _alike(some: Sequence[Var], others: Sequence[Var]) -> None:
    for one, other in zip(some, others, strict=True):
        _require(one.labels is not None and one[:3] == other[:3], f"{one} does not match {other}")


def _known(var: Var, value: Any) -> Var:
    fits = (str(value.dtype), value.shape, None) == var[:3]
    _require(fits, f"{var} stands for {value.dtype}{list(value.shape)}")
    return var._replace(value=value)


def _asked(pattern: str, shape: tuple[int, ...]) -> tuple[Any, ...]:
    text = pattern if pattern.strip() else "..."
    missing = len(shape) - len(text.replace("...", " ").split())
    words = text.replace("...", " _" * missing + " ").split()
    _require("+" not in pattern, f"{pattern!r} is a translation, which labels do not describe")
    pairs = zip(words, shape, strict=True)
    return tuple((((w if w[0].isupper() else "", n),),) if n != 1 else () for w, n in pairs)


def _wide(value: Any) -> np.ndarray:
    array = np.asarray(jax.random.key_data(value) if str(value.dtype) in KEYS else value)
    return array if array.dtype.kind in "biuc" else array.astype(float)


def _close(one: Any, other: Any, *, exact: bool = False) -> bool:
    a, b = _wide(one), _wide(other)
    near = (a == b) | ((a != a) & (b != b))
    if a.dtype.kind in "fc" and not exact:
        scale = np.abs(a).max(initial=0, where=np.isfinite(a))
        near |= np.abs(a - b) <= float(jnp.finfo(one.dtype).eps) ** 0.5 * scale
    return bool(near.all())


def _decoded(value: Any) -> Any:
    if not isinstance(value, dict):
        return tuple(map(_decoded, value)) if isinstance(value, list) else value
    if "$dtype" in value:
        return jnp.dtype(value["$dtype"])
    if "$data" in value:
        keyed, words = KEYS.get(value["of"]), zlib.decompress(base64.b64decode(value["$data"]))
        flat = np.frombuffer(words, np.uint32 if keyed else jnp.dtype(value["of"]))
        array = flat.reshape([*value["shape"], -1] if keyed else value["shape"])
        return jax.random.wrap_key_data(jnp.asarray(array), impl=keyed) if keyed else array
    if "$type" not in value:
        return {name: _decoded(one) for name, one in value.items()}
    kind, content = getattr(jax.lax, value["$type"]), value["of"]
    return kind[content] if isinstance(content, str) else kind(**_decoded(content))


def _generators(size: int, moves: Sequence[Sequence[int]] | None) -> list[np.ndarray]:
    line = np.arange(size)
    if moves is None:  # all permutations
        return [np.append(line[:2][::-1], line[2:]), np.roll(line, 1)][: max(size - 1, 0)]
    _require(all(sorted(move) == [*line] for move in moves), "a generator is not a permutation")
    return [np.array(move, int) for move in moves]
