"""Big queues, made fast: by the queue's own `add_many`, or for settled tasks by files laid out with its naming code."""

from __future__ import annotations

import os

from gwtq import Queue, layout, names, produce
from gwtq.idset import IdSet

CHUNK = 10_000


def tasks(count, *, channels=1, first=0, **more):
    """So many tasks as objects, spread evenly over channels."""
    return [
        {
            "person": f"Person {number // 5}", "source": f"archive-{number % channels}", "query": f"surname {number}",
            "priority": 0, **more,
        }
        for number in range(first, first + count)
    ]  # fmt: skip


def queue(path, count=0, *, channels=1):
    """A queue of so many tasks; opened without syncs."""
    made = Queue.create(path, durable=False)
    more(made, count, channels=channels)
    return made


def more(queue, count, *, channels=1, first=0, dedupe=False, **fields):
    """Add so many tasks to an open queue, numbered from `first` on."""
    for begin in range(first, first + count, CHUNK):
        some = tasks(min(CHUNK, first + count - begin), channels=channels, first=begin, **fields)
        queue.add_many(some, dedupe=dedupe)


def settled(path, count, first=1):
    """Add so many done tasks to the queue at `path`, ids from `first` on, as their lanes would have left them."""
    head, last, at = "6b0de0f1k7m2p9", "6b0de9d4gebp9y", "2026-11-30T19:04:49Z"
    made = set()
    for number in range(first, first + count):
        fields = (
            f'"person_key": "person-{number // 5}", "person_label": "Person {number // 5}", "kind": "search", '
            f'"source": "archive-0", "query": "surname {number}", "priority": 0}}'
        )
        entry = (
            f'\n{{"gen": "{last}", "prev": "{head}", "event": "done", "at": "{at}", "token": "8x0wq3vt51zd",'
            f' "lane": "lane-1", "since": "{at}", "result": "hit"}}\n'
        )
        directory = f"{path}/{layout.shard(names.DONE, number)}"
        if directory not in made:
            os.makedirs(directory, exist_ok=True)
            made.add(directory)
        data = produce.record(f"q{number}", head, at, fields.encode("ascii")) + entry.encode("ascii")
        fd = os.open(f"{directory}/{names.settled_name(f'q{number}', last)}", os.O_WRONLY | os.O_CREAT, 0o666)
        os.write(fd, data)
        os.close(fd)
    with open(f"{path}/{layout.SEQ}", encoding="ascii") as file:
        ids = set(IdSet.parse(file.readline().rstrip("\n")))
    ids.update(range(first, first + count))
    with open(f"{path}/{layout.SEQ}", "w", encoding="ascii") as file:
        file.write(IdSet(sorted(ids)).render() + "\n")
