"""An error at every disk call of every operation, once and for good, of every kind that a disk gives."""

from __future__ import annotations

import errno

import pytest

from gwtq import names
from gwtq.errors import DiskError, GwtqError
from tests.sim.disk import Direct, bury
from tests.sim.promises import entries_of, tasks_of

from . import operations, recovery
from .operations import EXPIRE, LEASE, by, claims, holding, opened, queue_of, settles

KINDS = ("ENOSPC", "EIO", "EACCES", "EMFILE", "short write")
NEVER_FAIL = ("close", "unlock", "lock_is_free")  # by their contract: they answer


class Endless(BaseException):
    """The command makes calls without end."""


class Faulty(Direct):
    """A gate at which some calls fail: `fails(at, name)` says which, with this error."""

    def __init__(self, world, kind, fails, calls_max):
        super().__init__(world, "A1", number=getattr(errno, kind, errno.ENOSPC), short=kind == "short write")
        self.fails, self.calls_max = fails, calls_max

    def __call__(self, name, *args):
        if len(self.calls) > self.calls_max:
            raise Endless
        self.fail_at = len(self.calls) if self.fails(len(self.calls), name) else None
        return super().__call__(name, *args)


class Errors:
    """An operation, and what it does when calls of it fail."""

    def __init__(self, name, depth):
        self.depth = depth
        self.operation = operations.operation(name)
        (self.step,) = self.operation.steps
        before, after = self.operation.world, self.operation.world.copy()
        gate = Direct(after, "A1")
        self.expected = self.step.run(gate, 1)
        bury(after, "A1")
        self.calls = gate.calls
        look = recovery.unclaimed if self.step.lossy else recovery.view
        self.views = [] if self.operation.faulty else [look(recovery.recovered(world)) for world in (before, after)]
        self.judge = recovery.Judge(self.operation, look)
        self.last = None, None

    def run(self, kind, fails):
        """Run it so; what is wrong at once, how it ended, and the worlds that this may leave: live, and power cuts."""
        world, told = self.operation.world.copy(), []
        gate = Faulty(world, kind, fails, 20 * len(self.calls) + 500)
        ended = wrong = None
        try:
            ended = ("said", self.step.run(gate, 1, notify=told.append))
        except Endless:
            wrong = "it goes on without end"
        except (OSError, GwtqError) as error:
            ended = ("raised", error)
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        bury(world, "A1")
        explains = told or self.operation.faulty or "cannot be read" in str(ended)
        if ended and ended[0] == "said" and ended[1] != self.expected and not explains:
            wrong = f"it says {ended[1]!r}, and not why"
        cuts = self.depth > 1 or (ended and ended[0] == "said" and not self.step.lossy)
        return wrong, ended, world, list(world.cuts()) if cuts else []

    def once(self, key, *args):
        """The last run is remembered, for the choices behind it."""
        if self.last[0] != key:
            self.last = key, self.run(*args)
        return self.last[1]

    def wrong(self, ended, world, *, power):
        """What is wrong with a world after it ended so."""
        said = ended[0] == "said"
        kept = None if power and self.step.lossy else self.operation.kept
        if said and kept and not kept(ended[1], world):
            return "that is not so"
        sure = said and ended[1] == self.expected and not self.step.lossy
        return self.judge(world, 0, self.views[sure:], power=power)

    def check(self, choose, explored, key, *args):
        """Run it so, and judge each world that may be left."""
        wrong, ended, world, cuts = self.once(key, *args)
        assert not wrong, wrong
        cut = choose.below(1 + len(cuts), "0: nothing more happens, else a power cut")
        explored.points += not cut
        explored.worlds += 1
        wrong = self.wrong(ended, cuts[cut - 1] if cut else world, power=cut > 0)
        assert not wrong, f"{wrong}\n  it {ended[0]} {ended[1]!r}"


def failing_calls(calls):
    """(call, kind) of each single error."""
    return [
        (at, kind)
        for at, (name, *_) in enumerate(calls)
        for kind in KINDS
        if name not in NEVER_FAIL and (name == "append" or kind != "short write")
    ]


@pytest.mark.parametrize("name", operations.SINGLE)
def test_error(name, odometer, explored, depth):
    """A call fails once: the command says so, or gets over it. What it said is so, and stays through every power cut;
    else it happened or did not, whole. The ordinary commands go on, and the same command again succeeds, durably. (With
    GWTQ_PROOF_DEPTH=2 the power is cut after an error that is told, too.)"""
    errors = Errors(name, depth)

    def body(choose):
        at, kind = choose.of(failing_calls(errors.calls), "error of call")
        errors.check(choose, explored, (at, kind), kind, lambda n, _: n == at)

    explored.calls = len(errors.calls)
    odometer.run(body)


LASTING = {
    "a full disk": ("ENOSPC", ("make", "open_or_create", "append", "make_dir")),
    "a disk that takes half of each line": ("short write", ("append",)),
    "a disk that does not sync": ("EIO", ("sync", "sync_dir", "sync_all")),
    "no file can be opened": ("EMFILE", ("names", "read", "open", "make", "open_or_create", "open_dir", "lock")),
    "no name can be changed": ("EACCES", ("rename", "remove")),
    "every call fails": ("EIO", ()),
}


@pytest.mark.parametrize("name", operations.SINGLE)
def test_lasting_error(name, odometer, explored, depth):
    """From some call on a kind of calls fails for good: the command comes to an end, nothing is lost, and once the
    fault is mended everything goes on."""
    errors = Errors(name, depth)

    def body(choose):
        what = choose.of(tuple(LASTING), "from then on")
        kind, calls = LASTING[what]

        def fails(name):
            return name not in NEVER_FAIL and (not calls or name in calls)

        firsts = [at for at, (name, *_) in enumerate(errors.calls) if fails(name)]
        if firsts:
            first = choose.of(firsts, "from call")
            errors.check(choose, explored, (what, first), kind, lambda at, name: at >= first and fails(name))

    explored.calls = len(errors.calls)
    odometer.run(body)


# --- by name


def failing(world, command, kind, *calls, told=None):
    """Run a command while these calls fail."""
    gate = Faulty(world, kind, lambda at, name: name in calls, 2000)
    try:
        return command(opened(gate, 1, notify=(told or []).append))
    finally:
        bury(world, "A1")


SETTLES = [("done", "hit"), ("fail", LEASE), ("release",)]


@pytest.mark.parametrize(("verb", "args"), [(verb, args) for verb, *args in SETTLES])
@pytest.mark.parametrize(("kind", "call"), [("EIO", "sync"), ("ENOSPC", "append"), ("short write", "append")])
def test_a_settle_that_cannot_write_its_line_leaves_the_claim_and_succeeds_later(verb, args, kind, call):
    world = queue_of({})
    id, token = holding(world)
    with pytest.raises((OSError, DiskError)):
        failing(world, settles(verb, id, token, *args), kind, call)
    assert [(state, name.token) for _, state, name, _ in tasks_of(world)] == [(names.CLAIMED, token)]
    assert by(world, 2, settles(verb, id, token, *args)) in ("done", "waiting", "pending")
    assert [entry["event"] for entry in entries_of(world, id)] == ["add", verb]


@pytest.mark.parametrize(("verb", "args"), [(verb, args) for verb, *args in SETTLES])
def test_a_settle_whose_last_sync_failed_has_happened_and_the_next_try_makes_it_durable(verb, args):
    world = queue_of({})
    id, token = holding(world)
    with pytest.raises(OSError, match="Input/output error"):
        failing(world, settles(verb, id, token, *args), "EIO", "sync_dir")
    assert by(world, 2, settles(verb, id, token, *args)) == "already"
    assert all([e["event"] for e in entries_of(cut, id)] == ["add", verb] for cut in world.cuts())


def test_claim_on_a_full_disk_tells_what_it_cannot_take_back_and_ends():
    """Each take-over that fails leaves the claim in recovering/ under a new name: remembered by its path, it would be
    waited for and taken over again without end."""
    world, told = queue_of({}), ["so far nothing"]
    id, _ = holding(world)
    world.now += EXPIRE
    assert failing(world, claims, "ENOSPC", "append", told=told) is None
    assert told[1:] == [f"{id} cannot be taken back from old: No space left on device"]


def test_claim_on_a_full_disk_hands_out_what_needs_no_space():
    world = queue_of({}, {"person": "Bo"})
    holding(world)
    world.now += EXPIRE
    assert failing(world, claims, "ENOSPC", "append")[0] == "q2"
