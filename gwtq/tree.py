"""The tree under pending/ is the index: which ready task is next, and where a task goes.

One directory per priority, in it one per channel (kind and source), in it leaves. A leaf is named by its first id
rounded down to a multiple of 64, so its name is a lower bound for the ids in it; it is full at 64 tasks or at as many
as there are leaves, so that n tasks make about √n leaves of √n names and a claim reads about 2√n names. Strict order
(highest priority, then lowest number) needs only that bound.

Readers remove no directory. Who claims the last task of a leaf may, so whoever moves a task into one must expect it to
be gone (`Store.move`).
"""

from __future__ import annotations

from bisect import bisect_right
from heapq import heappop, heappush

from . import layout, names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from .disk import Disk


_LEAF = frozenset("q0123456789")


def listing(disk: Disk, path: str) -> list[str]:
    """The names in a directory; none if it is not there, or is a foreign file."""
    try:
        return disk.names(path)
    except (FileNotFoundError, NotADirectoryError):
        return []


def priorities(disk: Disk) -> list[int]:
    """The priorities that have a directory, highest first."""
    found = []
    for name in listing(disk, names.PENDING):
        try:
            found.append(names.parse_priority(name))
        except names.BadName:
            continue  # `waiting`, or not ours
    return sorted(found, reverse=True)


def channels(disk: Disk, priority: int, kinds: Collection[str] = (), sources: Collection[str] = ()) -> list[str]:
    """The channels of a priority: those of the given kinds and for the given sources, where any are given."""
    base = f"{names.PENDING}/{priority}"
    if kinds and sources:
        return [f"{base}/{names.channel_name(k, s)}" for k in kinds for s in sources]
    found = []
    for name in listing(disk, base):
        try:
            kind, source = names.parse_channel(name)
        except names.BadName:
            continue
        if (not kinds or kind in kinds) and (not sources or source in sources):
            found.append(f"{base}/{name}")
    return found


def leaves(disk: Disk, channel: str) -> list[int]:
    """The numbers that the leaves of a channel begin with, in no order."""
    found = listing(disk, channel)
    if _LEAF.issuperset("".join(found)):  # no foreign name among them: a thousand leaves are read for one claim
        try:
            return [int(name[1:]) for name in found]
        except ValueError:
            pass
    return [first for first in map(layout.leaf_first, found) if first >= 0]


def ordered(
    disk: Disk, kinds: Collection[str] = (), sources: Collection[str] = (), *, tidy: bool = False
) -> Iterator[tuple[int, str, bool]]:
    """The ready tasks as (number, path, last of its leaf), highest priority first, then lowest number.

    Read as far as it is consumed. With `tidy`, empty leaves, channels and priorities that are met are
    removed: for claims, never for readers.
    """
    for priority in priorities(disk):
        found = channels(disk, priority, kinds, sources)
        if not found and tidy and not (kinds or sources):
            disk.remove_dir(f"{names.PENDING}/{priority}")
        yield from _merged(disk, found, tidy)


def _merged(disk: Disk, found: list[str], tidy: bool) -> Iterator[tuple[int, str, bool]]:
    """The tasks of several channels by number. One heap holds, by its lower bound, the first leaf of each channel that
    was not read yet, and the first task of each leaf that was; the names behind each are in order."""
    heap: list[tuple[int, bool, str, list[str]]] = []
    for channel in found:
        if not _push(heap, False, channel, _falling(listing(disk, channel))) and tidy:
            prune(disk, channel)
    while heap:
        number, read, path, names_left = heappop(heap)
        name = names_left.pop()
        more = _push(heap, read, path, names_left)
        if read:
            yield number, f"{path}/{name}", not more
        else:
            leaf = f"{path}/{name}"
            if not _push(heap, True, leaf, _falling(listing(disk, leaf))) and tidy:
                prune(disk, leaf)


def _falling(found: list[str]) -> list[str]:
    """Names that begin with an id, the lowest last. Sorted as text and then by the length of the id: a claim on a
    million tasks reads two thousand names, and only those that it may take are parsed."""
    found.sort(reverse=True)
    found.sort(key=_id_length, reverse=True)
    return found


def _id_length(name: str) -> int:
    at = name.find(".")
    return len(name) if at < 0 else at


def _push(heap: list[tuple[int, bool, str, list[str]]], read: bool, path: str, names_left: list[str]) -> bool:
    """Put the leaves of a channel, or the tasks of a leaf that was read, into the heap; False if there are none."""
    number_of = names.number_of if read else layout.leaf_first
    while names_left:
        number = number_of(names_left[-1])
        if number >= read:  # a leaf may begin at 0, an id may not
            heappush(heap, (number, read, path, names_left))
            return True
        names_left.pop()  # not ours
    return False


def prune(disk: Disk, path: str) -> None:
    """Remove a directory below pending/ and its parents there, as far as they are empty."""
    while path not in (names.PENDING, layout.WAITING) and disk.remove_dir(path):
        path = layout.parent(path)


class Places:
    """Where tasks go that become ready: for one operation, which counts what it puts there itself."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._leaves: dict[str, list[int]] = {}
        self._counts: dict[str, int] = {}

    def leaf(self, channel: str, number: int) -> str:
        """The leaf of this channel whose range holds the number; a new one where that is full."""
        firsts = self._leaves.get(channel)
        if firsts is None:
            firsts = self._leaves[channel] = sorted(leaves(self._disk, channel))
        at = bisect_right(firsts, number)
        new = number // layout.LEAF_STEP * layout.LEAF_STEP
        if at and (firsts[at - 1] == new or self._count(channel, firsts[at - 1]) < max(layout.LEAF_STEP, len(firsts))):
            first = firsts[at - 1]
        else:
            first = new
            firsts.insert(at, new)
        leaf = f"{channel}/q{first}"
        if leaf in self._counts:
            self._counts[leaf] += 1
        return leaf

    def _count(self, channel: str, first: int) -> int:
        leaf = f"{channel}/q{first}"
        if leaf not in self._counts:
            self._counts[leaf] = len(listing(self._disk, leaf))
        return self._counts[leaf]


def waiting(disk: Disk, until: str) -> Iterator[str]:
    """The buckets whose minute has begun at the stamp `until`, in the order in which they fall due."""
    for day in sorted(listing(disk, layout.WAITING)):
        if day > until[:8]:
            break
        for minute in sorted(listing(disk, f"{layout.WAITING}/{day}")):
            if minute[:13] > until[:13]:
                break
            if layout.is_bucket(day, minute):
                yield f"{layout.WAITING}/{day}/{minute}"


def directories(disk: Disk) -> Iterator[str]:
    """Every directory below pending/ that holds tasks: the leaves, then the buckets."""
    for priority in priorities(disk):
        for channel in channels(disk, priority):
            for first in leaves(disk, channel):
                yield f"{channel}/q{first}"
    yield from waiting(disk, "99999999T9999")


def shards(disk: Disk) -> Iterator[str]:
    """The directories of done/ and failed/ that hold tasks."""
    for state in (names.DONE, names.FAILED):
        for millions in listing(disk, state):
            for thousands in listing(disk, f"{state}/{millions}"):
                if layout.is_shard(millions, thousands):
                    yield f"{state}/{millions}/{thousands}"
