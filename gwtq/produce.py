"""Producers: add, import, init. They alone take the lock, give out ids and write `seq` and `keys/`.

`seq` is the commit point, so that absence never has to be proved: under the lock, stage the new tasks in tmp/, write
their keys, replace `seq` by one that holds their ids: committed. Then move them into place. A staged task whose id
`seq` holds is committed and anybody may move it; any other is removed, by a holder of the lock alone. So a batch is all
or nothing across a crash, and every id in `seq` has a file at every instant.
"""

from __future__ import annotations

from . import layout, names, rules, sweep, tree
from .errors import BadInput, Corrupt, GwtqError, NoSuchQueue, Undecodable
from .idset import IdSet
from .jsonline import dumps, loads
from .rules import Draft, Settings
from .store import TRIES_MAX, read_settings, staged
from .task import ADD, GIVEN, IMPORTED, UPDATE, Enqueued

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .clock import Clock
    from .disk import Disk
    from .jsonline import Json
    from .store import Store
    from .task import Task

NEVER_PLACED = (layout.SEQ + ".", layout.SETTINGS + ".")  # in tmp/: what a producer that died was to replace them by
BULK = 32  # from so many files on, one sync of the file system is cheaper than one for each


class Prepared:
    """A checked draft, encoded: what a batch keeps of each of its lines while it waits for the lock."""

    __slots__ = ("channel", "digest", "due", "fields", "given")

    def __init__(self, draft: Draft) -> None:
        self.fields = dumps(draft.fields())[1:].encode("utf-8")
        self.channel = layout.channel(draft.priority, draft.kind, draft.source)
        self.due = names.from_iso(draft.next_at)
        self.given = draft.given
        self.digest = digest(draft.person_key, draft.kind, draft.source, draft.query, draft.dedupe_key)

    def values(self) -> dict[str, Json]:
        """The fields of the record, decoded."""
        return loads("{" + self.fields.decode("utf-8"))  # type: ignore[return-value]


def record(id: str, head: str, at: str, fields: bytes) -> bytes:
    """The first line of a task's file; `fields` is the rest of the object, encoded."""
    start = dumps({"gen": head, "event": ADD, "at": at, "id": id})
    return b"\n" + start[:-1].encode("utf-8") + b", " + fields + b"\n"


def digest(person_key: str, kind: str, source: str, query: str, dedupe_key: str) -> str:
    """The key under which keys/ lists a task: 128 bits of its identity, in hex."""
    from hashlib import blake2b

    identity = rules.identity(person_key, kind, source, query, dedupe_key)
    return blake2b(identity.encode("utf-8"), digest_size=16).hexdigest()


def digest_of(task: Task) -> str:
    """The same for a task that is in the queue."""
    return digest(task.person_key, task.kind, task.source, task.query, task.dedupe_key)


# --- init


def create(disk: Disk, clock: Clock, settings: Settings) -> bool:
    """Make the queue's directory; False, and nothing changed, if it is one already. Durable on return.

    Raises NoSuchQueue for a path that is a file, or a directory with other things in it.
    """
    if disk.exists(layout.SETTINGS):
        return False
    try:
        disk.make_root()
    except (FileExistsError, NotADirectoryError):
        read_settings(disk)  # the same sentence as when it is opened
        raise
    own = {*layout.DIRECTORIES, layout.SEQ, layout.LOCK, layout.SETTINGS}
    foreign = sorted(name for name in disk.names("") if name not in own and not name.startswith("."))
    if foreign:
        raise NoSuchQueue(f"{disk.root} is no queue, and holds {foreign[0]!r}: choose a directory of its own.")
    with disk.lock(layout.LOCK):
        if disk.exists(layout.SETTINGS):
            return False
        for directory in layout.DIRECTORIES:
            disk.make_dir(directory)
        for name in disk.names(layout.TMP):
            if name.startswith(NEVER_PLACED):
                disk.remove(f"{layout.TMP}/{name}")
        chance = names.letters(clock.chance(names.GEN_CHANCE))
        if not disk.exists(layout.SEQ):
            replace(disk, layout.SEQ, b"\n", chance)
        replace(disk, layout.SETTINGS, pretty(settings.to_json()).encode("utf-8"), chance)  # init.commit
        return True


def pretty(settings: dict[str, Json]) -> str:
    """queue.json as people edit it: a field a line."""
    fields = [f"  {dumps(key)}: {dumps(value)}" for key, value in settings.items()]
    return "{\n" + ",\n".join(fields) + "\n}\n"


def replace(disk: Disk, path: str, data: bytes, chance: str) -> None:
    """Put a file of this content at `path`, whole or not at all. Durable on return."""
    temporary = f"{layout.TMP}/{layout.SEQ}.{chance}"
    disk.create(temporary, data, sync=True)
    directory = disk.open_dir(layout.parent(path))
    try:
        disk.rename(temporary, layout.base(path), directory)
        disk.sync_dir(directory)
    finally:
        disk.close(directory)


def write_seq(store: Store, ids: IdSet, batch: str = "") -> None:
    """Replace `seq`: the commit point of every producer. Durable on return."""
    data = ids.render() + "\n" + (batch + "\n" if batch else "")
    replace(store.disk, layout.SEQ, data.encode("ascii"), store.letters(names.GEN_CHANCE))


# --- keys/


class Keys:
    """keys/ during one operation: which ids an identity was given, and those to be written."""

    def __init__(self, store: Store) -> None:
        self._disk = store.disk
        self._files: dict[str, bytes] = {}
        self._new: dict[str, list[str]] = {}

    def find(self, digest: str) -> list[int]:
        """The numbers of the ids that were ever written for this identity, highest first."""
        path = layout.key_file(digest)
        if path not in self._files:
            try:
                self._files[path] = self._disk.read(path)
            except FileNotFoundError:
                self._files[path] = b""
        data, start = self._files[path], f"\n{digest} q".encode("ascii")
        found, at = [], data.rfind(start)
        while at >= 0:
            digits = data[at + len(start) : data.find(b"\n", at + 1)]
            if digits.isdigit():
                found.append(int(digits))
            at = data.rfind(start, 0, at)
        return found

    def add(self, digest: str, id: str) -> None:
        """An id to be written."""
        self._new.setdefault(layout.key_file(digest), []).append(key_line(digest, id))

    def write(self, *, sync: bool) -> None:
        """Append what was added, a write for each file."""
        for path, lines in self._new.items():
            fd = self._disk.open_or_create(path)
            try:
                self._disk.append(fd, "".join(lines).encode("ascii"))
                if sync:
                    self._disk.sync(fd)
            finally:
                self._disk.close(fd)


def key_line(digest: str, id: str) -> str:
    """A line of keys/, as it is appended."""
    return f"\n{digest} {id}\n"


def key_lines(data: bytes) -> list[tuple[str, int]]:
    """(digest, number) of each whole line in a file of keys/."""
    found = []
    for text in data.split(b"\n"):
        key, _, id = text.decode("ascii", "replace").partition(" ")
        if len(key) == 32 and names.is_id(id):
            found.append((key, int(id[1:])))
    return found


# --- the producer's session


class Producer:
    """One operation under the lock: `with Producer(store) as producer`.

    Entering it finishes or removes what dead producers left.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.disk = store.disk
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
        self._staged: set[str] = set()
        self._files: list[str] = []
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
                self._remove(self.batch)
        except (OSError, GwtqError):
            return

    def _read_seq(self) -> tuple[IdSet, int]:
        if self.disk.exists(layout.SEQ):
            ids, self._refreshing = self.store.seq_and_batch()
            return ids, ids.last
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
                if names.number_of(name) in self.ids or name == self._refreshing:
                    sweep.sync_directory(self.store, "")  # its commit may not be durable yet
                    self._finish(name)
                self._remove(name)

    def _finish(self, batch: str) -> None:
        """Move a committed batch into place, durably, then apply its refreshes."""
        for target in sweep.place(self.store, batch):
            sweep.sync_directory(self.store, target)
        if batch == self._refreshing:
            try:
                data = self.disk.read(f"{layout.TMP}/{batch}/{layout.REFRESHES}")
            except FileNotFoundError:
                return
            for text in filter(None, data.decode("utf-8").split("\n")):  # a note may hold other line ends, like U+2028
                wanted: dict[str, Json] = loads(text)  # type: ignore[assignment]
                refresh(self.store, str(wanted.pop("id")), wanted)

    def _remove(self, batch: str) -> None:
        root = f"{layout.TMP}/{batch}"
        for directory in tree.listing(self.disk, root):
            for name in tree.listing(self.disk, f"{root}/{directory}"):
                self.disk.remove(f"{root}/{directory}/{name}")
            if not self.disk.remove_dir(f"{root}/{directory}") and directory == layout.REFRESHES:
                self.disk.remove(f"{root}/{directory}")
        self.disk.remove_dir(root)

    # --- one batch

    def begin(self, first: int) -> None:
        """Start a batch whose first new id is `first` (0: it only refreshes)."""
        head = self.store.generation()
        self.batch = f"q{first}.{head}" if first else f"{layout.REFRESH_ONLY}.{head}"
        self.disk.make_dir(f"{layout.TMP}/{self.batch}")

    def stage(self, directory: str, name: str, data: bytes, *, bulk: bool) -> None:
        """Write one new file to be moved to `directory` once the batch is committed."""
        staged = f"{layout.TMP}/{self.batch}/{layout.staged_name(directory)}"
        if staged not in self._staged:
            self.disk.make_dir(staged)
            self._staged.add(staged)
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
        self._remove(self.batch)
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
        self.places = tree.Places(self.store.disk)
        self.next = producer.highest + 1
        self.new: list[int] = []
        self.own: dict[str, tuple[str, Prepared]] = {}  # identities that this batch itself adds
        self.refreshes: list[dict[str, Json]] = []

    def run(self, items: list[Prepared], progress: Callable[[int], None] | None) -> list[tuple[str, str]]:
        """Decide each item, stage, commit."""
        outcomes = []
        for count, item in enumerate(items):
            outcomes.append(self._one(item))
            if progress and count % 256 == 0:
                progress(count)
        if len(self.refreshes) == 1 and not self.new:  # one rename is all or nothing by itself
            wanted = dict(self.refreshes[0])
            refreshed = refresh(self.store, str(wanted.pop("id")), wanted)
            return [(id, what if refreshed else Enqueued.KNOWN) for id, what in outcomes]
        if self.refreshes and not self.producer.batch:
            self.producer.begin(0)
        if self.producer.batch:
            self.producer.commit(self.new, self.refreshes, bulk=self.bulk)
        return outcomes

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
        id, head, now = f"q{number}", self.store.generation(), self.store.now()
        waits = item.due > now
        directory = layout.bucket(item.due) if waits else self.places.leaf(item.channel, number)
        name = names.pending_name(id, head, item.due if waits else "")
        self.producer.stage(directory, name, record(id, head, names.iso(now), item.fields), bulk=self.bulk)
        self.producer.keys.add(item.digest, id)
        self.new.append(number)
        if self.matches:
            self.own[item.digest] = id, item
        return id, Enqueued.ADDED

    def _match(self, item: Prepared) -> tuple[str, str] | None:
        assert self.matches
        if item.digest in self.own:
            id, first = self.own[item.digest]
            before = first.values()
            wanted = wanted_changes(item)
            changed = self.matches.dedupe is True and any(before.get(k, "") != v for k, v in wanted.items())
        else:
            task = self.matches.find(item.digest)
            if not task:
                return None
            id, wanted = task.id, wanted_changes(item)
            changed = task.state == names.PENDING and self.matches.dedupe is True and bool(changes(task, wanted))
        if changed:
            self.refreshes.append({"id": id, **wanted})
        return id, Enqueued.REFRESHED if changed else Enqueued.KNOWN


class Row:
    """A task of a table to be imported: its place, and its record but for the generation."""

    __slots__ = ("channel", "digest", "due", "fields", "lane", "number", "since", "state", "token", "until")

    def __init__(self, task: Task, state: str) -> None:
        self.number = int(task.id[1:])
        self.state = state
        fields = {key: getattr(task, key) for key in (*GIVEN, *IMPORTED) if getattr(task, key)}
        fields.update(priority=task.priority, tries=task.tries - (state == names.CLAIMED))
        self.fields = dumps(fields)[1:].encode("utf-8")
        self.channel = layout.channel(task.priority, task.kind, task.source)
        self.due = names.from_iso(task.next_at)
        self.digest = digest_of(task)
        self.token, self.lane = task.token, task.lane
        self.since, self.until = names.from_iso(task.claimed_at), names.from_iso(task.lease_until)

    def place(self, head: str, now: str, places: tree.Places) -> tuple[str, str]:
        """(directory, name) in the queue."""
        id = f"q{self.number}"
        if self.state == names.CLAIMED:
            return names.CLAIMED, names.claim_name(id, head, self.token, self.since, self.until, self.lane)
        if self.state != names.PENDING:
            return layout.shard(self.state, self.number), names.settled_name(id, head)
        if self.due > now:
            return layout.bucket(self.due), names.pending_name(id, head, self.due)
        return places.leaf(self.channel, self.number), names.pending_name(id, head)


def import_rows(store: Store, rows: Sequence[Row]) -> tuple[int, int]:
    """Put tasks with ids of their own into the queue, all or nothing; one whose id is given out is left alone.

    Returns (imported, already here). Durable on return.
    """
    with Producer(store) as producer:
        new = [row for row in rows if row.number not in producer.ids]
        bulk = len(new) > BULK and store.disk.syncs_all
        places, now = tree.Places(store.disk), store.now()
        for row in new:
            if not producer.batch:
                producer.begin(row.number)
            head = store.generation()
            directory, name = row.place(head, now, places)
            producer.stage(directory, name, record(f"q{row.number}", head, names.iso(now), row.fields), bulk=bulk)
            producer.keys.add(row.digest, f"q{row.number}")
        if new:
            producer.commit([row.number for row in new], [], bulk=bulk)
    return len(new), len(rows) - len(new)


class Matches:
    """What --dedupe finds for an identity."""

    def __init__(self, store: Store, keys: Keys, ids: IdSet, dedupe: bool | str, retry_failed: bool) -> None:
        self.store = store
        self.keys = keys
        self.ids = ids
        self.dedupe = dedupe
        self.retry_failed = retry_failed

    def find(self, digest: str) -> Task | None:
        """The task that counts as the same: an open one before any other."""
        best: Task | None = None
        for number in self.keys.find(digest):
            if number not in self.ids:
                continue  # a key of a producer that died before its commit
            task = current(self.store, f"q{number}")
            if task and digest_of(task) == digest and self._counts(task):
                if task.state == names.PENDING:
                    return task
                best = best or task
        return best

    def _counts(self, task: Task) -> bool:
        if self.dedupe == "any":
            return True
        if task.state == names.DONE:
            return self.store.settings.results.get(task.result, True)
        return task.state != names.FAILED or not self.retry_failed


def current(store: Store, id: str) -> Task | None:
    """A task as it is now, an expired claim of it taken back first; None if its record does not decode."""
    for _ in range(TRIES_MAX):
        path = store.locate(id)
        try:
            task = store.task(path)
        except FileNotFoundError:
            continue  # it moved
        except Undecodable:
            return None
        if not layout.holding(task.state) or task.status == "claimed":
            return task
        name = names.parse(task.state, layout.base(path))
        sweep.recover(store, path, name, sweep.Recovered(), tree.Places(store.disk))
    raise Corrupt(f"{id} never stays where it is seen.")


# --- refresh


def wanted_changes(item: Prepared) -> dict[str, Json]:
    """What a re-seed brings: the fields that were given and that a refresh may change."""
    values = item.values()
    columns = {"label": "person_label", "query": "query", "note": "note", "priority": "priority"}
    return {column: values.get(column, "") for given, column in columns.items() if given in item.given}


def changes(task: Task, wanted: dict[str, Json]) -> dict[str, Json]:
    """Those of the wanted fields that differ."""
    return {column: value for column, value in wanted.items() if getattr(task, column) != value}


def refresh(store: Store, id: str, wanted: dict[str, Json]) -> bool:
    """Give an open task new fields, in place; False if it has them, or is not open any more. Durable on return."""
    for _ in range(TRIES_MAX):
        path = store.locate(id)
        if layout.state_of(path) != names.PENDING:
            return False
        try:
            fd = store.disk.open(path)
        except FileNotFoundError:
            continue
        try:
            task = store.fold(path, store.disk.content(fd))
            changed = changes(task, wanted)
            if not changed:
                return False
            name = names.parse(names.PENDING, layout.base(path))
            head = store.generation()
            # refresh.1 append, synced. Nobody has to hold a task to append to it: the rename decides.
            store.append(fd, {"gen": head, "prev": name.head, "event": UPDATE, "at": names.iso(store.now()), **changed})
        finally:
            store.disk.close(fd)
        directory = layout.parent(path)
        if "priority" in changed and not directory.startswith(layout.WAITING):
            task.priority = int(changed["priority"])  # type: ignore[arg-type]
            directory = store.ready_place(task, head)[0]
        # refresh.2 move: the commit point.
        if store.move(path, directory, names.pending_name(id, head, name.until), sync=True):
            return True
    raise Corrupt(f"{id} never stays where it is seen.")


# --- seq from what is there


def rebuilt_ids(store: Store) -> IdSet:
    """The ids of the tasks that are there: two scans that agree, since one may miss a task that moves."""
    before = None
    for _ in range(TRIES_MAX):
        found = {number for number, _ in present(store)}
        if found == before:
            return IdSet(sorted(found))
        before = found
    raise Corrupt("The tasks move too fast to be counted; stop the lanes and try again.")


def present(store: Store) -> Iterable[tuple[int, str]]:
    """Every task file, staged ones included, as (number, path)."""
    unsettled = (*tree.directories(store.disk), names.CLAIMED, names.RECOVERING)
    for directory in (*staged(store.disk), *unsettled, *settled_shards(store.disk)):
        for name in tree.listing(store.disk, directory):
            number = names.number_of(name)
            if number:
                yield number, f"{directory}/{name}"


def settled_shards(disk: Disk) -> Iterable[str]:
    """The directories of done/ and failed/ that hold tasks."""
    for state in (names.DONE, names.FAILED):
        for millions in tree.listing(disk, state):
            for thousands in tree.listing(disk, f"{state}/{millions}"):
                if layout.is_shard(millions, thousands):
                    yield f"{state}/{millions}/{thousands}"


def highest_key(disk: Disk) -> int:
    """The highest id that keys/ mentions."""
    numbers = [n for file in tree.listing(disk, layout.KEYS) for _, n in key_lines(disk.read(f"{layout.KEYS}/{file}"))]
    return max(numbers, default=0)
