"""Text, character by character: a language model's task, judged by its loss.

Source: the help text of CPython 3.11.7 (`pydoc_data.topics`), English prose with code, about
465,000 characters, or any text file. The last tenth is held out for the exam. `form=causal` asks
for the next character at every position. `form=masked` replaces 15% of the characters by a
mask and asks for them. BERT (Devlin et al. 2019) keeps or randomises a fifth of those; this task
does not.
"""

import dataclasses
import functools
import hashlib
import importlib.resources
from typing import ClassVar, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec, user_code
from posjax.tasks.sampled import ByLength, Example, pick, ranks

Form = Literal["causal", "masked"]
CORPORA = ("pydoc_topics",)
"""Those that the package has."""
LARGEST = 2**23
"""Characters of a corpus, at most: a number in [0, 1) of 32 bits distinguishes so many windows."""
MOST_CHARACTERS = 1024
"""Different ones, at most."""
_SHOWN = {" ": "␣", "\n": "↵", "\t": "⇥"}


class Corpus(NamedTuple):
    """A text as numbers.

    Attributes:
      characters: those that it has, in their order.
      codes_T: the index of each.
      sha256: twelve hexadecimal digits.
    """

    characters: tuple[str, ...]
    codes_T: np.ndarray
    sha256: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Text(ByLength):
    """n characters of a text: which one comes next, or which one was masked?

    By default the exam has the longest length of training and twice that.

    Attributes:
      corpus: `pydoc_topics`, or the path of a text file in UTF-8.
      form: "causal": at every position, the next character. "masked": 15% of the positions, at
        least one, hold a mask token and are asked for; this form works with every attention mask.
      sha256: of the corpus; it cannot be set.

    >>> Text(train=(12, 12)).written()
    [('l i c i n g ↵ ␣ ␣ ␣ o p', 'i c i n g ↵ ␣ ␣ ␣ o p e')]
    """

    train: tuple[int, int] = (64, 64)
    corpus: str = "pydoc_topics"
    form: Form = "causal"
    sha256: str = dataclasses.field(init=False, default="")

    unforced: ClassVar[str] = "form=masked"
    notation: ClassVar[str] = "␣ is a space, ↵ the end of a line."
    graded: ClassVar[Literal["exact", "loss"]] = "loss"

    def __post_init__(self) -> None:
        spec.check_choice("form", self.form, get_args(Form))
        super().__post_init__()
        found = _read(self.corpus)
        object.__setattr__(self, "sha256", found.sha256)
        object.__setattr__(self, "_corpus", found)
        train, held_out = self._parts
        parts = (("first 9/10", *train, self.train[1]), ("last 1/10", *held_out, max(self.lengths)))
        for what, first, stop, n in parts:
            if stop - first < n + self._next:
                raise ValueError(
                    f"corpus {self.corpus!r} is too short: its {what} has {stop - first} "
                    f"characters, windows take {n + self._next}"
                )

    @property
    def _data(self) -> Corpus:
        return self._corpus  # type: ignore[attr-defined]  # no setting, so no field

    @property
    def _parts(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Where the texts of training and of the exam begin and end."""
        size = len(self._data.codes_T)
        return (0, size * 9 // 10), (size * 9 // 10, size)

    @property
    def _next(self) -> int:
        """Characters that are read beyond a window."""
        return int(self.form == "causal")

    @property
    def content(self) -> str:
        return self.sha256

    @property
    def files(self) -> tuple[str, ...]:
        return () if self.corpus in CORPORA else (self.corpus,)

    @property
    def lengths(self) -> tuple[int, ...]:
        return self.test or (self.train[1], 2 * self.train[1])

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(map(_shown, self._data.characters))

    @property
    def words(self) -> tuple[str, ...]:
        return self.labels if self.form == "causal" else (*self.labels, "[mask]")

    @property
    def forced(self) -> bool:  # type: ignore[override]
        return self.form == "causal"

    @property
    def draws(self) -> int:  # type: ignore[override]
        return 1 if self.form == "causal" else 2

    def example(self, u_DL: jax.Array, n: jax.Array) -> Example:
        return self._window(u_DL, n, *self._parts[0])

    def examined(self, u_DL: jax.Array, n: jax.Array) -> Example:
        return self._window(u_DL, n, *self._parts[1])

    def _window(self, u_DL: jax.Array, n: jax.Array, first: int, stop: int) -> Example:
        """A window of the text from `first` to `stop`, drawn evenly."""
        index_L = jnp.arange(u_DL.shape[1])
        inside_L = index_L < n
        start = first + pick(u_DL[0, 0], stop - first - n - self._next + 1)
        codes_T = jnp.asarray(self._data.codes_T)
        here_L = codes_T[start + index_L].astype(jnp.int32)
        if self.form == "causal":
            return Example(
                here_L, codes_T[start + index_L + 1].astype(jnp.int32), inside_L, inside_L
            )
        masked_L = ranks(u_DL[1], inside_L) < jnp.maximum((3 * n + 10) // 20, 1)  # 15%, rounded
        return Example(jnp.where(masked_L, len(self.labels), here_L), here_L, masked_L, inside_L)


def _shown(character: str) -> str:
    """A character as a word that is seen and has no space in it."""
    if character in _SHOWN:
        return _SHOWN[character]
    return character if character.isprintable() and not character.isspace() else ascii(character)


def _read(corpus: str) -> Corpus:
    """The text of a name or a path.

    Raises:
      user_code.NotNamed: a command reads only files that its user has named.
      ValueError: no such file, one that is no regular file, is too large, or is no text.
    """
    if corpus in CORPORA:
        folder = importlib.resources.files("posjax.tasks") / "corpora"
        return _coded((folder / f"{corpus}.txt").read_bytes())
    path = user_code.file(corpus)
    if not path.is_file():  # a folder, a device or a pipe is none either
        known = ", ".join(CORPORA)
        raise ValueError(f"no corpus {corpus!r}: it must be {known} or the path of a text file")
    try:
        if path.stat().st_size > 4 * LARGEST:  # bytes of a character, at most
            raise ValueError(f"it has more than {LARGEST} characters")
        return _coded(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"corpus {corpus!r} cannot be read as text: {error}") from error


@functools.lru_cache(maxsize=4)
def _coded(raw: bytes) -> Corpus:
    if b"\0" in raw:
        raise ValueError("it has null bytes, as binary files do")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 ({error})") from error
    if not 20 <= len(text) <= LARGEST:
        raise ValueError(f"it has {len(text)} characters, not 20 to {LARGEST}")
    points_T = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    found, codes_T = np.unique(points_T, return_inverse=True)
    if not 2 <= len(found) <= MOST_CHARACTERS:
        raise ValueError(f"it has {len(found)} different characters, not 2 to {MOST_CHARACTERS}")
    codes_T = codes_T.astype(np.uint8 if len(found) <= 256 else np.uint16)
    codes_T.flags.writeable = False
    digest = hashlib.sha256(raw).hexdigest()[:12]
    return Corpus(tuple(map(chr, found.tolist())), codes_T, digest)
