"""A crash before every disk call of every operation, as the death of its process and as a power cut."""

from __future__ import annotations

import pytest

from gwtq.sweep import RECOVERING_SECONDS
from tests.sim.disk import Crash, Direct, bury
from tests.sim.promises import entries_of, examined, new_world, sound, tasks_of
from tests.sim.world import World

from . import operations, recovery
from .operations import adds, by, mends, queue_of, rewrite, stopped

CHANGES = frozenset(
    ("make", "open_or_create", "append", "sync", "make_dir", "rename", "sync_dir", "sync_all", "remove", "remove_dir")
)


class Crashes:
    """An operation, and the world after a crash of it at any call."""

    def __init__(self, operation):
        self.operation = operation
        self.befores = [operation.world]  # the world before each step, and the last
        self.calls = []  # of each step
        for number, step in enumerate(operation.steps, 1):
            world = self.befores[-1].copy()
            gate = Direct(world, f"A{number}")
            step.run(gate, number)
            bury(world, gate.actor)
            self.befores.append(world)
            self.calls.append(gate.calls)
        self.views = [] if operation.faulty else [recovery.view(recovery.recovered(world)) for world in self.befores]
        self.judge = recovery.Judge(operation)
        self.seen = set()
        self.last = None, []

    def world(self, step, at, torn):
        """What is left when the process of this step dies before this call; behind the last one: when it has ended."""
        world = self.befores[step].copy()
        gate = Direct(world, f"A{step + 1}", crash_at=at, torn=torn)
        try:
            self.operation.steps[step].run(gate, step + 1)
        except Crash:
            return world
        bury(world, gate.actor)
        return world

    def worlds(self, step, at, torn, *, cut=True):
        """That world, and what every power cut may make of it; nothing, if the call before has left the same."""
        if self.last[0] != (step, at, torn):
            world = self.world(step, at, torn)
            key = world.fingerprint(power=True), step, at == len(self.calls[step])
            fresh = key not in self.seen
            self.seen.add(key)
            self.last = (step, at, torn), [world, *(world.cuts() if cut else ())] if fresh else []
        return self.last[1]

    def allowed(self, step, *, told, power):
        """The views of what may have happened: nothing less than what was acknowledged and cannot be taken back."""
        sure = step + 1 if told else step
        if power:
            durable = [i + 1 for i, s in enumerate(self.operation.steps[:sure]) if not s.lossy]
            sure = max(durable, default=0)
        return self.views[sure : step + 2]

    def choose(self, choose, step, *, cut=True, ended=False):
        """Choose a crash of this step, or with `ended` none: (acknowledged or not, the worlds that it may leave).
        Without `cut` the power is cut once it is acknowledged only."""
        calls = self.calls[step]
        crashes = [] if ended else [(0, False)]
        for at, (name, *_) in enumerate(calls if not ended else ()):
            crashes += [(at, True)] if name == "append" else []
            crashes += [(at + 1, False)] if name in CHANGES and at + 1 < len(calls) else []
        at, torn = choose.of([*crashes, (len(calls), False)], f"crash of step {step} before call")
        told = at == len(calls)
        return told, self.worlds(step, at, torn, cut=told if cut is False else cut)


@pytest.mark.parametrize("name", operations.BUILDERS)
def test_crash(name, odometer, explored):
    """After a crash before any call, what was acknowledged is there, what was not is there whole or not at all, the
    ordinary commands bring every task home, and the same command again succeeds."""
    crashes = Crashes(operations.operation(name))

    def body(choose):
        step = choose.below(len(crashes.calls), "step")
        told, worlds = crashes.choose(choose, step)
        if worlds:
            cut = choose.below(len(worlds), "0: only the process dies, else a power cut")
            explored.points += not cut
            explored.worlds += 1
            allowed = crashes.allowed(step, told=told, power=cut > 0)
            wrong = crashes.judge(worlds[cut], step, allowed, power=cut > 0)
            assert not wrong, wrong

    explored.calls = sum(len(calls) for calls in crashes.calls)
    odometer.run(body)


class Recoveries:
    """A crash of an operation, and for each world that it leaves the crashes of the command that comes next."""

    def __init__(self, first, second):
        self.first = Crashes(operations.operation(first))
        self.second = operations.RECOVERIES[second]
        # A lane moves the new tasks of a dead producer's batch only, so it may take a task before its refresh.
        look = recovery.unclaimed if self.second.lossy else recovery.view
        befores = [self._after(world).befores for world in self.first.befores]
        self.views = [look(recovery.recovered(pair[i])) for i in (0, 1) for pair in befores]
        self.judge = recovery.Judge(operations.Operation(None, self.second, per_task=self.second.lossy), look)
        self.shapes = set()
        self.last = None, None, False

    def _after(self, world):
        world = recovery.buried(world)
        world.now += RECOVERING_SECONDS + 1
        return Crashes(operations.Operation(world, self.second, faulty=True))

    def choose(self, choose):
        """Choose a crash of the operation: the Crashes of the command after it, and whether they are met for the first
        time; None if the crash leaves what one before it left."""
        _, worlds = self.first.choose(choose, 0, cut=None)
        if not worlds:
            return None, False
        key = self.first.last[0]
        if self.last[0] != key:
            shape = recovery.shape(worlds[0])
            self.last = key, self._after(worlds[0]), shape not in self.shapes
            self.shapes.add(shape)
        return self.last[1:]

    def wrong(self, world, *, told, power):
        """What is wrong with a world after both."""
        if self.second.lossy and not power and sum(n.lane == "new" for _, _, n, _ in tasks_of(world)) < told:
            return "the claim that was acknowledged is not there"
        return self.judge(world, 0, self.views[2 * (told and not self.second.lossy) :], power=power)


@pytest.mark.parametrize(("first", "second"), operations.DOUBLE)
def test_crash_of_the_recovery(first, second, odometer, explored, depth):
    """The process that repairs what a dead one left dies itself, at any call; and once it has ended, the power is cut
    (with GWTQ_PROOF_DEPTH=2 also when it dies, and for first crashes that differ in what is durable only)."""
    recoveries = Recoveries(first, second)

    def body(choose):
        crashes, fresh = recoveries.choose(choose)
        if not crashes:
            return
        told, worlds = crashes.choose(choose, 0, cut=depth > 1, ended=not fresh and depth < 2)
        if not worlds:
            return
        cut = choose.below(len(worlds), "0: only the process dies, else a power cut")
        explored.points += not cut
        explored.worlds += 1
        wrong = recoveries.wrong(worlds[cut], told=told, power=cut > 0)
        assert not wrong, wrong

    explored.calls = len(recoveries.first.calls[0])
    odometer.run(body)


# --- what these proofs found, each by its shortest trace


def notes_after_power_cuts(world, id):
    """What the task's note may be."""
    return {entries_of(recovery.recovered(cut), id)[-1].get("note") for cut in world.cuts()}


def test_refreshes_of_a_batch_are_not_applied_again_after_a_power_cut():
    """`seq` names the batch until the next commit, and a refresh in place commits nothing: if the list came back, the
    next producer would undo what was refreshed later."""
    world = queue_of({}, {"person": "Bo"})
    by(world, 1, adds({"note": "old"}, {"person": "Bo", "note": "old"}, dedupe=True))
    by(world, 2, adds({"note": "new"}, dedupe=True))
    assert notes_after_power_cuts(world, "q1") == {"new"}


def test_a_dead_batch_does_not_come_back_when_its_ids_were_given_out_again():
    """Removed, but not durably, it would be taken for committed: `seq` holds its ids, which are another's now."""
    world = new_world()
    stopped(world, 1, adds({}, {"person": "Bo"}), lambda name, *args: name == "open_or_create")
    by(world, 2, adds({"person": "Cy"}, {"person": "Di"}))
    assert [sound(recovery.recovered(cut)) for cut in world.cuts() if sound(recovery.recovered(cut))] == []


def test_the_removal_of_a_dead_batch_is_made_durable_by_who_finds_it_half_done():
    world = new_world()
    stopped(world, 1, adds({}), lambda name, *args: name == "open_or_create")
    stopped(world, 2, adds({"person": "Bo"}), lambda name, *args: name == "sync_dir", durable=False)
    by(world, 3, adds({"person": "Cy"}))
    assert [sound(recovery.recovered(cut)) for cut in world.cuts() if sound(recovery.recovered(cut))] == []


def test_known_is_said_of_a_refresh_only_once_it_is_durable():
    """Who made it may have died between its rename and its sync."""
    world = queue_of({})
    stopped(world, 1, adds({"note": "new"}, dedupe=True), lambda name, *args: name == "sync_dir", durable=False)
    assert by(world, 2, adds({"note": "new"}, dedupe=True)) == (("q1", "known"),)
    assert notes_after_power_cuts(world, "q1") == {"new"}


def test_a_refresh_of_a_dead_producer_is_durable_before_its_list_is_removed():
    world = queue_of({}, {"person": "Bo", "priority": 7})
    refreshes = adds({"note": "new"}, {"person": "Bo", "note": "new"}, dedupe=True)
    renames = []

    def behind_the_first_refresh(name, *args):
        renames.extend([name] if name == "rename" and args[0].startswith("pending") else [])
        return bool(renames) and name == "sync_dir"

    stopped(world, 1, refreshes, behind_the_first_refresh, durable=False)
    by(world, 2, adds({"person": "Cy", "priority": 9}))
    assert notes_after_power_cuts(world, "q1") == {"new"}


def test_init_says_that_a_queue_is_there_only_once_it_is_durable():
    world, init = World(), operations.Init()
    gate = Direct(world.copy(), "A")
    init.run(gate, 1)
    last = max(at for at, (name, *_) in enumerate(gate.calls) if name == "sync_dir")
    with pytest.raises(Crash):
        init.run(Direct(world, "A", crash_at=last), 1)
    init.run(Direct(world, "B"), 2)
    assert all("queue.json" in cut.tree() for cut in world.cuts())


def test_doctor_takes_out_keys_of_producers_that_died():
    """Though it holds their lock itself."""
    world = queue_of({})
    stopped(world, 1, adds({"person": "Bo"}), lambda name, *args: name == "rename")
    by(world, 2, adds({"person": "Cy"}))
    assert [fixed for _, fixed in by(world, 3, mends)] == [True]
    assert examined(world, fix=False) is None
    assert by(world, 4, mends) == ()


def test_doctor_makes_a_seq_again_that_does_not_read():
    world = queue_of({}, {"person": "Bo"})
    rewrite(world, "seq", b"1-\n")
    by(world, 1, mends)
    assert world.tree()["seq"] == b"1-2\n"
