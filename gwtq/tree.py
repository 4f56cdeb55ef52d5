"""The tree under pending/ is the index: which ready task is next.

One directory per priority, in it one per *block* and channel (kind and source), in it leaves. A block is for 50,000
ids, a leaf for 250; each is named by the first of them, so where a task lies follows from the task, and a name is a
lower bound for the ids below it. That bound is all that strict order (highest priority, then lowest number) needs.

Readers remove no directory. Who claims the last task of a leaf may, so whoever moves a task into one must expect it to
be gone (`Store.move`).
"""

from __future__ import annotations

from errno import ELOOP
from heapq import heappop, heappush
from itertools import groupby

from . import layout, names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from .disk import Disk


_CHANNEL = names.DIGITS_MAX + 1  # where the channel begins in a block's name


def listing(disk: Disk, path: str) -> list[str]:
    """The names in a directory; none if it is not there, or is a foreign file."""
    try:
        return disk.names(path)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        if error.errno == ELOOP:  # a link to itself
            return []
        raise


def priorities(disk: Disk) -> list[int]:
    """The priorities that have a directory, highest first."""
    found = []
    for name in listing(disk, names.PENDING):
        try:
            found.append(names.parse_priority(name))
        except names.BadName:
            continue  # `waiting`, or not ours
    return sorted(found, reverse=True)


def blocks(
    disk: Disk, priority: int, kinds: Collection[str] = (), sources: Collection[str] = ()
) -> Iterator[tuple[int, list[str]]]:
    """The blocks of a priority as (first id, one directory for each channel), lowest first: of the given kinds and
    sources, where any are given. Twenty channels of a million tasks make four hundred names; few are looked at."""
    there = sorted(listing(disk, f"{names.PENDING}/{priority}"))
    wanted = {channel for channel in {name[_CHANNEL:] for name in there} if _fits(channel, kinds, sources)}
    if wanted:
        for first, found in groupby(there, key=block_first):
            paths = [f"{names.PENDING}/{priority}/{name}" for name in found if name[_CHANNEL:] in wanted]
            if first >= 0 and paths:
                yield first, paths


def block_first(name: str) -> int:
    """The number that no id in this block is below; -1 for a name that is no block's."""
    first, _, _ = name.partition(".")
    return layout.parse_first_id(first, layout.BLOCK_IDS)


def _fits(channel: str, kinds: Collection[str], sources: Collection[str]) -> bool:
    try:
        kind, source = names.parse_channel(channel)
    except names.BadName:
        return False
    return (not kinds or kind in kinds) and (not sources or source in sources)


def ordered(
    disk: Disk, kinds: Collection[str] = (), sources: Collection[str] = (), *, tidy: bool = False
) -> Iterator[tuple[int, str, bool]]:
    """The ready tasks as (number, path, last of its leaf), highest priority first, then lowest number.

    Read as far as it is consumed. With `tidy`, empty leaves, blocks and priorities that are met are
    removed: for claims, never for readers.
    """
    for priority in priorities(disk):
        empty = True
        for _, found in blocks(disk, priority, kinds, sources):
            empty = False
            yield from _merged(disk, found, tidy)
        if empty and tidy and not (kinds or sources):
            disk.remove_dir(f"{names.PENDING}/{priority}")


def _merged(disk: Disk, found: list[str], tidy: bool) -> Iterator[tuple[int, str, bool]]:
    """The tasks of several blocks by number. One heap holds, by its lower bound, the first leaf of each block that was
    not read yet, and the first task of each leaf that was; each with the names of those that follow."""
    heap: list[tuple[int, bool, str, list[str]]] = []
    for block in found:
        if not _push_leaf(heap, block, listing(disk, block)) and tidy:
            prune(disk, block)
    while heap:
        number, is_task, path, others = heappop(heap)
        if is_task:
            more = _push_task(heap, layout.parent(path), others)
            yield number, path, not more
        else:
            _push_leaf(heap, layout.parent(path), others)
            if not _push_task(heap, path, _falling(listing(disk, path))) and tidy:
                prune(disk, path)


def _push_leaf(heap: list[tuple[int, bool, str, list[str]]], block: str, found: list[str]) -> bool:
    """Put the first leaf of these into the heap; False if there is none. Most claims need no second: no sort."""
    while found:
        name = min(found)
        found.remove(name)
        first = layout.parse_first_id(name, layout.LEAF_IDS)
        if first >= 0:
            heappush(heap, (first, False, f"{block}/{name}", found))
            return True
        found = [name for name in found if layout.parse_first_id(name, layout.LEAF_IDS) >= 0]
    return False


def _push_task(heap: list[tuple[int, bool, str, list[str]]], leaf: str, falling: list[str]) -> bool:
    """Put the first task of these into the heap; False if there is none."""
    while falling:
        name = falling.pop()
        number = names.number_of(name)
        if number:
            heappush(heap, (number, True, f"{leaf}/{name}", falling))
            return True
    return False


def _falling(found: list[str]) -> list[str]:
    """The names of a leaf's tasks by their number, the lowest last, in C: of two hundred names that a claim may read,
    only those that it may take are parsed. Numbers sort as text does among those of one length."""
    plain = max(map(len, found), default=0) <= names.READY_NAME_MAX
    found.sort(reverse=True)
    found.sort(key=len if plain else _id_length, reverse=True)  # a task that once waited has a longer name
    return found


def _id_length(name: str) -> int:
    return len(name.partition(".")[0])


def prune(disk: Disk, path: str) -> None:
    """Remove a directory below pending/ and its parents there, as far as they are empty."""
    while path not in (names.PENDING, layout.WAITING) and disk.remove_dir(path):
        path = layout.parent(path)


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


def leaves(disk: Disk) -> Iterator[str]:
    """Every leaf, in no order."""
    for priority in priorities(disk):
        for _, found in blocks(disk, priority):
            for block in found:
                for name in listing(disk, block):
                    if layout.parse_first_id(name, layout.LEAF_IDS) >= 0:
                        yield f"{block}/{name}"


def near(disk: Disk, number: int) -> Iterator[str]:
    """The leaves in which the ready task of this number may lie: one of each priority and channel."""
    for priority in priorities(disk):
        for first, found in blocks(disk, priority):
            if first <= number < first + layout.BLOCK_IDS:
                for block in found:
                    yield f"{block}/{layout.first_id(number, layout.LEAF_IDS)}"


def directories(disk: Disk) -> Iterator[str]:
    """Every directory below pending/ that holds tasks: the leaves, then the buckets."""
    yield from leaves(disk)
    yield from waiting(disk, "99999999T9999")


def shards(disk: Disk) -> Iterator[str]:
    """The directories of done/ and failed/ that hold tasks."""
    for state in (names.DONE, names.FAILED):
        for millions in listing(disk, state):
            for thousands in listing(disk, f"{state}/{millions}"):
                if layout.is_shard(millions, thousands):
                    yield f"{state}/{millions}/{thousands}"
