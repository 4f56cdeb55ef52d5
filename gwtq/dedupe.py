"""`add --dedupe`: the task that counts as the same, and giving an open one new fields in place."""

from __future__ import annotations

from . import layout, names, sweep
from .disk import TRIES_MAX
from .errors import Corrupt, Undecodable
from .keys import digest_of
from .store import ready_leaf
from .task import UPDATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .idset import IdSet
    from .items import Prepared
    from .jsonline import Json
    from .keys import Keys
    from .store import Store
    from .task import Task


class Matches:
    """What --dedupe finds for an identity."""

    def __init__(self, store: Store, keys: Keys, ids: IdSet, dedupe: bool | str, retry_failed: bool) -> None:
        self.store = store
        self.keys = keys
        self.ids = ids
        self.dedupe = dedupe
        self.retry_failed = retry_failed
        self._unsure: dict[str, None] = {}  # directories with a refresh whose process may have died before its sync

    def find(self, digest: str) -> Task | None:
        """The task that counts as the same: an open one before any other."""
        best: Task | None = None
        for number in self.keys.find(digest):
            if number not in self.ids:
                continue  # a key of a producer that died before its commit
            path, task = current(self.store, f"q{number}")
            if task and digest_of(task) == digest and self._counts(task):
                if task.state == names.PENDING:
                    if task.entries[-1]["event"] == UPDATE:
                        self._unsure[layout.parent(path)] = None
                    return task
                best = best or task
        return best

    def make_sure(self) -> None:
        """Make durable what the answers of `find` rest on, before it is told to anybody."""
        for directory in self._unsure:
            sweep.sync_directory(self.store, directory)

    def _counts(self, task: Task) -> bool:
        if self.dedupe == "any":
            return True
        if task.state == names.DONE:
            return self.store.settings.results.get(task.result, True)
        return task.state != names.FAILED or not self.retry_failed


def current(store: Store, id: str) -> tuple[str, Task | None]:
    """Where a task is and what it is now, an expired claim of it taken back first; no task if it does not decode."""
    for _ in range(TRIES_MAX):
        path = store.locate(id)
        try:
            task = store.task(path)
        except FileNotFoundError:
            continue  # it moved
        except Undecodable:
            return path, None
        if not layout.holding(task.state) or task.status == "claimed":
            return path, task
        name = names.parse(task.state, layout.base(path))
        sweep.recover(store, path, name, sweep.Recovered())
    raise Corrupt(f"{id} never stays where it is seen.")


def wanted_changes(item: Prepared) -> dict[str, Json]:
    """What a re-seed brings: the fields that were given and that a refresh may change."""
    values = item.values()
    columns = {"label": "person_label", "query": "query", "note": "note", "priority": "priority"}
    return {column: values.get(column, "") for given, column in columns.items() if given in item.given}


def changes(task: Task, wanted: dict[str, Json]) -> dict[str, Json]:
    """Those of the wanted fields that differ."""
    return {column: value for column, value in wanted.items() if getattr(task, column) != value}


def refresh(store: Store, id: str, wanted: dict[str, Json]) -> bool:
    """Give an open task new fields, in place; False if it is not open any more. Durable on return."""
    for _ in range(TRIES_MAX):
        path = store.locate(id)
        if layout.state_of(path) != names.PENDING:
            return False
        try:
            fd = store.disk.open(path)
        except FileNotFoundError:
            continue
        try:
            name = names.parse(names.PENDING, layout.base(path))
            task = store.fold(name, names.PENDING, store.disk.content(fd))
            changed = changes(task, wanted)
            if not changed:
                sweep.sync_directory(store, layout.parent(path))  # who made it so may have died before its sync
                return True
            head = store.generation()
            # refresh.1 append, synced. Nobody has to hold a task to append to it: the rename decides.
            store.append(fd, {"gen": head, "prev": name.head, "event": UPDATE, "at": names.iso(store.now()), **changed})
        finally:
            store.disk.close(fd)
        directory = layout.parent(path)
        if "priority" in changed and not directory.startswith(layout.WAITING):
            task.priority = int(changed["priority"])  # type: ignore[arg-type]
            directory = ready_leaf(task)
        # refresh.2 move: the commit point.
        if store.move(path, directory, names.pending_name(id, head, name.until), sync=True):
            return True
    raise Corrupt(f"{id} never stays where it is seen.")
