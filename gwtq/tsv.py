"""The table that people and the search ledger read: 19 columns, tab-separated, a header line. Writing and reading it.

In every row a tab, newline or other control character of a text becomes a space, so a row is a line and a cell a cell.
In an exported table a text that a spreadsheet would run as a formula gets one more leading `'`, which import takes off.
"""

from __future__ import annotations

import os
from operator import attrgetter

from . import names, rules
from .disk import FileLock
from .errors import BadData, BadInput, NoSuchFile
from .task import COLUMNS, Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    from .items import Row
    from .settings import Settings
    from .store import Store

HEADER = "\t".join(COLUMNS)
TIMES = ("claimed_at", "done_at", "next_at", "lease_until")
NUMBERS = ("priority", "tries")
PLAIN = frozenset(("id", "status", *TIMES, *NUMBERS))  # never a formula, so never escaped
STATE_OF = dict(zip(rules.STATUSES, (names.PENDING, names.CLAIMED, names.DONE, names.FAILED)))

_SPACES = dict.fromkeys([*range(32), *range(127, 160), 0x2028, 0x2029], " ")
_FORMULA = ("=", "+", "-", "@")
_MAYBE_FORMULA = [f"\t{start}" for start in (*_FORMULA, "'")]  # the first cell, an id, is none
_row = attrgetter(*COLUMNS)


def cell(value: str | int) -> str:
    """A value as a cell: one line, no tab."""
    text = str(value)
    return text if text.isprintable() else text.translate(_SPACES)


def escape(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return "'" + text if text.lstrip("'")[:1] in _FORMULA else text


def unescape(text: str) -> str:
    """The inverse of `escape`."""
    return text[1:] if text[:1] == "'" and text.lstrip("'")[:1] in _FORMULA else text


def line(task: Task) -> str:
    """A row as `claim` and `list` print it."""
    texts = list(map(str, _row(task)))
    if not "".join(texts).isprintable():  # most rows are, and one look at the whole is cheaper than one at each cell
        texts = [cell(text) for text in texts]
    return "\t".join(texts)


def lines(store: Store) -> Iterator[str]:
    """The exported table, the header first, rows by number, without line ends."""
    from . import look

    yield HEADER
    for task in look.tasks(store):
        row = line(task)
        if any(start in row for start in _MAYBE_FORMULA):
            cells = zip(COLUMNS, row.split("\t"))
            row = "\t".join([text if key in PLAIN else escape(text) for key, text in cells])
        yield row


# --- export


def export(store: Store, path: str) -> int:
    """Write the table to `path`, whole or not at all; returns the number of tasks. Durable on return."""
    target = _target(store, path)
    directory, name = os.path.split(target)
    temporary = os.path.join(directory, f".{name}.tmp")
    with FileLock(os.path.join(directory, f".{name}.lock")):  # an older table must not replace a newer one
        rows = _write(temporary, lines(store))
        os.replace(temporary, target)
        fd = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    return rows - 1


def _target(store: Store, path: str) -> str:
    """What is to be replaced: a plain file outside the queue, or nothing yet. A device would be gone for everybody."""
    target = os.path.realpath(path)
    if os.path.isdir(target):
        raise BadInput(f"{path!r} is a directory; name a file.")
    if os.path.exists(target) and not os.path.isfile(target):
        raise BadInput(f"{path!r} is no plain file, and a table would replace it; `gwtq export -o -` prints the table.")
    if not os.path.isdir(os.path.dirname(target)):
        raise NoSuchFile(f"The directory {os.path.dirname(target)} does not exist.")
    if target.startswith(os.path.realpath(store.disk.root) + os.sep):
        raise BadInput(f"{path!r} is inside the queue's own directory; name a file elsewhere.")
    return target


def _write(path: str, rows: Iterable[str]) -> int:
    count = 0
    try:
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            for row in rows:
                file.write(row + "\n")
                count += 1
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        if os.path.exists(path):
            os.unlink(path)
        raise
    return count


# --- import


def parse(path: str, settings: Settings) -> tuple[list[Row], int]:
    """The rows of a table, and how many were left out: those of tasks that did not decode when it was exported.

    Raises BadData with the line and the reason, NoSuchFile.
    """
    try:
        with open(path, "rb") as file:
            return _parse(file, settings)
    except FileNotFoundError:
        raise NoSuchFile(repr(path)) from None
    except IsADirectoryError:
        raise NoSuchFile(f"{path!r} is a directory.") from None


def _parse(file: BinaryIO, settings: Settings) -> tuple[list[Row], int]:
    from . import items

    rows: list[Row] = []
    seen: set[str] = set()
    left_out = 0
    columns: list[str] = []
    for number, raw in enumerate(file, 1):
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            if number == 1:
                columns = _header(text)
            elif text:
                task = _task(columns, text, settings)
                if task.id in seen:
                    raise BadInput(f"The id {task.id} is in the table twice.")
                seen.add(task.id)
                if task.person_key or task.status != names.FAILED:
                    _check(task)
                    rows.append(items.Row(task, STATE_OF[task.status]))
                else:
                    left_out += 1
        except UnicodeDecodeError:
            raise BadData(f"Line {number}: it is not UTF-8 text.") from None
        except BadInput as error:
            raise BadData(f"Line {number}: {error.detail}") from error
    if not columns:
        raise BadData("The table is empty: not even a header line.")
    return rows, left_out


def _header(text: str) -> list[str]:
    columns = text.split("\t")
    if sorted(columns) != sorted(COLUMNS):
        raise BadInput(f"The header must name these columns, separated by tabs: {' '.join(COLUMNS)}.")
    return columns


def _task(columns: list[str], text: str, settings: Settings) -> Task:
    """The task that a row tells. Raises BadInput with what is wrong in it."""
    cells = text.split("\t")
    if len(cells) != len(columns):
        raise BadInput(f"It has {len(cells)} cells instead of {len(columns)}.")
    values = {key: value if key in PLAIN else unescape(rules.text(value, key)) for key, value in zip(columns, cells)}
    task = Task(rules.task_id(values.pop("id")), "")
    for key, value in values.items():
        setattr(task, key, names.iso(rules.instant(value, key)) if key in TIMES and value else value)
    task.priority = rules.typed_priority(values["priority"])
    task.tries = rules.count(values["tries"], "The number of tries", 0)
    rules.status(task.status)
    if task.person_key:
        rules.kind(task.kind, settings)
    if task.result:
        rules.result(task.result, settings)
    return task


def _check(task: Task) -> None:
    """Can this row be kept whole? Raises BadInput."""
    if not task.person_key:
        raise BadInput("It has no person_key.")
    if rules.slug(task.source) != task.source:
        raise BadInput(f"The source {task.source!r} is no slug; {rules.slug(task.source)!r} would be one.")
    rules.channel(task.kind, task.source)
    if task.status == "open" and (task.lane or task.claimed_at):
        raise BadInput("It is open, and has a lane or a claimed_at.")
    if task.status == "claimed":
        _check_claim(task)
    elif task.token or task.lease_until:
        raise BadInput(f"It is {task.status}, and has a token or a lease.")


def _check_claim(task: Task) -> None:
    """Does this claim fit into a file's name, now and when it is swept? Raises BadInput."""
    for key in ("lane", "claimed_at", "token", "lease_until"):
        if not getattr(task, key):
            raise BadInput(f"It is claimed, and has no {key}.")
    rules.lane(task.lane)
    if task.tries < 1:
        raise BadInput("It is claimed, and its tries do not count the attempt that runs.")
    if len(names.encode(task.token)) > names.TOKEN_MAX:
        raise BadInput(f"The token is too long: percent-encoded it exceeds {names.TOKEN_MAX} bytes.")
    since, until = names.from_iso(task.claimed_at), names.from_iso(task.lease_until)
    name = names.claim_name(task.id, "0" * names.GEN_LENGTH, task.token, since, until, task.lane)
    if len(name) > names.CLAIM_NAME_MAX:
        raise BadInput("The token and the lane's name are too long together for a file's name.")
