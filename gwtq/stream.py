"""What a batch is read from, and the bar that tells how far it came. Only `add` needs it, so only `add` loads it."""

from __future__ import annotations

import os
import sys
import time

from .errors import BadData, NoSuchFile
from .jsonline import strict_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from .jsonline import Json

BAR_AFTER_SECONDS = 1


def opened(path: str) -> BinaryIO:
    """A file to be read, '-' being stdin. Raises NoSuchFile."""
    if path == "-":
        if sys.stdin is None:
            raise NoSuchFile("Stdin is closed.")
        return sys.stdin.buffer
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise NoSuchFile(repr(path)) from None
    except IsADirectoryError:
        raise NoSuchFile(f"{path!r} is a directory.") from None


def objects(file: BinaryIO) -> Iterator[tuple[int, dict[str, Json]]]:
    """(line number, object) of a stream; blank lines are left out. Raises BadData with the line's number."""
    for number, raw in enumerate(file, 1):
        if raw.strip():
            try:
                yield number, strict_object(raw)
            except ValueError as error:
                raise BadData(f"Line {number}: {error}") from None


class Progress:
    """A bar on stderr, if that is a terminal and the work takes longer than a second."""

    def __init__(self, total: int, what: str) -> None:
        self._total = total
        self._what = what
        self._begun = time.monotonic()
        self._shown = False

    def __enter__(self) -> Callable[[int], None]:
        return self._step

    def _step(self, count: int) -> None:
        if time.monotonic() - self._begun > BAR_AFTER_SECONDS and os.isatty(2):
            self._shown = True
            bar = "#" * (30 * count // max(1, self._total))
            os.write(2, f"\r{self._what} [{bar:<30}] {count:,} of {self._total:,}".encode())

    def __exit__(self, *error: object) -> None:
        if self._shown:
            os.write(2, b"\r\x1b[K")
