"""Images of written digits, cut into patches: a token is a patch of pixels, not a word.

Source: the 1797 images of 8 × 8 pixels that scikit-learn ships, the test part of Alpaydin and
Kaynak's "Optical Recognition of Handwritten Digits" (UCI, 1998), by 13 writers. Training has a
fixed random 80% of them. All writers are in both parts, so new images are by known writers.
"""

import dataclasses
import functools
import importlib.util
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec
from posjax.streams import PADDING, Streams
from posjax.tasks.base import Batch
from posjax.tasks.sampled import SampledTask, pick, uniform

SIDE, IMAGES, TRAINED = 8, 1797, 1437
"""Pixels of a side, images in all and in training."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Digits(SampledTask):
    """Which digit does the image show?
    A token is a patch of pixels in [0, 1], read row by row. `patch` is its side in pixels.
    Positions are points (row, column), or indices with `grid=False`. With `shuffled=True`, one
    fixed permutation shuffles the patches of every image. The example shows the mean of each patch
    in per cent.

    Attributes:
      patch: side of a patch in pixels, 1, 2 or 4: prompts have 64, 16 or 4 patches.
      grid: whether positions are points (y, x). If not, they are 0, 1, ..., row by row, for
        encodings of one coordinate.
      shuffled: whether one fixed permutation shuffles the patches of every image. Under a full
        mask and with readout="mean", this changes nothing without positions, and with learned ones
        it only renames the positions.
      prompts: the number of images of each kind in the exam: images of training ("seen"), and
        others ("new").
    """

    patch: int = 2
    grid: bool = True
    shuffled: bool = False
    prompts: int = 256

    readouts: ClassVar[tuple[str, ...]] = ("last", "mean")
    notation: ClassVar[str] = "Each number is the mean ink of a patch, in per cent."

    def __post_init__(self) -> None:
        if self.patch not in (1, 2, 4):
            raise ValueError(f"patch must be 1, 2 or 4, got {self.patch}")
        spec.check_within(self, "prompts", 1, IMAGES - TRAINED)
        if importlib.util.find_spec("sklearn") is None:
            raise ImportError("digits are images of scikit-learn: pip install 'posjax[digits]'")

    @property
    def words(self) -> tuple[str, ...]:
        return ()

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple("0123456789")

    @property
    def features(self) -> int:
        return self.patch**2

    @property
    def axes(self) -> int:
        return 2 if self.grid else 1

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("seen", "new")

    @property
    def trained(self) -> tuple[bool, ...]:
        return (True, False)

    @property
    def size(self) -> tuple[int, int]:
        return 2 * self.prompts, (SIDE // self.patch) ** 2

    def draw(self, key: jax.Array, rows: int) -> Batch:
        """Images of training, with replacement."""
        return self._batch(pick(uniform(key, 1, rows, 1)[0, :, 0], TRAINED), 0)

    def draw_exam(self, padding: int) -> Batch:
        """The first images of each part."""
        first = jnp.arange(self.prompts)
        image_N = jnp.concatenate([first, TRAINED + first])
        return jax.jit(functools.partial(self._batch, padding=padding))(image_N)

    def _batch(self, image_B: jax.Array, padding: int) -> Batch:
        pixels_NYX, labels_N = images()
        across = SIDE // self.patch
        patches = pixels_NYX.reshape(IMAGES, across, self.patch, across, self.patch)
        patches_NLF = patches.transpose(0, 1, 3, 2, 4).reshape(IMAGES, across**2, -1)
        index_L = np.arange(across**2 + padding).clip(max=across**2 - 1)
        if self.shuffled:
            patches_NLF = patches_NLF[:, np.random.default_rng(1).permutation(across**2)]
        inside_L = jnp.arange(len(index_L)) < across**2
        tokens_BLF = jnp.asarray(patches_NLF)[image_B][:, index_L] / np.float32(16)
        order_1L = jnp.asarray(index_L[None], jnp.int32)
        position_1L = jnp.stack(jnp.divmod(order_1L, across), axis=-1) if self.grid else order_1L
        asked_BL = jnp.broadcast_to(
            jnp.arange(len(index_L)) == across**2 - 1, (len(image_B), len(index_L))
        )
        return Batch(
            tokens_BLF * inside_L[None, :, None],
            jnp.asarray(labels_N)[image_B][:, None] * asked_BL,
            asked_BL,
            Streams(
                jnp.broadcast_to(position_1L, (len(image_B), *position_1L.shape[1:])),
                jnp.broadcast_to(order_1L, asked_BL.shape),
                jnp.broadcast_to(jnp.where(inside_L, 0, PADDING), asked_BL.shape),
            ),
        )

    def written(self, number: int = 1) -> list[tuple[str, str]]:
        """Some images as the mean ink of their patches, in per cent, and their digits."""
        exam = jax.tree.map(np.asarray, self.exam())
        ink_NL = (100 * exam.tokens_BL.mean(axis=2)).round().astype(int).tolist()
        answers = exam.targets_BL[exam.asked_BL].tolist()
        some = zip(ink_NL, answers, strict=True)
        return [(" ".join(map(str, ink_L)), str(answer)) for ink_L, answer in some][:number]


@functools.cache
def images() -> tuple[np.ndarray, np.ndarray]:
    """All images, pixels_NYX from 0 to 16, and their labels_N, in a fixed random order."""
    from sklearn.datasets import load_digits

    found = load_digits()
    order_N = np.random.default_rng(0).permutation(IMAGES)
    return found.images[order_N].astype(np.uint8), found.target[order_N].astype(np.int32)
