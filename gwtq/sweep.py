"""All code that moves others' work: expired claims, tasks that fell due, batches whose producer died.

Everybody may do all of it at any time, several at once: each move is a rename of exactly the name that was seen, so a
second mover finds nothing to move. Nothing is removed here but empty directories. The steps are those of
`doc/format.md`; a crash after any of them leaves a task that the next sweep finds.
"""

from __future__ import annotations

from errno import EEXIST, ENOTEMPTY

from . import layout, names, tree
from .disk import TRIES_MAX
from .errors import Corrupt, DiskError, NewerFormat, Undecodable
from .store import parse, ready_leaf
from .task import EXPIRED, undecodable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .jsonline import Json
    from .names import Name
    from .store import Store
    from .task import Task

RECOVERING_SECONDS = 2  # how long a sweeper may hold a task before another takes over


class Recovered:
    """What a sweep did: `rows` of the tasks it moved, (id, pending or failed, its dead lane), and the failed ones.

    A task that failed through a sweep was never settled by its lane, so nobody has heard of it but the reader of this.
    """

    __slots__ = ("failed", "rows", "stuck")

    def __init__(self) -> None:
        self.stuck = 0  # how many could not be moved; each was told through `notify`
        self.rows: list[tuple[str, str, str]] = []
        self.failed: list[Task] = []

    @property
    def moved(self) -> int:
        """How many tasks were moved."""
        return len(self.rows)


class Pass:
    """What one pass over others' work met: did it see anything, and which entries it could not help."""

    __slots__ = ("recovered", "seen", "stuck")

    def __init__(self) -> None:
        self.recovered = Recovered()
        self.seen = False
        # What gave an error: told once, not tried again in this call. A pending task's path, or a `claim_key`.
        self.stuck: set[str] = set()


def claim_key(name: Name) -> str:
    """A claim, under whatever name: a take-over that failed half-way has changed its path."""
    return f"{name.id} {name.token}"


def expired(store: Store, work: Pass) -> None:
    """Return every claim whose lease ran out, and every task that a sweeper left in recovering/."""
    now, horizon = store.now(), store.later(RECOVERING_SECONDS)
    found = store.parsed(names.CLAIMED, until=now)
    for entry in store.parsed(names.RECOVERING):
        work.seen |= claim_key(entry[1]) not in work.stuck
        # A sweeper's lease further ahead than any that is given out was stamped before the clock was set back.
        if not now < entry[1].sweeper_until <= horizon:
            found.append(entry)
    if not found:
        return
    start = store.clock.chance(1)[0] % len(found)  # so that sweepers at work together begin with different entries
    for path, name in found[start:] + found[:start]:
        if claim_key(name) in work.stuck:
            continue
        work.seen = True
        try:
            recover(store, path, name, work.recovered)
        except (OSError, DiskError, NewerFormat) as error:
            work.stuck.add(claim_key(name))
            store.notify(f"{name.id} cannot be taken back from {name.lane}: {sentence(error)}")


def recover(store: Store, path: str, name: Name, recovered: Recovered) -> None:
    """Return one expired claim, from claimed/ or from recovering/ where another sweeper left it.

    Raises OSError, DiskError or NewerFormat, which leave the task where the next sweep finds it.
    """
    try:
        fd = store.disk.open(path)  # first, so that what cannot be appended to stays where it is
    except FileNotFoundError:
        return
    try:
        # sweep.1 take: from here on a late settle of the dead lane is refused.
        taken = names.recovering_name(
            layout.base(path), store.letters(names.SWEEPER_LENGTH), store.later(RECOVERING_SECONDS)
        )
        held = f"{names.RECOVERING}/{taken}"
        if not store.move(path, names.RECOVERING, taken, sync=False):
            return
        try:
            task = store.fold(name, names.RECOVERING, store.disk.content(fd))
        except Undecodable as error:
            park(store, held, name, str(error), recovered)
            return
        # sweep.2 append, synced.
        head = store.generation()
        entry: dict[str, Json] = {
            "gen": head, "prev": name.head, "event": EXPIRED, "at": names.iso(store.now()), "token": name.token,
            "lane": name.lane, "since": names.iso(name.since), "until": names.iso(name.until),
        }  # fmt: skip
        store.append(fd, entry)
    finally:
        store.disk.close(fd)
    # sweep.3 move: the commit point.
    failed = task.tries >= store.max_tries
    if failed:
        directory, text = layout.shard(names.FAILED, name.number), names.settled_name(name.id, head)
    else:
        directory, text = ready_leaf(task), names.pending_name(name.id, head)
    if store.move(held, directory, text, sync=True):
        recovered.rows.append((name.id, names.FAILED if failed else names.PENDING, name.lane))
        if failed:
            recovered.failed.append(task)


def park(store: Store, path: str, name: Name, problem: str, recovered: Recovered) -> None:
    """Move a task whose record does not decode to failed/, as it is; the reason is told again whenever it is read."""
    if store.move(path, layout.shard(names.FAILED, name.number), names.settled_name(name.id, name.head), sync=True):
        recovered.rows.append((name.id, names.FAILED, name.lane))
        recovered.failed.append(undecodable(name.id, names.FAILED, problem))


def promote(store: Store, work: Pass) -> None:
    """Move what fell due from waiting/ to where it can be claimed. Not synced: it can be done again."""
    now = store.now()
    for bucket in tree.waiting(store.disk, now):
        left = False
        for text in tree.listing(store.disk, bucket):
            name = parse(names.PENDING, text)
            if not name or name.until > now or f"{bucket}/{text}" in work.stuck:
                left = True
            else:
                work.seen = True
                _promote(store, f"{bucket}/{text}", name, work)
        if not left:
            tree.prune(store.disk, bucket)


def _promote(store: Store, path: str, name: Name, work: Pass) -> None:
    try:
        task = store.task(path)
        store.move(path, ready_leaf(task), layout.base(path), sync=False)
    except FileNotFoundError:
        return
    except Undecodable as error:
        park(store, path, name, str(error), work.recovered)
    except (OSError, NewerFormat) as error:
        work.stuck.add(path)
        store.notify(f"{name.id} fell due and cannot be read: {sentence(error)}")


def finish_batches(store: Store, work: Pass) -> None:
    """Move into place what a producer committed and did not get to move. Removes nothing: that is for producers."""
    batches = [name for name in tree.listing(store.disk, layout.TMP) if layout.is_batch(name) and names.number_of(name)]
    if not batches:
        return
    ids = store.seq()
    for batch in batches:
        if batch not in work.stuck and names.number_of(batch) in ids and any(_staged(store, batch)):
            # The commit may not be durable yet; a task in place must not outlive its id in `seq`.
            sync_directory(store, "")
            work.seen = True
            try:
                place(store, batch)
            except OSError as error:
                work.stuck.add(batch)
                store.notify(f"what was added as {batch} cannot be put in its place: {sentence(error)}")


def _staged(store: Store, batch: str) -> Iterator[tuple[str, str, list[str]]]:
    """(staged directory, where it goes, the names in it) of a batch, as far as they are not moved yet."""
    root = f"{layout.TMP}/{batch}"
    for directory in tree.listing(store.disk, root):
        tasks = tree.listing(store.disk, f"{root}/{directory}") if layout.is_staged(directory) else []
        if tasks:
            yield f"{root}/{directory}", layout.staged_target(directory), tasks


def place(store: Store, batch: str) -> list[str]:
    """Move the tasks of a committed batch to where they go; returns the directories that they came to. Not synced."""
    targets = []
    for source, target, tasks in _staged(store, batch):
        targets.append(target)
        if not ("/" in target and _place_whole(store, source, target)):
            for name in tasks:
                store.move(f"{source}/{name}", target, name, sync=False)
    return targets


def _place_whole(store: Store, source: str, target: str) -> bool:
    """Move a staged directory where its place is free, all its tasks in one rename; False where it is taken."""
    for _ in range(TRIES_MAX):
        parent = store.open_dir(layout.parent(target))
        try:
            store.disk.rename(source, layout.base(target), parent)
            return True
        except FileNotFoundError:
            if not store.disk.exists(source):
                return True  # another did it
        except OSError as error:
            if error.errno in (EEXIST, ENOTEMPTY):
                return False
            raise
        finally:
            store.disk.close(parent)
    raise Corrupt(f"{store.disk.root}/{layout.parent(target)} is removed again and again.")


def sync_directory(store: Store, path: str) -> None:
    """Make the names in a directory durable; one that is gone needs it no more: its last name was moved on."""
    try:
        fd = store.disk.open_dir(path)
    except FileNotFoundError:
        return
    try:
        store.disk.sync_dir(fd)
    finally:
        store.disk.close(fd)


def sentence(error: Exception) -> str:
    """An error as the end of a sentence for people."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
