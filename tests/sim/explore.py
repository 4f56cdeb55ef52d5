"""Every interleaving of a few actors on a simulated disk, by search through states, the shortest trace first.

An actor is a function `program(store)` of the shipping code. It runs in a greenlet, and stops before each system call
that another actor could notice. A state is the world and, for each actor, what its calls have answered so far: the code
is deterministic, so that is its local state, and states that are reached in two ways are searched once. To go on from a
state an actor is run again from its start and fed the answers.

A process that is paused for ever, or killed, at any call is in the search by itself: nothing says that it must be
scheduled. `promises` are functions of a state that return what is wrong with it, or None.
"""

from __future__ import annotations

from collections import deque

from greenlet import GreenletExit, getcurrent, greenlet

from gwtq import names
from gwtq.errors import GwtqError
from gwtq.store import Store

from .disk import SimDisk, bury, draw

# Calls that commute with all calls of others are made together with the call before them. `content` of an open file:
# the chain below a head never changes. Appends and syncs too, unless a power cut is in the game: what is appended is
# off the chain until the rename, in whatever order the lines come.
INVISIBLE = frozenset(("close", "content", "now", "sleep", "chance"))
UNLESS_POWER = frozenset(("append", "sync", "sync_dir", "sync_all"))
READS = frozenset(("names", "exists", "is_dir", "read", "open_dir"))
STILL = frozenset(("", "queue.json", "seq", "tmp", "keys"))  # what only producers change
NEVER_REMOVED = frozenset(("claimed", "recovering"))  # so opening these directories commutes
CALLS_MAX = 400


class Actor:
    """Who runs what: a name, and a program: a function of a Store and arguments that can be compared, as a tuple."""

    def __init__(self, name, *program, **options):
        self.name = name
        self.program = program
        self.options = options


class Goto:
    """What a program returns to go on with another one, all else forgotten, so that there are fewer states."""

    def __init__(self, *program):
        self.program = program


class State:
    """One state of the search; `outs[i]` is what actor i came to, ('returned', value) or ('raised', error)."""

    __slots__ = ("histories", "last", "outs", "parent", "programs", "step", "switches", "ticks", "watch", "world")

    def __init__(self, world, programs, ticks):
        self.world = world
        self.programs = programs
        self.histories = ((),) * len(programs)
        self.outs = self.watch = (None,) * len(programs)
        self.ticks = ticks
        self.last = None  # who made the step that led here
        self.switches = 0  # how often an actor that could go on was made to wait
        self.parent = self.step = None

    def then(self, step, **changes):
        """The state after one step."""
        after = State.__new__(State)
        for name in self.__slots__:
            setattr(after, name, changes.get(name, getattr(self, name)))
        after.parent, after.step = self, step
        return after

    def trace(self):
        steps = []
        state = self
        while state.parent:
            steps.append(state.step)
            state = state.parent
        return steps[::-1]


class ExploredClock:
    """A clock whose every answer, and every draw of chance, is part of the actor's history."""

    def __init__(self, gate):
        self.gate = gate

    def now(self):
        return self.gate("now")

    def sleep(self, seconds):
        self.gate("sleep", seconds)

    def chance(self, size):
        return self.gate("chance", size)


class Found(AssertionError):
    """A promise that was broken, with the steps that led there."""

    def __init__(self, what, state):
        self.steps = state.trace()
        super().__init__("\n".join([what, *(f"  {i:3} {step}" for i, step in enumerate(self.steps, 1))]))


class Explorer:
    """One scenario: the world at the beginning, the actors, what must hold."""

    def __init__(
        self, world, actors, promises, *,
        ticks=(), power=False, split=(), watch=None, still=STILL, switches=None, crashes=0, limit=400_000,
    ):  # fmt: skip
        """`ticks`: the clock may move by each of these seconds, in order, at any time. `split`: directories whose
        listing takes two system calls. `watch(world)`: a set that is intersected over the time each actor runs.
        `still`: paths that no actor of this scenario changes. `switches`: bound of how often an actor that could go on
        is made to wait (None: every interleaving). `crashes`: how many holders of the lock may die. (Others need not:
        an actor that is never scheduled again is dead.)"""
        self.world = world
        self.actors = actors
        self.promises = promises
        self.ticks = tuple(ticks)
        self.invisible = INVISIBLE if power else INVISIBLE | UNLESS_POWER
        self.still = frozenset(still)
        self.switches = switches
        self.power = power
        self.split = frozenset(split)
        self.crashes = crashes
        self.watch = watch
        self.limit = limit
        self.states = self.steps = 0
        self._calls = {}

    def run(self):
        """Search all states. Raises Found at the first broken promise; returns self."""
        start = State(self.world.copy(), tuple(actor.program for actor in self.actors), self.ticks)
        if self.watch:
            start.watch = tuple(self.watch(start.world) for _ in self.actors)
        self._check(start)
        queue, seen = deque([start]), {self._key(start)}
        while queue:
            state = queue.popleft()
            self.states += 1
            assert self.states <= self.limit, f"more than {self.limit} states: bound the scenario"
            for after in self._successors(state):
                self.steps += 1
                key = self._key(after)
                if key not in seen:
                    seen.add(key)
                    self._check(after)
                    queue.append(after)
            state.world = None  # all that a trace needs is the step
        return self

    def _key(self, state):
        outs = tuple(None if o is None else str(o) for o in state.outs)
        bound = (state.last, state.switches) if self.switches is not None else None
        live = None if self.power else {a[2] for history in state.histories for a in history if len(a) == 3}
        return hash(
            (
                state.world.fingerprint(self.power, live),
                state.programs,
                state.histories,
                outs,
                state.ticks,
                state.watch,
                bound,
            )
        )

    def _check(self, state):
        for promise in self.promises:
            wrong = promise(state)
            if wrong:
                raise Found(wrong, state)

    def _successors(self, state):
        able = [self._able(state, i) for i in range(len(self.actors))]
        for i in range(len(self.actors)):
            switched = state.last not in (None, i) and able[state.last]
            if able[i] and (self.switches is None or state.switches + switched <= self.switches):
                yield self._step(state, i, state.switches + switched)
        yield from self._deaths(state)
        if state.ticks:
            world = state.world.copy()
            world.now += state.ticks[0]
            step = f"clock: {state.ticks[0]:+} s"
            yield self._watched(state.then(step, world=world, ticks=state.ticks[1:]))

    def _able(self, state, i):
        """Does actor i run, and not wait for a lock?"""
        if state.outs[i] is not None:
            return False
        call = self._next(i, state.programs[i], state.histories[i])
        return call[0] != "lock" or call[1] not in state.world.locks

    def _deaths(self, state):
        dead = sum(out is not None and out[0] == "crashed" for out in state.outs)
        for i, actor in enumerate(self.actors):
            if dead < self.crashes and actor.name in state.world.locks.values():
                world = state.world.copy()
                bury(world, actor.name)
                label = f"{actor.name} dies, and the kernel frees its lock"
                yield self._watched(state.then(label, world=world, outs=_put(state.outs, i, ("crashed", None))))

    def _step(self, state, i, switches):
        """The state after the next visible call of actor i, and the invisible ones behind it."""
        world = state.world.copy()
        program, history = state.programs[i], list(state.histories[i])
        label, out = "", None
        while True:
            call = self._next(i, program, tuple(history))
            if call[0] == "goto":
                program, history = call[1], []
                continue
            if call[0] in ("returned", "raised"):
                out, history = call, []
                break
            commutes = call[0] in self.invisible or self._commutes(call)
            if label and not commutes:
                break
            answer = self._answer(world, i, call, history)
            history.append(answer)
            if not commutes:
                label = label or f"{self.actors[i].name}: {call[0]} {_short(call[1:])} -> {_short(answer)}"
        label = (label or f"{self.actors[i].name}: ends") + (f"   [{_short(out)}]" if out else "")
        return self._watched(
            state.then(
                label,
                world=world,
                programs=_put(state.programs, i, program),
                histories=_put(state.histories, i, tuple(history)),
                outs=_put(state.outs, i, out),
                last=i,
                switches=switches,
            )
        )

    def _commutes(self, call):
        name, path = call[:2] if len(call) > 1 else (call[0], None)
        return name in READS and (path in self.still or (name == "open_dir" and path in NEVER_REMOVED))

    def _watched(self, state):
        if self.watch:
            here = self.watch(state.world)
            running = zip(state.watch, state.parent.outs)
            state.watch = tuple(seen & here if out is None else seen for seen, out in running)
        return state

    def _answer(self, world, i, call, history):
        """Carry out a call: ('ok', value), ('ok', value, letters) of a draw, or ('error', number, words, path)."""
        name = call[0]
        if name == "chance":
            return self._draw(world, i, call[1], {a[2] for a in history if len(a) == 3})
        if name == "now":
            return ("ok", world.now)
        if name == "sleep":
            return ("ok", None)
        try:
            return ("ok", world.call(self.actors[i].name, *call))
        except OSError as error:
            return ("error", error.errno, error.strerror, str(error.filename))

    def _draw(self, world, i, size, drawn):
        """The first draw of this actor that has left no trace: so states differ only by draws that did."""
        used = repr(world.tree())
        for count in range(1, 1 << 20):
            value = draw(i + 1, count, size)
            letters = names.letters(value)
            if size == 1 or (letters not in used and letters not in drawn):
                return ("ok", value, letters if size > 1 else "")
        raise AssertionError("out of chance")

    def _next(self, i, program, history):
        """The call that actor i makes after these answers; replayed once, and remembered."""
        key = i, program, history
        if key not in self._calls:
            self._calls[key] = self._replay(i, program, history)
        return self._calls[key]

    def _replay(self, i, program, history):
        assert len(history) < CALLS_MAX, f"{self.actors[i].name} makes more than {CALLS_MAX} calls"
        actor = self.actors[i]
        function, *arguments = program
        main = getcurrent()
        over = []

        def gate(name, *args):
            if over:
                raise GreenletExit
            answer = main.switch((name, *args))
            if answer[0] == "error":
                raise OSError(*answer[1:])
            return answer[1]

        def listing(name, *args):
            if name == "names" and args[0] in self.split:
                first = gate("half", args[0], 0)
                return (*first, *gate("half", args[0], 1))
            return gate(name, *args)

        def body():
            try:
                value = function(Store(SimDisk(listing), ExploredClock(gate), **actor.options), *arguments)
            except (GwtqError, OSError) as error:
                return ("raised", repr(error))
            return ("goto", value.program) if isinstance(value, Goto) else ("returned", value)

        runner = greenlet(body)
        call = runner.switch()
        for answer in history:
            call = runner.switch(answer)
        over.append(True)
        if not runner.dead:
            runner.throw(GreenletExit)
        return call


def _put(values, i, value):
    return (*values[:i], value, *values[i + 1 :])


def _short(value):
    if isinstance(value, bytes):
        return value.strip().decode("utf-8", "replace")[:90]
    if isinstance(value, tuple):
        return "(" + " ".join(_short(v) for v in value) + ")" if len(value) != 1 else _short(value[0])
    return str(value)
