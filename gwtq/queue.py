"""The front door: a queue and what can be done with it. `doc/api.md` tells it with examples.

Everything here says what it promises in words of tasks and lanes; how a directory of files keeps the promise is told in
`doc/format.md` and done by the modules below (`store`, `lane`, `sweep`, `produce`, `look`).
"""

from __future__ import annotations

from . import lane as lanes
from . import layout, names, rules, sweep
from .claim import Claim
from .clock import Clock
from .disk import Disk
from .errors import BadInput, NoSuchTask
from .settings import new_settings
from .store import Store, arriving, ignore
from .sweep import Recovered
from .task import DONE, FAIL, RELEASE, Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import timedelta

    from .doctor import Finding
    from .items import Prepared, Row
    from .jsonline import Json
    from .look import Stats
    from .rules import Duration
    from .settings import Settings


class Queue:
    """A queue in a directory. Opening reads its settings and nothing else; one object may be shared by threads."""

    def __init__(
        self,
        path: str,
        *,
        max_tries: int | None = None,
        notify: Callable[[str], None] = ignore,
        durable: bool = True,
        reading: bool = False,
        disk: Disk | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Open the queue at `path`.

        `max_tries`: attempts until a task is parked as failed (default: the queue's own). `notify` is called with a
        sentence for people about what was met on the way. `durable=False` leaves out every sync, for tests and scratch
        queues: a crash of the process is survived, a power cut is not. `reading` promises to call nothing that writes.
        Raises NoSuchQueue, BadData, NewerFormat.
        """
        if max_tries is not None and max_tries < 1:
            raise BadInput("max_tries must be at least 1.")
        self._store = Store(
            disk or Disk(path, durable=durable), clock or Clock(), max_tries=max_tries, notify=notify, reading=reading
        )

    @classmethod
    def create(
        cls,
        path: str,
        kinds: Iterable[str] | None = None,
        results: dict[str, bool] | None = None,
        *,
        max_tries: int | None = None,
        notify: Callable[[str], None] = ignore,
        durable: bool = True,
        disk: Disk | None = None,
        clock: Clock | None = None,
    ) -> Queue:
        """Make the queue at `path` and open it; one that is there is opened and stays as it is. Durable on return.

        `kinds`: the kinds of its tasks (default search, sweep, verify, followup). `results`: the words that a task can
        end with, and whether such a task counts as done for dedupe (default: the ledger's words).
        Raises BadInput, NoSuchQueue for a path that is a file or holds other things.
        """
        from . import produce

        settings = new_settings(kinds, results)
        disk = disk or Disk(path, durable=durable)
        produce.create(disk, clock or Clock(), settings)
        return cls(path, max_tries=max_tries, notify=notify, durable=durable, disk=disk, clock=clock)

    @property
    def path(self) -> str:
        """The queue's directory, absolute."""
        return self._store.disk.root

    @property
    def settings(self) -> Settings:
        """What queue.json says."""
        return self._store.settings

    # --- producers

    def add(
        self,
        person: str,
        label: str | None = None,
        kind: str | None = None,
        source: str | None = None,
        query: str | None = None,
        priority: int | None = None,
        note: str | None = None,
        next_at: str | None = None,
        dedupe_key: str | None = None,
        *,
        dedupe: bool | str = False,
        retry_failed: bool = False,
    ) -> tuple[str, str]:
        """Add one task; returns (id, Enqueued). Durable on return.

        `dedupe=True` skips a task that is queued, running or done (known), and gives an open one the new label, query,
        note and priority (refreshed). `dedupe="any"`: a match in any state is known and stays untouched.
        Raises BadInput.
        """
        given: dict[str, Json] = {
            "person": person, "label": label, "kind": kind, "source": source, "query": query, "priority": priority,
            "note": note, "next_at": next_at, "dedupe_key": dedupe_key,
        }  # fmt: skip
        from .items import Prepared

        item = Prepared(rules.draft(given, self.settings, typed=False))
        return self.add_prepared([item], dedupe=dedupe, retry_failed=retry_failed)[0]

    def add_many(
        self, tasks: Iterable[dict[str, Json]], *, dedupe: bool | str = False, retry_failed: bool = False
    ) -> list[tuple[str, str]]:
        """Add a batch, all or nothing; returns (id, Enqueued) of each in order. Durable on return.

        Each task is an object with the arguments of `add` as keys. Raises BadData with the number of the first bad one.
        """
        from .items import prepare

        items = prepare(enumerate(tasks, 1), self.settings)
        return self.add_prepared(items, dedupe=dedupe, retry_failed=retry_failed)

    def add_prepared(
        self,
        items: list[Prepared],
        *,
        dedupe: bool | str = False,
        retry_failed: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> list[tuple[str, str]]:
        """As `add_many`, for tasks that `prepare` has checked; `progress` is called with the number done so far."""
        from . import produce

        if dedupe not in (True, False, "any"):
            raise BadInput(f"dedupe is True, False or 'any', not {dedupe!r}.")
        return produce.add_many(self._store, items, dedupe=dedupe, retry_failed=retry_failed, progress=progress)

    # --- lanes

    def claim(
        self,
        lane: str,
        kinds: Iterable[str] | None = None,
        sources: Iterable[str] | None = None,
        lease: Duration | None = None,
        *,
        sweep: bool = True,
    ) -> Claim | None:
        """Hand out the best task that is due, to `lane`, until the lease runs out; None when nothing is due.

        Highest priority first, then the lowest number. First takes back what dead lanes hold, of every kind (sweeping
        is not claiming), unless `sweep=False`. `lease`: a timedelta or seconds. Not synced: a power cut gives the task
        back. Raises BadInput.
        """
        wanted_kinds = [rules.kind(kind, self.settings) for kind in rules.words(kinds, "kinds")]
        wanted_sources = [rules.slug(rules.text(source, "source")) for source in rules.words(sources, "sources")]
        if not all(wanted_sources):
            raise BadInput("A source needs at least one letter or digit.")
        seconds = rules.lease(rules.seconds_of(lease, self.settings.lease_minutes * 60))
        wish = lanes.Wish(rules.lane(lane), seconds, wanted_kinds, wanted_sources, sweeps=sweep)
        held = lanes.claim(self._store, wish)
        return Claim(self, held.task, held.recovered) if held else None

    def renew(self, id: str, token: str, lease: Duration | None = None) -> str:
        """Push the end of a claim's lease out, never back; returns it. Not synced. Raises Refused."""
        seconds = rules.lease(rules.seconds_of(lease, self.settings.lease_minutes * 60))
        path = lanes.renew(self._store, rules.task_id(id), token, seconds)
        return names.iso(names.parse_claim(path.rpartition("/")[2]).until)

    def done(self, id: str, token: str, result: str, evidence: str = "", note: str = "") -> lanes.Settled:
        """Close a claimed task with a result. Durable on return. Raises Refused, BadInput for an unknown result."""
        how = lanes.Settlement(
            DONE,
            result=rules.result(result, self.settings),
            evidence=rules.text(evidence, "evidence"),
            note=rules.text(note, "note"),
        )
        return lanes.settle(self._store, rules.task_id(id), token, how)

    def fail(
        self, id: str, token: str, backoff: Duration | None = None, *, final: bool = False, note: str = ""
    ) -> lanes.Settled:
        """End an attempt that could not finish: the task is open again after `backoff` for each attempt so far, at most
        30 days; out of tries, or with `final`, it is parked as failed. Durable on return. Raises Refused."""
        delay = rules.retry_after(rules.seconds_of(backoff, self.settings.backoff_minutes * 60))
        how = lanes.Settlement(FAIL, delay=delay, final=final, note=rules.text(note, "note"))
        return lanes.settle(self._store, rules.task_id(id), token, how)

    def release(self, id: str, token: str, retry_after: Duration = 0, *, note: str = "") -> lanes.Settled:
        """Give a task back that was not tried, and its try with it; claimable after `retry_after`. Durable on return.
        Raises Refused."""
        delay = rules.retry_after(rules.seconds_of(retry_after, 0))
        how = lanes.Settlement(RELEASE, delay=delay, note=rules.text(note, "note"))
        return lanes.settle(self._store, rules.task_id(id), token, how)

    def requeue_expired(self) -> Recovered:
        """Take back every claim whose lease ran out: open again with its try counted, or failed out of tries.

        Also moves what fell due and what a dead producer committed. What cannot be moved is told through `notify`, and
        does not stop the others: `Recovered.stuck` counts it. Durable on return.
        """
        work = sweep.Pass()
        sweep.finish_batches(self._store, work)  # imported claims may be among them
        sweep.expired(self._store, work)
        sweep.promote(self._store, work)
        work.recovered.stuck = len(work.stuck)
        return work.recovered

    # --- people

    def find(self, id: str) -> Task:
        """One task. Raises NoSuchTask."""
        from . import look

        return look.find(self._store, rules.task_id(id))

    def find_claim(self, id: str) -> str | None:
        """The path of the file that holds the claim of this task, being recovered or not; None if it is not held."""
        try:
            path = self._store.locate(rules.task_id(id))
        except NoSuchTask:
            return None
        return f"{self.path}/{path}" if layout.holding(layout.state_of(path)) else None

    def tasks(
        self,
        *,
        status: str | None = None,
        person: str | None = None,
        lane: str | None = None,
        result: str | None = None,
        kind: str | None = None,
        source: str | None = None,
    ) -> Iterator[Task]:
        """Every task that fits all the filters given, by number; read as it is consumed. Raises BadInput."""
        from . import look

        if status is not None:
            rules.status(status)
        if kind is not None:
            rules.kind(kind, self.settings)
        if result is not None:
            rules.result(result, self.settings)
        wanted = {
            "status": status, "person_key": person, "lane": lane, "result": result, "kind": kind, "source": source,
        }  # fmt: skip
        filters: dict[str, tuple[str, ...]] = {key: (value,) for key, value in wanted.items() if value is not None}
        for key in ("person_key", "source"):
            if key in filters:  # as typed, or as its slug
                filters[key] += (rules.slug(filters[key][0]),)
        return (t for t in look.tasks(self._store) if all(getattr(t, k) in v for k, v in filters.items()))

    def due(self) -> Iterator[Task]:
        """What can be claimed now, in the order in which it will be."""
        from . import look

        return look.due(self._store)

    def held(self) -> list[Task]:
        """The tasks whose lease runs, by the end of it."""
        from . import look

        return look.held(self._store)

    def stats(self) -> Stats:
        """The counts, without opening the tasks."""
        from . import look

        return look.stats(self._store)

    def next_claim_expiry(self) -> timedelta | None:
        """How long until the first lease runs out, a sweeper's in recovering/ included; None when nothing is held.
        Zero when one ran out already and waits for a sweep."""
        ends = [n.until for _, n in self._store.parsed(names.CLAIMED)]
        ends += [n.until for path, n in arriving(self._store) if layout.state_of(path) == names.CLAIMED]
        ends += [n.sweeper_until for _, n in self._store.parsed(names.RECOVERING)]
        return self._until(min(ends, default=""))

    def next_due(self) -> timedelta | None:
        """How long until the first waiting task falls due; None when none waits."""
        return self._until(names.from_iso(self.stats().next_due))

    def oldest_pending_age(self) -> timedelta | None:
        """How long the oldest ready task has been claimable; None when nothing is ready."""
        from datetime import timedelta

        age = self.stats().oldest_open_seconds
        return None if age is None else timedelta(seconds=age)

    def _until(self, stamp: str) -> timedelta | None:
        from datetime import timedelta

        if not stamp:
            return None
        return timedelta(seconds=max(0.0, names.seconds(stamp) - self._store.clock.now()))

    def examine(self, *, fix: bool = False) -> Iterator[Finding]:
        """What breaks an invariant, each with its cure; `fix` carries out the cures that lose nothing."""
        from . import doctor

        return doctor.examine(self._store, fix=fix)

    # --- the table

    def export(self, path: str | None = None) -> int:
        """Write the table to `path` (default: the queue's path + .tsv), whole or not at all; returns the rows written.
        Durable on return. An older export never replaces a newer one."""
        from . import tsv

        return tsv.export(self._store, path or self.path + ".tsv")

    def table(self) -> Iterator[str]:
        """The lines of the table, the header first, without line ends; read as they are consumed."""
        from . import tsv

        return tsv.lines(self._store)

    def import_tsv(self, path: str) -> tuple[int, int, int]:
        """Read a table into the queue, all or nothing, with ids, tries and claims; a task that is here stays as it is.

        Returns (imported, already here, undecodable rows left out). Durable on return. Raises NoSuchFile, and BadData
        with the line.
        """
        from . import tsv

        return self.import_rows(tsv.parse(path, self.settings))

    def import_rows(self, table: tuple[list[Row], int]) -> tuple[int, int, int]:
        """As `import_tsv`, for a table that `tsv.parse` has read."""
        from . import produce

        rows, left_out = table
        return (*produce.import_rows(self._store, rows), left_out)
