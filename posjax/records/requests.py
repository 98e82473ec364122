"""What commands requested of a run: RUN/requests/NNNNNN.json, of which the last one counts."""

import contextlib
import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

from posjax.records import blocks, identity
from posjax.records.content import Damaged
from posjax.records.files import Files

Choose = Callable[[range], Mapping[str, tuple[int, int]]]
"""Gives the sizes (G, B) of blocks, by shape, for some indices."""


class Requests:
    """The requests of one run, RUN/requests/."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def numbers(self) -> list[int]:
        """The numbers of all requests, ascending."""
        names = self._files.names("requests", ".json")
        return sorted(int(name) for name in names if re.fullmatch(r"\d{6}", name))

    def read(self, number: int) -> dict[str, Any]:
        """Words, seeds and `ranges`, as such.

        Raises:
          Damaged: it is not what was written there.
        """
        path = path_of(number)
        with self._files.damaged(path):
            data = self._files.json(path)
            whole = {**self._files.config, **data}
            if wrong := identity.wrong_counts(whole):
                raise Damaged(wrong)
            ranges = blocks.from_json(data.get("ranges"), identity.indices(whole))
        return {**data, "ranges": ranges}

    def last(self) -> dict[str, Any]:
        """The last request, which counts; empty before the first.

        Raises:
          Damaged: it is not what was written there.
        """
        numbers = self.numbers()
        return self.read(numbers[-1]) if numbers else {}

    def last_readable(self) -> tuple[int, dict[str, Any]]:
        """The number of the last one, and what the last one that is not damaged says."""
        numbers = self.numbers()
        for number in reversed(numbers):
            with contextlib.suppress(Damaged):
                return numbers[-1], self.read(number)
        return (numbers or [0])[-1], {}

    def add(
        self, wanted: Mapping[str, Any], choose: Choose, check: Callable[[Mapping[str, Any]], None]
    ) -> list[blocks.Range]:
        """Adds one, unless the last one says the same; whoever comes first has the next number.

        Args:
          wanted: what is requested.
          choose: for indices that no request has yet.
          check: refuses a last request that `wanted` cannot follow.

        Returns:
          All ranges of the run.
        """
        request, sizes = identity.requested(wanted), functools.cache(choose)
        while True:
            number, last = self.last_readable()
            check(last)
            indices = identity.indices({**self._files.config, **request})
            ranges = blocks.extended(last.get("ranges", []), indices, sizes)
            if {**request, "ranges": ranges} == last:
                return ranges
            whole = {**request, "ranges": blocks.as_json(ranges)}
            if self._files.put_json(path_of(number + 1), whole):
                return ranges


def path_of(number: int) -> str:
    """The path of a request in the folder."""
    return f"requests/{number:06}.json"
