"""Work on the whole queue: a batch, a dedupe, a reading of everything, and the memory that each needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from gwtq import Queue, cli, layout
from gwtq.disk import Disk

from . import build
from .measure import Curve, Row, in_turn, medians, ratio

MEASURED = """
import os, sys
from gwtq.cli import main
sys.stdout = open(os.devnull, "w")
os.dup2(sys.stdout.fileno(), 1)
code = main(sys.argv[1:])
assert code == 0, code
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
os.write(2, peak.split()[1].encode())
"""


def raw_batch(directory, count):
    """Create as many files, of the size of a record, and sync once."""
    os.makedirs(directory)
    data = b"x" * 230
    for number in range(count):
        fd = os.open(f"{directory}/q{number}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        os.write(fd, data)
        os.close(fd)
    Disk(directory).sync_all()


def raw_read(path):
    """Open, read and decode every task below `path`."""
    for directory, _, files in os.walk(path):
        for name in files:
            with open(f"{directory}/{name}", "rb") as file:
                for line in filter(None, file.read().split(b"\n")):
                    json.loads(line)


def opened(function):
    """How many task files a call opens."""
    seen, done = [], False

    def hook(event, arguments):  # it stays for good
        if event == "open" and not done:
            seen.append(os.path.basename(str(arguments[0])))

    sys.addaudithook(hook)
    function()
    done = True
    return len([name for name in seen if name.startswith("q") and "." in name and name != layout.SETTINGS])


def batch(directory, size):
    """A durable batch against the raw loop."""
    todo, number = build.tasks(size.tasks, channels=4), iter(range(1000))
    cases = {
        "add_many": lambda: Queue.create(f"{directory}/batch-{next(number)}").add_many(todo) and None,
        "raw loop": lambda: raw_batch(f"{directory}/raw-{next(number)}", size.tasks),
    }
    taken = in_turn(cases, 3)
    yield Row(f"batch add of {size.tasks:,} (API), against a raw loop that syncs once",
              ratio(taken, "add_many", "raw loop"), 2.5, 1.5, figures=medians(taken))  # fmt: skip


def dedupe(directory, size):
    """One task with dedupe, into queues of growing size; each call opens the queue anew, without syncs."""
    big, small = build.queue(f"{directory}/dedupe"), build.queue(f"{directory}/dedupe-empty")
    numbers, series, there, taken = iter(range(10**9)), {"add --dedupe": []}, 0, {}

    def add(queue):
        fresh = Queue(queue.path, durable=False)
        fresh.add(f"Nobody {next(numbers)}", source="gaceta", query="x", dedupe=True)

    add(small)
    for count in size.whole:
        build.more(big, count - there, first=there, dedupe=True)
        there = count
        cases = {"big": lambda: add(big), "empty": lambda: add(small)}
        in_turn(cases, 3)
        taken = in_turn(cases, size.rounds * 3)
        series["add --dedupe"].append((count, medians(taken)["big"]))
    yield Curve("add --dedupe", "tasks", series)
    yield Row(f"one add with dedupe at {there:,} tasks, against an empty queue", ratio(taken, "big", "empty"),
              1.3, 1.0, figures=medians(taken))  # fmt: skip


def reading(directory, size):
    """export, list and stats against the number of done tasks, and the raw loop beside them."""
    path, there, taken = f"{directory}/reading", 0, {}
    queue, empty = build.queue(path), build.queue(f"{directory}/reading-empty")
    series = {"export": [], "list": [], "stats": [], "raw loop": []}

    def command(*words):
        assert cli.main(["--queue", path, *words]) == 0

    for count in size.whole:
        build.settled(path, count - there, first=there + 1)
        there = count
        cases = {
            "export": lambda: command("export", "-o", f"{directory}/out.tsv"),
            "list": lambda: sum(1 for _ in queue.tasks()) and None,
            "stats": lambda: queue.stats() and None,
            "raw loop": lambda: raw_read(f"{path}/done"),
            "stats of an empty queue": lambda: empty.stats() and None,
        }
        in_turn(cases, 1)
        taken = in_turn(cases, 3)
        for name, points in series.items():
            points.append((count, medians(taken)[name]))
    yield Curve("export, list, stats", "done tasks", series)
    yield Row(f"export of {there:,}, against a raw loop that opens, reads and decodes",
              ratio(taken, "export", "raw loop"), 2, 1.3, figures=medians(taken))  # fmt: skip
    yield Row(f"stats at {there:,} done, against an empty queue", ratio(taken, "stats", "stats of an empty queue"),
              None, 3)  # fmt: skip
    yield Row(f"task files that stats opens at {there:,} done", opened(queue.stats), 0, 0, unit="")


def memory(directory, size):
    """The peak of a process that runs one command on a big queue; what its parent used does not count."""
    path, table, batch_file = f"{directory}/memory", f"{directory}/memory.tsv", f"{directory}/memory.jsonl"
    build.queue(path, size.tasks)
    with open(batch_file, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(task) + "\n" for task in build.tasks(size.tasks))
    new = (f"{directory}/memory-{number}" for number in range(10))
    for name, queue, *words in (
        ("export", path, "export", "-o", table), ("list", path, "list"), ("import", next(new), "import", table),
        ("add --jsonl", next(new), "add", "--jsonl", batch_file),
    ):  # fmt: skip
        told = subprocess.run([sys.executable, "-c", MEASURED, "--queue", queue, *words], stderr=subprocess.PIPE,
                              check=True)  # fmt: skip
        peak = int(told.stderr.split()[-1]) / 1024
        yield Row(f"peak memory of {name} at {size.tasks:,}", peak, 150, 60, unit=" MB")
