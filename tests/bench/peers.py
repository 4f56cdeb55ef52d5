"""Other queues that keep their tasks on a local disk, as far as they are installed (extra `bench`): one lane's cycle.

Each is used as its own documentation does, with its defaults; those that sync each step are compared with a gwtq that
does, the others with one that does not. None of them fences, sweeps, keeps a history and shows a table, all at once.
"""

from __future__ import annotations

import os

from . import build, cycles
from .measure import MORE, Row, in_turn, medians, ratio


def persist_queue(directory, bodies):
    """SQLite; get and ack are a transaction each, synced."""
    from persistqueue import SQLiteAckQueue

    queue = SQLiteAckQueue(directory)
    for body in bodies:
        queue.put(body)
    return lambda: queue.ack(queue.get(block=False))


def fleetwright(directory, bodies):
    """SQLite; leases with tokens, attempts, results; synced."""
    import fleetwright as fleet

    connection = fleet.connect(os.path.join(directory, "work.db"))
    fleet.add(connection, "search", bodies)

    def cycle():
        (unit,) = fleet.claim(connection, "search")
        fleet.finish(connection, unit.unit_id, result="hit")

    return cycle


def litequeue(directory, bodies):
    """SQLite, synchronous NORMAL."""
    from litequeue import LiteQueue

    queue = LiteQueue(os.path.join(directory, "queue.db"))
    for body in bodies:
        queue.put(body)
    return lambda: queue.done(queue.pop().message_id)


def dirq(directory, bodies):
    """A directory queue like this one, without leases, priorities and syncs."""
    from dirq.QueueSimple import QueueSimple

    queue = QueueSimple(directory)
    for body in bodies:
        queue.add(body)

    def cycle():
        name = queue.first()
        queue.lock(name)
        queue.get(name)
        queue.remove(name)

    return cycle


def huey(directory, bodies):
    """The SQLite store of huey: what is taken is gone; not synced."""
    from huey.storage import SqliteStorage

    queue = SqliteStorage(filename=os.path.join(directory, "huey.db"))
    for body in bodies:
        queue.enqueue(body.encode("ascii"))
    return queue.dequeue


def leanqueue(directory, bodies):
    """A log with an index in memory, in Rust; synced in the background."""
    from leanqueue import LeanQueueCore

    queue = LeanQueueCore(os.path.join(directory, "queue.log"))
    queue.enqueue_batch([body.encode("ascii") for body in bodies])
    return lambda: queue.ack(queue.dequeue()[0])


PEERS = [
    (persist_queue, True),
    (fleetwright, True),
    (litequeue, False),
    (dirq, False),
    (huey, False),
    (leanqueue, False),
]


def rows(directory, *, cycles_a_round, rounds):
    """gwtq against each peer that is there."""
    count = (rounds + 2) * cycles_a_round
    bodies = [f"{number:0200}" for number in range(count)]
    for peer, syncs in PEERS:
        word, home = peer.__name__.replace("_", "-"), os.path.join(directory, peer.__name__)
        os.makedirs(f"{home}/peer")
        try:
            theirs = peer(f"{home}/peer", bodies)
        except ImportError:
            print(f"{word}: not installed, skipped")
            continue
        ours = cycles.Gwtq(home, build.tasks(count), durable=syncs).lane("lane-1")
        cases = {
            word: lambda cycle=theirs: [cycle() for _ in range(cycles_a_round)] and None,
            "gwtq": lambda cycle=ours: [cycle() for _ in range(cycles_a_round)] and None,
        }
        taken = in_turn(cases, rounds)
        yield Row(
            f"{'durable' if syncs else 'not durable'} cycle, 1 lane, against {word}",
            ratio(taken, word, "gwtq"), None, None, better=MORE,
            figures={f"{name}, cycles per second": cycles_a_round / value for name, value in medians(taken).items()},
        )  # fmt: skip
