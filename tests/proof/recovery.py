"""What must be so after a crash or an error: the promises of one world, and of what its recovery makes of it."""

from __future__ import annotations

from gwtq import layout, names, produce, sweep
from gwtq.idset import IdSet
from tests.sim.disk import Direct, bury
from tests.sim.promises import alone, bring_home, entries_of, examined, ids_of, sound, tasks_of

from . import operations


def buried(world):
    """The world once all processes are dead."""
    world = world.copy()
    for actor in {who for who, _ in world.handles} | set(world.locks.values()):
        bury(world, actor)
    return world


def recovered(world):
    """The world once the next producer and the next sweeper were there, and no lane."""
    world = buried(world)
    world.now += sweep.RECOVERING_SECONDS + 1

    def produces(store):
        with produce.Producer(store):
            pass

    alone(world, produces, 810)
    alone(world, helps, 811)
    return world


def helps(store):
    """What every claim and every requeue-expired does first."""
    work = sweep.Pass()
    sweep.expired(store, work)
    sweep.finish_batches(store, work)
    sweep.promote(store, work)


NAMES_OF_ENTRIES = ("gen", "prev", "at")


def view(world):
    """What people can tell: the settings, and each task: where it is, who holds it and what its log says."""
    found = {"settings": world.tree().get(layout.SETTINGS)}
    for path, state, name, _ in tasks_of(world):
        entries = [{k: v for k, v in e.items() if k not in NAMES_OF_ENTRIES} for e in entries_of(world, name.id)]
        waiting = path.startswith(layout.WAITING)
        found[name.id] = (state, waiting, name.lane, name.until if name.lane or waiting else "", entries)
    return found


def unclaimed(world):
    """The same, as if what the new lane holds were not held."""
    return {
        id: ("pending", False, "", "", told[-1]) if id != "settings" and told[2] == "new" else told
        for id, told in view(world).items()
    }


def shape(world):
    """Worlds of one shape fare alike: of a batch that is not committed only the names are ever looked at."""
    tree = world.tree()
    ids, _, marker = tree.get(layout.SEQ, b"").decode().rstrip("\n").partition("\n")

    def looked_at(path):
        top, *parts = path.split("/")
        if top != layout.TMP or not parts:
            return True
        number = names.number_of(parts[0])
        return parts[0] == marker or (number and number in committed)

    try:
        committed = IdSet.parse(ids)
    except ValueError:  # then all that is there may have been
        committed = range(names.ID_MAX)
    return hash((frozenset((path, data if looked_at(path) else b"") for path, data in tree.items()), world.now))


def tables(world):
    """What is wrong with the table that a reader makes of this world, and whether reading changes anything."""
    after = buried(world)
    before = after.tree()
    try:
        rows = operations.by(after, 820, operations.reads)
    except Exception as error:
        return f"reading: {type(error).__name__}: {error}"
    if after.tree() != before:
        return "reading wrote something"
    ids = [id for id, _ in rows]
    return None if ids == [f"q{n}" for n in sorted(ids_of(before))] else f"the table has {ids}"


class Judge:
    """Looks at worlds that one operation left, each shape of them once."""

    def __init__(self, operation, look=view):
        self.operation = operation
        self.look = look
        self.known = {}

    def once(self, look, key, *args):
        """What `look` says, asked once for all that have the key."""
        key = look.__name__, key
        if key not in self.known:
            self.known[key] = look(*args)
        return self.known[key]

    def __call__(self, world, step, allowed, *, power=False):
        """What is wrong with a world that `step` (a number) left; `allowed`: the views of what may have happened."""
        key = shape(world)
        wrong = None
        if not self.operation.faulty:
            wrong = self.once(_as_it_is, key, world)
            after, home, seen = self.once(self._recovery, key, world)
            wrong = wrong or self._fits(seen, allowed) or self.once(bring_home, home, after)
            if power and self.operation.wide:
                key, world = home, after
        return (
            wrong
            or self.once(self._again, (key, step), world, step, allowed[-1] if allowed else None)
            or (None if power else self.once(self._stays, (world.fingerprint(power=True), step), world, step))
        )

    def _recovery(self, world):
        """What recovery makes of it: the world, its shape, its view."""
        after = recovered(world)
        return after, shape(after), self.look(after)

    def _fits(self, seen, allowed):
        if self.operation.per_task:
            for id in set(seen).union(*allowed):
                if all(seen.get(id) != view.get(id) for view in allowed):
                    return f"{id} is as neither before nor after: {seen.get(id)}"
        elif seen not in allowed:
            return "it is as neither before nor after:\n" + "\n".join(f"    {k}: {v}" for k, v in seen.items())
        return None

    def _rerun(self, world, step):
        """The same command again, by another process: (its answer, the world then)."""
        after = buried(world)
        after.now += sweep.RECOVERING_SECONDS + 1 if self.operation.per_task else 0
        return self.operation.steps[step].run(Direct(after, "again"), 830), after

    def _again(self, world, step, wanted=None):
        """Does the same command again succeed, and come to what it would have come to the first time?"""
        if not self.operation.again:
            return None
        try:
            outcome, after = self._rerun(world, step)
        except Exception as error:
            return f"the same command again: {type(error).__name__}: {error}"
        if not self.operation.again(outcome):
            return f"the same command again answers {outcome!r}"
        if self.operation.faulty:
            return sound(after) or bring_home(after)
        home = recovered(after)
        if not self.operation.more and view(home) != wanted:
            return "the same command again does not come to the same"
        return sound(after) or self.once(examined, shape(home), home)

    def _stays(self, world, step):
        """Is what the same command again acknowledged safe from power cuts, whatever the dead process left undone?"""
        if not self.operation.again or self.operation.steps[step].lossy or self.operation.per_task:
            return None
        _, after = self._rerun(world, step)
        wanted = view(recovered(after))
        for cut in after.cuts():
            if self.once(_recovered_view, shape(cut), cut) != wanted:
                return "a power cut takes back what the same command again acknowledged"
        return None


def _recovered_view(world):
    return view(recovered(world))


def _as_it_is(world):
    return sound(world) or tables(world)
