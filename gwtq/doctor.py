"""The one checker that operators and tests share: a small function per invariant, each finding with its cure.

It may run while lanes work. What it sees is looked at a second time before it is said: a task that moved meanwhile is
no finding. Without `fix` nothing is changed. With it, the cures that lose nothing are carried out under the producers'
lock; where two names claim one task, or a record is broken, it never decides by itself.
"""

from __future__ import annotations

import functools
import stat

from . import layout, look, names, produce, rules, tree
from .errors import BadData, Corrupt, NewerFormat, Undecodable
from .foreign import foreign
from .keys import Keys, digest_of, every_key, key_line, key_lines
from .seq import rebuilt_ids, replace, write_seq
from .store import parse, present, ready_leaf
from .sweep import sentence, sync_directory
from .task import ADD, DONE, EXPIRED, FAIL, RELEASE, SETTLES, UPDATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .idset import IdSet
    from .jsonline import Json
    from .names import Name
    from .store import Store
    from .task import Task

LOG_MAX_BYTES = 1_000_000
CLOCK_SLACK_SECONDS = 60
OPEN_HEADS = (ADD, UPDATE, FAIL, RELEASE, EXPIRED)
HEADS = {
    names.PENDING: OPEN_HEADS, names.CLAIMED: OPEN_HEADS, names.RECOVERING: OPEN_HEADS,
    names.DONE: (DONE,), names.FAILED: (FAIL, EXPIRED),
}  # fmt: skip


class Finding:
    """One thing that is wrong: where, what, what to do; `fixed` once `--fix` did it."""

    __slots__ = ("cure", "fix", "fixed", "path", "problem")

    def __init__(self, path: str, problem: str, cure: str, fix: Callable[[], bool] | None = None) -> None:
        self.path = path
        self.problem = problem
        self.cure = cure
        self.fix = fix
        self.fixed = False

    def to_json(self) -> dict[str, Json]:
        """The finding as an object."""
        return {"path": self.path, "problem": self.problem, "cure": self.cure, "fixed": self.fixed}

    def __str__(self) -> str:
        done = "fixed" if self.fixed else "--fix does it" if self.fix else "by hand"
        return f"{self.path}: {self.problem.rstrip('.')}; {self.cure} [{done}]"


class Entry:
    """A task file that was seen, and what it holds; `task` is None if that cannot be told, then `problem` says why."""

    __slots__ = ("name", "path", "problem", "state", "task")

    def __init__(self, path: str, state: str, name: Name, task: Task | None, problem: str) -> None:
        self.path = path
        self.state = state
        self.name = name
        self.task = task
        self.problem = problem


def examine(store: Store, *, fix: bool = False) -> Iterator[Finding]:
    """Every finding, and with `fix` what became of it."""
    if not fix:
        yield from _findings(store)
        return
    with produce.Producer(store, mends=True):  # entering it does away with dead producers' batches and a broken seq
        for finding in list(_findings(store, locked=True)):
            finding.fixed = bool(finding.fix and finding.fix())
            yield finding


def _findings(store: Store, *, locked: bool = False) -> Iterator[Finding]:
    """`locked`: the producers' lock is ours, so no other producer is at work."""
    for check in (directories, foreign_names, seq_reads):
        yield from check(store)
    yield from staged_batches(store, locked=locked)
    seen: dict[int, str] = {}
    known: set[int] = set()
    keys = every_key(store.disk)
    for entry in entries(store):
        for check_task in TASK_CHECKS:
            yield from check_task(store, entry)
        yield from two_names(store, entry, seen)
        yield from key_of_task(store, entry, keys, known)
    yield from ids_and_files(store, seen)
    yield from keys_of_nobody(store, keys, known, locked=locked)


# --- the tree


def directories(store: Store) -> Iterator[Finding]:
    """Every directory of the queue is there."""
    for directory in layout.DIRECTORIES:
        if not store.disk.is_dir(directory):
            yield Finding(
                directory,
                "this directory of the queue is missing",
                "it is made again, empty; restore what was in it from a backup",
                functools.partial(_make, store, directory),
            )


def foreign_names(store: Store) -> Iterator[Finding]:
    """Nothing lies in the queue's directory but what gwtq made."""
    for path in foreign(store.disk):
        yield _foreign(path)


def _foreign(path: str) -> Finding:
    copy = any(mark in layout.base(path) for mark in ("conflict", " ", "~", "("))
    what = "a copy that some other program made" if copy else "a file that is not gwtq's"
    return Finding(path, f"{what}: its name is not in the grammar", "gwtq never touches it; move it elsewhere")


def seq_reads(store: Store) -> Iterator[Finding]:
    """`seq` is there and reads."""
    try:
        store.seq()
    except (Corrupt, BadData) as error:
        problem = error.detail.partition(";")[0]
        yield Finding(layout.SEQ, problem, "it is made again from the tasks that are there", _entering)


def staged_batches(store: Store, *, locked: bool) -> Iterator[Finding]:
    """No batch is staged whose producer is dead: it holds the lock as long as it lives."""
    before = tree.listing(store.disk, layout.TMP)
    if before and (locked or store.disk.lock_is_free(layout.LOCK)):
        for name in sorted(set(before) & set(tree.listing(store.disk, layout.TMP))):
            if layout.is_batch(name) or name.startswith(layout.SEQ + "."):
                path, cure = f"{layout.TMP}/{name}", "the next add finishes or removes it"
                yield Finding(path, "a producer died over this", cure, _entering)
            else:
                yield _foreign(f"{layout.TMP}/{name}")


# --- each task


def entries(store: Store) -> Iterator[Entry]:
    """Every task file, read."""
    for number, path in present(store):
        state, name = layout.state_of(path), parse(layout.state_of(path), layout.base(path))
        if not name or (path.startswith(layout.TMP) and number not in _ids(store)):
            continue
        try:
            yield Entry(path, state, name, store.task(path), "")
        except FileNotFoundError:
            continue  # it moved: where it is now it is in order, or the next run says so
        except (Undecodable, NewerFormat) as error:
            yield Entry(path, state, name, None, str(error))
        except OSError as error:
            yield Entry(path, state, name, None, f"it cannot be read: {sentence(error)}")


def _ids(store: Store) -> IdSet:
    try:
        return store.seq()
    except (Corrupt, BadData):
        return rebuilt_ids(store)


def decodes(store: Store, entry: Entry) -> Iterator[Finding]:
    """The record decodes, and its chain reaches from the head to the first line."""
    if entry.problem and store.disk.exists(entry.path):
        yield Finding(entry.path, entry.problem, "mend its lines by hand; once it is in failed/ it holds nothing up")


def right_place(store: Store, entry: Entry) -> Iterator[Finding]:
    """The directory is the one that the record and the id say."""
    if not entry.task or entry.path.startswith(layout.TMP) or not _head_fits(entry.task):
        return
    here, number = layout.parent(entry.path), entry.name.number
    if layout.settled(entry.state):
        right = layout.shard(entry.state, number)
    elif entry.state != names.PENDING:
        return
    elif here.startswith(layout.WAITING) and entry.name.until:
        right = layout.bucket(entry.name.until)
    else:
        right = ready_leaf(entry.task)
    if right == here or not store.disk.exists(entry.path):
        return
    problem = f"the task lies in the wrong directory, where it is missed or comes out of order; it belongs in {right}"
    if store.disk.exists(f"{right}/{layout.base(entry.path)}"):  # a rename would replace it
        yield Finding(entry.path, problem, "a file of this name is there already: compare them, remove one")
    else:
        move = functools.partial(store.move, entry.path, right, layout.base(entry.path), sync=True)
        yield Finding(entry.path, problem, "it is moved there", move)


def state_fits(store: Store, entry: Entry) -> Iterator[Finding]:
    """The log ends in an event that leads to this state, and no token settled twice."""
    if not entry.task:
        return
    if not _head_fits(entry.task) and store.disk.exists(entry.path):
        event = entry.task.entries[-1]["event"]
        yield Finding(entry.path, f"it is in {entry.state}, its log ends in {event!r}", "decide by hand where it goes")
    tokens = [e["token"] for e in entry.task.entries if e["event"] in SETTLES and e.get("token")]
    if len(tokens) != len(set(tokens)):
        yield Finding(entry.path, "one claim was settled twice", "read its log, decide by hand what holds")


def _head_fits(task: Task) -> bool:
    head = task.entries[-1]
    return head["event"] in HEADS[task.state] or (head["event"] == ADD and "tries" in head)  # the latter: as imported


def stamps(store: Store, entry: Entry) -> Iterator[Finding]:
    """No lease ends later than any lease that is given out, and none began in the future: else a clock was wrong."""
    if entry.state == names.CLAIMED and store.disk.exists(entry.path):
        if entry.name.until > store.later(rules.LEASE_MAX_SECONDS):
            yield Finding(entry.path, "its lease ends later than any lease may", "if its lane is dead, release it")
        elif entry.name.since > store.later(CLOCK_SLACK_SECONDS):
            yield Finding(entry.path, "it was claimed in the future: the clock was set back", "check the clock")


def readable(store: Store, entry: Entry) -> Iterator[Finding]:
    """Every task is a plain file of the queue's owner, whom it lets read and write, and no huge log."""
    try:
        status, root = store.disk.stat(entry.path), store.disk.stat("")
    except FileNotFoundError:
        return
    if not stat.S_ISREG(status.st_mode):
        yield Finding(entry.path, "it is no plain file", "gwtq cannot use it; move it elsewhere")
    elif status.st_uid != root.st_uid:
        yield Finding(entry.path, f"it belongs to user {status.st_uid}, the queue to {root.st_uid}", "chown it")
    elif status.st_mode & 0o600 != 0o600:
        yield Finding(entry.path, "its owner may not read and write it", "chmod u+rw it")
    elif status.st_nlink > 1:
        yield Finding(entry.path, "the file has a second name", "remove the other link")
    if status.st_size > LOG_MAX_BYTES:
        yield Finding(entry.path, f"its log has {status.st_size:,} bytes", "find out who writes it in a loop")


TASK_CHECKS = (decodes, right_place, state_fits, stamps, readable)


def two_names(store: Store, entry: Entry, seen: dict[int, str]) -> Iterator[Finding]:
    """An id has one name."""
    other = seen.get(entry.name.number)
    seen[entry.name.number] = entry.path
    # A name that is gone never comes back, so both are there at once if the first is there before and after.
    if other and other != entry.path and all(store.disk.exists(p) for p in (other, entry.path, other)):
        yield Finding(entry.path, f"{entry.name.id} is also at {other}", "compare the two, remove one")


# --- seq and keys/


def ids_and_files(store: Store, seen: dict[int, str]) -> Iterator[Finding]:
    """Every id in `seq` has a file, and every file's id is in `seq`."""
    ids = _ids(store)
    for number in sorted(number for number in seen if number not in ids):
        yield Finding(
            seen[number],
            f"q{number} is not in seq, so its id may be given out again",
            "it is put into seq",
            functools.partial(_into_seq, store, number),
        )
    if any(number not in seen for number in ids):
        for number, path in look.snapshot(store).items():
            if not path:
                yield Finding(layout.SEQ, f"q{number} has no file", "restore its file from a backup")


def _into_seq(store: Store, number: int) -> bool:
    ids, batch = store.seq_and_batch()
    ids.add(number)
    write_seq(store, ids, batch)
    return True


def key_of_task(store: Store, entry: Entry, keys: dict[tuple[str, int], str], known: set[int]) -> Iterator[Finding]:
    """Every task has its key, or --dedupe does not find it."""
    if not entry.task:
        return
    known.add(entry.name.number)
    digest, id = digest_of(entry.task), entry.name.id
    if keys.pop((digest, entry.name.number), None) is None and entry.name.number not in Keys(store).find(digest):
        problem = f"{id} has no key, so --dedupe does not find it"
        yield Finding(entry.path, problem, "it is written", lambda: _write_key(store, digest, id))


def _write_key(store: Store, digest: str, id: str) -> bool:
    keys = Keys(store)
    keys.add(digest, id)
    keys.write(sync=True)
    sync_directory(store, layout.KEYS)
    return True


def keys_of_nobody(
    store: Store, keys: dict[tuple[str, int], str], known: set[int], *, locked: bool
) -> Iterator[Finding]:
    """Every key has its task: others are of producers that died before their commit, and match nothing.

    A producer that lives writes keys first, and holds the lock until their ids are in `seq`.
    """
    if not keys or not (locked or store.disk.lock_is_free(layout.LOCK)):
        return
    ids = _ids(store)
    dead = {key: path for key, path in keys.items() if key[1] not in ids or key[1] in known}
    for path in sorted(set(dead.values())):
        numbers = ", ".join(f"q{number}" for (_, number), file in dead.items() if file == path)
        problem = f"it lists {numbers} for tasks that were never added (a producer died)"
        cure = functools.partial(_clean, store, path, set(dead))
        yield Finding(path, problem, "harmless; the lines are taken out", cure)


def _clean(store: Store, path: str, dead: set[tuple[str, int]]) -> bool:
    lines = [key for key in key_lines(store.disk.read(path)) if key not in dead]
    data = "".join([key_line(digest, f"q{number}") for digest, number in lines])
    replace(store.disk, path, data.encode("ascii"), store.letters(names.GEN_CHANCE))
    return True


def _entering() -> bool:
    return True  # whoever holds the lock has done it when he got it


def _make(store: Store, directory: str) -> bool:
    store.disk.make_dir(directory)
    return True
