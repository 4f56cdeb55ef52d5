"""The rules of a queue, told a second time without a file: what `test_machine.py` holds the shipping code against.

A task is a value; what happens to it makes another one. Times are whole seconds. Nothing of the package is used here,
so that a wrong rule there is not wrong here too.
"""

from __future__ import annotations

import re
from math import ceil
from time import gmtime, strftime
from typing import NamedTuple

OPEN, HELD, DONE, FAILED = "open", "held", "done", "failed"
MAX_TRIES = 3
MONTH = 30 * 86400

# As typed -> as kept -> as compared.
PEOPLE = {"Ana": "ana", "Ánà": "ana", "-Bo O'Neil": "bo-o-neil"}
SOURCES = {"": "", "Gaceta": "gaceta", "ad 33": "ad-33"}
QUERIES = {"": "", "Niebla": "niebla", " NIÉBLA\n": "niébla", "niebla  x": "niebla x"}
PLAIN = {"niébla": "niebla"}
COUNTS = {"hit": True, "none": True, "blocked": False, "unproven": False}

HEADER = [
    "id", "person_key", "person_label", "kind", "source", "query", "priority", "status", "lane", "claimed_at",
    "done_at", "result", "evidence", "tries", "next_at", "note", "token", "lease_until", "dedupe_key",
]  # fmt: skip
NO_TEXTS = ("id", "status", "priority", "tries", "claimed_at", "done_at", "next_at", "lease_until")


class Task(NamedTuple):
    """A task at one instant. `tries`: the attempts that ended. `ended`: how each of its claims did."""

    number: int
    person_key: str
    person_label: str
    kind: str
    source: str
    query: str
    priority: int
    note: str
    next_at: int
    dedupe_key: str
    at: str = OPEN
    tries: int = 0
    lane: str = ""
    since: int = 0
    token: str = ""
    until: int = 0
    done_at: int = 0
    result: str = ""
    evidence: str = ""
    ended: tuple = ()

    @property
    def identity(self):
        return self.dedupe_key or (self.person_key, self.kind, self.source, PLAIN.get(self.query, self.query))

    @property
    def rank(self):
        """What claims go by: the lowest is handed out first."""
        return -self.priority, self.number

    def holds(self, token):
        return self.at == HELD and self.token == token

    def expired(self, now):
        return self.at == HELD and self.until <= int(now)

    def refreshed(self, wanted):
        return self._replace(**wanted)

    def claimed(self, lane, token, since, until):
        return self._replace(at=HELD, lane=lane, token=token, since=since, until=until)

    def renewed(self, until):
        return self._replace(until=max(until, self.until))

    def over(self, verb, at, *, tries, next_at=0, **changes):
        """The claim ended: the task is in another state, and remembers how."""
        final = changes.pop("final", False)
        note = changes.pop("note", "")
        end = (self.token, verb, changes.get("result", ""), final)
        changes.update({"lane": "", "since": 0} if at == OPEN else {})
        return self._replace(
            at=at, tries=tries, next_at=next_at, token="", until=0, note=note or self.note,
            ended=(*self.ended, end), **changes,
        )  # fmt: skip

    def swept(self):
        tries = self.tries + 1
        return self.over("expired", FAILED if tries >= MAX_TRIES else OPEN, tries=tries)

    def done(self, now, result, evidence="", note=""):
        return self.over(
            "done", DONE, tries=self.tries + 1, done_at=int(now), result=result, evidence=evidence, note=note
        )

    def failed(self, now, backoff, final=False, note=""):
        tries = self.tries + 1
        if final or tries >= MAX_TRIES:
            return self.over("fail", FAILED, tries=tries, final=final, note=note)
        delay = min(backoff * tries, MONTH)
        return self.over("fail", OPEN, tries=tries, next_at=ceil(now + delay) if delay else 0, note=note)

    def released(self, now, delay, note=""):
        return self.over("release", OPEN, tries=self.tries, next_at=ceil(now + delay) if delay else 0, note=note)

    def view(self, now):
        """As people see it: an expired claim as what the next sweep makes of it."""
        return self.swept() if self.expired(now) else self

    def row(self, now):
        """The 19 columns."""
        seen = self.view(now)
        running = seen.at == HELD
        values = seen._asdict()
        values.update(
            id=f"q{self.number}",
            status="claimed" if running else seen.at,
            claimed_at=iso(seen.since),
            done_at=iso(seen.done_at),
            tries=seen.tries + running,
            next_at=iso(seen.next_at),
            lease_until=iso(seen.until),
        )
        return [values[column] for column in HEADER]

    def line(self, now):
        """The row of the exported table."""
        return "\t".join(
            str(value) if column in NO_TEXTS else formula(plain(value)) for column, value in zip(HEADER, self.row(now))
        )


def iso(second):
    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(second)) if second else ""


def plain(text):
    return re.sub("[\x00-\x1f\x7f-\x9f\u2028\u2029]", " ", text)


def formula(text):
    return "'" + text if re.match(r"'*[=+\-@]", text) else text


def given(item):
    """What a refresh by this item brings along: the fields that it gives and that a refresh may change."""
    wanted = {}
    if "label" in item:
        wanted["person_label"] = item["label"] or item["person"]
    if "query" in item:
        wanted["query"] = QUERIES[item["query"]]
    wanted.update({key: item[key] for key in ("note", "priority") if key in item})
    return wanted


def new(number, item):
    """The task that an item adds."""
    source = SOURCES[item.get("source", "")]
    return Task(
        number=number,
        person_key=PEOPLE[item["person"]],
        person_label=item.get("label") or item["person"],
        kind=item.get("kind") or ("search" if source else "sweep"),
        source=source,
        query=QUERIES[item.get("query", "")],
        priority=item.get("priority", 0),
        note=item.get("note", ""),
        next_at=item.get("due", 0),
        dedupe_key=item.get("dedupe_key", ""),
    )


class Batch:
    """What adding a batch does to the tasks: `trails`, the states that each task goes through, the last one at the end.

    `told` is what the queue answered, if it did. Where the rules leave a choice (which of several matches) the answer
    is followed; where they do not, it must be the one answer.
    """

    def __init__(self, tasks, now, items, *, dedupe=False, retry_failed=False, told=None):
        self.tasks, self.now = dict(tasks), now
        self.dedupe, self.retry_failed = dedupe, retry_failed
        self.trails = {}
        self.new = []
        self.known = []  # (number, what the answer "known" says that its task has)
        self.answers = [self._one(item, told[i] if told else None) for i, item in enumerate(items)]
        for (number, right), answer in zip(self.answers, told or ()):
            unchanged = number in tasks and self.tasks[number] == tasks[number].view(now)
            assert answer == (f"q{number}", right) or (unchanged and answer[1] == "known"), f"{told} for {items}"

    def put(self, task):
        self.tasks[task.number] = task
        self.trails.setdefault(task.number, []).append(task)

    def _one(self, item, told):
        """(number, what became of it) for one item."""
        number = max(self.tasks, default=0) + 1
        wanted = new(number, item)
        found = [n for n, task in self.tasks.items() if self.dedupe and task.identity == wanted.identity]
        found = [n for n in found if self._counts(self.tasks[n].view(self.now))]
        opened = [n for n in found if self.tasks[n].view(self.now).at == OPEN]
        if not found:
            self.put(wanted)
            self.new.append(number)
            return number, "added"
        chosen = max(opened or found) if told is None else int(told[0][1:])
        assert chosen in (opened if opened and self.dedupe is True else found), f"{told} for {item}"
        task = self.tasks[chosen].view(self.now)
        after = task.refreshed(given(item)) if self.dedupe is True and task.at == OPEN else task
        if after == task:
            self.known.append((chosen, given(item) if self.dedupe is True and task.at == OPEN else {}))
            return chosen, "known"
        self.put(after)
        return chosen, "refreshed"

    def _counts(self, task):
        if self.dedupe == "any":
            return True
        return COUNTS[task.result] if task.at == DONE else task.at != FAILED or not self.retry_failed
