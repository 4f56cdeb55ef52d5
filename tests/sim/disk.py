"""The disk of one simulated process: the calls of `gwtq.disk.Disk`, each handed to a World through a gate.

The gate is where a test crashes the process, injects an error or lets others go first.
"""

from __future__ import annotations

import errno
import os

from gwtq.disk import Disk
from gwtq.errors import DiskError

CALLS_MAX = 20_000


class Crash(BaseException):
    """The process is dead: no handler of its own runs any more, since every further call raises this again."""


class SimDisk:
    """`gwtq.disk.Disk` on a World. `gate(name, *args)` carries out one system call."""

    syncs_all = True
    root = "/sim/cola"
    durable = True

    def __init__(self, gate):
        self.gate = gate

    def names(self, path):
        return list(self.gate("names", path))

    def exists(self, path):
        return self.gate("exists", path)

    def is_dir(self, path):
        return self.gate("is_dir", path)

    def read(self, path):
        return self.gate("read", path)

    def stat(self, path):
        return self.gate("stat", path)

    def open(self, path):
        return self.gate("open", path)

    def create(self, path, data, *, sync):
        fd = self.gate("make", path)
        try:
            self.append(fd, data)
            if sync:
                self.sync(fd)
        finally:
            self.close(fd)

    def open_or_create(self, path):
        return self.gate("open_or_create", path)

    def content(self, fd):
        return self.gate("content", fd)

    def append(self, fd, data):
        written = self.gate("append", fd, data)
        if written is not None and written < len(data):
            raise DiskError(f"It took {written} of {len(data)} bytes.")

    def sync(self, fd):
        self.gate("sync", fd)

    def close(self, fd):
        self.gate("close", fd)

    def make_root(self):
        pass

    make_dir = Disk.make_dir  # its loop is on trial too

    def _mkdir(self, path):
        self.gate("make_dir", path)

    def _mode(self, path):
        try:
            return self.gate("stat", path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def open_dir(self, path):
        return self.gate("open_dir", path)

    def rename(self, source, target, into=None):
        self.gate("rename", source, target, into)

    def sync_dir(self, fd):
        self.gate("sync_dir", fd)

    def sync_all(self):
        self.gate("sync_all")

    def remove(self, path):
        self.gate("remove", path)

    def remove_dir(self, path):
        return self.gate("remove_dir", path)

    def lock(self, path):
        return SimLock(self.gate, path)

    def lock_is_free(self, path):
        return self.gate("lock_is_free", path)


class SimLock:
    """The producers' lock; a process that dies gives it up."""

    def __init__(self, gate, path):
        self.gate = gate
        self.path = path

    def __enter__(self):
        while not self.gate("lock", self.path):
            pass
        return self

    def __exit__(self, *_):
        self.gate("unlock", self.path)


def draw(number, count, size):
    """The count-th draw of a process: no two are ever equal."""
    value = number << 20 | count
    return bytes((value >> 5 * i) & 31 for i in range(size))


class SimClock:
    """The clock and the chance of one simulated process."""

    def __init__(self, gate, number):
        self.gate = gate
        self.number = number
        self.drawn = 0

    def now(self):
        return self.gate("now")

    def sleep(self, seconds):
        self.gate("sleep", seconds)

    def chance(self, size):
        self.drawn += 1
        return draw(self.number, self.drawn, size)


class Direct:
    """A gate of a process that runs alone: crash at the n-th call, or fail it with an error.

    `calls` lists what was called. `crash_at`: the call that is not made any more. `torn`: if that call is an append,
    half of it is written first. `fail_at` with `number`: the call that fails; `short`: an append there writes half, and
    says so.
    """

    def __init__(self, world, actor="A", *, crash_at=None, torn=False, fail_at=None, number=errno.EIO, short=False):
        self.world, self.actor = world, actor
        self.crash_at, self.torn = crash_at, torn
        self.fail_at, self.number, self.short = fail_at, number, short
        self.calls = []
        self.dead = False

    def __call__(self, name, *args):
        if name in ("now", "sleep"):
            self.world.now += args[0] if args else 0
            return self.world.now
        if self.dead:
            raise Crash
        at = len(self.calls)
        assert at < CALLS_MAX, f"{self.actor} does not come to an end"
        self.calls.append((name, *args))
        if at == self.crash_at:
            if self.torn and name == "append":
                self.world.call(self.actor, "append", args[0], args[1][: len(args[1]) // 2])
            self.die()
            raise Crash
        if at == self.fail_at and name not in ("close", "unlock", "lock_is_free"):
            if name == "append" and self.short:
                self.world.call(self.actor, "append", args[0], args[1][: len(args[1]) // 2])
                return len(args[1]) // 2
            if name == "remove_dir":
                return False
            raise OSError(self.number, os.strerror(self.number), args[0] if args else None)
        return self.world.call(self.actor, name, *args)

    def die(self):
        """What the kernel does for a process that ends: close its files, free its locks."""
        self.dead = True
        bury(self.world, self.actor)


def bury(world, actor):
    for who in [w for w in world.handles if w[0] == actor]:
        del world.handles[who]
    for path in [p for p, holder in world.locks.items() if holder == actor]:
        del world.locks[path]
