"""Small, wrong versions of the protocol, each with the proof that must catch it.

A proof that catches no mutant is no proof.

A mutant is one piece of the shipping source put in place of another, while a scenario of `races.py` or one of the
functions below runs. `python -m tests.proof.mutants` prints who catches whom.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
import time
from contextlib import contextmanager, nullcontext, suppress
from unittest import mock

from gwtq import dedupe, doctor, lane, look, names, produce, store, sweep, task, tree
from gwtq.errors import DiskError
from gwtq.task import line
from tests.proof import races
from tests.sim.disk import Crash, Direct
from tests.sim.explore import Found
from tests.sim.promises import (
    alone,
    batches,
    bring_home,
    held,
    settles,
    sound,
    store_of,
    sweeps,
    tasks_of,
    world_with,
)


class Mutant:
    """`old` becomes `new` in the source of `owner.name`; `caught_by`: a scenario's name, or a function that asserts."""

    def __init__(self, what, owner, name, old, new, caught_by):
        self.what = what
        self.owner, self.name = owner, name
        self.old, self.new = old, new
        self.caught_by = caught_by

    @contextmanager
    def alive(self):
        module = sys.modules[self.owner.__module__] if inspect.isclass(self.owner) else self.owner
        source = textwrap.dedent(inspect.getsource(getattr(self.owner, self.name)))
        assert source.count(self.old) == 1, f"the shipping code of {self.name} does not hold {self.old!r} once"
        found = {}
        code = compile("from __future__ import annotations\n" + source.replace(self.old, self.new), self.what, "exec")
        exec(code, {**vars(module), **{f.__name__: f for f in HELP}}, found)
        with mock.patch.object(self.owner, self.name, found[self.name]):
            yield

    def catch(self):
        """What the proof says of it; None if it lives."""
        catcher = self.caught_by if callable(self.caught_by) else lambda: races.run(self.caught_by)
        with self.alive():
            try:
                catcher()
            except (Found, AssertionError) as error:
                return str(error).split("\n")[0]
        return None


class Constant(Mutant):
    """A constant of the protocol that is wrong."""

    def __init__(self, what, owner, name, value, caught_by):
        super().__init__(what, owner, name, "", "", caught_by)
        self.value = value

    @contextmanager
    def alive(self):
        with mock.patch.object(self.owner, self.name, self.value):
            yield


# --- what mutants do instead, called by their source


def sweep_by_path(store, directory):
    sweep.sync_directory(store, directory)


def copied(store, path, held):
    """The worker reads the file, writes it to claimed/, then removes the source."""
    try:
        data = store.disk.read(path)
        store.disk.create(held, data, sync=False)
        store.disk.remove(path)
    except FileNotFoundError:
        return False
    return True


def claimed_by_id(store, id):
    found = [(path, name) for path, name in store.parsed(names.CLAIMED) if name.id == id]
    return found[0] if found else None


def looked(store):
    """Between the look and the write another may come; the gate of the proof takes this call for the chance."""
    store.disk.exists("looked")


def write_later(producer):
    """Keys are written once the batch is in place."""
    keys, finish = producer.keys, producer._finish

    def finished(batch):
        finish(batch)
        keys.write(sync=True)

    producer._finish = finished


def clear(store, batch):
    for directory in tree.listing(store.disk, f"tmp/{batch}"):
        for name in tree.listing(store.disk, f"tmp/{batch}/{directory}"):
            store.disk.remove(f"tmp/{batch}/{directory}/{name}")


def emptied(disk, path):
    for name in tree.listing(disk, path):
        if "." in name:
            disk.remove(f"{path}/{name}")
    return disk.remove_dir(path)


def before(data, gen):
    """The generation of the line before this one in the file."""
    gens = [line[9:23].decode() for line in data.split(b"\n") if line.startswith(b'{"gen"')]
    at = gens.index(gen)
    return gens[at - 1] if at else None


def rewritten(store, path, entry):
    """The whole task is written anew and renamed over the name that was seen."""
    data = store.disk.read(path) + line(entry)
    store.disk.create("tmp/rewritten." + store.letters(6), data, sync=True)
    (new,) = [n for n in store.disk.names("tmp") if n.startswith("rewritten.")]
    store.disk.rename(f"tmp/{new}", path)


HELP = (sweep_by_path, copied, claimed_by_id, looked, write_later, clear, emptied, before, rewritten, line, nullcontext)


# --- proofs of one actor after the other


def attempts_are_exact():
    """With three tries allowed, three attempts are made, by fail, by expiry, or mixed."""
    for endings in (("fail", "fail", "fail"), ("expire", "expire", "expire"), ("fail", "expire", "fail")):
        world = world_with({})
        runs = 0
        for number, ending in enumerate((*endings, "fail"), 10):
            world.now += 40 * 86400
            claim = alone(world, lambda s: lane.claim(s, lane.Wish("w", 60)), 10 * number, max_tries=3)
            if not claim:
                break
            runs += 1
            if ending == "fail":
                alone(
                    world, lambda s, c=claim: settles(s, c.task.id, c.task.token, "fail"), 10 * number + 1, max_tries=3
                )
            else:
                world.now += 61
                alone(world, sweeps, 10 * number + 1, max_tries=3)
        assert runs == 3, f"{runs} attempts were made, 3 are allowed: {endings}"


def one_stuck_task_stops_no_other():
    """A sweep of three expired claims, the middle one unreadable, brings two back."""
    world = world_with({"person": "a"}, {"person": "b"}, {"person": "c"})
    for number in range(3):
        held(world, 10, number=700 + number)
    world.now += 11
    world.denied = frozenset(path for path in world.tree() if path.startswith("claimed/q2."))
    try:
        alone(world, sweeps)
    except OSError as error:
        raise AssertionError(f"one unreadable task ended the sweep: {error}") from None
    states = {name.id: state for _, state, name, _ in tasks_of(world)}
    assert states == {"q1": "pending", "q2": "claimed", "q3": "pending"}, states


def a_torn_line_beside_another():
    """A late settle is cut short between a sweeper's look at the file, if it takes one, and its write."""
    world, id, token = races.held_world()
    lane_gate, sweep_gate = Direct(world, "A"), Direct(world, "S")
    torn = []

    def swept(name, *args):
        if torn and (name == "append" or args[:1] == ("looked",)):
            world.call("A", "append", *torn.pop())
        return sweep_gate(name, *args)

    def late(name, *args):
        if name != "append":
            return lane_gate(name, *args)
        fd, data = args
        torn.append((fd, data[: len(data) // 2]))
        sweeps(store_of(swept, 8))
        return len(data) // 2

    try:
        settles(store_of(late, 7), id, token, "done")
    except DiskError:
        assert sound(world) is None, sound(world)


def _append_of(world, id, token, verb):
    """At which of its calls a settle of the claim appends."""
    gate = Direct(world.copy(), "A")
    settles(store_of(gate, 7), id, token, verb)
    return next(i for i, call in enumerate(gate.calls) if call[0] == "append")


def a_live_claim_is_never_swept():
    """A task that waited long for its first claim is not taken from the lane that holds it."""
    world = world_with({})
    world.now += 3600
    held(world, 60)
    assert alone(world, sweeps) == (), "a live claim was swept"


def a_clock_set_back_freezes_nothing():
    """A sweeper dies with an entry in recovering/, stamped by a clock that was a year ahead."""
    world, _, _ = races.held_world()
    world.now += 365 * 86400
    gate = Direct(world, "S")
    gate.crash_at = _calls_until_taken(world)
    with suppress(Crash):
        sweeps(store_of(gate, 9))
    world.now -= 365 * 86400
    wrong = bring_home(world)
    assert wrong is None, wrong


def _calls_until_taken(world):
    gate = Direct(world.copy(), "S")
    sweeps(store_of(gate, 9))
    taken = next(i for i, c in enumerate(gate.calls) if c[0] == "rename" and str(c[1]).startswith("claimed/"))
    return taken + 1


def the_first_settle_stays():
    """A late line of the same task is off the chain, wherever it lies in the file."""
    world, id, token = races.held_world()
    calls = _append_of(world, id, token, "fail")
    gate = Direct(world, "A", crash_at=calls + 1)
    with suppress(Crash):
        settles(store_of(gate, 7), id, token, "fail")
    alone(world, sweeps, max_tries=2)
    state = [state for _, state, name, _ in tasks_of(world) if name.id == id]
    assert state == ["pending"], f"one attempt of two was made, and the task is in {state}"
    tries = alone(world, lambda store: look.find(store, id).tries, 41)
    assert tries == 1, f"one attempt was made, {tries} are counted"


def a_lower_number_goes_first():
    """q2 before q10."""
    world, tokens = races.far_apart(2, 10)
    for number, id in enumerate(("q10", "q2")):
        alone(world, lambda store, i=id: settles(store, i, tokens[i], "release"), 50 + number)
    claim = alone(world, lambda store: lane.claim(store, lane.Wish("w", 60)), 60)
    assert claim.task.id == "q2", claim.task.id


def a_key_is_enough():
    """What was added is known to the next add of the same identity."""
    world = world_with({})
    outcome = alone(world, lambda s: batches(s, {}, dedupe=True), 40)
    assert outcome == (("q1", "known"),), outcome


S, P = store.Store, produce.Producer
MUTANTS = [
    Mutant("no sync before the rename", S, "append", "self.disk.sync(fd)", "pass", "power_done_sweep"),
    Mutant("no sync of the directory", S, "move", "if sync:", "if False:", "power_done_sweep"),
    Mutant(
        "the directory synced by its path, after the rename",
        S,
        "move",
        "self.disk.sync_dir(target)",
        "sweep_by_path(self, directory)",
        "leaves_power_release_claim",
    ),
    Mutant(
        "the expired line not synced",
        sweep,
        "recover",
        "store.append(fd, entry)",
        "store.disk.append(fd, line(entry))",
        "power_sweep_sweep",
    ),
    Mutant(
        "read before the rename: copied to claimed/, then removed",
        lane,
        "_take",
        "if not store.move(path, names.CLAIMED, text, sync=False):",
        "if not copied(store, path, held):",
        "claim_claim",
    ),
    Mutant(
        "renamed before the append",
        lane,
        "_settle",
        "store.append(fd, entry)  # settle.1 append, synced",
        "store.move(path, directory, text, sync=True); store.append(fd, entry); return settled",
        "done_sweep",
    ),
    Mutant(
        "one generation for two appends",
        S,
        "generation",
        "self.letters(names.GEN_CHANCE)",
        "'token0'",
        "done_and_fail_under_one_token",
    ),
    Mutant(
        "the tail looked at, then written",
        S,
        "append",
        "self.disk.append(fd, line(entry))",
        "whole = self.disk.content(fd).endswith(b'\\n'); looked(self); self.disk.append(fd, line(entry)[whole:])",
        a_torn_line_beside_another,
    ),
    Mutant(
        "renew ignores the token",
        lane,
        "renew_once",
        "store.claimed_as(id, token)",
        "claimed_by_id(store, id)",
        "old_token_next_claim",
    ),
    Mutant(
        "settle ignores the token",
        lane,
        "settle_once",
        "store.claimed_as(id, token)",
        "claimed_by_id(store, id)",
        "old_token_next_claim",
    ),
    Mutant(
        "live leases are taken", sweep, "expired", "until=now", "until=names.LAST_STAMP", a_live_claim_is_never_swept
    ),
    Mutant(
        "the lease judged from the add",
        sweep,
        "expired",
        "store.parsed(names.CLAIMED, until=now)",
        "[e for e in store.parsed(names.CLAIMED) if names.generation_second(e[1].head) + 60 <= store.clock.now()]",
        a_live_claim_is_never_swept,
    ),
    Constant('"nothing due" after one pass', lane, "QUIET_PASSES", 1, "refresh_claim"),
    Constant('"nothing due" after two passes', lane, "QUIET_PASSES", 2, "refresh_twice_claim"),
    Mutant(
        "refused because a name was not seen",
        lane,
        "witness",
        "if not (name and name.token == token):",
        "if True:",
        "done_renew",
    ),
    Mutant(
        "an attempt counted twice",
        task,
        "_apply",
        "task.tries += event in ENDS_ATTEMPT",
        "task.tries += 2 * (event in ENDS_ATTEMPT)",
        attempts_are_exact,
    ),
    Mutant("the running attempt not counted", task, "_present", "task.tries += 1", "pass", attempts_are_exact),
    Mutant(
        "ENOENT always taken for a lost race",
        S,
        "move",
        "if not self.disk.exists(source):",
        "if True:",
        "leaves_refresh_claim",
    ),
    Mutant(
        "a lost race always taken for a removed directory",
        S,
        "move",
        "if not self.disk.exists(source):",
        "if False:",
        "done_sweep",
    ),
    Mutant(
        "a leaf removed under a writer",
        tree,
        "prune",
        "disk.remove_dir(path)",
        "emptied(disk, path)",
        "leaves_one_comes_back_one_claims",
    ),
    Mutant(
        "seq replaced after the files are in place",
        P,
        "commit",
        "write_seq(self.store, self.ids, self._refreshing)  # add.commit\n    self._finish(self.batch)",
        "self._finish(self.batch)\n    write_seq(self.store, self.ids, self._refreshing)",
        "batch_dies_worker_helps",
    ),
    Mutant("keys never written", P, "commit", "self.keys.write(sync=not bulk)", "pass", a_key_is_enough),
    Mutant(
        "keys written after the task",
        P,
        "commit",
        "self.keys.write(sync=not bulk)",
        "write_later(self)",
        "add_add_of_one_identity",
    ),
    Mutant(
        "a key of a dead add taken for a match",
        dedupe.Matches,
        "find",
        "digest_of(task) == digest",
        "True",
        "add_dies_another_adds",
    ),
    Mutant(
        "producers without the lock",
        P,
        "__init__",
        "store.disk.lock(layout.LOCK)",
        "nullcontext()",
        "add_add_of_one_identity",
    ),
    Mutant(
        "a staged file removed while its producer lives",
        sweep,
        "finish_batches",
        "ids = store.seq()",
        "ids = store.seq(); [clear(store, b) for b in batches if names.number_of(b) not in ids]",
        "batch_claim",
    ),
    Mutant(
        "the chain followed by position",
        task,
        "chain",
        'gen = entry.get("prev")',
        "gen = before(data, gen)",
        the_first_settle_stays,
    ),
    Mutant("a sweep that skips recovering/", sweep, "expired", "store.parsed(names.RECOVERING)", "[]", "sweep_sweep"),
    Mutant(
        "a sweep stopped by one stuck task",
        sweep,
        "expired",
        "except (OSError, DiskError, NewerFormat) as error:",
        "except ZeroDivisionError as error:",
        one_stuck_task_stops_no_other,
    ),
    Mutant(
        "a recovering lease trusted after the clock was set back",
        sweep,
        "expired",
        "if not now < entry[1].sweeper_until <= horizon:",
        "if not now < entry[1].sweeper_until:",
        a_clock_set_back_freezes_nothing,
    ),
    Mutant(
        "a sweep that keeps the old head",
        sweep,
        "recover",
        "store.append(fd, entry)",
        "store.append(fd, entry); head = name.head",
        "sweep_sweep",
    ),
    Mutant(
        "ok without looking at the rename",
        lane,
        "_settle",
        "if store.move(path, directory, text, sync=True):",
        "if store.move(path, directory, text, sync=True) or True:",
        "done_sweep",
    ),
    Mutant(
        "a refresh by rename over the held name",
        dedupe,
        "refresh",
        "store.append(fd, {",
        "rewritten(store, path, {",
        "refresh_claim",
    ),
    Mutant(
        "the same settle twice is refused",
        lane.Settlement,
        "same",
        'entry["event"] == self.verb',
        "False",
        "done_twice_under_one_token",
    ),
    Mutant("doctor believes one look", doctor, "two_names", "store.disk.exists(p)", "True", "doctor_done_sweep"),
    Mutant(
        "ids in the order of their text",
        tree,
        "_falling",
        "found.sort(key=len if plain else _id_length, reverse=True)",
        "pass",
        a_lower_number_goes_first,
    ),
]


def main(wanted):
    for mutant in [m for m in MUTANTS if not wanted or any(w in m.what for w in wanted)]:
        begun = time.monotonic()
        said = mutant.catch()
        who = mutant.caught_by if isinstance(mutant.caught_by, str) else mutant.caught_by.__name__
        took = time.monotonic() - begun
        print(f"{mutant.what:55} {who:36} {took:5.1f} s  {said or '*** LIVES ***'}"[:240], flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
