"""What is proved: every operation, each with a small queue to run it on.

An operation is a few *steps*, each run by a process of its own through the front door (`gwtq.queue.Queue`) and each
acknowledged before the next begins. Most have one. The set-up is run once, is durable, and is copied for every run.
"""

from __future__ import annotations

import tempfile
from functools import lru_cache

from gwtq import layout, names, produce, tsv
from gwtq.queue import Queue
from gwtq.task import COLUMNS
from tests.sim.disk import Crash, Direct, SimClock, SimDisk
from tests.sim.promises import new_world, tasks_of
from tests.sim.world import World

LEASE = 60
EXPIRE = 2 * LEASE


class Step:
    """One acknowledged command. `lossy`: a power cut may take it back."""

    def __init__(self, command, *, lossy=False, **options):
        self.command = command
        self.lossy = lossy
        self.options = options

    def run(self, gate, number, **options):
        return self.command(opened(gate, number, **self.options, **options))


class Init(Step):
    """The one command that needs no queue."""

    def __init__(self):
        super().__init__(None)

    def run(self, gate, number, **options):
        disk, clock = SimDisk(gate), SimClock(gate, number)
        return Queue.create("", ["sweep", "search"], disk=disk, clock=clock, **options).settings.kinds


class Operation:
    """`world`: the queue before. `again(outcome)`: is this how the same command may come out when it is run again?
    `kept(outcome, world)`: is what it answered so?"""

    def __init__(self, world, *steps, again=None, kept=None, more=False, wide=False, per_task=False, faulty=False):
        self.world = world
        self.steps = steps
        self.again = again
        self.kept = kept
        self.more = more  # the command run a second time does more: it adds another task, or takes the next
        self.wide = wide  # so many worlds that after a power cut the command is tried on what a producer makes of them
        self.per_task = per_task  # it mends one thing after the other, and vouches for what it mended itself only
        self.faulty = (
            faulty  # the set-up breaks the queue's own rules, or there is no queue: the command itself mends it
        )


def opened(gate, number, **options):
    return Queue("", disk=SimDisk(gate), clock=SimClock(gate, number), **options)


def by(world, number, command, **options):
    """Run one command alone; a number for each process, so that no two ever draw the same."""
    return command(opened(Direct(world, f"process-{number}"), number, **options))


# --- set-ups


def queue_of(*tasks):
    """A durable queue of these tasks."""
    world = new_world()
    for number, fields in enumerate(tasks, 100):
        by(world, number, lambda q, fields=fields: q.add_many([{"person": "Ana", **fields}]))
    world.flush_all()
    return world


def holding(world, lease=LEASE, number=150):
    """Claim the next task, durably; (id, token)."""
    claim = by(world, number, lambda q: q.claim("old", lease=lease))
    world.flush_all()
    return claim.id, claim.token


def stopped(world, number, command, before, *, durable=True):
    """Run a command by a process that dies before its first call that `before` says yes to; all is durable then."""
    gate = Direct(world.copy(), f"process-{number}")
    command(opened(gate, number))
    at = next(i for i, call in enumerate(gate.calls) if before(*call))
    died = False
    try:
        command(opened(Direct(world, f"process-{number}", crash_at=at), number))
    except Crash:
        died = True
    assert died
    if durable:
        world.flush_all()


def after_commit(name, *args):
    """The first move of a staged task to its place."""
    return name == "rename" and args[0].startswith(layout.TMP + "/q")


def hand(world, name, *args):
    """A system call of somebody who knows no protocol."""
    return world.call("hand", name, *args)


def rewrite(world, path, data):
    hand(world, "remove", path)
    fd = hand(world, "make", path)
    hand(world, "append", fd, data)
    hand(world, "close", fd)


def row(**values):
    return "\t".join(str(values.get(column, "")) for column in COLUMNS)


def iso(world, seconds):
    return names.iso(names.stamp(int(world.now) + seconds))


@lru_cache(None)
def table(*statuses):
    """A table of tasks of these statuses, from q2 on, read."""
    world = World()
    also = {
        "claimed": {"lane": "l", "token": "t", "claimed_at": iso(world, -9), "lease_until": iso(world, LEASE)},
        "done": {"result": "hit", "done_at": iso(world, -5)},
        "waiting": {"status": "open", "next_at": iso(world, LEASE)},
    }
    common = {"kind": "sweep", "priority": 3, "tries": 1}
    rows = [
        row(**{"id": f"q{number}", "person_key": person, "status": status, **common, **also.get(status, {})})
        for number, (person, status) in enumerate(zip(("ida", "fay", "flo", "gus"), statuses), 2)
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as file:
        file.write("\n".join([tsv.HEADER, *rows, ""]))
        file.flush()
        return tsv.parse(file.name, new_settings())


@lru_cache(None)
def new_settings():
    return by(new_world(), 1, lambda q: q.settings)


# --- commands


def adds(*tasks, **options):
    return lambda q: tuple(q.add_many([{"person": "Ana", **fields} for fields in tasks], **options))


def in_bulk(command):
    """The same, as if it were a batch of very many: one sync of the whole file system."""

    def run(q):
        few, produce.BULK = produce.BULK, 1
        try:
            return command(q)
        finally:
            produce.BULK = few

    return run


def claims(q):
    claim = q.claim("new", lease=LEASE)
    return claim and (claim.id, claim.token)


def settles(verb, id, token, *args, **options):
    def run(q):
        settled = getattr(q, verb)(id, token, *args, **options)
        return "already" if settled.already else settled.outcome

    return run


def claims_and(verb, *args, **options):
    """The second command of a lane: it ends the claim that is in the queue."""

    def run(q):
        (held,) = q.held()
        return settles(verb, held.id, held.token, *args, **options)(q)

    return run


def renews(q):
    """The second command of a lane, too."""
    (held,) = q.held()
    return q.renew(held.id, held.token, 2 * LEASE)


def sweeps(q):
    return tuple(q.requeue_expired().rows)


def imports(*statuses):
    return lambda q: q.import_rows(table(*statuses))


def mends(q):
    return tuple((layout.base(finding.path), finding.fixed) for finding in q.examine(fix=True))


def reads(q):
    return tuple((task.id, task.problem or task.status) for task in q.tasks())


# --- is what was answered so?


def held(out, world):
    """The claim: nothing was due, or the task is held under this token."""
    return out is None or any(state == names.CLAIMED and name.token == out[1] for _, state, name, _ in tasks_of(world))


def moved(rows, world):
    """The sweep: each task is where it was said to be moved to."""
    states = {name.id: state for _, state, name, _ in tasks_of(world)}
    return all(states[id] == state for id, state, _ in rows)


def readable(rows, world):
    """The table: it has every task, and of one that could not be read it says so."""
    ids = {name.id for _, _, name, _ in tasks_of(world)}
    return {id for id, _ in rows} == ids and all(
        what in ("open", "claimed", "done", "failed") or "cannot be read" in what for _, what in rows
    )


# --- the operations


def init():
    return Operation(World(), Init(), again=lambda out: out == ("sweep", "search"), faulty=True)


def add():
    return Operation(queue_of({}), Step(adds({"priority": 5})), again=added, more=True)


def add_waiting():
    world = queue_of({})
    return Operation(world, Step(adds({"next_at": iso(world, LEASE)})), again=added, more=True)


def added(out):
    return out in ((("q2", "added"),), (("q3", "added"),))


# The keys of Ida and Fay lie in one file, that of Flo in another.
BATCH = ({"person": "Ida"}, {"person": "Fay", "priority": 5}, {"person": "Flo", "source": "x"})


def known(count):
    return lambda out: len(out) == count and {what for _, what in out} in ({"added"}, {"known"})


def batch():
    return Operation(queue_of({}), Step(adds(*BATCH, dedupe=True)), again=known(3), wide=True)


def batch_in_bulk():
    return Operation(queue_of({}), Step(in_bulk(adds(*BATCH[:2], dedupe=True))), again=known(2), wide=True)


MIXED = ({"note": "n"}, {"person": "Bo"}, {"person": "Cy", "priority": 5}, {"person": "Di"})


def batch_that_refreshes():
    """Two new tasks, and two that are open get a note and a priority."""
    world = queue_of({}, {"person": "Cy"})
    return Operation(
        world, Step(adds(*MIXED, dedupe=True)), again=lambda out: [id for id, _ in out][::2] == ["q1", "q2"]
    )


def batch_of_refreshes():
    world = queue_of({}, {"person": "Cy"})
    return Operation(world, Step(adds({"note": "n"}, {"person": "Cy", "note": "m"}, dedupe=True)), again=refreshed)


def refreshed(out):
    return {what for _, what in out} <= {"refreshed", "known"}


def refresh():
    return Operation(queue_of({}), Step(adds({"note": "n"}, dedupe=True)), again=refreshed)


def refresh_of_the_priority():
    return Operation(queue_of({}), Step(adds({"priority": 5}, dedupe=True)), again=refreshed)


def refresh_of_an_expired_claim():
    """It is taken back first."""
    world = queue_of({})
    holding(world)
    world.now += EXPIRE
    return Operation(world, Step(adds({"note": "n"}, dedupe=True)), again=refreshed)


def add_of_a_known_task():
    world = queue_of({})
    id, token = holding(world)
    by(world, 160, settles("done", id, token, "hit"))
    world.flush_all()
    return Operation(world, Step(adds({}, dedupe=True)), again=lambda out: out == (("q1", "known"),))


def another(out):
    """A claim after one that failed or died: nothing may be left but what that one holds until its lease runs out."""
    return out is None or out[0] in ("q1", "q2", "q3", "q4")


def claim():
    return Operation(queue_of({}, {}), Step(claims, lossy=True), again=another, kept=held, more=True)


def claim_that_helps():
    """On the way it takes back an expired claim, finishes a dead producer's batch and promotes what fell due."""
    world = queue_of({})
    holding(world)
    by(world, 170, adds({"next_at": iso(world, LEASE)}))
    stopped(world, 171, adds({"person": "Bo", "priority": -1}, {"person": "Cy"}), after_commit)
    world.now += EXPIRE
    return Operation(world, Step(claims, lossy=True), again=another, kept=held, more=True)


def claim_of_what_expired():
    """There is nothing but the claim of a dead lane."""
    world = queue_of({})
    holding(world)
    world.now += EXPIRE
    return Operation(world, Step(claims, lossy=True), again=another, kept=held, more=True)


def renew():
    world = queue_of({})
    id, token = holding(world)
    return Operation(
        world, Step(lambda q: q.renew(id, token, 2 * LEASE), lossy=True), again=lambda out: out >= iso(world, 2 * LEASE)
    )


def settle(verb, *args, outcome, max_tries=None, **options):
    world = queue_of({})
    id, token = holding(world)
    step = Step(settles(verb, id, token, *args, **options), max_tries=max_tries)
    return Operation(world, step, again=lambda out: out in (outcome, "already"))


def sweep(max_tries=None):
    """Of two claims of dead lanes one was tried before, so with two tries it ends in failed."""
    world = queue_of({}, {})
    id, token = holding(world)
    by(world, 180, settles("fail", id, token, 0))
    holding(world, number=181)
    holding(world, number=182)
    world.now += EXPIRE
    return Operation(
        world, Step(sweeps, max_tries=max_tries), again=lambda out: len(out) <= 2, kept=moved, per_task=True
    )


def promotion():
    world = new_world()
    by(world, 100, adds({"next_at": iso(world, LEASE)}, {"person": "Bo", "next_at": iso(world, LEASE)}))
    world.flush_all()
    world.now += EXPIRE
    return Operation(world, Step(sweeps, lossy=True), again=lambda out: out == (), per_task=True)


def import_(*statuses):
    count = len(statuses)
    return Operation(queue_of({}), Step(imports(*statuses)), again=lambda out: sum(out) == count, wide=True)


def doctor():
    """A queue with a fault of every kind that --fix cures."""
    world = queue_of({}, {"person": "Bo"}, {"person": "Cy"})
    hand(world, "remove_dir", names.RECOVERING)
    (path,) = [path for path, _, name, _ in tasks_of(world) if name.id == "q1"]
    for directory in ("pending/7", "pending/7/0000000000.search.x", "pending/7/0000000000.search.x/0000000000"):
        hand(world, "make_dir", directory)
    hand(world, "rename", path, f"pending/7/0000000000.search.x/0000000000/{layout.base(path)}")
    keyed = next(
        path for path, data in world.tree().items() if path.startswith(layout.KEYS) and b" q2" in (data or b"")
    )
    rewrite(world, keyed, b"\n" + b"0" * 32 + b" q77\n")
    stopped(world, 190, adds({"person": "Di"}, {"person": "Ed"}), lambda name, *args: name == "rename")
    rewrite(world, layout.SEQ, b"1-2\n")
    world.flush_all()
    return Operation(world, Step(mends), again=lambda out: True, per_task=True, faulty=True)


def doctor_of_a_seq_that_does_not_read():
    world = queue_of({}, {"person": "Bo"})
    rewrite(world, layout.SEQ, b"1-x\n")
    world.flush_all()
    return Operation(world, Step(mends), again=lambda out: True, per_task=True, faulty=True)


def add_after_seq_was_lost():
    world = queue_of({}, {"person": "Bo"})
    hand(world, "remove", layout.SEQ)
    world.flush_all()
    return Operation(world, Step(adds({"person": "Cy"}, dedupe=True)), again=lambda out: out[0][0] == "q3", faulty=True)


def reading():
    """What export reads, of a queue with a task in every state."""
    world = queue_of({})
    holding(world)
    by(world, 195, imports("claimed", "done", "failed", "waiting"))
    stopped(world, 196, adds({}, {"person": "Bo"}), after_commit)
    world.now += EXPIRE
    stopped(world, 197, sweeps, lambda name, *args: name == "append")
    return Operation(world, Step(reads), again=lambda out: len(out) == 7, kept=readable)


# --- a few commands in a row: what was acknowledged stays, whatever comes of the next


def claim_and(verb, *args, **options):
    return Operation(queue_of({}), Step(claims, lossy=True), Step(claims_and(verb, *args, **options)))


def claim_renew_done():
    return Operation(queue_of({}), Step(claims, lossy=True), Step(renews, lossy=True), Step(claims_and("done", "hit")))


def refresh_after_a_batch_of_refreshes():
    first = Step(adds({"note": "old"}, {"person": "Bo", "note": "old"}, dedupe=True))
    return Operation(queue_of({}, {"person": "Bo"}), first, Step(adds({"note": "new"}, dedupe=True)))


def sweep_and_claim():
    world = queue_of({})
    holding(world)
    world.now += EXPIRE
    return Operation(world, Step(sweeps), Step(claims, lossy=True), Step(claims_and("release")))


def two_batches():
    return Operation(new_world(), Step(adds({}, {"person": "Bo"})), Step(adds({"person": "Cy"}, {"person": "Di"})))


SINGLE = {
    "init": init,
    "add": add,
    "add, waiting": add_waiting,
    "add --dedupe, known": add_of_a_known_task,
    "batch of 3": batch,
    "batch, synced in bulk": batch_in_bulk,
    "batch, 2 new and 2 refreshes": batch_that_refreshes,
    "batch of 2 refreshes": batch_of_refreshes,
    "refresh": refresh,
    "refresh of the priority": refresh_of_the_priority,
    "refresh of an expired claim": refresh_of_an_expired_claim,
    "claim": claim,
    "claim that helps": claim_that_helps,
    "claim of what expired": claim_of_what_expired,
    "renew": renew,
    "done": lambda: settle("done", "hit", outcome="done"),
    "fail, to waiting": lambda: settle("fail", LEASE, outcome="waiting"),
    "fail, out of tries": lambda: settle("fail", outcome="failed", max_tries=1),
    "fail --final": lambda: settle("fail", outcome="failed", final=True),
    "release": lambda: settle("release", outcome="pending"),
    "release --retry-after": lambda: settle("release", LEASE, outcome="waiting"),
    "requeue-expired": sweep,
    "requeue-expired, one out of tries": lambda: sweep(max_tries=2),
    "promotion": promotion,
    "import, open and failed": lambda: import_("open", "failed"),
    "import, claimed, done, waiting": lambda: import_("claimed", "done", "waiting"),
    "doctor --fix": doctor,
    "doctor --fix, seq does not read": doctor_of_a_seq_that_does_not_read,
    "add, seq is lost": add_after_seq_was_lost,
    "reading": reading,
}
ROWS_OF_COMMANDS = {
    "claim, done": lambda: claim_and("done", "hit"),
    "claim, fail": lambda: claim_and("fail", LEASE),
    "claim, release": lambda: claim_and("release"),
    "claim, renew, done": claim_renew_done,
    "batch of refreshes, refresh": refresh_after_a_batch_of_refreshes,
    "requeue-expired, claim, release": sweep_and_claim,
    "batch, batch": two_batches,
}
BUILDERS = {**SINGLE, **ROWS_OF_COMMANDS}


@lru_cache(None)
def operation(name):
    return BUILDERS[name]()


# --- who comes after a crash

RECOVERIES = {
    "add": Step(adds({"person": "Zed"})),
    "claim": Step(claims, lossy=True),
    "requeue-expired": Step(sweeps),
    "doctor --fix": Step(mends),
}
# A process dies over the first, another over the second, which repairs what the first left.
DOUBLE = (
    ("batch of 3", "add"),
    ("batch, synced in bulk", "claim"),
    ("batch, 2 new and 2 refreshes", "add"),
    ("batch, 2 new and 2 refreshes", "claim"),
    ("batch, 2 new and 2 refreshes", "doctor --fix"),
    ("batch of 2 refreshes", "add"),
    ("refresh of an expired claim", "requeue-expired"),
    ("requeue-expired, one out of tries", "requeue-expired"),
    ("requeue-expired", "claim"),
)
