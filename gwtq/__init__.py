"""gwtq: a directory-per-state file queue. Each task is one file that moves by atomic rename.

    from gwtq import Queue

    queue = Queue.create("cola")
    queue.add("Ana Peiró Toledo", kind="sweep", priority=100)
    claim = queue.claim("lane-1")
    claim.done("hit", evidence="hits/ana.txt")

`doc/api.md` tells the API, `doc/format.md` the directory, `README.md` what it is for.
"""

from __future__ import annotations

from .claim import Claim
from .errors import (
    BadData,
    BadInput,
    Corrupt,
    DiskError,
    GwtqError,
    NewerFormat,
    NoSuchFile,
    NoSuchQueue,
    NoSuchTask,
    Refused,
    Undecodable,
)
from .queue import Queue
from .settings import FORMAT
from .sweep import Recovered
from .task import Enqueued, State, Task
from .version import __version__

__all__ = [
    "FORMAT",
    "BadData",
    "BadInput",
    "Claim",
    "Corrupt",
    "DiskError",
    "Enqueued",
    "GwtqError",
    "NewerFormat",
    "NoSuchFile",
    "NoSuchQueue",
    "NoSuchTask",
    "Queue",
    "Recovered",
    "Refused",
    "State",
    "Task",
    "Undecodable",
    "__version__",
]
