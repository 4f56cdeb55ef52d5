"""What a lane does: claim a task, renew the claim, settle it.

Lanes take no lock and wait for nobody, but for an entry of recovering/ (at most a sweeper's short lease) when they find
nothing else. A claim is one rename; the name it makes is the claim. A settle is one line appended and synced and one
rename, synced.
"""

from __future__ import annotations

from . import layout, names, sweep, tree
from .disk import TRIES_MAX
from .errors import Corrupt, NewerFormat, NoSuchTask, Refused, Undecodable
from .rules import backoff
from .store import parse
from .task import DONE, FAIL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from .jsonline import Json
    from .names import Name
    from .store import Store
    from .task import Task

WAIT_STEP_SECONDS = 0.02
QUIET_PASSES = 3
SLEPT_PART = 10  # a claim that slept through more than a tenth of its lease before the rename is renewed


class Held:
    """A claim that was made: the task, and what was swept on the way."""

    __slots__ = ("recovered", "task")

    def __init__(self, task: Task, recovered: sweep.Recovered) -> None:
        self.task = task
        self.recovered = recovered


# --- claim


class Wish:
    """What a lane asks for: its name, the lease in seconds, kinds and sources (none: any), whether to sweep first."""

    __slots__ = ("kinds", "lane", "lease", "sources", "sweeps")

    def __init__(
        self,
        lane: str,
        lease: float,
        kinds: Collection[str] = (),
        sources: Collection[str] = (),
        *,
        sweeps: bool = True,
    ) -> None:
        self.lane = lane
        self.lease = lease
        self.kinds = kinds
        self.sources = sources
        self.sweeps = sweeps


def claim(store: Store, wish: Wish) -> Held | None:
    """Hand out the best task that is due: highest priority, then lowest number. None when nothing is due.

    "Nothing due" is said after three passes in a row that saw nothing and lost no race (rule 5). A change of its
    priority hides a task from one pass at most, so one that was due during the whole call, and that nobody took, is
    found although its priority changed twice meanwhile.
    """
    work = sweep.Pass()
    quiet = 0
    while quiet < QUIET_PASSES:
        held = one_pass(store, wish, work)
        if held:
            _tell(store, work.recovered)
            return held
        quiet = 0 if work.seen else quiet + 1
    _tell(store, work.recovered)
    store.mend_directories()
    return None


def one_pass(store: Store, wish: Wish, work: sweep.Pass) -> Held | None:
    """Help others' work along, then take the best task that can be had; `work.seen` tells if there was anything."""
    work.seen = False
    if wish.sweeps:
        sweep.expired(store, work)
    sweep.finish_batches(store, work)
    sweep.promote(store, work)
    for _, path, last in tree.ordered(store.disk, wish.kinds, wish.sources, tidy=True):
        name = parse(names.PENDING, layout.base(path))
        if name and path not in work.stuck:
            work.seen = True
            held = _take(store, path, name, wish, work)
            if held:
                if last:
                    tree.prune(store.disk, layout.parent(path))
                return held
    if wish.sweeps and any(sweep.claim_key(n) not in work.stuck for _, n in store.parsed(names.RECOVERING)):
        store.clock.sleep(WAIT_STEP_SECONDS)  # another sweeper is at it: nothing else is worth waiting for
    return None


def _tell(store: Store, recovered: sweep.Recovered) -> None:
    """Name what ended in failed/ on the way: its lanes are dead, so nobody else would say it."""
    for task in recovered.failed:
        why = task.problem or f"its lease ran out on attempt {task.tries}, the last"
        store.notify(f"{task.id} is parked as failed: {why}")


def _take(store: Store, path: str, name: Name, wish: Wish, work: sweep.Pass) -> Held | None:
    """Claim one candidate; None if somebody was faster, or it cannot be had (then it is in `work.stuck`)."""
    begun = store.clock.now()
    token = store.letters(names.TOKEN_LENGTH)
    text = names.claim_name(name.id, name.head, token, names.stamp(int(begun)), store.later(wish.lease), wish.lane)
    held = f"{names.CLAIMED}/{text}"
    # claim.1 take: the rename is the first act; the record is read under the claim's own name.
    if not store.move(path, names.CLAIMED, text, sync=False):
        return None
    try:
        task = _read(store, held, work)
    except (OSError, NewerFormat) as error:
        store.move(held, layout.parent(path), layout.base(path), sync=False)
        work.stuck.add(path)
        if isinstance(error, NewerFormat):
            raise
        store.notify(f"{name.id} cannot be claimed, and was put back: {sweep.sentence(error)}")
        return None
    if task and store.clock.now() - begun > wish.lease / SLEPT_PART:
        renewed = _renew(store, name.id, token, wish.lease)
        if not renewed:
            return None
        held = renewed
        task = store.task(held)
    return Held(task, work.recovered) if task else None


def _read(store: Store, held: str, work: sweep.Pass) -> Task | None:
    """The record of a claim just made, opened for appending: a file that can be read and not settled is no use."""
    name = names.parse_claim(layout.base(held))
    try:
        fd = store.disk.open(held)
    except FileNotFoundError:
        return None  # slept through the lease, and was swept
    try:
        return store.fold(name, names.CLAIMED, store.disk.content(fd))
    except Undecodable as error:
        sweep.park(store, held, name, str(error), work.recovered)
        return None
    finally:
        store.disk.close(fd)


# --- renew


def renew(store: Store, id: str, token: str, lease: float) -> str:
    """Push the end of a claim's lease out; never back. Returns the claim's path. Raises Refused."""
    path = _renew(store, id, token, lease)
    if path:
        return path
    raise _refusal(store, id, token)


def _renew(store: Store, id: str, token: str, lease: float) -> str | None:
    for _ in range(TRIES_MAX):
        path = renew_once(store, id, token, lease)
        if path:
            return path
        if not store.claimed_as(id, token) and witness(store, id, token):
            return None
    raise Corrupt(f"The claim of {id} never stays where it is seen.")


def renew_once(store: Store, id: str, token: str, lease: float) -> str | None:
    """Rename the claim that is seen to one with a later end; None: it was not seen, or moved meanwhile."""
    seen = store.claimed_as(id, token)
    if not seen:
        return None
    (path, name), until = seen, store.later(lease)
    if until <= name.until:
        return path
    text = names.renewed_name(layout.base(path), until)
    return f"{names.CLAIMED}/{text}" if store.move(path, names.CLAIMED, text, sync=False) else None


def witness(store: Store, id: str, token: str) -> str | None:
    """The path of a task that is seen to be elsewhere than held under this token; None: look again (rule 4)."""
    try:
        path = store.locate(id)
    except NoSuchTask as error:
        raise Refused(f"There is no task {id} in this queue.") from error
    name = parse(names.CLAIMED, layout.base(path)) if layout.state_of(path) == names.CLAIMED else None
    if not (name and name.token == token):
        return path
    if path.startswith(layout.TMP):
        sweep.finish_batches(store, sweep.Pass())  # imported by a producer that died before it moved the claim
    return None


# --- settle


class Settled:
    """What a settle made of the task: `outcome` done, pending, waiting or failed; `already` if it was so before."""

    __slots__ = ("already", "next_at", "outcome")

    def __init__(self, outcome: str, next_at: str = "", *, already: bool = False) -> None:
        self.outcome = outcome
        self.next_at = next_at
        self.already = already


class Settlement:
    """How a claim is to end: the verb, and what the line says beside who held it."""

    __slots__ = ("delay", "fields", "final", "verb")

    def __init__(self, verb: str, *, delay: float = 0, final: bool = False, **fields: str) -> None:
        self.verb = verb
        self.delay = delay  # seconds; of a fail: for each attempt so far
        self.final = final
        self.fields: dict[str, Json] = {key: value for key, value in fields.items() if value}

    def place(self, store: Store, task: Task, head: str) -> tuple[str, str, Settled]:
        """(directory, name, outcome) of the task once it has ended so."""
        number = int(task.id[1:])
        if self.verb == DONE:
            return layout.shard(names.DONE, number), names.settled_name(task.id, head), Settled(names.DONE)
        if self.verb == FAIL and (self.final or task.tries >= store.max_tries):
            return layout.shard(names.FAILED, number), names.settled_name(task.id, head), Settled(names.FAILED)
        delay = backoff(self.delay, task.tries) if self.verb == FAIL else self.delay
        due = store.later(delay) if delay else ""
        directory, name = store.pending_place(task, head, due)
        return directory, name, Settled("waiting" if name.count(".") == 2 else names.PENDING, names.iso(due))

    def same(self, entry: dict[str, Json]) -> bool:
        """Is this what the entry says already?"""
        return (
            entry["event"] == self.verb
            and entry.get("result") == self.fields.get("result")
            and bool(entry.get("final")) == self.final
        )


def settle(store: Store, id: str, token: str, how: Settlement) -> Settled:
    """End a claim. Durable on return. The same again under the same token changes nothing and says so.

    Raises Refused when the claim is not held under this token any more; then nothing that counts has changed.
    """
    for _ in range(TRIES_MAX):
        settled = settle_once(store, id, token, how)
        if settled:
            return settled
    raise Corrupt(f"The claim of {id} never stays where it is seen.")


def settle_once(store: Store, id: str, token: str, how: Settlement) -> Settled | None:
    """One look at the claim and what follows from it; None: it was renewed, taken or moved meanwhile, look again."""
    seen = store.claimed_as(id, token)
    if seen:
        return _settle(store, *seen, how)
    elsewhere = witness(store, id, token)
    return _settled_before(store, elsewhere, token, how) if elsewhere else None


def _settle(store: Store, path: str, name: Name, how: Settlement) -> Settled | None:
    try:
        fd = store.disk.open(path)
    except FileNotFoundError:
        return None
    try:
        task = store.fold(name, names.CLAIMED, store.disk.content(fd))
        head = store.generation()
        directory, text, settled = how.place(store, task, head)
        entry: dict[str, Json] = {
            "gen": head, "prev": name.head, "event": how.verb, "at": names.iso(store.now()), "token": name.token,
            "lane": name.lane, "since": names.iso(name.since), **how.fields,
        }  # fmt: skip
        if how.final:
            entry["final"] = True
        if settled.next_at:
            entry["next_at"] = settled.next_at
        store.append(fd, entry)  # settle.1 append, synced
    finally:
        store.disk.close(fd)
    for _ in range(TRIES_MAX):
        if store.move(path, directory, text, sync=True):  # settle.2 move: the commit point
            return settled
        again = store.claimed_as(name.id, name.token)  # renewed by the same lane: the head is the same
        if not again:
            break
        path, _ = again
    return None


def _settled_before(store: Store, path: str, token: str, how: Settlement) -> Settled | None:
    """The answer to a settle whose claim is over: "already" if it ended just so, else Refused; None: it moved."""
    try:
        task = store.task(path)
    except FileNotFoundError:
        return None
    except Undecodable as error:
        raise _refusal(store, layout.base(path).split(".")[0], token) from error
    for entry in task.entries:
        if entry.get("token") == token and how.same(entry):
            sweep.sync_directory(store, layout.parent(path))
            return Settled(how.verb, already=True)
    raise _refusal(store, task.id, token)


def _refusal(store: Store, id: str, token: str) -> Refused:
    """Why a token is dead, in one sentence."""
    try:
        task = store.tolerant(store.locate(id))
    except FileNotFoundError:
        return Refused(f"{id} is not claimed under this token.")
    ended = [entry for entry in task.entries if entry.get("token") == token]
    if ended:
        what = {
            "expired": "its lease ran out and it was taken back",
            DONE: f"it ended as done ({ended[0].get('result')})",
        }
        how = what.get(str(ended[0]["event"]), f"it ended with {ended[0]['event']}")
        return Refused(f"The claim of {id} is over: {how} at {ended[0].get('at')}; the task is {_now(task)}.")
    return Refused(f"{id} was never claimed under this token; the task is {_now(task)}.")


def _now(task: Task) -> str:
    return f"claimed by {task.lane} until {task.lease_until}" if task.status == "claimed" else task.status
