"""What must hold in every state of a simulated queue, and after every crash.

I1 each id has one name                        I2 the name folds: its chain reaches the first line, oldest first
I3 what an actor was told is so, for ever      I4 tries are the attempts that ended
I5 done is final                               I6 a claim settles at most once
I7 a sweeper, a producer and a lane that run alone bring every task home, and doctor finds nothing
I8 "nothing due" is true                       I9 strict order
I10 nobody takes a live claim
"""

from __future__ import annotations

from gwtq import dedupe, doctor, lane, layout, look, names, produce, sweep
from gwtq.errors import Refused
from gwtq.items import Prepared
from gwtq.rules import draft
from gwtq.settings import Settings
from gwtq.store import Store
from gwtq.task import SETTLES, chain

from .disk import Direct, SimClock, SimDisk, bury
from .explore import Goto
from .world import World

HOUR = 3600


# --- building worlds


def store_of(gate, number, **options):
    return Store(SimDisk(gate), SimClock(gate, number), **options)


def alone(world, program, number=500, **options):
    """Run one program to its end; returns what it returns."""
    return program(store_of(Direct(world, f"alone-{number}"), number, **options))


def new_world(kinds=("sweep", "search")):
    """An empty queue, all of it durable."""
    world = World()
    gate = Direct(world, "init")
    produce.create(SimDisk(gate), SimClock(gate, 600), Settings(kinds))
    world.flush_all()
    return world


def prepared(store, **fields):
    return Prepared(draft({"person": "Ana", **fields}, store.settings))


def world_with(*tasks, number=601):
    """A queue that holds these tasks, all of it durable."""
    world = new_world()
    for i, fields in enumerate(tasks):
        alone(world, lambda store, fields=fields: batches(store, fields), number + i)
    world.flush_all()
    return world


def held(world, seconds, lane_name="old", number=700):
    """Claim the next task in this world; returns (id, token)."""
    claim = alone(world, lambda store: lane.claim(store, lane.Wish(lane_name, seconds)), number)
    world.flush_all()
    return claim.task.id, claim.task.token


# --- reading worlds


def tasks_of(world):
    """(path, state, name, content) of every task that is in the queue: staged ones once they are committed."""
    tree = world.tree()
    ids = ids_of(tree)
    found = []
    for path, content in tree.items():
        if content is None or path.split("/")[0] not in (*names.STATES, layout.TMP):
            continue
        if path.startswith(layout.TMP) and path.count("/") != 3:
            continue
        state = layout.state_of(path)
        name = names.parse(state, layout.base(path))
        if not path.startswith(layout.TMP) or name.number in ids:
            found.append((path, state, name, content))
    return found


def ids_of(tree):
    text = tree.get(layout.SEQ, b"").decode().split("\n")[0]
    return {n for part in text.split() for n in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1)}


def entries_of(world, id):
    """The committed entries of a task."""
    ((content, head),) = [(content, name.head) for _, _, name, content in tasks_of(world) if name.id == id]
    return chain(content, head)


# --- I1, I2, I5, I6, and that every id has a file


def sound(world):
    """What is wrong with this world, whoever is in the middle of what; None if nothing is."""
    seen = {}
    for path, state, name, content in tasks_of(world):
        if name.id in seen:
            return f"I1 {name.id} has two names: {seen[name.id]} and {path}"
        seen[name.id] = path
        try:
            entries = chain(content, name.head)
        except Exception as error:
            return f"I2 {path}: {error}"
        wrong = _history(path, state, entries)
        if wrong:
            return wrong
    missing = {f"q{n}" for n in ids_of(world.tree())} - set(seen)
    if missing:
        return f"I1 {sorted(missing)} is in seq and has no file"
    strange = set(seen) - {f"q{n}" for n in ids_of(world.tree())}
    if strange:
        return f"I1 {sorted(strange)} has a file and is not in seq: the id would be given out again"
    return None


def _history(path, state, entries):
    tokens = [e["token"] for e in entries if e["event"] in SETTLES]
    if len(tokens) != len(set(tokens)):
        return f"I6 {path}: a claim was settled twice"
    events = [e["event"] for e in entries]
    if "tries" in entries[0] and len(entries) == 1:
        return None  # as imported: whatever the table said
    if "done" in events[:-1] or (events[-1] == "done") != (state == names.DONE):
        return f"I5 {path}: it is in {state}, its log is {events}"
    if state == names.FAILED and events[-1] not in ("fail", "expired"):
        return f"I5 {path}: it is in failed, its log is {events}"
    return None


class Sound:
    """`sound` as a promise of states, each world looked at once."""

    def __init__(self, check=sound):
        self.check = check
        self.seen = {}

    def __call__(self, state):
        key = state.world.fingerprint()
        if key not in self.seen:
            self.seen[key] = self.check(state.world)
        return self.seen[key]


# --- I7


def bring_home(world, *, max_tries=None):
    """All actors stopped for ever: a producer, a sweeper and a lane that run alone finish every task."""
    world = world.copy()
    for actor in {who for who, _ in world.handles} | set(world.locks.values()):
        bury(world, actor)
    world.now += 24 * HOUR
    before = {name.id for _, _, name, _ in tasks_of(world)}
    try:
        alone(world, lambda store: batches(store, {"person": "Zoe", "priority": -9}), 800)
        alone(world, lambda store: sweep.expired(store, sweep.Pass()), 801)
        for number in range(802, 802 + 3 * len(before) + 3):
            if not alone(world, _work_one, number):
                break
            world.now += 24 * HOUR
    except Exception as error:
        return f"I7 on the way home: {type(error).__name__}: {error}"
    after = {name.id: state for _, state, name, _ in tasks_of(world)}
    lost = before - set(after)
    left = [id for id, state in after.items() if state not in (names.DONE, names.FAILED)]
    if lost or left:
        return f"I7 lost {sorted(lost)}, not home {sorted(left)}"
    return sound(world) or examined(world)


def _work_one(store):
    claim = lane.claim(store, lane.Wish("home", 60))
    if not claim:
        return False
    lane.settle(store, claim.task.id, claim.task.token, lane.Settlement("done", result="hit"))
    return True


def examined(world, *, fix=True):
    """What doctor finds, but for keys of producers that died: those are harmless, and --fix takes them out."""
    found = alone(world, lambda store: list(doctor.examine(store)), 900)
    serious = [str(f) for f in found if not f.path.startswith(layout.KEYS)]
    if serious:
        return f"doctor: {serious}"
    if found and fix:
        alone(world, lambda store: list(doctor.examine(store, fix=True)), 901)
        left = alone(world, lambda store: list(doctor.examine(store)), 902)
        if left:
            return f"doctor --fix left {[str(f) for f in left]}"
    return None


class ComesHome(Sound):
    """`bring_home` as a promise of states."""

    def __init__(self):
        super().__init__(bring_home)


# --- I3


# The actors' programs. Each goes on from one look to the next with `Goto`, as the loops of the shipping code do:
# `settle` and `renew` look again, `claim` answers after some quiet passes.


def settles(store, id, token, verb, final=False):
    """Settle a claim: 'ok', 'already' or 'refused'."""
    how = lane.Settlement(verb, final=final, **({"result": "hit"} if verb == "done" else {}))
    try:
        settled = lane.settle_once(store, id, token, how)
    except Refused:
        return "refused"
    if not settled:
        return Goto(settles, id, token, verb, final)
    return "already" if settled.already else "ok"


def renews(store, id, token, seconds=60):
    """Renew a claim: 'ok' or 'refused'."""
    if lane.renew_once(store, id, token, seconds):
        return "ok"
    return Goto(looks_for, id, token, seconds)


def looks_for(store, id, token, seconds):
    return "refused" if lane.witness(store, id, token) else Goto(renews, id, token, seconds)


def sweeps(store):
    """Sweep once: the rows."""
    work = sweep.Pass()
    sweep.expired(store, work)
    return tuple(work.recovered.rows)


def reseeds(store, *fields):
    """`add --dedupe` of Ana's task with these (field, value): the outcomes."""
    return batches(store, dict(fields), dedupe=True)


def refreshes(store, id, *fields):
    """Refresh an open task, without the lock and the look-up: was it?"""
    return dedupe.refresh(store, id, dict(fields))


def exports(store):
    """Read the whole table: the ids, in order."""
    return tuple(task.id for task in look.tasks(store))


def counts(store):
    """The counts by status."""
    numbers = look.stats(store)
    return numbers.open, numbers.claimed, numbers.done, numbers.failed


def examines(store):
    """What doctor says while others work."""
    return tuple(str(finding) for finding in doctor.examine(store) if not finding.path.startswith(layout.KEYS))


def shows(store, id):
    """Look one task up: its status."""
    return look.find(store, id).status


def promotes(store):
    """Promote what fell due."""
    sweep.promote(store, sweep.Pass())
    return "ok"


def claims(store, then=None, lane_name="new", seconds=60, kinds=(), sources=(), quiet=0):
    """Claim, and settle as `then` says: None | (id, token) | what the settle answered."""
    work = sweep.Pass()
    held = lane.one_pass(store, lane.Wish(lane_name, seconds, kinds, sources), work)
    if held:
        got = held.task.id, held.task.token
        return Goto(settles, *got, then) if then else got
    quiet = 0 if work.seen else quiet + 1
    return None if quiet == lane.QUIET_PASSES else Goto(claims, then, lane_name, seconds, kinds, sources, quiet)


def batches(store, *tasks, **options):
    """Add tasks in one batch, each a dict or a tuple of (field, value): the outcomes."""
    return tuple(produce.add_many(store, [prepared(store, **dict(fields)) for fields in tasks], **options))


class Told:
    """I3: who was told ok has its entry on the chain, who was told refused has not."""

    def __init__(self, **who):
        self.who = who  # actor's name -> (its number, id, token, verb)

    def __call__(self, state):
        for name, (i, id, token, verb) in self.who.items():
            out = state.outs[i]
            if out is None:
                continue
            on_chain = any(e.get("token") == token and e["event"] == verb for e in entries_of(state.world, id))
            if (out == ("returned", "ok") and not on_chain) or (out == ("returned", "refused") and on_chain):
                return (
                    f"I3 {name} was told {out[1]}, and its {verb} is {'' if on_chain else 'not '}on the chain of {id}"
                )
            if out[0] == "raised":
                return f"I3 {name} raised {out[1]!r}"
        return None


# --- I8, I9


def due_in(world):
    """The ids that are open and due at this instant, whoever is moving them."""
    now = names.stamp(int(world.now))
    found = set()
    for _, state, name, _ in tasks_of(world):
        ready = state == names.PENDING and name.until <= now
        back = state == names.RECOVERING or (state == names.CLAIMED and name.until <= now)
        if ready or back:
            found.add(name.id)
    return frozenset(found)


class NothingDue:
    """I8: who was told "nothing due" had no task that was due during its whole call. `actors`: who claims."""

    def __init__(self, *actors):
        self.actors = actors

    def __call__(self, state):
        for i in self.actors:
            if state.outs[i] == ("returned", None) and state.watch[i]:
                return f"I8 told nothing due: {sorted(state.watch[i])} was due during the whole call"
        return None


def ready_in(world):
    """(minus priority, number) of what lies in the leaves."""
    return frozenset(
        (-int(path.split("/")[1]), name.number)
        for path, state, name, _ in tasks_of(world)
        if state == names.PENDING and not path.startswith((layout.WAITING, layout.TMP))
    )


class StrictOrder:
    """I9: whoever got a task got the best of those that were ready during its whole call."""

    def __init__(self, priorities, *actors):
        self.priorities = priorities  # id -> priority
        self.actors = actors

    def __call__(self, state):
        for i in self.actors:
            out = state.outs[i]
            if out and out[0] == "returned" and out[1]:
                id = out[1][0]
                better = [x for x in state.watch[i] if x < (-self.priorities[id], int(id[1:]))]
                if better:
                    return f"I9 took {id}, and {sorted(better)} was ready during the whole call"
        return None


def live_claims_stay(state):
    """I10: the step that led here did not take a claim whose lease runs."""
    step, before = state.step, state.parent
    if before and ": rename (claimed/" in step:
        old = {p: n for p, s, n, _ in tasks_of(before.world) if s == names.CLAIMED}
        new = {n.token for _, s, n, _ in tasks_of(state.world) if s == names.RECOVERING}
        for name in old.values():
            if name.token in new and name.until > names.stamp(int(before.world.now)):
                return f"I10 a live claim was taken: {name!r}"
    return None
