"""Lanes, sweepers and producers as real processes, each with a private history that outlives it."""

from __future__ import annotations

import calendar
import json
import os
import random
import signal
import sys
import time
import traceback
from collections import defaultdict

from gwtq import Queue, Refused, doctor, keys, look, produce, seq, tsv  # noqa: F401 (imported before the forks)

LEASE_SECONDS = 1  # of the lanes' claims; its end is rounded up to a second
BATCH = 3


def fork(program, *arguments):
    """Run a program in a copy of this process; returns its process id. Its exit code is 1 if it raised."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        program(*arguments)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended(pid):
    """Wait for a process: its exit code, or minus the signal that ended it."""
    _, status = os.waitpid(pid, 0)
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)


def kill(pid):
    """SIGKILL, and wait until it is gone."""
    os.kill(pid, signal.SIGKILL)
    return ended(pid)


def epoch(iso):
    """An ISO time of ours in seconds since 1970."""
    return calendar.timegm(time.strptime(iso, "%Y-%m-%dT%H:%M:%SZ"))


class History:
    """What a process did, by its own clock: a line an event, written before and after each step."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

    def note(self, what, **fields):
        os.write(self.fd, (json.dumps({"t": time.time(), "what": what, **fields}) + "\n").encode())


def lane(path, history, seed):
    """Claim and settle for ever: most tasks quickly, some renewed, some slept through, some failed or released."""
    queue, history, rng = Queue(path), History(history), random.Random(seed)
    while True:
        claim = queue.claim(f"lane {seed}", lease=LEASE_SECONDS)
        if not claim:
            time.sleep(0.02)
            continue
        history.note("claimed", id=claim.id, token=claim.token, until=epoch(claim.lease_until))
        time.sleep(rng.random() * 0.06 if rng.random() < 0.95 else 2.2)
        if rng.random() < 0.2:
            _renew(claim, history)
        _settle(claim, history, rng.choice(["done", "done", "fail", "release"]))


def _renew(claim, history):
    try:
        claim.renew(LEASE_SECONDS)
        history.note("renewed", token=claim.token, until=epoch(claim.lease_until))
    except Refused:
        history.note("refused", token=claim.token, verb="renew")


def _settle(claim, history, verb):
    history.note("settling", token=claim.token, verb=verb)
    try:
        if verb == "done":
            claim.done("hit", evidence=claim.token)
        elif verb == "fail":
            claim.fail(0)
        else:
            claim.release()
        history.note("settled", token=claim.token, verb=verb)
    except Refused:
        history.note("refused", token=claim.token, verb=verb)


def sweeper(path, history, seed):
    """Sweep for ever."""
    queue = Queue(path)
    while True:
        queue.requeue_expired()
        time.sleep(0.05)


def producer(path, history, seed):
    """Add a batch now and then, its tasks marked with its name."""
    queue, history = Queue(path), History(history)
    for count in range(1 << 30):
        mark = f"batch {seed}.{count}"
        history.note("adding", mark=mark)
        added = queue.add_many([{"person": f"Ana {i}", "note": mark} for i in range(BATCH)])
        history.note("added", mark=mark, ids=[id for id, _ in added])
        time.sleep(0.4)


class Campaign:
    """What all the histories tell together."""

    def __init__(self, paths):
        self.claims = {}  # token -> (id, since, until) by the lane's own clock
        self.settled, self.refused, self.began = {}, defaultdict(set), {}  # token -> verb
        self.added, self.begun = {}, set()  # mark -> ids; the marks of all batches that were begun
        for path in paths:
            for line in path.read_text().splitlines():
                self._read(json.loads(line))

    def _read(self, event):
        what, token = event["what"], event.get("token")
        if what == "claimed":
            self.claims[token] = event["id"], event["t"], event["until"]
        elif what == "renewed":
            self.claims[token] = (*self.claims[token][:2], event["until"])
        elif what == "settling":
            self.began[token] = event["t"]
        elif what == "settled":
            self.settled[token] = event["verb"]
        elif what == "refused":
            self.refused[token].add(event["verb"])
        elif what == "adding":
            self.begun.add(event["mark"])
        else:
            self.added[event["mark"]] = event["ids"]

    def overlaps(self):
        """Pairs of claims of one task that were both held at an instant, by their lanes' own clocks."""
        held = defaultdict(list)
        for token, (id, since, until) in self.claims.items():
            held[id].append((since, min(until, self.began.get(token, until)), token))
        found = []
        for times in held.values():
            times.sort()
            found += [(first, second) for first, second in zip(times, times[1:]) if second[0] < first[1]]
        return found
