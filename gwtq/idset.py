"""A set of id numbers as ranges, the content of `seq`: `1-812 900000000`. Pure."""

from __future__ import annotations

from bisect import bisect_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class IdSet:
    """The numbers of the ids given out. Kept as disjoint ranges in rising order that do not touch."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for number in numbers:
            self.add(number)

    @classmethod
    def parse(cls, text: str) -> IdSet:
        """The set that `text` writes down. Raises ValueError for anything that `render` would not have written."""
        ids = cls()
        for part in text.split():
            first, _, last = part.partition("-")
            low, high = int(first), int(last or first)
            if low < 1 or high < low or (ids._lasts and low <= ids._lasts[-1] + 1):
                raise ValueError(f"{part!r} is out of order")
            ids._firsts.append(low)
            ids._lasts.append(high)
        if ids.render() != text:
            raise ValueError("it is not written as ranges")
        return ids

    def render(self) -> str:
        """The ranges as text: `1-812 900000000`."""
        return " ".join(f"{a}-{b}" if b > a else f"{a}" for a, b in zip(self._firsts, self._lasts))

    def add(self, number: int) -> None:
        """Put a number in."""
        if number in self:
            return
        at = bisect_right(self._firsts, number)
        after = at < len(self._firsts) and self._firsts[at] == number + 1
        if at and self._lasts[at - 1] == number - 1:
            self._lasts[at - 1] = self._lasts[at] if after else number
            if after:
                del self._firsts[at], self._lasts[at]
        elif after:
            self._firsts[at] = number
        else:
            self._firsts.insert(at, number)
            self._lasts.insert(at, number)

    @property
    def last(self) -> int:
        """The highest number; 0 of an empty set."""
        return self._lasts[-1] if self._lasts else 0

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._firsts, number)
        return at > 0 and number <= self._lasts[at - 1]

    def __iter__(self) -> Iterator[int]:
        for first, last in zip(self._firsts, self._lasts):
            yield from range(first, last + 1)
