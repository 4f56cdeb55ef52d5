"""One small function per command: values in, an exit code out, data through `out`."""

from __future__ import annotations

import os
import sys
import time

from . import rules, tsv
from .cli import NOTHING, OK, say
from .errors import BadData, BadInput, GwtqError, NoSuchFile, NoSuchQueue
from .jsonline import strict_object
from .queue import Queue, prepare
from .task import COLUMNS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, BinaryIO

    from .cli import Output
    from .jsonline import Json
    from .lane import Settled
    from .task import Task

READING = frozenset(("report", "list", "show", "stats", "export", "doctor"))
MAKES_QUEUE = frozenset(("init", "add", "import"))


def run(command: str, values: dict[str, Any], out: Output) -> int:
    """Carry out one command; returns its exit code."""
    return _COMMANDS[command](Call(command, values, out))


class Call:
    """One call of a command: its values, its queue, where its data goes."""

    def __init__(self, command: str, values: dict[str, Any], out: Output) -> None:
        self.command = command
        self.values = values
        self.out = out

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    @property
    def path(self) -> str:
        """Where the queue is."""
        path = self["queue"] if self["queue"] is not None else os.environ.get("GWT_QUEUE") or "cola"
        if not path or "\0" in path:
            raise BadInput("--queue needs a path.")
        return str(path)

    def queue(self) -> Queue:
        """The queue, opened; `add` and `import` make a missing one and say so."""
        reading = self.command in READING and not self.values.get("fix")
        max_tries = None if self["max_tries"] is None else rules.count(self["max_tries"], "--max-tries")
        try:
            return Queue(self.path, max_tries=max_tries, notify=say, reading=reading)
        except NoSuchQueue:
            if self.command not in MAKES_QUEUE:
                raise
        queue = Queue.create(self.path, max_tries=max_tries, notify=say)
        say(f"made an empty queue in {queue.path}")
        return queue

    def settings(self) -> rules.Settings:
        """What the queue's settings are, or will be once it is made: input is checked before anything is made."""
        try:
            return Queue(self.path, reading=True).settings
        except NoSuchQueue:
            return rules.Settings()

    def minutes(self, key: str) -> float | None:
        """An option in minutes, as seconds; None if it was not given."""
        value = self[key]
        return None if value is None else rules.minutes(value, "--" + key.replace("_", "-"))

    def limit(self, default: int | None = None) -> int | None:
        """--limit."""
        return default if self["limit"] is None else rules.count(self["limit"], "--limit", 0)

    def row(self, task: Task) -> None:
        """A task as data."""
        if self["json"]:
            self.out.json(dict(zip(COLUMNS, task.row())))
        else:
            self.out.line(tsv.line(task))

    def record(self, **fields: Json) -> None:
        """A few named values as data: tab-separated, or an object."""
        if self["json"]:
            self.out.json(fields)
        else:
            self.out.line("\t".join([tsv.cell(str(value)) for value in fields.values()]))


# --- producers


def init(call: Call) -> int:
    """init"""
    kinds = call["kind"] or None
    there = True
    try:
        queue = Queue(call.path, notify=say)
    except NoSuchQueue:
        there = False
        queue = Queue.create(call.path, kinds=kinds, notify=say)
    kinds_there = ", ".join(queue.settings.kinds)
    say(f"{queue.path} is a queue already, unchanged" if there else f"made an empty queue in {queue.path}")
    if there and kinds and tuple(kinds) != queue.settings.kinds:
        say(f"its kinds stay {kinds_there}; they are in {queue.path}/queue.json")
    return OK


def add(call: Call) -> int:
    """add"""
    if call["retry_failed"] and not call["dedupe"]:
        raise BadInput("--retry-failed goes with --dedupe.")
    fields = {key: call[key] for key in rules.GIVEN if call[key] is not None}
    if call["jsonl"] is not None:
        if fields:
            raise BadInput(f"--jsonl brings its own fields: leave out --{next(iter(fields)).replace('_', '-')}.")
        return _add_batch(call)
    if "person" not in fields:
        raise BadInput("Add needs --person, or --jsonl with a file of tasks.")
    outcomes = _enqueue(call, [(1, fields)])
    call.record(id=outcomes[0][0], outcome=outcomes[0][1])
    return OK


def _add_batch(call: Call) -> int:
    with _input(call["jsonl"]) as file:
        outcomes = _enqueue(call, _objects(file))
    counts = {what: sum(1 for _, became in outcomes if became == what) for what in ("added", "known", "refreshed")}
    if call["json"]:
        call.out.json(dict(counts))
    else:
        call.out.line(", ".join(f"{count} {what}" for what, count in counts.items()))
    return OK


def _enqueue(call: Call, tasks: Iterable[tuple[int, dict[str, Json]]]) -> list[tuple[str, str]]:
    items = prepare(tasks, call.settings())
    with Progress(len(items), "adding") as progress:
        return call.queue().add_prepared(
            items, dedupe=call["dedupe"], retry_failed=call["retry_failed"], progress=progress
        )


def _input(path: str) -> BinaryIO:
    if path == "-":
        return sys.stdin.buffer
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise NoSuchFile(path) from None


def _objects(file: BinaryIO) -> Iterator[tuple[int, dict[str, Json]]]:
    """(line number, object) of a stream; blank lines are left out. Raises BadData with the line's number."""
    for number, raw in enumerate(file, 1):
        if raw.strip():
            try:
                yield number, strict_object(raw)
            except ValueError as error:
                raise BadData(f"Line {number}: {error}") from None


class Progress:
    """A bar on stderr, if that is a terminal and the work takes longer than a second."""

    def __init__(self, total: int, what: str) -> None:
        self._total = total
        self._what = what
        self._begun = time.monotonic()
        self._shown = False

    def __enter__(self) -> Callable[[int], None]:
        return self._step

    def _step(self, count: int) -> None:
        if time.monotonic() - self._begun > 1 and os.isatty(2):
            self._shown = True
            bar = "#" * (30 * count // max(1, self._total))
            os.write(2, f"\r{self._what} [{bar:<30}] {count:,} of {self._total:,}".encode())

    def __exit__(self, *error: object) -> None:
        if self._shown:
            os.write(2, b"\r\x1b[K")


def import_(call: Call) -> int:
    """import"""
    table = tsv.parse(call["file"], call.settings())
    imported, known, left_out = call.queue().import_rows(table)
    if call["json"]:
        call.out.json({"imported": imported, "known": known, "undecodable": left_out})
    else:
        more = f", {left_out} undecodable left out" if left_out else ""
        call.out.line(f"{imported} imported, {known} known{more}")
    return OK


# --- lanes


def claim(call: Call) -> int:
    """claim"""
    held = call.queue().claim(call["lane"], call["kind"], call["source"], call.minutes("lease_minutes"))
    if not held:
        return NOTHING
    try:
        call.row(held.task)
        call.out.flush()
    except GwtqError:
        held.release(note="")
        say(f"{held.id} was given back: its row could not be printed")
        raise
    return OK


def renew(call: Call) -> int:
    """renew"""
    until = call.queue().renew(call["id"], call["token"], call.minutes("lease_minutes"))
    call.record(lease_until=until)
    return OK


def done(call: Call) -> int:
    """done"""
    if call["evidence"] and not os.path.exists(call["evidence"]):
        say(f"the evidence file {call['evidence']} does not exist (yet)")
    settled = call.queue().done(call["id"], call["token"], call["result"], call["evidence"] or "", call["note"] or "")
    return _settled(call, settled)


def fail(call: Call) -> int:
    """fail"""
    backoff = call.minutes("backoff_minutes")
    settled = call.queue().fail(call["id"], call["token"], backoff, final=call["final"], note=call["note"] or "")
    return _settled(call, settled)


def release(call: Call) -> int:
    """release"""
    settled = call.queue().release(call["id"], call["token"], call.minutes("retry_after") or 0, note=call["note"] or "")
    return _settled(call, settled)


def _settled(call: Call, settled: Settled) -> int:
    if settled.already:
        call.record(id=call["id"], outcome="already")
    elif settled.next_at:
        call.record(id=call["id"], outcome=settled.outcome, next_at=settled.next_at)
    else:
        call.record(id=call["id"], outcome=settled.outcome)
    return OK


def requeue_expired(call: Call) -> int:
    """requeue-expired"""
    recovered = call.queue().requeue_expired()
    for id, state, lane in recovered.rows:
        call.record(id=id, state=state, lane=lane)
    if recovered.stuck:
        call.out.flush()
        raise Stuck(f"{recovered.stuck} could not be taken back; each is named above.")
    return OK


class Stuck(GwtqError):
    """Some tasks stay where they are."""

    exit_code = 74


# --- people


def report(call: Call) -> int:
    """report"""
    from .report import report as print_report

    return print_report(call.queue(), call.limit(20) or 0, as_json=call["json"], out=call.out)


def list_(call: Call) -> int:
    """list"""
    from itertools import islice

    queue, limit = call.queue(), call.limit()
    if call["status"] is not None and call["status"] not in tsv.STATUS:
        raise BadInput(f"There is no status {call['status']!r}; it is one of {', '.join(tsv.STATUS)}.")
    if call["kind"] is not None:
        rules.kind(call["kind"], queue.settings)
    if call["result"] is not None:
        rules.result(call["result"], queue.settings)
    filters = {key: call[key] for key in ("status", "person", "lane", "result", "kind", "source")}
    if not call["json"]:
        call.out.line(tsv.HEADER)
    for task in islice(queue.tasks(**filters), limit):
        call.row(task)
    return OK


def show(call: Call) -> int:
    """show"""
    from .report import show as print_task

    return print_task(call.queue().find(call["id"]), as_json=call["json"], out=call.out)


def stats(call: Call) -> int:
    """stats"""
    queue = call.queue()
    counts = queue.stats().to_json()
    if call["json"]:
        call.out.json({"format": queue.settings.format, **counts})
    else:
        for key, value in counts.items():
            call.out.line(f"{key}\t{'' if value is None else value}")
    return OK


def export(call: Call) -> int:
    """export"""
    queue = call.queue()
    if call["o"] == "-":
        for line in queue.table():
            call.out.line(line)
        return OK
    target = call["o"] if call["o"] is not None else queue.path + ".tsv"
    say(f"wrote {queue.export(target)} tasks to {target}")
    return OK


def doctor(call: Call) -> int:
    """doctor"""
    found = 0
    for finding in call.queue().examine(fix=call["fix"]):
        found += 1
        if call["json"]:
            call.out.json(finding.to_json())
        else:
            call.out.line(str(finding))
    if not call["json"]:
        say("nothing to report: every invariant holds" if not found else f"{found} finding{'s' * (found > 1)}")
    return NOTHING if found else OK


def demo(call: Call) -> int:
    """demo"""
    from .demo import demo as show_demo

    return show_demo(call.out)


_COMMANDS: dict[str, Callable[[Call], int]] = {
    "init": init, "add": add, "claim": claim, "renew": renew, "done": done, "fail": fail, "release": release,
    "requeue-expired": requeue_expired, "report": report, "list": list_, "show": show, "stats": stats,
    "export": export, "import": import_, "doctor": doctor, "demo": demo,
}  # fmt: skip
