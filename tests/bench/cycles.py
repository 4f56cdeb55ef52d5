"""Lanes at work: claim a task, settle it, the next. Processes of their own, all on one queue."""

from __future__ import annotations

import multiprocessing
import os
import time

from gwtq import Queue

from . import build
from .measure import MORE, Row, in_turn, medians, ratio
from .sqlite import SqliteQueue

FORK = multiprocessing.get_context("fork")


class Gwtq:
    """The subject."""

    def __init__(self, directory, tasks, *, durable):
        self.path = f"{directory}/cola"
        self.durable = durable
        queue = Queue.create(self.path, durable=False)
        for first in range(0, len(tasks), build.CHUNK):
            queue.add_many(tasks[first : first + build.CHUNK])

    def lane(self, name):
        """A function that does one cycle."""
        queue = Queue(self.path, durable=self.durable)

        def cycle():
            queue.claim(name).done("hit")

        return cycle


class Sqlite:
    """The baseline."""

    def __init__(self, directory, tasks, *, synchronous):
        self.path = f"{directory}/tasks.db"
        self.synchronous = synchronous
        SqliteQueue.create(self.path, synchronous, tasks).close()

    def lane(self, name):
        """A function that does one cycle."""
        queue = SqliteQueue(self.path, self.synchronous)
        return lambda: queue.cycle(name)


class Raw:
    """The physical limit of a file per task: append and sync a line, rename, sync the directory."""

    def __init__(self, directory, tasks, *, durable):
        self.path = f"{directory}/raw"
        self.sync = os.fsync if durable else lambda fd: None
        os.makedirs(f"{self.path}/a")
        os.makedirs(f"{self.path}/b")
        self.count = len(tasks)

    def lane(self, name):
        """A function that does one cycle."""
        line, number = b"x" * 200, 0
        to = os.open(f"{self.path}/b", os.O_RDONLY)

        def cycle():
            nonlocal number
            number += 1
            file = f"{self.path}/a/{name}-{os.getpid()}-{number}"
            fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.write(fd, line)
            os.write(fd, line)
            self.sync(fd)
            os.close(fd)
            os.rename(file, f"{self.path}/b/{name}-{os.getpid()}-{number}")
            self.sync(to)

        return cycle


def _work(place, name, cycles, barrier, answer):
    cycle = place.lane(name)
    barrier.wait()
    begun = time.perf_counter()
    for _ in range(cycles):
        cycle()
    answer.send((begun, time.perf_counter()))


def seconds_per_cycle(place, lanes, cycles):
    """So many lanes do `cycles` cycles in all: the wall-clock seconds each took."""
    barrier, pipes, processes = FORK.Barrier(lanes), [], []
    for number in range(lanes):
        receive, send = FORK.Pipe(duplex=False)
        process = FORK.Process(target=_work, args=(place, f"lane-{number}", cycles // lanes, barrier, send))
        process.start()
        pipes.append(receive)
        processes.append(process)
    times = [pipe.recv() for pipe in pipes]
    for process in processes:
        process.join()
    return (max(end for _, end in times) - min(begun for begun, _ in times)) / (cycles // lanes * lanes)


DURABLE = {1: (0.8, 1.0), 2: (1.0, 1.5), 8: (1.5, 2.5)}
FAST = {1: (0.6, 1.0), 8: (0.8, 1.2)}


def rows(directory, *, tasks, cycles, rounds, durable):
    """The rows of one table line: gwtq against SQLite, with syncs or without."""
    todo = build.tasks(tasks, channels=4)
    word = "FULL" if durable else "NORMAL"
    places = {}
    for name, make in (
        ("gwtq", lambda d: Gwtq(d, todo, durable=durable)),
        (f"SQLite {word}", lambda d: Sqlite(d, todo, synchronous=word)),
        ("raw files", lambda d: Raw(d, todo, durable=durable)),
    ):
        home = f"{directory}/{name.replace(' ', '-')}-{durable}"
        os.makedirs(home)
        places[name] = make(home)
    for lanes, (floor, aim) in (DURABLE if durable else FAST).items():
        cases = {
            name: (lambda place=place, lanes=lanes: seconds_per_cycle(place, lanes, cycles))
            for name, place in places.items()
        }
        taken = in_turn(cases, rounds)
        figures = {f"{name}, cycles per second": 1 / value for name, value in medians(taken).items()}
        yield Row(
            f"{'durable' if durable else 'not durable'} cycle, {lanes} lane{'s' * (lanes > 1)}, against SQLite {word}",
            ratio(taken, f"SQLite {word}", "gwtq"), floor, aim, better=MORE, figures=figures,
        )  # fmt: skip
