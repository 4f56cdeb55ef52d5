"""What producers hand in, checked and encoded: what a batch keeps of each of its lines while it waits for the lock."""

from __future__ import annotations

from . import layout, names
from .errors import BadData, BadInput
from .jsonline import dumps, loads
from .keys import digest, digest_of
from .rules import draft
from .task import ADD, GIVEN, IMPORTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .jsonline import Json
    from .rules import Draft
    from .settings import Settings
    from .task import Task


class Prepared:
    """A task to be added: a checked draft, encoded."""

    __slots__ = ("channel", "digest", "due", "fields", "given", "priority")

    def __init__(self, draft: Draft) -> None:
        self.fields = dumps(draft.fields())[1:].encode("utf-8")
        self.priority = draft.priority
        self.channel = names.channel_name(draft.kind, draft.source)
        self.due = names.from_iso(draft.next_at)
        self.given = draft.given
        self.digest = digest(draft.person_key, draft.kind, draft.source, draft.query, draft.dedupe_key)

    def values(self) -> dict[str, Json]:
        """The fields of the record, decoded."""
        return loads("{" + self.fields.decode("utf-8"))  # type: ignore[return-value]


class Row:
    """A task of a table to be imported: its place, and its record but for the generation."""

    __slots__ = ("channel", "digest", "due", "fields", "lane", "number", "priority", "since", "state", "token", "until")

    def __init__(self, task: Task, state: str) -> None:
        self.number = int(task.id[1:])
        self.state = state
        fields = {key: getattr(task, key) for key in (*GIVEN, *IMPORTED) if getattr(task, key)}
        fields.update(priority=task.priority, tries=task.tries - (state == names.CLAIMED))
        self.fields = dumps(fields)[1:].encode("utf-8")
        self.priority = task.priority
        self.channel = names.channel_name(task.kind, task.source)
        self.due = names.from_iso(task.next_at)
        self.digest = digest_of(task)
        self.token, self.lane = task.token, task.lane
        self.since, self.until = names.from_iso(task.claimed_at), names.from_iso(task.lease_until)

    def place(self, head: str, now: str) -> tuple[str, str]:
        """(directory, name) in the queue."""
        id = f"q{self.number}"
        if self.state == names.CLAIMED:
            return names.CLAIMED, names.claim_name(id, head, self.token, self.since, self.until, self.lane)
        if self.state != names.PENDING:
            return layout.shard(self.state, self.number), names.settled_name(id, head)
        return layout.pending_place(id, head, self.priority, self.channel, self.due, now)


def record(id: str, head: str, at: str, fields: bytes) -> bytes:
    """The first line of a task's file; `fields` is the rest of the object, encoded."""
    start = dumps({"gen": head, "event": ADD, "at": at, "id": id})
    return b"\n" + start[:-1].encode("utf-8") + b", " + fields + b"\n"


def prepare(tasks: Iterable[tuple[int, dict[str, Json]]], settings: Settings) -> list[Prepared]:
    """Check a batch of (line number, values). Raises BadData with the line and the reason."""
    items = []
    for number, values in tasks:
        try:
            items.append(Prepared(draft(values, settings, typed=False)))
        except BadInput as error:
            raise BadData(f"Line {number}: {error.detail}") from error
    return items
