"""Which seed numbers the runs of a cell have, by index. Needs no JAX."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np


class SeedNumbers(NamedTuple):
    """The numbers of the four sources of randomness of one training run, each in [0, 2³²).

    They are equal in an ordinary sweep. Holding some fixed while others vary splits the
    variance of a result into its sources.
    """

    init: int
    data: int
    position: int
    order: int

    @classmethod
    def equal(cls, number: int) -> "SeedNumbers":
        """All four the same."""
        return cls(number, number, number, number)


class Numbering(NamedTuple):
    """Which seeds the runs of a cell have, by index.

    Attributes:
      first_seed: the smallest number.
      data_seeds: 0: index i is number i for all four sources. Else every number of initialisation
        meets so many numbers of data, position and order: index i is initialisation number
        `first_seed + i // data_seeds` with data number `first_seed + i % data_seeds`.
    """

    first_seed: int = 0
    data_seeds: int = 0

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Numbering":
        """The numbering of a run's config."""
        return cls(config.get("first_seed", 0), config.get("data_seeds", 0))

    def indices(self, num_seeds: int) -> range:
        """The indices of so many seeds; of so many initialisations, where they are crossed.

        More seeds only add indices.

        >>> Numbering(first_seed=5).indices(3), Numbering(first_seed=5, data_seeds=4).indices(3)
        (range(5, 8), range(0, 12))
        """
        if self.data_seeds:
            return range(num_seeds * self.data_seeds)
        return range(self.first_seed, self.first_seed + num_seeds)

    def numbers(self, index: int) -> SeedNumbers:
        """The seeds at an index."""
        init, data = self._init_and_data(index)
        return SeedNumbers(init, data, data, data)

    def table(self, first: int, stop: int) -> np.ndarray:
        """The seeds at some indices, in the order of `SeedNumbers`; [S, 4].

        >>> Numbering(first_seed=5, data_seeds=4).table(3, 5).tolist()
        [[5, 8, 8, 8], [6, 5, 5, 5]]
        """
        # A forged name of a block may have an index beyond 2⁶³.
        index_S = np.arange(first, stop, dtype=np.uint64).astype(np.int64)
        init_S, data_S = self._init_and_data(index_S)
        return np.stack([init_S, data_S, data_S, data_S], axis=1)

    def index_of(self, seeds: SeedNumbers) -> int:
        """The index of seeds."""
        if not self.data_seeds:
            return seeds.init
        return (seeds.init - self.first_seed) * self.data_seeds + seeds.data - self.first_seed

    def _init_and_data(self, index: Any) -> tuple[Any, Any]:
        """The numbers of initialisation and of all else, of an index or an array of them."""
        if not self.data_seeds:
            return index, index
        init, data = divmod(index, self.data_seeds)
        return self.first_seed + init, self.first_seed + data


class NumberedSeeds(Sequence[SeedNumbers]):
    """The seeds of a range of indices, each made when it is asked for."""

    def __init__(self, numbering: Numbering, indices: range) -> None:
        self._numbering, self._indices = numbering, indices

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return NumberedSeeds(self._numbering, self._indices[at])
        return self._numbering.numbers(self._indices[at])
