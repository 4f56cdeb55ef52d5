"""The races: which actors, on which queue, what must hold.

`python -m tests.proof.races [NAME…]` runs them and prints what each has covered; `test_races.py` runs them as tests,
`test_mutants.py` against wrong versions of the protocol.

Leaves that are removed and made again are on trial in scenarios of their own (`leaves_…`): elsewhere nobody removes
one, which keeps the search small. The text of a refusal is left out, since it is read after the answer is decided.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from unittest import mock

from gwtq import lane, names, produce, tree
from gwtq.errors import Refused
from gwtq.items import Row
from gwtq.task import Task
from tests.proof import DEPTH
from tests.sim.explore import Actor, Explorer, Found
from tests.sim.promises import (
    ComesHome,
    NothingDue,
    Sound,
    StrictOrder,
    Told,
    alone,
    batches,
    claims,
    counts,
    due_in,
    entries_of,
    examines,
    exports,
    held,
    live_claims_stay,
    new_world,
    promotes,
    ready_in,
    refreshes,
    renews,
    reseeds,
    settles,
    shows,
    sweeps,
    world_with,
)
from tests.sim.world import World

SCENARIOS = {}
PRODUCERS = ("", "queue.json")  # what stands still while a producer is at work
# How often an actor that could go on is made to wait, where there are three or more of them; None: no bound.
SWITCHES = {1: 2, 2: 3, 3: 5}.get(DEPTH)
FEWER = {1: 1, 2: 2}.get(DEPTH)  # where two switches take the better part of a minute


def scenario(function):
    SCENARIOS[function.__name__] = function
    return function


@contextmanager
def conditions(name):
    """What every scenario runs under, see above."""

    def refusal(store, id, token):
        return Refused(id)

    patches = [mock.patch.object(lane, "_refusal", refusal)]
    if not name.startswith("leaves"):
        patches.append(mock.patch.object(tree, "prune"))
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


def run(name):
    """Search one scenario. Raises Found; returns the Explorer."""
    with conditions(name):
        return SCENARIOS[name]().run()


# --- worlds


def held_world(*, expired=True, seconds=10, tasks=({},)):
    """A queue whose first task is held; its lease has run out. Returns (world, id, token)."""
    world = world_with(*tasks)
    id, token = held(world, seconds)
    if expired:
        world.now += seconds + 1
    return world, id, token


def waiting_world():
    """A task that fell due and nobody has promoted."""
    world = world_with({"next_at": names.iso(names.stamp(int(World().now) + 60))})
    world.now += 61
    return world


SWEEP, SWEEP2 = Actor("S", sweeps), Actor("Z", sweeps)
LANE = Actor("B", claims)
WORKER = Actor("B", claims, "done")


# --- claims


@scenario
def claim_claim():
    return Explorer(
        world_with({}), [Actor("A", claims), LANE], [Sound(), ComesHome(), NothingDue(0, 1), one_winner], watch=due_in
    )


@scenario
def claim_claim_two_tasks():
    return Explorer(
        world_with({}, {"person": "Eva"}), [Actor("A", claims), LANE],
        [Sound(), StrictOrder({"q1": 0, "q2": 0}, 0, 1), nobody_empty], watch=ready_in,
    )  # fmt: skip


@scenario
def claim_claim_sweep():
    world, _, _ = held_world()
    return Explorer(
        world, [Actor("A", claims), LANE, SWEEP], [Sound(), NothingDue(0, 1), one_winner],
        watch=due_in, switches=SWITCHES,
    )  # fmt: skip


def one_winner(state):
    got = [
        out[1][0] for out in state.outs if out and out[0] == "returned" and out[1] and str(out[1][0]).startswith("q")
    ]
    return f"two lanes hold one task: {got}" if len(got) > len(set(got)) else None


def nobody_empty(state):
    empty = [i for i, out in enumerate(state.outs) if out == ("returned", None)]
    return f"told nothing due, and there were as many tasks as lanes: {empty}" if empty else None


# --- a late lane, sweepers, the next lane


def fenced(verb, *others, **options):
    """The lane whose lease ran out settles, while others are at work."""
    world, id, token = held_world()
    promises = [Sound(), Told(A=(0, id, token, verb)), live_claims_stay]
    return Explorer(world, [Actor("A", settles, id, token, verb), *others], promises, **options)


@scenario
def done_sweep():
    explorer = fenced("done", SWEEP)
    explorer.promises.append(ComesHome())
    return explorer


@scenario
def fail_sweep():
    return fenced("fail", SWEEP)


@scenario
def release_sweep():
    return fenced("release", SWEEP)


@scenario
def done_two_sweeps():
    return fenced("done", SWEEP, SWEEP2, switches=SWITCHES)


@scenario
def done_next_lane():
    return fenced("done", WORKER)


@scenario
def done_sweep_next_lane():
    return fenced("done", SWEEP, WORKER, switches=SWITCHES)


@scenario
def fail_sweep_last_try():
    world, id, token = held_world()
    actors = [Actor("A", settles, id, token, "fail", max_tries=1), Actor("S", sweeps, max_tries=1)]
    return Explorer(world, actors, [Sound(), Told(A=(0, id, token, "fail")), failed_in_the_end])


def failed_in_the_end(state):
    if all(state.outs) and not any(
        path.startswith("failed/") for path, c in state.world.tree().items() if c is not None
    ):
        return "one try was allowed and made, and the task is not in failed/"
    return None


@scenario
def sweep_sweep():
    world, _, _ = held_world()
    return Explorer(world, [SWEEP, SWEEP2], [Sound(), ComesHome(), counted_once])


def counted_once(state):
    expired = sum(e["event"] == "expired" for e in entries_of(state.world, "q1"))
    told = any(out and out[0] == "returned" and out[1] == (("q1", "pending", "old"),) for out in state.outs)
    if expired > 1 or (told and not expired):
        return f"the dead attempt was counted {expired} times"
    return None


@scenario
def sweep_claim():
    world, _, _ = held_world()
    return Explorer(world, [SWEEP, LANE], [Sound(), ComesHome(), NothingDue(1)], watch=due_in)


@scenario
def sweeper_paused_past_its_lease():
    world, _, _ = held_world()
    return Explorer(world, [SWEEP, WORKER], [Sound(), NothingDue(1), counted_once], ticks=(5,), watch=due_in)


@scenario
def clock_set_back_during_a_sweep():
    world, _, _ = held_world()
    return Explorer(world, [SWEEP, LANE], [Sound(), ComesHome(), NothingDue(1)], ticks=(-3600,), watch=recovering_in)


def recovering_in(world):
    return frozenset(path.split("/")[1].split(".")[0] for path in world.tree() if path.startswith("recovering/"))


# --- one token, two commands


@scenario
def done_and_fail_under_one_token():
    world, id, token = held_world(expired=False)
    actors = [Actor("A", settles, id, token, "done"), Actor("a", settles, id, token, "fail")]
    return Explorer(world, actors, [Sound(), Told(A=(0, id, token, "done"), a=(1, id, token, "fail"))])


@scenario
def done_twice_under_one_token():
    world, id, token = held_world(expired=False)
    actors = [Actor("A", settles, id, token, "done"), Actor("a", settles, id, token, "done")]
    return Explorer(world, actors, [Sound(), nobody_refused])


def nobody_refused(state):
    refused = [self_name for self_name, out in enumerate(state.outs) if out == ("returned", "refused")]
    return f"the same settle under the same token was refused: {refused}" if refused else None


@scenario
def done_fail_sweep():
    world, id, token = held_world()
    actors = [Actor("A", settles, id, token, "done"), Actor("a", settles, id, token, "fail"), SWEEP]
    promises = [Sound(), Told(A=(0, id, token, "done"), a=(1, id, token, "fail"))]
    return Explorer(world, actors, promises, switches=SWITCHES)


# --- renew


@scenario
def done_renew():
    """The listing that done takes is two calls, and renew moves the name from the half not read into the half read."""
    world, id, token, seconds = next(
        (world, id, token, seconds)
        for world, id, token in (held_world(expired=False, seconds=lease) for lease in range(10, 20))
        for seconds in range(60, 70)
        if world.call("x", "half", "claimed", 1) and _renewed(world, id, token, seconds).call("x", "half", "claimed", 0)
    )
    actors = [Actor("A", settles, id, token, "done"), Actor("R", renews, id, token, seconds)]
    return Explorer(world, actors, [Sound(), Told(A=(0, id, token, "done")), done_is_not_refused], split=("claimed",))


def _renewed(world, id, token, seconds):
    copy = world.copy()
    alone(copy, lambda store: renews(store, id, token, seconds))
    return copy


def done_is_not_refused(state):
    return "done was refused, and nobody had taken the claim" if state.outs[0] == ("returned", "refused") else None


@scenario
def renew_sweep():
    world, id, token = held_world()
    return Explorer(
        world, [Actor("R", renews, id, token), SWEEP], [Sound(), ComesHome(), told_renewed, live_claims_stay]
    )


def told_renewed(state):
    """Who was told that the lease is longer holds the task, and nobody may take it before that."""
    just_told = state.step and state.outs[0] == ("returned", "ok") and state.parent.outs[0] is None
    if just_told and not any(path.startswith("claimed/") for path in state.world.tree() if "." in path):
        return "told renewed, and the claim is gone"
    return None


@scenario
def done_renew_sweep():
    world, id, token = held_world()
    actors = [Actor("A", settles, id, token, "done"), Actor("R", renews, id, token), SWEEP]
    return Explorer(world, actors, [Sound(), Told(A=(0, id, token, "done"))], split=("claimed",), switches=SWITCHES)


@scenario
def renew_next_lane():
    world, id, token = held_world()
    return Explorer(world, [Actor("R", renews, id, token), WORKER], [Sound(), live_claims_stay])


@scenario
def old_token_next_claim():
    """The same lane has claimed again: its old token settles nothing of the new claim."""
    world, id, token = held_world()
    alone(world, sweeps, 710)
    held(world, 3600, "old", 711)
    actors = [
        Actor("A", settles, id, token, "done"),
        Actor("R", renews, id, token),
        Actor("F", settles, id, token, "release"),
    ]
    return Explorer(world, actors, [Sound(), all_refused], switches=SWITCHES)


def all_refused(state):
    wrong = [out for out in state.outs if out and out != ("returned", "refused")]
    return f"a dead token did something: {wrong}" if wrong else None


# --- refresh


REFRESH = Actor("P", refreshes, "q1", ("priority", 9), ("note", "new"))


@scenario
def refresh_claim():
    promises = [Sound(), ComesHome(), NothingDue(1)]
    return Explorer(world_with({}), [REFRESH, LANE], promises, watch=due_in)


@scenario
def refresh_twice_claim():
    """Up to two changes of its priority during one call, a task is found."""
    actors = [Actor("P", _two_refreshes, 9), LANE]
    return Explorer(world_with({}), actors, [Sound(), NothingDue(1)], watch=due_in, limit=900_000)


def _two_refreshes(store, priority):
    from tests.sim.explore import Goto

    refreshes(store, "q1", ("priority", priority))
    return "ok" if priority == 5 else Goto(_two_refreshes, 5)


@scenario
def refresh_sweep():
    world, _, _ = held_world()
    return Explorer(world, [REFRESH, SWEEP], [Sound(), ComesHome()])


@scenario
def refresh_refresh():
    actors = [REFRESH, Actor("p", refreshes, "q1", ("note", "other"))]
    return Explorer(world_with({}), actors, [Sound(), ComesHome()])


@scenario
def release_refresh():
    world, id, token = held_world(expired=False)
    return Explorer(
        world, [Actor("A", settles, id, token, "release"), REFRESH], [Sound(), Told(A=(0, id, token, "release"))]
    )


@scenario
def refresh_worker():
    return Explorer(world_with({}), [REFRESH, WORKER], [Sound(), ComesHome()])


@scenario
def refresh_promote_claim():
    return Explorer(
        waiting_world(),
        [REFRESH, Actor("M", promotes), LANE],
        [Sound(), NothingDue(2)],
        watch=due_in,
        switches=FEWER,
    )


@scenario
def promote_claim():
    return Explorer(waiting_world(), [Actor("M", promotes), LANE], [Sound(), ComesHome(), NothingDue(1)], watch=due_in)


@scenario
def promote_worker_reader():
    actors = [Actor("M", promotes), WORKER, Actor("E", exports)]
    return Explorer(waiting_world(), actors, [Sound(), table_whole(2, "q1")], switches=FEWER)


# --- producers


TWO = ({"person": "Eva"}, {"person": "Zoe", "priority": 3})
BATCH = Actor("P", batches, *(tuple(fields.items()) for fields in TWO))


@scenario
def batch_claim():
    promises = [Sound(), ComesHome(), one_winner]
    return Explorer(new_world(), [BATCH, LANE], promises, still=PRODUCERS, crashes=1, switches=FEWER)


@scenario
def batch_dies_worker_helps():
    return Explorer(new_world(), [BATCH, WORKER], [Sound(), all_or_nothing], still=PRODUCERS, crashes=1, switches=FEWER)


def all_or_nothing(state):
    ids = {
        path.split("/")[-1].split(".")[0] for path, c in state.world.tree().items() if c is not None and "/q" in path
    }
    placed = {i for i in ids if i in ("q1", "q2")}
    seq = state.world.tree()["seq"].decode().split("\n")[0]
    if seq not in ("", "1-2"):
        return f"half a batch is committed: {seq}"
    if seq == "1-2" and placed != {"q1", "q2"}:
        return f"committed, and only {placed} is there"
    return None


@scenario
def add_add_of_one_identity():
    actors = [Actor("P", reseeds), Actor("Q", reseeds)]
    return Explorer(
        new_world(), actors, [Sound(), ComesHome(), one_of_ana], still=PRODUCERS, crashes=1, switches=SWITCHES
    )


@scenario
def add_dies_another_adds():
    """The id of a dead add goes to another identity; then the first comes again."""
    actors = [Actor("P", reseeds), Actor("O", reseeds, ("person", "Eva")), Actor("U", reseeds)]
    promises = [Sound(), one_of_ana, known_is_there]
    return Explorer(new_world(), actors, promises, still=PRODUCERS, crashes=1, switches=DEPTH - 1)


@scenario
def release_add_of_the_same_identity():
    """A match that moves while it is looked for is no orphan."""
    world, id, token = held_world(expired=False)
    actors = [Actor("A", settles, id, token, "release"), Actor("P", reseeds)]
    return Explorer(world, actors, [Sound(), ComesHome(), one_of_ana], still=PRODUCERS, switches=SWITCHES)


@scenario
def done_sweep_add_of_the_same_identity():
    world, id, token = held_world()
    actors = [Actor("A", settles, id, token, "done"), SWEEP, Actor("P", reseeds)]
    return Explorer(world, actors, [Sound(), one_of_ana], still=PRODUCERS, switches=SWITCHES)


def one_of_ana(state):
    anas = {
        path
        for path, c in state.world.tree().items()
        if c and b'"person_key": "ana"' in c and not path.startswith("tmp/")
    }
    return f"one identity is queued twice: {sorted(anas)}" if len(anas) > 1 else None


def known_is_there(state):
    tree = state.world.tree()
    for i in (0, 2):  # those that seed Ana's task
        out = state.outs[i]
        if out and out[0] == "returned" and out[1][0][1] == "known":
            id = out[1][0][0]
            if not any(f"/{id}." in path and c and b'"person_key": "ana"' in c for path, c in tree.items()):
                return f"told that {id} is known, and that is no task of Ana's"
    return None


# --- readers


def table_whole(i, *ids):
    def promise(state):
        out = state.outs[i]
        if out and (out[0] == "raised" or sorted(out[1]) != sorted(ids)):
            return f"the table has {out[1]}, the queue {ids}"
        return None

    return promise


@scenario
def export_release_claim():
    world, id, token = held_world(expired=False)
    actors = [Actor("A", settles, id, token, "release"), LANE, Actor("E", exports)]
    return Explorer(world, actors, [table_whole(2, "q1")], switches=SWITCHES)


@scenario
def export_done_sweep():
    world, id, token = held_world()
    actors = [Actor("A", settles, id, token, "done"), SWEEP, Actor("E", exports)]
    return Explorer(world, actors, [table_whole(2, "q1")], switches=SWITCHES)


@scenario
def export_renew():
    world, id, token = held_world(expired=False)
    actors = [Actor("R", renews, id, token), Actor("E", exports)]
    return Explorer(world, actors, [table_whole(1, "q1")], split=("claimed",))


@scenario
def stats_done_sweep():
    world, id, token = held_world()
    actors = [Actor("A", settles, id, token, "done"), SWEEP, Actor("E", counts)]
    return Explorer(world, actors, [sums_to_one], switches=SWITCHES)


def sums_to_one(state):
    out = state.outs[-1]
    return f"the counts are {out[1]}" if out and (out[0] == "raised" or sum(out[1]) != 1 or min(out[1]) < 0) else None


@scenario
def show_done_sweep():
    world, id, token = held_world()
    actors = [Actor("A", settles, id, token, "done"), SWEEP, Actor("E", shows, id)]
    return Explorer(world, actors, [shown], switches=SWITCHES)


def shown(state):
    out = state.outs[-1]
    return f"show answers {out}" if out and out[0] == "raised" else None


@scenario
def doctor_done_sweep():
    world, id, token = held_world()
    actors = [Actor("A", settles, id, token, "done"), SWEEP, Actor("D", examines)]
    return Explorer(world, actors, [nothing_found], switches=SWITCHES)


@scenario
def doctor_claim():
    return Explorer(world_with({}), [WORKER, Actor("D", examines)], [nothing_found], switches=SWITCHES)


@scenario
def doctor_refresh():
    return Explorer(world_with({}), [REFRESH, Actor("D", examines)], [nothing_found])


@scenario
def doctor_add():
    return Explorer(new_world(), [BATCH, Actor("D", examines)], [nothing_found], still=PRODUCERS, switches=SWITCHES)


def nothing_found(state):
    out = state.outs[-1]
    return f"doctor, while others work: {out}" if out and out != ("returned", ()) else None


# --- leaves that are made and removed


def far_apart(*numbers):
    """Tasks of one channel under these numbers, all held; returns (world, {id: token})."""
    world = new_world()
    rows = []
    for number in numbers:
        task = Task(f"q{number}", "")
        task.person_key, task.kind = f"p{number}", "sweep"
        rows.append(Row(task, names.PENDING))
    alone(world, lambda store: produce.import_rows(store, rows), 1000)
    return world, dict(held(world, 3600, number=2000 + number) for number in numbers)


@scenario
def leaves_one_comes_back_one_claims():
    world, id, token = held_world(expired=False)
    actors = [Actor("A", settles, id, token, "release"), LANE]
    return Explorer(world, actors, [Sound(), ComesHome(), Told(A=(0, id, token, "release"))], switches=4)


@scenario
def leaves_refresh_claim():
    return Explorer(world_with({}), [REFRESH, LANE], [Sound(), one_line_is_enough], switches=4)


def one_line_is_enough(state):
    """A directory that was removed meanwhile is no lost race: nothing is appended a second time."""
    content = b"".join(c for c in state.world.tree().values() if c)
    return "the update was written twice" if content.count(b'"event": "update"') > 1 else None


@scenario
def leaves_two_come_back_one_claims():
    world, tokens = far_apart(249, 250)
    actors = [
        Actor("A", settles, "q249", tokens["q249"], "release"),
        Actor("a", settles, "q250", tokens["q250"], "release"),
        LANE,
    ]
    promises = [Sound(), StrictOrder({"q249": 0, "q250": 0}, 2)]
    return Explorer(world, actors, promises, watch=ready_in, switches=FEWER)


@scenario
def leaves_of_two_blocks():
    world, tokens = far_apart(49_999, 50_000)
    actors = [Actor("A", settles, "q49999", tokens["q49999"], "release"), LANE]
    promises = [Sound(), StrictOrder({"q49999": 0, "q50000": 0}, 1), nobody_fails]
    return Explorer(world, actors, promises, watch=ready_in, switches=SWITCHES)


@scenario
def leaves_two_come_back_into_one():
    """The directory that one of them finds there is removed before it looks at it."""
    world, tokens = far_apart(1, 2)
    actors = [Actor(letter, settles, id, tokens[id], "release") for letter, id in (("A", "q1"), ("a", "q2"))]
    return Explorer(world, [*actors, LANE], [Sound(), nobody_fails], switches=SWITCHES)


def nobody_fails(state):
    """Nobody meets an error: there is none but what others do."""
    errors = [out[1] for out in state.outs if out and out[0] == "raised"]
    return f"somebody met {errors[0]!r}" if errors else None


@scenario
def leaves_claims_of_the_last():
    world = world_with({}, {"person": "Eva"})
    return Explorer(
        world,
        [WORKER, Actor("C", claims)],
        [Sound(), StrictOrder({"q1": 0, "q2": 0}, 1)],
        watch=ready_in,
        switches=SWITCHES,
    )


@scenario
def leaves_sweep_claim():
    world, _, _ = held_world()
    return Explorer(world, [SWEEP, LANE], [Sound(), NothingDue(1)], watch=due_in, switches=SWITCHES)


# --- power cuts: in every state, every world that may be left


class SurvivesCuts:
    """After a power cut in any state: sound, all that was acknowledged is there, and everything comes home."""

    def __init__(self, **who):
        self.who = who  # as in Told
        self.home = ComesHome()
        self.seen = {}

    def __call__(self, state):
        acknowledged = tuple(
            (id, token, verb) for i, id, token, verb in self.who.values() if state.outs[i] == ("returned", "ok")
        )
        key = state.world.fingerprint(power=True), acknowledged
        if key not in self.seen:
            self.seen[key] = self._look(state.world, acknowledged)
        return self.seen[key]

    def _look(self, world, acknowledged):
        for left in world.cuts():
            wrong = self.home.seen.get(left.fingerprint()) or self.home.check(left)
            self.home.seen[left.fingerprint()] = wrong
            if wrong:
                return f"after a power cut: {wrong}"
            for id, token, verb in acknowledged:
                if not any(e.get("token") == token and e["event"] == verb for e in entries_of(left, id)):
                    return f"after a power cut the acknowledged {verb} of {id} is gone"
        return None


@scenario
def power_done_sweep():
    world, id, token = held_world()
    promises = [SurvivesCuts(A=(0, id, token, "done"))]
    return Explorer(world, [Actor("A", settles, id, token, "done"), SWEEP], promises, power=True)


@scenario
def power_fail_sweep():
    world, id, token = held_world()
    promises = [SurvivesCuts(A=(0, id, token, "fail"))]
    return Explorer(world, [Actor("A", settles, id, token, "fail"), SWEEP], promises, power=True)


@scenario
def power_sweep_sweep():
    world, _, _ = held_world()
    return Explorer(world, [SWEEP, SWEEP2], [SurvivesCuts()], power=True)


@scenario
def power_refresh_worker():
    promises = [SurvivesCuts()]
    return Explorer(world_with({}), [REFRESH, WORKER], promises, power=True, switches=FEWER)


@scenario
def power_batch_worker():
    promises = [SurvivesCuts()]
    return Explorer(new_world(), [BATCH, WORKER], promises, power=True, still=PRODUCERS, switches=FEWER)


@scenario
def leaves_power_release_claim():
    world, id, token = held_world(expired=False)
    promises = [SurvivesCuts(A=(0, id, token, "release"))]
    actors = [Actor("A", settles, id, token, "release"), LANE]
    return Explorer(world, actors, promises, power=True, switches=SWITCHES)


def main(wanted):
    print(f"{'scenario':40} {'actors':>6} {'states':>9} {'steps':>9} {'seconds':>8}")
    for name in [n for n in SCENARIOS if not wanted or any(n.startswith(w) for w in wanted)]:
        begun = time.monotonic()
        try:
            explorer = run(name)
        except (Found, AssertionError) as error:
            print(f"{name:40} {str(error)[:3000]}", flush=True)
            continue
        bound = f"  at most {explorer.switches} switches" if explorer.switches is not None else ""
        took = time.monotonic() - begun
        print(
            f"{name:40} {len(explorer.actors):6} {explorer.states:9,} {explorer.steps:9,} {took:8.1f}{bound}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
