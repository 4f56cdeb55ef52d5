"""A claim in the hands of a caller of the Python API."""

from __future__ import annotations

from . import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .lane import Settled
    from .queue import Queue
    from .rules import Duration
    from .sweep import Recovered
    from .task import Task


class Claim:
    """A task that is held: use `renew` while you work, then exactly one of `done`, `fail`, `release`.

    The token fences: it names this claim and no other, and once the lease ran out and somebody took the task back,
    every method raises Refused and changes nothing that counts. It does not stop the work itself: a lane that lost its
    claim goes on until it asks, and another may do the same task meanwhile. So a handler must tolerate a repeat.
    """

    __slots__ = ("_queue", "recovered", "task")

    def __init__(self, queue: Queue, task: Task, recovered: Recovered) -> None:
        self._queue = queue
        self.task = task
        self.recovered = recovered  # what this call of claim took back from dead lanes on its way

    @property
    def id(self) -> str:
        """The task's id."""
        return self.task.id

    @property
    def token(self) -> str:
        """The fencing token, new for every claim."""
        return self.task.token

    @property
    def lease_until(self) -> str:
        """When the claim runs out, ISO 8601 UTC."""
        return self.task.lease_until

    @property
    def name(self) -> str:
        """The name of the file that holds the claim, as it was last written by this object."""
        task = self.task
        since, until = names.from_iso(task.claimed_at), names.from_iso(task.lease_until)
        head = str(task.entries[-1]["gen"])
        return names.claim_name(task.id, head, task.token, since, until, task.lane)

    def renew(self, lease: Duration | None = None) -> str:
        """Push the end of the lease out, never back; returns the file's new name. Not synced. Raises Refused."""
        self.task.lease_until = self._queue.renew(self.id, self.token, lease)
        return self.name

    def done(self, result: str, evidence: str = "", note: str = "") -> Settled:
        """Close the task with a result. Durable on return. Raises Refused, BadInput."""
        return self._queue.done(self.id, self.token, result, evidence, note)

    def fail(self, backoff: Duration | None = None, *, final: bool = False, note: str = "") -> Settled:
        """The attempt ran and could not finish. Durable on return. Raises Refused."""
        return self._queue.fail(self.id, self.token, backoff, final=final, note=note)

    def release(self, retry_after: Duration = 0, *, note: str = "") -> Settled:
        """Nothing ran: give the task and its try back. Durable on return. Raises Refused."""
        return self._queue.release(self.id, self.token, retry_after, note=note)
