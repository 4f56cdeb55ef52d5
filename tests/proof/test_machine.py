"""The rules as a dictionary of values, and the shipping queue on a simulated disk, in lockstep.

Hypothesis draws what happens: commands, the clock, and for each command perhaps a crash at one of its calls, a power
cut on top of it, or an error. For each task the model remembers what it may be after a power cut: the last state that
was acknowledged as durable and those that came since. What was acknowledged must be so; what was cut short may have
happened or not; nothing else.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from itertools import cycle
from math import ceil
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from gwtq import DiskError, Queue, Refused, layout, names, produce, sweep
from gwtq.clock import Clock
from gwtq.jsonline import loads
from gwtq.store import parse
from tests.sim.disk import Crash, Direct, SimClock, SimDisk, bury
from tests.sim.promises import examined, new_world, sound, tasks_of

from .conftest import DEPTH
from .model import COUNTS, DONE, FAILED, HEADER, HELD, MAX_TRIES, OPEN, PEOPLE, QUERIES, SOURCES, Batch, iso, plain

START = 1_800_000_000


def weighted(**weights):
    """One of these names, each as often as its weight says."""
    return st.sampled_from([name for name, weight in weights.items() for _ in range(weight)])


CUTS = st.lists(st.integers(0, 3), max_size=7)  # what a power cut keeps, choice by choice, over and over


def fault(calls):
    """What may strike a command that makes about so many calls."""
    crash = {"crash_at": st.integers(1, calls), "torn": st.booleans()}
    error = {
        "fail_at": st.integers(0, calls),
        "number": st.sampled_from([errno.EIO, errno.ENOSPC, errno.EACCES, errno.EMFILE, errno.EINTR]),
        "short": st.booleans(),
    }
    kinds = {
        "none": st.none(),
        "crash": st.fixed_dictionaries(crash, optional={"cut": CUTS}),
        "error": st.fixed_dictionaries(error),
    }
    return weighted(none=4, crash=3, error=1).flatmap(kinds.get)


NOTES = st.sampled_from(["", "one", "two\tand a half", "=1+1", "\u2028'@"])
ITEM = st.fixed_dictionaries(
    {"person": st.sampled_from(list(PEOPLE))},
    optional={
        "label": st.sampled_from(["", "+Ana", "Bo"]),
        "kind": st.sampled_from(["search", "sweep"]),
        "source": st.sampled_from(list(SOURCES)),
        "query": st.sampled_from(list(QUERIES)),
        "priority": st.sampled_from([0, 9, -2]),
        "note": NOTES,
        "due": st.sampled_from([START - 60, START + 30, START + 4000]),
        "dedupe_key": st.sampled_from(["", "k"]),
    },
)
ITEMS = st.lists(ITEM, min_size=1, max_size=4)
LEASES = st.sampled_from([10, 10, 60, 3600])
WHICH = st.integers(0, 7)  # a claim, see `pick`

COMMANDS = {
    "add": {
        "items": ITEMS,
        "dedupe": st.sampled_from([True, False, True, "any"]),
        "retry_failed": st.booleans(),
        "fault": fault(36),
    },
    "import_a_row": {
        "gap": st.sampled_from([-1, 0, 1, 2, 9]),
        "item": ITEM,
        "state": st.sampled_from([OPEN, HELD, DONE, FAILED]),
        "fault": fault(36),
    },
    "doctor": {"fault": fault(30)},
    "claim": {
        "lane": st.sampled_from(["lane-1", "=Ö\t(night)"]),
        "kinds": st.sampled_from([(), (), (), ("search",), ("sweep", "search")]),
        "sources": st.sampled_from([(), (), (), ("Gaceta",)]),
        "lease": LEASES,
        "sweep": st.sampled_from([True, True, True, False]),
        "fault": fault(20),
    },
    "a_lane_dies": {},
    "renew": {"which": WHICH, "lease": LEASES, "fault": fault(8)},
    "settle": {
        "which": WHICH,
        "verb": st.sampled_from(["done", "fail", "release"]),
        "result": st.sampled_from(list(COUNTS)),
        "delay": st.sampled_from([0, 0, 45, 10_000_000]),
        "final": st.sampled_from([False, False, True]),
        "note": NOTES,
        "fault": fault(14),
    },
    "requeue_expired": {"fault": fault(14)},
    "dead_lanes_wake": {},
    "export_and_import_again": {},
    "what_people_ask": {},
    "power_cut": {"choices": CUTS},
    "time_goes_by": {"seconds": st.sampled_from([1, 9, 50, 61, 3600, 3600, 40 * 86400])},
    "the_clock_is_set_back": {"seconds": st.sampled_from([1, 30, 7200])},
}
NAMES = weighted(
    add=4, import_a_row=1, doctor=1, claim=8, a_lane_dies=3, renew=2, settle=6, requeue_expired=5, dead_lanes_wake=1,
    export_and_import_again=1, what_people_ask=1, power_cut=1, time_goes_by=5, the_clock_is_set_back=1,
)  # fmt: skip
CALLS = NAMES.flatmap(lambda name: st.tuples(st.just(name), st.fixed_dictionaries(COMMANDS[name])))


class Seen(NamedTuple):
    """A task as the queue shows it: its row, the token of its claim in claimed/, the state directory, and the path."""

    row: list
    token: str
    state: str
    path: str


class Ran(NamedTuple):
    """How a command ended: ok, refused, failed or crashed. `value`: what it returned or raised; of a crash, what the
    power cut on top of it keeps, or None. `struck`: did the fault that was drawn come to pass? `calls`: of the disk."""

    how: str
    value: object
    struck: bool
    calls: list


class Lockstep(RuleBasedStateMachine):
    """A queue and its model."""

    def __init__(self):
        super().__init__()
        self.scratch = tempfile.mkdtemp()
        self.world = new_world()
        self.world.now = float(START)
        self.processes = 0
        self.versions = {}  # number -> what the task may be after a power cut, the last one what it is
        self.batches = []  # sets of numbers that are there all or none
        self.known = []  # (number, token) of every claim that was made

    @initialize(items=ITEMS)
    def there_are_tasks(self, items):
        self.add(items, dedupe=False, retry_failed=False, fault=None)

    @rule(call=CALLS)
    def happens(self, call):
        """One of the methods below. (As rules of their own, most of what Hypothesis draws would be about no task.)"""
        name, arguments = call
        getattr(self, name)(**arguments)

    def teardown(self):
        shutil.rmtree(self.scratch)

    # --- one process

    def run(self, program, fault=None):
        """Run a command in a process of its own."""
        fault = dict(fault or {})
        cut = fault.pop("cut", None)
        self.processes += 1
        gate = Direct(self.world, "process", **fault)
        try:
            clock = SimClock(gate, self.processes)
            ran = "ok", program(Queue("", disk=SimDisk(gate), clock=clock, max_tries=MAX_TRIES))
        except Crash:
            ran = "crashed", cut
        except Refused as error:
            ran = "refused", error
        except (OSError, DiskError) as error:
            ran = "failed", error
        assert ran[0] != "failed" or fault.get("short" if isinstance(ran[1], DiskError) else "number"), ran
        assert ran[0] == "crashed" or not (self.world.handles or self.world.locks), "a descriptor or the lock is left"
        bury(self.world, "process")
        return Ran(*ran, gate.dead or len(gate.calls) > fault.get("fail_at", 1000), gate.calls)

    def ask(self, program):
        """What a command answers that nothing strikes."""
        ran = self.run(program)
        assert ran.how == "ok", ran
        return ran.value

    # --- what is there, and what may be

    def now(self, number):
        return self.versions.get(number, [None])[-1]

    def tasks(self):
        return {number: versions[-1] for number, versions in self.versions.items()}

    def look(self):
        """What the queue shows of every task."""
        found = self.ask(lambda queue: list(queue.tasks()))
        assert [task.problem for task in found if task.problem] == []
        rows = {int(task.id[1:]): task.row() for task in found}
        places = {
            name.number: (name.token if state == names.CLAIMED else "", state, path)
            for path, state, name, _ in tasks_of(self.world)
        }
        assert set(rows) == set(places)
        return {number: Seen(row, *places[number]) for number, row in rows.items()}

    def fits(self, task, seen):
        """Is this what the queue shows?"""
        if task is None or seen is None:
            return task is None and seen is None
        return task.row(self.world.now) == seen.row and (task.token if task.at == HELD else "") == seen.token

    def follow(self, possible, ran):
        """Compare with the queue, and go on from what it shows.

        `possible(number, task, seen)`: what may have become of a task, as (states that it went through, durable or
        not). A command that was struck by a fault and not acknowledged may have done nothing, too.
        """
        seen = self.look()
        sure = ran.how == "ok"
        for number in sorted({*self.versions, *seen}):
            versions = self.versions.setdefault(number, [None])
            choices = list(possible(number, versions[-1], seen.get(number)))
            choices += [] if sure and choices else [((), False)]
            fit = [
                (states, durable)
                for states, durable in choices
                if self.fits([*versions, *states][-1], seen.get(number))
            ]
            assert fit, (
                f"q{number} is {seen.get(number)}, and may be {[[versions[-1], *states] for states, _ in choices]}"
            )
            states, durable = fit[0]
            self.versions[number] = [*states] if durable and sure else [*versions, *states]
        self._drop_absent()
        if ran.how == "crashed" and ran.value is not None:
            self.power_cut(ran.value)

    def _drop_absent(self):
        for number in [n for n, versions in self.versions.items() if versions[-1] is None]:
            del self.versions[number]
        for batch in self.batches:
            there = batch & set(self.versions)
            assert there in (set(), batch), f"half a batch: {there} of {batch}"
        self.batches = [batch for batch in self.batches if batch & set(self.versions)]

    # --- power and time

    def power_cut(self, choices):
        """What was acknowledged stays; what was not synced may be gone."""
        rest = cycle(choices or [0])
        self.world = self.world.cut(lambda count: next(rest) % count)
        seen = self.look()
        for number, versions in self.versions.items():
            fit = [task for task in versions if self.fits(task, seen.get(number))]
            assert fit, f"q{number} is {seen.get(number)} after a power cut, and may be one of {versions}"
            self.versions[number] = fit[-1:]
        assert set(seen) <= set(self.versions)
        self._drop_absent()

    def time_goes_by(self, seconds):
        self.world.now += seconds

    def the_clock_is_set_back(self, seconds):
        self.world.now -= seconds

    # --- producers

    def owed(self):
        """The refreshes of a batch that was committed and not finished: the next producer applies them."""
        tree = self.world.tree()
        batch = tree[layout.SEQ].decode().split("\n")[1]
        lines = tree.get(f"{layout.TMP}/{batch}/{layout.REFRESHES}", b"").decode().split("\n")
        return [loads(line) for line in lines if batch and line]

    def produce(self, program, fault, plan):
        """A producer's command: `plan(tasks, told)` says what it does, once what others left is finished."""
        before, owed = self.look(), self.owed()
        ran = self.run(program, fault)
        finished = Batch(self.tasks(), self.world.now, [])
        for wanted in owed:
            number = int(wanted.pop("id")[1:])
            if before[number].state == names.PENDING and finished.tasks[number].refreshed(wanted) != self.now(number):
                finished.put(finished.tasks[number].refreshed(wanted))
        batch = plan(finished.tasks, ran.value if ran.how == "ok" else None)
        if batch.new:
            self.batches.append(set(batch.new))

        def possible(number, task, seen):
            trail = [*finished.trails.get(number, []), *batch.trails.get(number, [])]
            if trail and ran.how == "ok":
                yield trail[-1:], True
                return
            yield (), False
            for state in trail:
                yield [state], False
            if task and task.expired(self.world.now):  # a match is swept first
                yield [task.swept()], True

        self.follow(possible, ran)
        for number, wanted in batch.known if ran.how == "ok" else ():
            self.versions[number] = [v for v in self.versions[number] if v and v.refreshed(wanted) == v] or [None]

    def add(self, items, dedupe, retry_failed, fault):
        values = [{**{k: v for k, v in item.items() if k != "due"}, "next_at": iso(item.get("due"))} for item in items]
        now = self.world.now
        self.produce(
            lambda queue: queue.add_many(values, dedupe=dedupe, retry_failed=retry_failed),
            fault,
            lambda tasks, told: Batch(tasks, now, items, dedupe=dedupe, retry_failed=retry_failed, told=told),
        )

    def import_a_row(self, gap, item, state, fault):
        """A task with an id of its own, in any state; one that is here stays as it is."""
        number = max(1, max(self.versions, default=0) + gap)
        row = new_row(number, item, state, int(self.world.now))
        path = os.path.join(self.scratch, "table.tsv")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\t".join(HEADER) + "\n" + row.line(self.world.now) + "\n")

        def plan(tasks, told):
            batch = Batch(tasks, self.world.now, [])
            assert told in (None, (int(number not in tasks), int(number in tasks), 0))
            if number not in tasks:
                batch.put(row)
            return batch

        self.produce(lambda queue: queue.import_tsv(path), fault, plan)
        if self.now(number) == row and state == HELD:
            self.known.append((number, row.token))

    def doctor(self, fault):
        """--fix changes no task, but for what a dead producer owed."""
        self.produce(
            lambda queue: list(queue.examine(fix=True)), fault, lambda tasks, told: Batch(tasks, self.world.now, [])
        )

    # --- lanes

    def claim(self, lane, kinds, sources, lease, sweep, fault):
        before, begun = self.look(), self.world.now
        ran = self.run(lambda queue: queue.claim(lane, kinds, sources, lease, sweep=sweep), fault)
        got = int(ran.value.id[1:]) if ran.how == "ok" and ran.value else None
        taken = []
        tried = {name.number: name for name in claims_among(ran.calls)}

        def possible(number, task, seen):
            late = task and task.expired(self.world.now)
            states = [task.swept()] if late and sweep else []
            base = [task, *states][-1]
            if number in tried and not (seen and seen.token):  # put back; neither rename is synced
                since, until = (names.seconds(stamp) for stamp in (tried[number].since, tried[number].until))
                yield [*states, base.claimed(lane, tried[number].token, since, until), base], False
            if seen and seen.token and seen.token != (task and task.token) and number in (got, got or number):
                assert sweep or not late
                held = self.held(base, seen.row, lane, begun, lease)
                assert self.eligible(held, before[number], kinds, sources), f"q{number} was not to be had"
                taken.append(held)
                yield [*states, held], False
            must_sweep = late and sweep and task.expired(begun) and not ran.struck
            yield states, bool(states) and not ran.struck
            if not must_sweep:
                yield (), False

        wanted = self.must_be_had(before, kinds, sources, sweep)
        self.follow(possible, ran)
        assert len(taken) == bool(got) if ran.how == "ok" else len(taken) <= 1
        self.known += [(task.number, task.token) for task in taken]
        if ran.how == "ok" and not ran.struck:
            self.in_order(ran.value, wanted, before)

    def held(self, base, row, lane, begun, lease):
        """The task as it is shown, claimed; the stamps must be of the time of the call."""
        seen = dict(zip(HEADER, row))
        times = range(int(begun), int(self.world.now) + 1)
        since = [t for t in times if iso(t) == seen["claimed_at"]]
        until = [
            t for t in range(ceil(begun + lease), ceil(self.world.now + lease) + 1) if iso(t) == seen["lease_until"]
        ]
        assert since, f"claimed at {seen['claimed_at']}"
        assert until, f"until {seen['lease_until']}"
        return base.claimed(lane, seen["token"], since[0], until[0])

    def eligible(self, task, seen, kinds, sources):
        """Was this task, held now, to be had?"""
        return not self.waits(task, seen) and self.wished(task, kinds, sources)

    def waits(self, task, seen):
        """Is it not due? What became ready stays so, even if the clock is set back."""
        waiting = seen.path.startswith(layout.WAITING) or layout.staged_name(layout.WAITING) in seen.path
        return waiting and task.next_at > self.world.now

    def wished(self, task, kinds, sources):
        return (not kinds or task.kind in kinds) and (not sources or task.source in [SOURCES[s] for s in sources])

    def must_be_had(self, seen, kinds, sources, sweep):
        """The tasks that are due now, as they are handed out."""
        views = [
            task.view(self.world.now)
            for number, task in self.tasks().items()
            if sweep or seen[number].state not in (names.CLAIMED, names.RECOVERING)
        ]
        return [task for task in views if task.at == OPEN and self.eligible(task, seen[task.number], kinds, sources)]

    def in_order(self, claim, wanted, before):
        """Nothing better was ready; "nothing due" is true. An entry of recovering/ comes when its sweeper is done."""
        if claim is None:
            assert wanted == []
            return
        task = self.now(int(claim.id[1:]))
        assert claim.task.row() == task.row(self.world.now)
        better = [t for t in wanted if t.rank < task.rank and before[t.number].state != names.RECOVERING]
        assert better == [], f"{claim.id} was handed out before {better}"

    def pick(self, which):
        """A claim that runs, if there is one, for the lower half of the numbers; else any that was ever made."""
        alive = [(number, task.token) for number, task in self.tasks().items() if task.at == HELD]
        claims = alive if alive and which < 4 else self.known
        return claims[-1 - which % len(claims)] if claims else (1, "nobodys")

    def renew(self, which, lease, fault):
        number, token = self.pick(which)
        task, now = self.now(number), self.world.now
        ran = self.run(lambda queue: queue.renew(f"q{number}", token, lease), fault)
        alive = bool(task and task.holds(token))
        after = task.renewed(ceil(now + lease)) if alive else None
        assert ran.how in ("failed", "crashed", "ok" if alive else "refused")
        assert ran.how != "ok" or ran.value == iso(after.until)
        self.follow(lambda n, *_: [([after], False)] if alive and n == number and after != task else [], ran)

    def settle(self, which, verb, result, delay, final, note, fault):
        number, token = self.pick(which)
        task, now = self.now(number), self.world.now
        alive = bool(task and task.holds(token))
        if verb == "done":
            end = (token, verb, result, False)
            ran = self.run(lambda queue: queue.done(f"q{number}", token, result, "a file", note), fault)
            after = task.done(now, result, "a file", note) if alive else None
        elif verb == "fail":
            end = (token, verb, "", final)
            ran = self.run(lambda queue: queue.fail(f"q{number}", token, delay, final=final, note=note), fault)
            after = task.failed(now, delay, final, note) if alive else None
        else:
            end = (token, verb, "", False)
            ran = self.run(lambda queue: queue.release(f"q{number}", token, delay, note=note), fault)
            after = task.released(now, delay, note) if alive else None
        again = bool(task and end in task.ended)
        assert ran.how in ("failed", "crashed", "ok" if alive or again else "refused"), (ran, task, end)
        if ran.how == "ok":
            outcome = "waiting" if alive and after.next_at else "pending" if alive and after.at == OPEN else None
            assert (ran.value.already, ran.value.outcome) == (not alive, outcome or (after.at if alive else verb))
        state = after if alive else task  # "already" makes it durable, if it was not
        self.follow(lambda n, *_: [([state], True)] if n == number and state else [], ran)

    def requeue_expired(self, fault):
        begun, before = self.world.now, self.look()
        tasks = self.tasks()
        ran = self.run(lambda queue: queue.requeue_expired(), fault)
        rows = {int(id[1:]): (where, lane) for id, where, lane in ran.value.rows} if ran.how == "ok" else {}

        def possible(number, task, seen):
            if task and task.expired(begun):
                yield [task.swept()], number in rows or not ran.struck
            if number in rows and before[number].state == names.RECOVERING:
                yield [task], True
            if not (task and task.expired(begun)) or ran.struck:
                yield (), False

        self.follow(possible, ran)
        if ran.how == "ok":
            late = {n for n, task in tasks.items() if task.expired(begun)}
            returning = {n: seen.path for n, seen in before.items() if seen.state == names.RECOVERING}
            left = {n for n, path in returning.items() if not self.being_returned(path, begun)}
            assert set(rows) <= late | set(returning)
            assert ran.struck or late | left <= set(rows)
            assert {n: "pending" if self.now(n).at == OPEN else "failed" for n in rows} == {
                n: where for n, (where, _) in rows.items()
            }
            assert {n: tasks[n].lane for n in late & set(rows)} == {n: rows[n][1] for n in late & set(rows)}

    def a_lane_dies(self):
        """It claims, and is not heard of again before its lease has run out."""
        self.claim("doomed", (), (), 10, sweep=True, fault=None)
        self.time_goes_by(11)

    def being_returned(self, path, now):
        """Is a sweeper at it, as far as its short lease tells? None ends later than two seconds from now."""
        until = names.seconds(names.parse_recovering(layout.base(path)).sweeper_until)
        return int(now) < until <= ceil(now + sweep.RECOVERING_SECONDS)

    def dead_lanes_wake(self):
        """No token but that of the claim that runs does anything."""
        before = self.world.tree()
        for number, token in self.known:
            task = self.now(number)
            if not (task and task.holds(token)):
                for verb, *rest in (("renew", 10**6), ("done", "none", "late"), ("fail", 1), ("release", 1)):
                    arguments = verb, f"q{number}", token, *rest
                    ran = self.run(lambda queue, a=arguments: getattr(queue, a[0])(*a[1:]))
                    end = (token, verb, "none" if verb == "done" else "", False)
                    assert ran.how == ("ok" if task and end in task.ended else "refused"), (arguments, ran)
        assert self.world.tree() == before

    # --- people

    def export_and_import_again(self):
        """The table is that of the model, and another queue that reads it has the same."""
        lines = self.ask(lambda queue: list(queue.table()))
        now = self.world.now
        assert lines == ["\t".join(HEADER), *(task.line(now) for _, task in sorted(self.tasks().items()))]
        path = os.path.join(self.scratch, "export.tsv")
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write("".join(line + "\n" for line in lines))
        other = Lockstep()
        other.world.now = now
        counts = other.ask(lambda queue: queue.import_tsv(path))
        assert counts == (len(self.versions), 0, 0)
        assert other.ask(lambda queue: list(queue.table())) == lines
        assert other.ask(lambda queue: queue.import_tsv(path)) == (0, len(self.versions), 0)
        other.teardown()

    def what_people_ask(self):
        """stats, due, held and find tell what the model does."""
        now = self.world.now
        views = {number: task.view(now) for number, task in self.tasks().items()}
        seen = self.look()
        returning = [n for n, s in seen.items() if s.state == names.RECOVERING]
        stats = self.ask(lambda queue: queue.stats().to_json())
        states = [view.at for view in views.values()]
        assert [stats[key] for key in ("open", "claimed", "done", "failed")] == [
            states.count(at) for at in (OPEN, HELD, DONE, FAILED)
        ]
        opened = [view for view in views.values() if view.at == OPEN]
        waiting = [view.next_at for view in opened if self.waits(view, seen[view.number])]
        assert (stats["waiting"], stats["next_due"]) == (len(waiting), iso(min(waiting, default=0)))
        assert stats["expired"] == len(returning) + sum(task.expired(now) for task in self.tasks().values())
        due = [view for view in opened if not self.waits(view, seen[view.number])]
        assert self.ask(lambda queue: [task.id for task in queue.due()]) == [
            f"q{view.number}" for view in sorted(due, key=lambda view: view.rank)
        ]
        held = {n: iso(view.until) for n, view in views.items() if view.at == HELD}
        found = self.ask(lambda queue: [(task.id, task.lease_until) for task in queue.held()])
        assert dict(found) == {f"q{n}": until for n, until in held.items()}
        assert [until for _, until in found] == sorted(held.values())
        for number, task in self.tasks().items():
            assert self.ask(lambda queue, n=number: queue.find(f"q{n}").row()) == task.row(now)
            path = self.ask(lambda queue, n=number: queue.find_claim(f"q{n}"))
            assert path == (f"{SimDisk.root}/{seen[number].path}" if task.at == HELD or number in returning else None)

    # --- always

    @invariant()
    def the_queue_is_sound(self):
        """Every name folds, every id has one file; and once a producer went over it, doctor finds nothing."""
        assert sound(self.world) is None
        world = self.world.copy()
        world.now = START + 10**8  # so that no claim seems to be of the future
        assert examined(mended(world)) is None


def claims_among(calls):
    """The claims that a command made, by its calls of the disk."""
    renamed = [call[1:3] for call in calls if call[0] == "rename"]
    made = [parse(names.CLAIMED, text) for source, text in renamed if source.startswith(names.PENDING)]
    return [name for name in made if name]


def mended(world):
    """The world after a producer that has nothing to do: it finishes or removes what dead ones left."""
    gate = Direct(world, "producer")
    queue = Queue("", disk=SimDisk(gate), clock=SimClock(gate, 1000))
    list(queue.examine(fix=True))
    return world


def new_row(number, item, state, now):
    """A row of a table in the seed's format."""
    task = Batch({}, now, [item]).tasks[1]._replace(number=number, person_label="Eve", note=plain(item.get("note", "")))
    if state == OPEN:
        return task
    claimed = task.claimed("old lane", f"token {number}.{now}", now - 5, now + 60)
    return {HELD: claimed, DONE: claimed.done(now, "hit"), FAILED: claimed.failed(now, 0, final=True)}[state]._replace(
        ended=()
    )


def test_the_queue_does_what_the_rules_say_through_crashes_power_cuts_and_errors():
    run_state_machine_as_test(
        Lockstep,
        settings=settings(
            max_examples=55 * DEPTH,
            stateful_step_count=40,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        ),
    )


# --- what it found, by name


class Steady(Clock):
    """A clock that the test sets."""

    time = float(START)

    def now(self):
        return self.time


@pytest.fixture
def clock():
    return Steady()


@pytest.fixture
def queue(tmp_path, clock):
    return Queue.create(str(tmp_path / "cola"), clock=clock, durable=False)


@pytest.fixture
def died_importing(queue, clock, tmp_path, monkeypatch):
    """The token of a claim of q1 that was imported by a producer which died after its commit, before it moved it."""
    claim = new_row(1, {"person": "Ana"}, HELD, START)
    path = tmp_path / "table.tsv"
    path.write_text("\t".join(HEADER) + "\n" + claim.line(START) + "\n", encoding="utf-8")

    def dies(producer, batch):
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(produce.Producer, "_finish", dies)
        with pytest.raises(Crash):
            queue.import_tsv(str(path))
    assert [path for path in (tmp_path / "cola" / "tmp").rglob("q1.*") if path.is_file()]
    return claim.token


@pytest.mark.parametrize(("verb", "arguments"), [("renew", ()), ("done", ("hit",)), ("fail", ()), ("release", ())])
def test_a_claim_that_was_imported_by_a_producer_that_died_is_renewed_and_settled(
    queue, died_importing, verb, arguments
):
    getattr(queue, verb)("q1", died_importing, *arguments)
    assert queue.find("q1").state == {"renew": "claimed", "done": "done"}.get(verb, "pending")


def test_a_claim_that_was_imported_by_a_producer_that_died_is_shown_as_held(queue, died_importing):
    assert [task.id for task in queue.held()] == ["q1"]
    assert queue.next_claim_expiry().total_seconds() == 60


def test_an_expired_claim_that_was_imported_by_a_producer_that_died_is_due_and_taken_back(queue, died_importing, clock):
    clock.time += 61
    assert [task.id for task in queue.due()] == ["q1"]
    assert queue.requeue_expired().rows == [("q1", "pending", "old lane")]


@pytest.mark.parametrize("back", [0, 7200])
def test_what_fell_due_stays_so_when_the_clock_is_set_back_for_claims_and_people_alike(queue, clock, back):
    queue.add("Ana", next_at=iso(START - 60))
    queue.add("Bo", next_at=iso(START + 60))
    clock.time += 60
    queue.requeue_expired()  # promotes
    clock.time -= back
    assert [task.id for task in queue.due()] == ["q1", "q2"]
    assert (queue.stats().open, queue.stats().waiting) == (2, 0)
    assert [queue.claim("one").id for _ in range(2)] == ["q1", "q2"]


@pytest.mark.parametrize("others", [[], [{"person": "Bo"}]], ids=["one refresh", "with a new task"])
def test_of_several_items_of_a_batch_that_match_one_task_the_last_counts(queue, others):
    queue.add("Ana", note="a")
    notes = ["b", "a", "c", "c"]
    told = queue.add_many([{"person": "Ana", "note": note} for note in notes] + others, dedupe=True)
    assert [what for id, what in told if id == "q1"] == ["refreshed", "refreshed", "refreshed", "known"]
    assert queue.find("q1").note == "c"


def test_of_several_items_of_a_batch_that_add_one_task_the_last_counts(queue):
    told = queue.add_many([{"person": "Ana", "note": note} for note in ("a", "b", "a")], dedupe=True)
    assert told == [("q1", "added"), ("q1", "refreshed"), ("q1", "refreshed")]
    assert queue.find("q1").note == "a"


@pytest.mark.parametrize("others", [[], [{"person": "Bo"}]], ids=["one refresh", "with a new task"])
def test_a_task_that_a_lane_takes_before_its_refresh_is_known(queue, others, monkeypatch):
    def late(store, id, wanted):
        queue.claim("lane-1")
        return refresh(store, id, wanted)

    queue.add("Ana", note="a")
    refresh = produce.refresh
    monkeypatch.setattr(produce, "refresh", late)
    told = queue.add_many([{"person": "Ana", "note": "b"}, *others], dedupe=True)
    assert told == [("q1", "known"), *[("q2", "added")] * len(others)]
    assert (queue.find("q1").note, queue.find("q1").status) == ("a", "claimed")
