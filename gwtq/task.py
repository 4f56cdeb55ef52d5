"""A task: the fold of its log. Pure: bytes in, fields out.

A task's file holds one JSON object a line, an *entry*. The first is the task as added, each later one an event. `gen`
names the entry, `prev` the one that it was written on. The file's name carries the generation of the last committed
entry, the head; the task is the chain from the head along `prev` to the first line. A line off the chain was never
committed (its writer crashed or lost a race) and means nothing, as do empty and torn lines.

Not promised: that the lines of a file are in the order of the chain, or that all of them decode.
"""

from __future__ import annotations

from . import names
from .errors import NewerFormat, Undecodable
from .jsonline import Json, dumps, loads

COLUMNS = (
    "id", "person_key", "person_label", "kind", "source", "query", "priority", "status", "lane", "claimed_at",
    "done_at", "result", "evidence", "tries", "next_at", "note", "token", "lease_until", "dedupe_key",
)  # fmt: skip

ADD, UPDATE, DONE, FAIL, RELEASE, EXPIRED = EVENTS = ("add", "update", "done", "fail", "release", "expired")
ENDS_ATTEMPT = frozenset((DONE, FAIL, EXPIRED))
SETTLES = frozenset((DONE, FAIL, RELEASE, EXPIRED))

GIVEN = ("person_key", "person_label", "kind", "source", "query", "note", "dedupe_key", "next_at")
IMPORTED = ("lane", "claimed_at", "done_at", "result", "evidence")
_FIRST = frozenset(GIVEN + IMPORTED)


class State:
    """The five state directories; a task's file is in exactly one of them."""

    PENDING, CLAIMED, RECOVERING, DONE, FAILED = names.STATES


class Enqueued:
    """What became of a task that was handed to add."""

    ADDED, KNOWN, REFRESHED = "added", "known", "refreshed"


class Task:
    """One task as people see it: the 19 columns as attributes, `state`, and the entries of its log.

    priority and tries are int, all else is str, '' where there is nothing; times are ISO 8601 UTC, whole seconds.
    `tries` counts the running attempt. A claim whose lease ran out reads as what the next sweep makes of it: status
    open, or failed if that was the last try. `problem` says why a record does not decode ('' if it does); such a
    task has status failed and the problem as its note.
    """

    person_key = person_label = kind = source = query = ""
    priority = 0
    status = lane = claimed_at = done_at = result = evidence = ""
    tries = 0
    next_at = note = token = lease_until = dedupe_key = ""
    problem = ""

    def __init__(self, id: str, state: str) -> None:
        self.id = id
        self.state = state
        self.entries: list[dict[str, Json]] = []

    def row(self) -> list[str | int]:
        """The 19 columns in order."""
        return [getattr(self, column) for column in COLUMNS]

    def __repr__(self) -> str:
        return f"<Task {self.id} {self.status}: {self.person_key} {self.kind} {self.source}>"


# --- the log


def line(entry: dict[str, Json]) -> bytes:
    """An entry as it is appended: newline, object, newline, so that it survives a torn line before it."""
    return b"\n" + dumps(entry).encode("utf-8") + b"\n"


def chain(data: bytes, head: str) -> list[dict[str, Json]]:
    """The entries from the first to the one named `head`, oldest first.

    Raises Undecodable with the reason, NewerFormat for an event that this version does not know.
    """
    by_gen = _by_generation(data)
    links: list[dict[str, Json]] = []
    gen: Json = head
    while gen is not None:
        entry = by_gen.pop(gen, None) if isinstance(gen, str) else None
        if not entry:
            if entry is not None:
                raise Undecodable(f"two entries carry the generation {gen}.")
            lost = f"the entry {gen} is not in the file, or does not decode."
            raise Undecodable(lost if by_gen or links else "no entry decodes.")
        links.append(entry)
        gen = entry.get("prev")
    links.reverse()
    events = [entry.get("event") for entry in links]
    for event in events:
        if event not in EVENTS:
            raise NewerFormat(f"It holds an entry of the kind {event!r}, which this version does not know.")
    if events[0] != ADD or ADD in events[1:]:
        raise Undecodable("the chain does not begin with the task as added.")
    return links


def _by_generation(data: bytes) -> dict[str, dict[str, Json]]:
    """The entries of a file by their names; an empty one where two have the same."""
    by_gen: dict[str, dict[str, Json]] = {}
    for raw in data.split(b"\n"):
        if not raw or raw.isspace():
            continue
        try:
            entry = loads(raw.decode("utf-8"))
            if b"\\u" in raw:
                dumps(entry).encode("utf-8")  # a lone surrogate could be written nowhere
        except (ValueError, RecursionError):
            continue  # torn, or not ours: off the chain unless something points to it
        gen = entry.get("gen") if isinstance(entry, dict) else None
        if isinstance(gen, str) and isinstance(entry, dict):
            by_gen[gen] = {} if gen in by_gen else entry
    return by_gen


def fold(name: names.Name, state: str, data: bytes, *, now: str, max_tries: int) -> Task:
    """The task that the file of this name and content stands for, at the stamp `now`.

    Raises Undecodable or NewerFormat.
    """
    task = Task(name.id, state)
    task.entries = chain(data, name.head)
    first = task.entries[0]
    if first.get("id") != name.id:
        raise Undecodable(f"it is the record of {first.get('id')!r}, under the name of {name.id}.")
    for key, value in first.items():
        if key in _FIRST:
            if not isinstance(value, str):
                raise _not_a_text(key)
            setattr(task, key, value)
    task.priority = _number(first, "priority")
    task.tries = _number(first, "tries")
    for entry in task.entries[1:]:
        _apply(task, entry)
    _check_place(task)
    _present(task, name, now, max_tries)
    return task


def undecodable(id: str, state: str, problem: str) -> Task:
    """What stands for a task whose record does not decode."""
    task = Task(id, state)
    task.status = names.FAILED
    task.note = task.problem = problem
    return task


def _apply(task: Task, entry: dict[str, Json]) -> None:
    event = entry["event"]
    if event == UPDATE:
        for key in ("person_label", "query"):
            if key in entry:
                setattr(task, key, _text(entry, key))
        if "priority" in entry:
            task.priority = _number(entry, "priority")
    else:
        task.next_at = _text(entry, "next_at")
        task.tries += event in ENDS_ATTEMPT
        task.lane, task.claimed_at = _text(entry, "lane"), _text(entry, "since")
        _text(entry, "token")
    if event == DONE:
        task.result, task.evidence, task.done_at = _text(entry, "result"), _text(entry, "evidence"), _text(entry, "at")
    if "note" in entry:
        task.note = _text(entry, "note")


def _check_place(task: Task) -> None:
    """The fields that a task's directory is made of: no later step can fail on a name, or lead astray."""
    if not names.is_kind(task.kind):
        raise Undecodable(f"{task.kind!r} is no name of a kind.")
    if len(names.channel_name(task.kind, task.source)) > names.CHANNEL_MAX:
        raise Undecodable("its source is too long.")
    if len(str(abs(task.priority))) > names.DIGITS_MAX:
        raise Undecodable(f"its priority {task.priority} is out of range.")


def _present(task: Task, name: names.Name, now: str, max_tries: int) -> None:
    """What the state's directory and the name add: who holds it, and the word that people see."""
    if task.state in (names.CLAIMED, names.RECOVERING):
        task.tries += 1
        task.lane, task.claimed_at = name.lane, names.iso(name.since)
        task.token, task.lease_until = name.token, names.iso(name.until)
        expired = task.state == names.RECOVERING or name.until <= now
        task.status = "claimed" if not expired else "open" if task.tries < max_tries else "failed"
        if expired:
            task.next_at = ""
    else:
        task.status = "open" if task.state == names.PENDING else task.state
    if task.status == "open":
        task.lane = task.claimed_at = ""
    if task.status != "claimed":
        task.token = task.lease_until = ""


def _text(entry: dict[str, Json], key: str) -> str:
    value = entry.get(key, "")
    if not isinstance(value, str):
        raise _not_a_text(key)
    return value


def _not_a_text(key: str) -> Undecodable:
    return Undecodable(f"its field {key!r} is not a text.")


def _number(entry: dict[str, Json], key: str) -> int:
    value = entry.get(key, 0)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Undecodable(f"its field {key!r} is not a whole number.")
    return value
