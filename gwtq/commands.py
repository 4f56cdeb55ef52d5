"""One small function per command: values in, an exit code out, data through `out`."""

from __future__ import annotations

import os

from . import rules, tsv
from .cli import IO_ERROR, NOTHING, OK, say
from .errors import BadInput, GwtqError, NoSuchQueue
from .queue import Queue
from .settings import Settings
from .task import COLUMNS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .cli import Output
    from .items import Prepared
    from .jsonline import Json
    from .lane import Settled
    from .task import Task

READING = frozenset(("report", "list", "show", "stats", "export", "doctor"))
MAKES_QUEUE = frozenset(("init", "add", "import"))


class NotRecovered(GwtqError):
    """Some tasks stay where they are."""

    exit_code = IO_ERROR


def run(command: str, values: dict[str, Any], out: Output) -> int:
    """Carry out one command; returns its exit code."""
    call = Call(command, values, out)
    try:
        return _COMMANDS[command](call)
    except OSError as error:
        if error.filename is None:  # of a descriptor: it does not say where
            error.filename = call.path
        raise


class Call:
    """One call of a command: its values, its queue, where its data goes."""

    def __init__(self, command: str, values: dict[str, Any], out: Output) -> None:
        self.command = command
        self.values = values
        self.out = out
        self.max_tries = None if self["max_tries"] is None else rules.count(self["max_tries"], "--max-tries")

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    @property
    def path(self) -> str:
        """Where the queue is."""
        if self["queue"] is None:
            return os.environ.get("GWT_QUEUE") or "cola"
        return file_path(self["queue"])

    def queue(self) -> Queue:
        """The queue, opened; `add` and `import` make a missing one and say so."""
        reading = self.command in READING and not self.values.get("fix")
        try:
            return Queue(self.path, max_tries=self.max_tries, notify=say, reading=reading)
        except NoSuchQueue:
            if self.command not in MAKES_QUEUE:
                raise
        queue = Queue.create(self.path, max_tries=self.max_tries, notify=say)
        say(f"made an empty queue in {queue.path}")
        return queue

    def settings(self) -> Settings:
        """What the queue's settings are, or will be once it is made: input is checked before anything is made."""
        try:
            return Queue(self.path, reading=True).settings
        except NoSuchQueue:
            return Settings()

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


def file_path(text: str) -> str:
    """A path as typed, as Python wants it: the file system's bytes are the argument's, whatever the locale says."""
    if not text:
        raise BadInput("An empty path names nothing.")
    return os.fsdecode(text.encode("utf-8"))


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
    from .items import Prepared

    (outcome,) = _enqueue(call, [Prepared(rules.draft(fields, call.settings()))])
    call.record(id=outcome[0], outcome=outcome[1])
    return OK


def _add_batch(call: Call) -> int:
    from .stream import objects, opened

    path = call["jsonl"]
    with opened(path if path == "-" else file_path(path)) as file:
        from .items import prepare

        items = prepare(objects(file), call.settings())
    outcomes = _enqueue(call, items)
    counts = {what: sum(1 for _, became in outcomes if became == what) for what in ("added", "known", "refreshed")}
    if call["json"]:
        call.out.json(dict(counts))
    else:
        call.out.line(", ".join([f"{count} {what}" for what, count in counts.items()]))
    return OK


def _enqueue(call: Call, items: list[Prepared]) -> list[tuple[str, str]]:
    from .stream import Progress

    with Progress(len(items), "adding") as progress:
        return call.queue().add_prepared(
            items, dedupe=call["dedupe"], retry_failed=call["retry_failed"], progress=progress
        )


def import_(call: Call) -> int:
    """import"""
    table = tsv.parse(file_path(call["file"]), call.settings())
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
    except BaseException:  # Ctrl-C too: who did not get the row does not have the task
        held.release()
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
    settled = call.queue().done(call["id"], call["token"], call["result"], call["evidence"] or "", call["note"] or "")
    if call["evidence"] and not os.path.exists(file_path(call["evidence"])):
        say(f"the evidence file {call['evidence']} does not exist (yet)")
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
    fields: dict[str, Json] = {"id": call["id"], "outcome": "already" if settled.already else settled.outcome}
    if settled.next_at or call["json"]:
        fields["next_at"] = settled.next_at
    call.record(**fields)
    return OK


def requeue_expired(call: Call) -> int:
    """requeue-expired"""
    recovered = call.queue().requeue_expired()
    for id, state, lane in recovered.rows:
        call.record(id=id, state=state, lane=lane)
    if recovered.stuck:
        call.out.flush()
        raise NotRecovered(f"{recovered.stuck} could not be taken back; each is named above.")
    return OK


# --- people


def report(call: Call) -> int:
    """report"""
    from .clock import Clock
    from .report import report as print_report

    limit = call.limit(20) or 0
    return print_report(call.queue(), limit, now=Clock().now(), as_json=call["json"], out=call.out)


def list_(call: Call) -> int:
    """list"""
    from itertools import islice

    queue, limit = call.queue(), call.limit()
    tasks = queue.tasks(**{key: call[key] for key in ("status", "person", "lane", "result", "kind", "source")})
    if not call["json"]:
        call.out.line(tsv.HEADER)
    for task in islice(tasks, limit):
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
    target = queue.path + ".tsv" if call["o"] is None else file_path(call["o"])
    count = queue.export(target)
    say(f"wrote {count} task{'s' * (count != 1)} to {target}")
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
