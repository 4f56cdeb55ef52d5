"""The store: what every operation on the directory is made of. Finding a task, reading it, moving it.

Two rules of the protocol live here (`doc/format.md`, "The rules"):

- `move` is the only way a task's file changes its name. A rename of exactly the name that was seen is a
  compare-and-swap; that the name is gone is an answer (somebody was faster), not an error.
- An absent name proves nothing: a scan may miss a name that is renamed meanwhile. So `locate` answers on the sight of
  the id under some name, or because `seq` does not hold it; else it looks again.
"""

from __future__ import annotations

from stat import S_ISDIR

from . import layout, names, tree
from .disk import TRIES_MAX
from .errors import BadData, Corrupt, DiskError, NewerFormat, NoSuchQueue, NoSuchTask, Undecodable
from .idset import IdSet
from .jsonline import loads
from .settings import FORMAT, Settings
from .task import fold, line, undecodable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .clock import Clock
    from .disk import Disk
    from .jsonline import Json
    from .names import Name
    from .task import Task


def ignore(sentence: str) -> None:
    """Where notices go by default."""


class Store:
    """A queue's directory, its settings, the time, and where notices for people go."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        *,
        max_tries: int | None = None,
        notify: Callable[[str], None] = ignore,
        reading: bool = False,
    ) -> None:
        """Open the queue; `reading` promises not to write. Raises NoSuchQueue, BadData or NewerFormat."""
        self.disk = disk
        self.clock = clock
        self.notify = notify
        self.settings = read_settings(disk)
        self.max_tries = self.settings.max_tries if max_tries is None else max_tries
        if self.settings.format > FORMAT:
            newer = _newer(disk, self.settings.format)
            if not reading:
                raise NewerFormat(newer)
            notify(newer)

    # --- time and chance

    def now(self) -> str:
        """The stamp of this second."""
        return names.stamp(int(self.clock.now()))

    def later(self, seconds: float) -> str:
        """The stamp of the instant in so many seconds, rounded up; at most the end of the year 9999."""
        return names.stamp(min(-int(-(self.clock.now() + seconds) // 1), names.LAST_SECOND))

    def generation(self) -> str:
        """A generation for one entry to be appended."""
        return names.generation(int(self.clock.now()), self.letters(names.GEN_CHANCE))

    def letters(self, count: int) -> str:
        """So many letters of chance."""
        return names.letters(self.clock.chance(count))

    # --- reading

    def mend_directories(self) -> None:
        """Make a state's directory again that somebody removed, and say so: it must not be taken for "all done"."""
        for state in names.STATES:
            if not self.disk.exists(state):
                self.notify(f"the directory {self.disk.root}/{state} was missing and is made again, empty")
                self.disk.make_dir(state)

    def parsed(self, state: str, until: str = names.LAST_STAMP) -> list[tuple[str, Name]]:
        """What is held in claimed/ or recovering/: (path, fields) of each name that is ours and whose claim ends by the
        stamp `until`. Names of other claims, most of them in most calls, are not looked at further."""
        texts = [
            text for text in tree.listing(self.disk, state) if text.count(".") > 4 and text.split(".", 5)[4] <= until
        ]
        found = [(f"{state}/{text}", parse(state, text)) for text in texts]
        return [(path, name) for path, name in found if name]

    def seq(self) -> IdSet:
        """The ids given out. Raises BadData when `seq` does not parse, Corrupt when it is lost."""
        return self.seq_and_batch()[0]

    def seq_and_batch(self) -> tuple[IdSet, str]:
        """The ids given out, and the batch whose staged refreshes are committed ('' for none)."""
        try:
            text = self.disk.read(layout.SEQ).decode("ascii", "replace")
        except FileNotFoundError:
            raise Corrupt(f"{self.disk.root}/{layout.SEQ} is lost; `gwtq doctor --fix` makes it again.") from None
        ids, _, batch = text.rstrip("\n").partition("\n")
        try:
            return IdSet.parse(ids), batch
        except ValueError as error:
            raise BadData(f"{self.disk.root}/{layout.SEQ}: {error}; `gwtq doctor --fix` makes it again.") from None

    def task(self, path: str) -> Task:
        """The task that lies at `path`.

        Raises FileNotFoundError when the name is gone, Undecodable, NewerFormat, OSError.
        """
        state = layout.state_of(path)
        return self.fold(names.parse(state, layout.base(path)), state, self.disk.read(path))

    def fold(self, name: Name, state: str, data: bytes) -> Task:
        """The task of this name, state and content. Raises Undecodable or NewerFormat."""
        now = self.now() if layout.holding(state) else ""  # a claim alone reads otherwise as time goes by
        return fold(name, state, data, now=now, max_tries=self.max_tries)

    def tolerant(self, path: str) -> Task:
        """As `task`, but a record that cannot be read is a task with a problem; only FileNotFoundError is raised."""
        try:
            return self.task(path)
        except FileNotFoundError:
            raise
        except (Undecodable, NewerFormat) as error:
            problem = str(error)
        except OSError as error:
            problem = f"The record cannot be read: {error.strerror}."
        return undecodable(layout.base(path).split(".")[0], layout.state_of(path), problem)

    # --- finding

    def claimed_as(self, id: str, token: str) -> tuple[str, Name] | None:
        """(path, fields of its name) of the claim of this id under this token, if it is seen."""
        for text in tree.listing(self.disk, names.CLAIMED):
            if text.startswith(id + "."):
                name = parse(names.CLAIMED, text)
                if name and name.token == token:
                    return f"{names.CLAIMED}/{text}", name
        return None

    def locate(self, id: str) -> str:
        """The path of a task, whichever state it is in.

        Raises NoSuchTask when `seq` does not hold the id, Corrupt when it does and no name is ever seen.
        """
        number = int(id[1:])
        for attempt in range(TRIES_MAX):
            if number not in self.seq():
                raise NoSuchTask(f"{id} was never added to {self.disk.root}.")
            path = self._look(id, number, thorough=attempt > 0)
            if path:
                return path
            self.clock.sleep(0.001 * attempt)
        raise Corrupt(f"{id} has no file in {self.disk.root}.")

    def _look(self, id: str, number: int, *, thorough: bool) -> str | None:
        prefix = id + "."
        for directory in (
            names.CLAIMED,
            layout.shard(names.DONE, number),
            layout.shard(names.FAILED, number),
            names.RECOVERING,
            *tree.near(self.disk, number),
            *(self._far() if thorough else ()),
        ):
            for text in tree.listing(self.disk, directory):
                if text.startswith(prefix) and parse(layout.state_of(directory), text):
                    return f"{directory}/{text}"
        return None

    def _far(self) -> Iterator[str]:
        yield from tree.directories(self.disk)
        yield from staged(self.disk)

    # --- writing

    def move(self, source: str, directory: str, name: str, *, sync: bool) -> bool:
        """Rename a task's file; False when it is not at `source` any more: somebody was faster.

        The target directory is opened before the rename and synced through that descriptor, since its name may be gone
        by then (rule 6). ENOENT is ambiguous (rule 7): if the source is still there, the directory was removed.
        """
        for _ in range(TRIES_MAX):
            target = self.open_dir(directory)
            try:
                self.disk.rename(source, name, target)
                if sync:
                    self.disk.sync_dir(target)
                return True
            except FileNotFoundError:
                if not self.disk.exists(source):
                    return False
            finally:
                self.disk.close(target)
        raise Corrupt(f"{self.disk.root}/{directory} is removed again and again.")

    def open_dir(self, directory: str) -> int:
        """An open directory below the queue's own, made if it is missing."""
        for _ in range(TRIES_MAX):
            try:
                return self.disk.open_dir(directory)
            except FileNotFoundError:
                self.disk.make_dir(directory)
        raise Corrupt(f"{self.disk.root}/{directory} is removed again and again.")

    def check_way(self, directory: str) -> None:
        """Can tasks be moved there, now or once it is made? Raises DiskError when a foreign file is in the way."""
        try:
            if S_ISDIR(self.disk.stat(directory).st_mode):
                return
        except FileNotFoundError:
            return
        except NotADirectoryError:
            pass
        raise DiskError(
            f"{self.disk.root}/{directory} is to be a directory, and a file that is not ours is in its way."
        )

    def append(self, fd: int, entry: dict[str, Json]) -> None:
        """Append one entry and sync it: every rename to a new head comes after this (rule 3)."""
        self.disk.append(fd, line(entry))
        self.disk.sync(fd)

    def pending_place(self, task: Task, head: str, next_at: str) -> tuple[str, str]:
        """(directory, name) of a task that is open again: waiting until the stamp `next_at`, or ready."""
        channel = names.channel_name(task.kind, task.source)
        return layout.pending_place(task.id, head, task.priority, channel, next_at, self.now())


def ready_leaf(task: Task) -> str:
    """The directory in which a task is claimed."""
    return layout.leaf(task.priority, names.channel_name(task.kind, task.source), int(task.id[1:]))


def parse(state: str, text: str) -> Name | None:
    """The fields of a name found in a state; None for one that is not ours."""
    try:
        return names.parse(state, text)
    except names.BadName:
        return None


def staged(disk: Disk) -> Iterator[str]:
    """Every directory of staged batches that holds tasks."""
    for batch in filter(layout.is_batch, tree.listing(disk, layout.TMP)):
        for directory in filter(layout.is_staged, tree.listing(disk, f"{layout.TMP}/{batch}")):
            yield f"{layout.TMP}/{batch}/{directory}"


def arriving(store: Store) -> Iterator[tuple[str, Name]]:
    """(path, fields) of the tasks that are committed and still in tmp/: their producer died before it moved them."""
    for directory in staged(store.disk):
        ids = store.seq()
        for text in tree.listing(store.disk, directory):
            name = parse(layout.state_of(f"{directory}/"), text)
            if name and name.number in ids:
                yield f"{directory}/{text}", name


def present(store: Store) -> Iterator[tuple[int, str]]:
    """Every task file, staged ones included, as (number, path)."""
    unsettled = (*tree.directories(store.disk), names.CLAIMED, names.RECOVERING)
    for directory in (*staged(store.disk), *unsettled, *tree.shards(store.disk)):
        for name in tree.listing(store.disk, directory):
            number = names.number_of(name)
            if number:
                yield number, f"{directory}/{name}"


def read_settings(disk: Disk) -> Settings:
    """The settings of a queue. Raises NoSuchQueue, or BadData when queue.json does not decode, or NewerFormat when it
    is of a newer version that writes it otherwise."""
    try:
        data = disk.read(layout.SETTINGS)
    except FileNotFoundError:
        from shlex import quote

        raise NoSuchQueue(
            f"{disk.root} does not exist or is no queue; `gwtq --queue {quote(disk.root)} init` makes one."
        ) from None
    except NotADirectoryError:
        raise NoSuchQueue(
            f"{disk.root} is no directory. If it is a table, import it: `gwtq --queue cola import {disk.root}`."
        ) from None
    value: Json = None
    try:
        value = loads(data.decode("utf-8"))
        return Settings.from_json(value)
    except ValueError as error:
        format = value.get("format") if isinstance(value, dict) else None
        if isinstance(format, int) and format > FORMAT:
            raise NewerFormat(_newer(disk, format)) from None
        raise BadData(f"{disk.root}/{layout.SETTINGS} does not decode: {error}.") from None


def _newer(disk: Disk, format: int) -> str:
    return f"{disk.root} has format {format}, this version knows {FORMAT}: update gwtq."
