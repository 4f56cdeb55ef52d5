"""`report` and `show` as text for people and as JSON."""

from __future__ import annotations

from itertools import islice

from . import names, tsv
from .task import COLUMNS, DONE, EXPIRED, FAIL, RELEASE, SETTLES, UPDATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .cli import Output
    from .jsonline import Json
    from .queue import Queue
    from .task import Task


WORDS = {DONE: "done:", FAIL: "failed", RELEASE: "released, not tried", EXPIRED: "lease expired", "claimed": "held"}


def report(queue: Queue, limit: int, *, now: float, as_json: bool, out: Output) -> int:
    """The open leads: what is due, by priority; how much waits, is held, has failed."""
    counts = queue.stats()
    shown = list(islice(queue.due(), limit))
    due = max(counts.open - counts.waiting, len(shown))
    held = queue.held()
    if as_json:
        for task in shown:
            out.json(dict(zip(COLUMNS, task.row())))
        out.json({"due": due, "held": [_held(task) for task in held], **counts.to_json()})
        return 0
    out.line(f"due: {due}")
    for task in shown:
        out.line("  " + _lead(task))
    if due > len(shown):
        out.line(f"  and {due - len(shown)} more (--limit N)")
    out.line(f"waiting: {counts.waiting}" + (f", the first until {counts.next_due}" if counts.waiting else ""))
    out.line(f"held: {counts.claimed}")
    for task in held:
        left = _span(names.seconds(names.from_iso(task.lease_until)) - int(now))
        out.line(f"  {task.id}  {tsv.cell(task.lane)}  {tsv.cell(task.person_label)}  {left} left")
    out.line(f"failed: {counts.failed}" + (" (gwtq list --status failed)" if counts.failed else ""))
    out.line(f"done: {counts.done}")
    return 0


def _span(seconds: int) -> str:
    """A time as people say it: 2 d 3 h, 1 h 59 min, 20 s."""
    minutes, hours, days = max(0, seconds) // 60, seconds // 3600, seconds // 86400
    if days > 0:
        return f"{days} d {hours % 24} h"
    if hours > 0:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{max(0, seconds)} s"


def _lead(task: Task) -> str:
    where = f"{task.kind} {task.source}".strip()
    what = f"  {task.query}" if task.query else ""
    tries = f"  ({task.tries} tr{'ies' if task.tries > 1 else 'y'} so far)" if task.tries else ""
    note = f"  -- {task.note}" if task.note else ""
    return tsv.cell(f"{task.id}  {task.priority}  {where}  {task.person_label}{what}{tries}{note}")


def _held(task: Task) -> Json:
    return {"id": task.id, "lane": task.lane, "lease_until": task.lease_until}


def show(task: Task, *, as_json: bool, out: Output) -> int:
    """One task, and its attempts, one a line."""
    attempts = [_attempt(entry) for entry in task.entries[1:] if entry["event"] in SETTLES]
    if task.token:
        attempts.append({"since": task.claimed_at, "lane": task.lane, "event": "claimed", "until": task.lease_until})
    if as_json:
        out.json({**dict(zip(COLUMNS, task.row())), "problem": task.problem, "attempts": attempts})
        return 0
    for column, value in zip(COLUMNS, task.row()):
        if value != "":
            out.line(f"{column}: {tsv.cell(value)}")
    refreshes = sum(1 for entry in task.entries if entry["event"] == UPDATE)
    if refreshes:
        out.line(f"refreshed: {refreshes} time{'s' * (refreshes > 1)}")
    out.line(f"attempts: {len(attempts)}")
    for attempt in attempts:
        out.line("  " + tsv.cell(_sentence(attempt)))
    return 0


def _attempt(entry: dict[str, Json]) -> dict[str, Json]:
    keys = ("since", "at", "lane", "event", "result", "evidence", "until", "next_at", "final", "note")
    return {key: entry[key] for key in keys if key in entry}


def _sentence(attempt: dict[str, Json]) -> str:
    event = attempt["event"]
    when = f"{attempt.get('since', '')} .. {attempt.get('at', '')}"
    parts = [when, str(attempt.get("lane", "")), WORDS.get(str(event), "")]
    parts += [str(attempt[key]) for key in ("result", "evidence") if key in attempt]
    if event == "claimed":
        parts.append(f"until {attempt['until']}")
    if attempt.get("final"):
        parts.append("for good")
    if attempt.get("next_at"):
        parts.append(f"next at {attempt['next_at']}")
    if attempt.get("note"):
        parts.append(f"-- {attempt['note']}")
    return "  ".join(parts)
