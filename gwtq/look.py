"""Reading: what is in the queue, for people. Writes nothing, takes no lock, works on a read-only mount.

A scan is not a snapshot: lanes go on while it reads. So the states are read in the order in which tasks flow through
them, an id that is seen twice counts once (where it was seen last), and every id of `seq` that was not met is looked
for again; no task is missing or doubled, however fast it moves.
"""

from __future__ import annotations

from heapq import merge

from . import layout, names, tree
from .disk import TRIES_MAX
from .errors import Corrupt
from .store import arriving, parse, staged
from .task import undecodable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .jsonline import Json
    from .store import Store
    from .task import Task


def snapshot(store: Store) -> dict[int, str]:
    """The path of every task by its number, '' for one that `seq` holds and no scan has met."""
    ids = store.seq()
    found: dict[int, str] = {}
    missing: list[int] = []
    for attempt in range(TRIES_MAX):
        for directory in staged(store.disk):
            _meet(found, directory, [n for n in tree.listing(store.disk, directory) if names.number_of(n) in ids])
        for directory in flow(store):
            _meet(found, directory, tree.listing(store.disk, directory))
        missing = [number for number in ids if number not in found]
        if not missing:
            break
        store.clock.sleep(0.001 * attempt)
    for number in missing:
        found[number] = ""
    return found


def flow(store: Store) -> Iterable[str]:
    """The directories that hold tasks, in the order in which tasks flow through them."""
    yield from tree.directories(store.disk)
    yield names.CLAIMED
    yield names.RECOVERING
    yield from tree.shards(store.disk)


def _meet(found: dict[int, str], directory: str, texts: list[str]) -> None:
    state = layout.state_of(f"{directory}/")
    for text in texts:
        number = names.number_of(text)
        # Of a name of two parts `number_of` has looked at both, and there may be very many of them.
        whole = text.count(".") == 1 and not layout.holding(state)
        if number and (whole or (not layout.settled(state) and parse(state, text))):
            found[number] = f"{directory}/{text}"


def tasks(store: Store) -> Iterator[Task]:
    """Every task, by number; one that cannot be read, or has no file, is a task with a problem."""
    found = snapshot(store)
    for number in sorted(found):
        yield find(store, f"q{number}", found.pop(number))


def find(store: Store, id: str, path: str = "") -> Task:
    """One task, first looked for at `path`. Raises NoSuchTask."""
    for _ in range(20 * TRIES_MAX):  # a claim that is renewed all the time moves between each look and its reading
        try:
            return store.tolerant(path or store.locate(id))
        except FileNotFoundError:
            path = ""  # it moved
        except Corrupt as error:
            return undecodable(id, names.FAILED, str(error))
    raise Corrupt(f"{id} never stays where it is seen.")


# --- numbers


class Stats:
    """Counts by status, and the instants that somebody may wait for ('' or None where there is nothing).

    open (of which waiting: not due yet), claimed, done, failed; expired: claims whose lease ran out, counted above as
    what the next sweep makes of them; oldest_open_seconds: since the oldest ready task became claimable; next_due and
    next_lease_end: ISO times.
    """

    __slots__ = KEYS = (
        "open", "waiting", "claimed", "done", "failed", "expired", "oldest_open_seconds", "next_due", "next_lease_end",
    )  # fmt: skip

    def __init__(self) -> None:
        self.open = self.waiting = self.claimed = self.done = self.failed = self.expired = 0
        self.oldest_open_seconds: int | None = None
        self.next_due = self.next_lease_end = ""

    def to_json(self) -> dict[str, Json]:
        """The counts as an object."""
        return {key: getattr(self, key) for key in self.KEYS}


def stats(store: Store) -> Stats:
    """The counts, from names alone: of the records only those of expired claims are opened."""
    found, now = snapshot(store), store.now()
    counts = Stats()
    ready_since = now
    dues, ends = [], []
    for number, path in found.items():
        state = layout.state_of(path) if path else names.FAILED
        if layout.settled(state):
            setattr(counts, state, getattr(counts, state) + 1)
            continue
        name = names.parse(state, layout.base(path))
        if state == names.PENDING:
            counts.open += 1
            if name.until > now and not in_leaf(path):
                counts.waiting += 1
                dues.append(name.until)
            else:
                ready_since = min(ready_since, max(name.until, names.stamp(names.generation_second(name.head))))
        elif state == names.CLAIMED and name.until > now:
            counts.claimed += 1
            ends.append(name.until)
        else:
            counts.expired += 1
            status = find(store, f"q{number}", path).status
            setattr(counts, status, getattr(counts, status) + 1)
            ends += [name.sweeper_until] if name.sweeper else []
    if counts.open > counts.waiting:
        counts.oldest_open_seconds = names.seconds(now) - names.seconds(ready_since)
    counts.next_due = names.iso(min(dues, default=""))
    counts.next_lease_end = names.iso(min(ends, default=""))
    return counts


def due(store: Store) -> Iterator[Task]:
    """What can be claimed now, in the order in which it will be: also what the next claim sweeps, promotes or moves
    into place first. What lies in a leaf is ready, even if the clock was set back to before it fell due."""
    now = names.iso(store.now())
    ready = (
        (-int(path.split("/")[1]), number, path)
        for number, path, _ in tree.ordered(store.disk)
        if parse(names.PENDING, layout.base(path))
    )
    for _, number, path in merge(ready, sorted(_ordered(store, *entry) for entry in _coming(store))):
        task = find(store, f"q{number}", path)
        if task.status == "open" and not task.problem:
            seen = layout.base(path).split(".")[1] == task.entries[-1]["gen"]
            if seen or task.next_at <= now:  # what was settled meanwhile may wait again
                yield task


def _coming(store: Store) -> Iterator[tuple[str, int]]:
    """(path, number) of what is due and not in its leaf yet."""
    now = store.now()
    for path, arrived in arriving(store):
        if arrived.until <= now:
            yield path, arrived.number
    for bucket in tree.waiting(store.disk, now):
        for text in tree.listing(store.disk, bucket):
            name = parse(names.PENDING, text)
            if name and name.until <= now:
                yield f"{bucket}/{text}", name.number
    for state in (names.CLAIMED, names.RECOVERING):
        for path, held in store.parsed(state):
            if state == names.RECOVERING or held.until <= now:
                yield path, held.number


def in_leaf(path: str) -> bool:
    """Is this pending task where claims look for it?"""
    return path.startswith(names.PENDING) and not path.startswith(layout.WAITING)


def _ordered(store: Store, path: str, number: int) -> tuple[int, int, str]:
    return -find(store, f"q{number}", path).priority, number, path


def held(store: Store) -> list[Task]:
    """The tasks whose lease runs, the one that ends first first."""
    now = store.now()
    claims = (*arriving(store), *store.parsed(names.CLAIMED))
    live = {name.id: (name.until, path) for path, name in claims if name.until > now}  # one that moves is met twice
    found = [find(store, id, path) for id, (_, path) in sorted(live.items(), key=lambda claim: claim[1])]
    return [task for task in found if task.status == "claimed"]
