"""Producers: add, import, init. They alone take the lock, give out ids and write `seq` and `keys/`.

`seq` is the commit point, so that absence never has to be proved: under the lock, stage the new tasks in tmp/, write
their keys, replace `seq` by one that holds their ids: committed. Then move them into place. A staged task whose id
`seq` holds is committed and anybody may move it; any other is removed, by a holder of the lock alone. So a batch is all
or nothing across a crash, and every id in `seq` has a file at every instant.
"""

from __future__ import annotations

from . import layout, names, sweep, tree
from .dedupe import Matches, refresh, wanted_changes
from .errors import BadData, BadInput, Corrupt, GwtqError, NoSuchQueue
from .items import record
from .jsonline import dumps, loads
from .keys import Keys, highest_key
from .seq import rebuilt_ids, replace, write_seq
from .store import read_settings
from .task import Enqueued

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .clock import Clock
    from .disk import Disk
    from .idset import IdSet
    from .items import Prepared, Row
    from .jsonline import Json
    from .settings import Settings
    from .store import Store

BULK = 32  # from so many files on, one sync of the file system is cheaper than one for each


# --- init


def create(disk: Disk, clock: Clock, settings: Settings) -> None:
    """Make the queue's directory; one that is a queue already stays as it is. Durable on return.

    Raises NoSuchQueue for a path that is a file, or a directory with other things in it.
    """
    if disk.exists(layout.SETTINGS):
        _sync_root(disk)  # who made it may have died before its sync
        return
    try:
        disk.make_root()
    except (FileExistsError, NotADirectoryError):
        read_settings(disk)  # the same sentence as when it is opened
        raise
    foreign = sorted(name for name in disk.names("") if name not in layout.OWN and not name.startswith("."))
    if foreign:
        raise NoSuchQueue(f"{disk.root} is no queue, and holds {foreign[0]!r}: choose a directory of its own.")
    with disk.lock(layout.LOCK):
        if disk.exists(layout.SETTINGS):
            return
        for directory in layout.DIRECTORIES:
            disk.make_dir(directory)
        for name in disk.names(layout.TMP):
            if name.startswith(layout.SEQ + "."):  # what a producer that died did not put in place
                disk.remove(f"{layout.TMP}/{name}")
        chance = names.letters(clock.chance(names.GEN_CHANCE))
        if not disk.exists(layout.SEQ):
            replace(disk, layout.SEQ, b"\n", chance)
        replace(disk, layout.SETTINGS, pretty(settings.to_json()).encode("utf-8"), chance)  # init.commit


def _sync_root(disk: Disk) -> None:
    fd = disk.open_dir("")
    try:
        disk.sync_dir(fd)
    finally:
        disk.close(fd)


def pretty(settings: dict[str, Json]) -> str:
    """queue.json as people edit it: a field a line."""
    fields = [f"  {dumps(key)}: {dumps(value)}" for key, value in settings.items()]
    return "{\n" + ",\n".join(fields) + "\n}\n"


# --- the producer's session


class Producer:
    """One operation under the lock: `with Producer(store) as producer`.

    Entering it finishes or removes what dead producers left. With `mends` it makes a `seq` again that does not read.
    """

    def __init__(self, store: Store, *, mends: bool = False) -> None:
        self.store = store
        self.mends = mends
        self.disk = store.disk
        self.kept: set[str] = set()  # ids that the batch was to refresh and a lane took first
        self._lock = store.disk.lock(layout.LOCK)

    def __enter__(self) -> Producer:  # noqa: PYI034 (Self is not in 3.8)
        self._lock.__enter__()
        try:
            self.ids, self.highest = self._read_seq()
            self._recover()
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise
        self.keys = Keys(self.store)
        self.batch = ""
        self._staged: dict[str, None] = {}  # the directories of the batch, in the order in which they were made
        return self

    def __exit__(self, *error: object) -> None:
        try:
            if self.batch:
                self._abandon()
        finally:
            self._lock.__exit__(None, None, None)

    def _abandon(self) -> None:
        """After an error: what is staged goes, unless it is committed, which the disk alone knows. What cannot be
        removed now, the next holder of the lock removes."""
        try:
            ids, refreshing = self.store.seq_and_batch()
            if names.number_of(self.batch) not in ids and refreshing != self.batch:
                self._remove(self.batch, committed=False)
        except (OSError, GwtqError):
            return

    def _read_seq(self) -> tuple[IdSet, int]:
        """The ids given out, and the highest that ever was; a lost `seq` is made again, one that does not read only if
        that is asked for."""
        try:
            ids, self._refreshing = self.store.seq_and_batch()
            return ids, ids.last
        except (Corrupt, BadData) as error:
            if isinstance(error, BadData) and not self.mends:
                raise
        self._refreshing = ""
        self.store.notify("seq was lost and is made again from the tasks that are there")
        ids = rebuilt_ids(self.store)
        write_seq(self.store, ids)
        return ids, max(ids.last, highest_key(self.disk))

    def _recover(self) -> None:
        """Finish the batches that are committed, remove the others."""
        for name in tree.listing(self.disk, layout.TMP):
            if name.startswith(layout.SEQ + "."):
                self.disk.remove(f"{layout.TMP}/{name}")  # never put in place
            elif layout.is_batch(name):
                committed = names.number_of(name) in self.ids or name == self._refreshing
                if committed:
                    sweep.sync_directory(self.store, "")  # its commit may not be durable yet
                    self._finish(name)
                self._remove(name, committed=committed)

    def _finish(self, batch: str) -> None:
        """Move a committed batch into place, durably, then apply its refreshes."""
        for target in sweep.place(self.store, batch):
            sweep.sync_directory(self.store, target)
        if batch == self._refreshing:
            self._refresh(f"{layout.TMP}/{batch}")

    def _refresh(self, root: str) -> None:
        """Apply the staged refreshes, then remove their list, durably: `seq` names the batch until the next commit, and
        a list that came back after a power cut would overwrite what was refreshed later."""
        try:
            data = self.disk.read(f"{root}/{layout.REFRESHES}")
        except FileNotFoundError:
            return
        for text in filter(None, data.decode("utf-8").split("\n")):  # a note may hold other line ends, like U+2028
            wanted: dict[str, Json] = loads(text)  # type: ignore[assignment]
            id = str(wanted.pop("id"))
            if not refresh(self.store, id, wanted):
                self.kept.add(id)
        self.disk.remove(f"{root}/{layout.REFRESHES}")
        sweep.sync_directory(self.store, root)

    def _remove(self, batch: str, *, committed: bool) -> None:
        """Remove a batch; tasks that were not committed durably, since their ids are given out again, and a staged file
        that came back after a power cut would be taken for the other task of its id. A directory whose files are gone
        is synced too, before it goes itself: who removed them may not have got so far."""
        root = f"{layout.TMP}/{batch}"
        for directory in tree.listing(self.disk, root):
            staged = f"{root}/{directory}"
            for name in tree.listing(self.disk, staged):
                self.disk.remove(f"{staged}/{name}")
            if not committed and self.disk.is_dir(staged):
                sweep.sync_directory(self.store, staged)
            if not self.disk.remove_dir(staged) and directory == layout.REFRESHES:
                self.disk.remove(staged)
        self.disk.remove_dir(root)

    # --- one batch

    def begin(self, first: int) -> None:
        """Start a batch whose first new id is `first` (0: it only refreshes)."""
        self.kept.clear()
        head = self.store.generation()
        self.batch = f"q{first}.{head}" if first else f"{layout.REFRESH_ONLY}.{head}"
        self.disk.make_dir(f"{layout.TMP}/{self.batch}")

    def stage(self, directory: str, name: str, data: bytes, *, bulk: bool) -> None:
        """Write one new file to be moved to `directory` once the batch is committed."""
        staged = f"{layout.TMP}/{self.batch}/{layout.staged_name(directory)}"
        if staged not in self._staged:
            self.store.check_way(directory)
            self.disk.make_dir(staged)
            self._staged[staged] = None
        self.disk.create(f"{staged}/{name}", data, sync=not bulk)

    def commit(self, new: Sequence[int], refreshes: Sequence[dict[str, Json]], *, bulk: bool) -> None:
        """Make the staged tasks part of the queue. On return they are in place and durable."""
        if refreshes:
            text = "".join([dumps(r) + "\n" for r in refreshes])
            self.disk.create(f"{layout.TMP}/{self.batch}/{layout.REFRESHES}", text.encode("utf-8"), sync=True)
        self.keys.write(sync=not bulk)
        if bulk:
            self.disk.sync_all()
        else:
            for directory in (*self._staged, *([f"{layout.TMP}/{self.batch}"] if refreshes else []), layout.KEYS):
                sweep.sync_directory(self.store, directory)
        for number in new:
            self.ids.add(number)
        self._refreshing = self.batch if refreshes else ""
        write_seq(self.store, self.ids, self._refreshing)  # add.commit
        self._finish(self.batch)
        self._remove(self.batch, committed=True)
        self.batch = ""


# --- add


def add_many(
    store: Store,
    items: Iterable[Prepared],
    *,
    dedupe: bool | str = False,
    retry_failed: bool = False,
    progress: Callable[[int], None] | None = None,
) -> list[tuple[str, str]]:
    """Add a batch, all or nothing; returns (id, Enqueued) of each item in order. Durable on return."""
    items = list(items)
    with Producer(store) as producer:
        return _Batch(producer, len(items), dedupe, retry_failed).run(items, progress)


class _Batch:
    """One call of add_many, under the lock."""

    def __init__(self, producer: Producer, size: int, dedupe: bool | str, retry_failed: bool) -> None:
        self.producer = producer
        self.store = producer.store
        self.bulk = size > BULK and self.store.disk.syncs_all
        self.matches = Matches(self.store, producer.keys, producer.ids, dedupe, retry_failed) if dedupe else None
        self.next = producer.highest + 1
        self.now = self.store.now()  # one instant for all of the batch
        self.at = names.iso(self.now)
        self.new: list[int] = []
        self.own: dict[str, tuple[str, Prepared]] = {}  # identities that this batch itself adds
        self.refreshes: dict[str, dict[str, Json]] = {}  # id -> its new fields, the latest of each

    def run(self, items: list[Prepared], progress: Callable[[int], None] | None) -> list[tuple[str, str]]:
        """Decide each item, stage, commit."""
        outcomes = []
        for count, item in enumerate(items):
            outcomes.append(self._one(item))
            if progress and count % 256 == 0:
                progress(count)
        if self.matches:
            self.matches.make_sure()
        if len(self.refreshes) == 1 and not self.new:  # one rename is all or nothing by itself
            ((only, wanted),) = self.refreshes.items()
            kept = set() if refresh(self.store, only, wanted) else {only}
        else:
            if self.refreshes and not self.producer.batch:
                self.producer.begin(0)
            if self.producer.batch:
                refreshes = [{"id": id, **wanted} for id, wanted in self.refreshes.items()]
                self.producer.commit(self.new, refreshes, bulk=self.bulk)
            kept = self.producer.kept
        return [(id, Enqueued.KNOWN if what == Enqueued.REFRESHED and id in kept else what) for id, what in outcomes]

    def _one(self, item: Prepared) -> tuple[str, str]:
        if self.matches:
            found = self._match(item)
            if found:
                return found
        number, self.next = self.next, self.next + 1
        if number > names.ID_MAX:
            raise BadInput(f"The queue has given out its last id, q{names.ID_MAX}.")
        if not self.producer.batch:
            self.producer.begin(number)
        id, head = f"q{number}", self.store.generation()
        directory, name = layout.pending_place(id, head, item.priority, item.channel, item.due, self.now)
        self.producer.stage(directory, name, record(id, head, self.at, item.fields), bulk=self.bulk)
        self.producer.keys.add(item.digest, id)
        self.new.append(number)
        if self.matches:
            self.own[item.digest] = id, item
        return id, Enqueued.ADDED

    def _match(self, item: Prepared) -> tuple[str, str] | None:
        assert self.matches
        wanted = wanted_changes(item)
        if item.digest in self.own:
            id, first = self.own[item.digest]
            before, refreshable = first.values(), self.matches.dedupe is True
        else:
            task = self.matches.find(item.digest)
            if not task:
                return None
            id, before = task.id, {column: getattr(task, column) for column in wanted}
            refreshable = self.matches.dedupe is True and task.state == names.PENDING
        before.update(self.refreshes.get(id, {}))  # what an earlier item of this batch made of it
        if not refreshable or all(before.get(column, "") == value for column, value in wanted.items()):
            return id, Enqueued.KNOWN
        self.refreshes.setdefault(id, {}).update(wanted)
        return id, Enqueued.REFRESHED


def import_rows(store: Store, rows: Sequence[Row]) -> tuple[int, int]:
    """Put tasks with ids of their own into the queue, all or nothing; one whose id is given out is left alone.

    Returns (imported, already here). Durable on return.
    """
    with Producer(store) as producer:
        new = [row for row in rows if row.number not in producer.ids]
        bulk = len(new) > BULK and store.disk.syncs_all
        now = store.now()
        for row in new:
            if not producer.batch:
                producer.begin(row.number)
            head = store.generation()
            directory, name = row.place(head, now)
            producer.stage(directory, name, record(f"q{row.number}", head, names.iso(now), row.fields), bulk=bulk)
            producer.keys.add(row.digest, f"q{row.number}")
        if new:
            producer.commit([row.number for row in new], [], bulk=bulk)
    return len(new), len(rows) - len(new)
