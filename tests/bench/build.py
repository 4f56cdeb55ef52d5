"""Big queues, made fast: by the queue's own `add_many`, or, without keys, by files laid out with its naming code."""

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


def waiting(path, count):
    """A queue of so many tasks that are not due, on 28 days."""
    made = queue(path)
    for day in range(1, 29):
        more(made, count // 28, first=day * count, next_at=f"2099-02-{day:02}T12:{day:02}:00Z")
    return made


HEAD, LAST, AT = "6b0de0f1k7m2p9", "6b0de9d4gebp9y", "2026-11-30T19:04:49Z"
DONE = (
    f'\n{{"gen": "{LAST}", "prev": "{HEAD}", "event": "done", "at": "{AT}", "token": "8x0wq3vt51zd",'
    f' "lane": "lane-1", "since": "{AT}", "result": "hit"}}\n'
).encode("ascii")


def settled(path, count, first=1):
    """Lay out so many done tasks in the queue at `path`, ids from `first` on, as their lanes would have left them."""
    numbers = range(first, first + count)
    _lay_out(
        path, numbers, lambda n: (layout.shard(names.DONE, n), names.settled_name(f"q{n}", LAST), "archive-0", DONE)
    )


def pending(queue, count, *, channels=1, first=1):
    """Lay out so many ready tasks, spread evenly over channels, in the leaves where `add_many` would have put them."""

    def place(number):
        source = f"archive-{number % channels}"
        leaf = layout.leaf(0, names.channel_name("search", source), number)
        return leaf, names.pending_name(f"q{number}", HEAD), source, b""

    _lay_out(queue.path, range(first, first + count), place)


def _lay_out(path, numbers, place):
    made = set()
    for number in numbers:
        where, name, source, tail = place(number)
        if where not in made:
            os.makedirs(f"{path}/{where}", exist_ok=True)
            made.add(where)
        fields = (
            f'"person_key": "person-{number // 5}", "person_label": "Person {number // 5}", "kind": "search", '
            f'"source": "{source}", "query": "surname {number}", "priority": 0}}'
        )
        fd = os.open(f"{path}/{where}/{name}", os.O_WRONLY | os.O_CREAT, 0o666)
        os.write(fd, produce.record(f"q{number}", HEAD, AT, fields.encode("ascii")) + tail)
        os.close(fd)
    with open(f"{path}/{layout.SEQ}", encoding="ascii") as file:
        ids = set(IdSet.parse(file.readline().rstrip("\n")))
    ids.update(numbers)
    with open(f"{path}/{layout.SEQ}", "w", encoding="ascii") as file:
        file.write(IdSet(sorted(ids)).render() + "\n")
