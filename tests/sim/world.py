"""A simulated file system: what the kernel shows, and what a power cut may leave of it.

The fault model, in words (`doc/testing.md` has it in full):

- What a process wrote is seen by every process at once, until a power cut.
- A *write* to a file is pending until the file is synced. At a power cut each pending write is lost, kept, or (the last
  one that is kept) torn: cut short, or as many NUL bytes.
- A *name operation* (create, rename, remove, make or remove a directory) is pending until a directory that it touches
  is synced. At a power cut any set of pending operations survives in which the operations on one file are a prefix of
  those that were made, and so are those on one name; operations on different files and names come in any order. A
  rename that replaces a file is one operation.
- Syncing a directory makes durable every operation that touched it, with the earlier ones on the same files, and brings
  its parents. A directory that holds something that survived, survived itself: it was made before, and is removed only
  with what was moved out of it.

That is less than ext4, XFS, btrfs, APFS and ZFS promise: a protocol that holds here holds there.
"""

from __future__ import annotations

import errno
import os
from itertools import product

ROOT = 0
TORN, NULS = "torn", "nuls"


class Status:
    """What `stat` tells."""

    def __init__(self, mode, size):
        self.st_mode, self.st_size, self.st_uid, self.st_nlink = mode, size, 1000, 1


def error(number, path):
    return OSError(number, os.strerror(number), path)  # the subclass that Python's own calls would raise


class World:
    """Names, files, open descriptors, locks, and the time; `call` is one system call of one actor."""

    def __init__(self):
        self.children = {ROOT: {}}  # directory inode -> name -> inode
        self.where = {}  # inode -> (directory inode, name); missing: no name
        self.files = {}  # inode -> the writes, in order
        self.synced = {}  # inode -> how many of the writes are durable
        self.durable = {}  # inode -> where it is if no pending operation survives
        self.pending = ()  # operations: tuples of (inode, where it was, where it is then)
        self.handles = {}  # (actor, descriptor) -> inode
        self.locks = {}  # path -> actor
        self.next = 1
        self.now = 1_800_000_000.0
        self.denied = frozenset()  # paths that give EACCES
        self._fingerprint = None

    def copy(self):
        other = World.__new__(World)
        other.children = {inode: dict(names) for inode, names in self.children.items()}
        other.where, other.files, other.synced = dict(self.where), dict(self.files), dict(self.synced)
        other.durable, other.pending = dict(self.durable), self.pending
        other.handles, other.locks = dict(self.handles), dict(self.locks)
        other.next, other.now, other.denied = self.next, self.now, self.denied
        other._fingerprint = None
        return other

    # --- for tests: the state as data

    def tree(self, inode=ROOT, prefix=""):
        """path -> content, None for directories."""
        found = {}
        for name, child in self.children[inode].items():
            path = prefix + name
            if child in self.children:
                found[path] = None
                found.update(self.tree(child, path + "/"))
            else:
                found[path] = b"".join(self.files[child])
        return found

    def path(self, inode):
        parts = []
        while inode != ROOT:
            if inode not in self.where:
                return f"(gone {inode})"
            inode, name = self.where[inode]
            parts.append(name)
        return "/".join(reversed(parts))

    def fingerprint(self, power=False, live=None):
        """Equal for states that no actor, and with `power` no power cut, can tell apart.

        With `live`, the draws of chance that some actor still has in mind, lines off the chain of other generations
        count for nothing: no name will ever point to them.
        """
        if not power and live is None and self._fingerprint is not None:
            return self._fingerprint
        tree = self.tree()
        if live is not None:
            tree = {path: _committed(path, content, live) for path, content in tree.items()}
        state = (
            frozenset(tree.items()),
            frozenset((who, self.path(inode)) for who, inode in self.handles.items()),
            frozenset(self.locks.items()),
            self.now,
        )
        if not power and live is not None:
            return hash(state)
        if not power:
            self._fingerprint = hash(state)
            return self._fingerprint
        unsynced = frozenset(
            (self.path(i), self.synced[i], len(w)) for i, w in self.files.items() if self.synced[i] < len(w)
        )
        return hash((state, unsynced, self.pending, frozenset(self.durable.items())))

    # --- system calls

    def call(self, actor, name, *args):
        self._fingerprint = None
        return getattr(self, "do_" + name)(actor, *args)

    def lookup(self, path):
        if path in self.denied:
            raise error(errno.EACCES, path)
        inode = ROOT
        for part in path.split("/") if path else ():
            if inode not in self.children:
                raise error(errno.ENOTDIR, path)
            if part not in self.children[inode]:
                raise error(errno.ENOENT, path)
            inode = self.children[inode][part]
        return inode

    def above(self, directory):
        """A directory and all that it is in."""
        found = [directory]
        while found[-1] in self.where:
            found.append(self.where[found[-1]][0])
        return found

    def parent(self, path):
        head, _, name = path.rpartition("/")
        inode = self.lookup(head)
        if inode not in self.children:
            raise error(errno.ENOTDIR, path)
        return inode, name

    def do_names(self, actor, path):
        inode = self.lookup(path)
        if inode not in self.children:
            raise error(errno.ENOTDIR, path)
        return tuple(sorted(self.children[inode]))

    def do_half(self, actor, path, half):
        """Half of a listing, for a scan that takes two system calls: the last character decides which."""
        return tuple(name for name in self.do_names(actor, path) if sum(map(ord, name)) % 2 == half)

    def do_exists(self, actor, path):
        try:
            self.lookup(path)
        except OSError:
            return False
        return True

    def do_is_dir(self, actor, path):
        try:
            return self.lookup(path) in self.children
        except OSError:
            return False

    def do_read(self, actor, path):
        inode = self.lookup(path)
        if inode in self.children:
            raise error(errno.EISDIR, path)
        return b"".join(self.files[inode])

    def do_stat(self, actor, path):
        inode = self.lookup(path)
        if inode in self.children:
            return Status(0o40755, 0)
        return Status(0o100644, sum(map(len, self.files[inode])))

    def do_open(self, actor, path):
        inode = self.lookup(path)
        if inode in self.children:
            raise error(errno.EISDIR, path)
        return self.handle(actor, inode)

    def do_open_dir(self, actor, path):
        inode = self.lookup(path)
        if inode not in self.children:
            raise error(errno.ENOTDIR, path)
        return self.handle(actor, inode)

    def handle(self, actor, inode):
        fd = 3
        while (actor, fd) in self.handles:
            fd += 1
        self.handles[actor, fd] = inode
        return fd

    def do_close(self, actor, fd):
        del self.handles[actor, fd]

    def do_make(self, actor, path):
        """Create an empty file and open it."""
        directory, name = self.parent(path)
        if name in self.children[directory]:
            raise error(errno.EEXIST, path)
        inode = self.next
        self.next += 1
        self.files[inode], self.synced[inode] = (), 0
        self.note([(inode, None, (directory, name))])
        return self.handle(actor, inode)

    def do_open_or_create(self, actor, path):
        directory, name = self.parent(path)
        return self.do_open(actor, path) if name in self.children[directory] else self.do_make(actor, path)

    def do_content(self, actor, fd):
        return b"".join(self.files[self.handles[actor, fd]])

    def do_append(self, actor, fd, data):
        inode = self.handles[actor, fd]
        self.files[inode] += (data,)

    def do_sync(self, actor, fd):
        inode = self.handles[actor, fd]
        self.synced[inode] = len(self.files[inode])

    def do_make_dir(self, actor, path):
        directory, name = self.parent(path)
        if name in self.children[directory]:
            raise error(errno.EEXIST, path)
        inode = self.next
        self.next += 1
        self.children[inode] = {}
        self.note([(inode, None, (directory, name))])

    def do_rename(self, actor, source, target, into=None):
        here, _ = self.parent(source)
        directory, name = self.parent(target) if into is None else (self.handles[actor, into], target)
        inode = self.lookup(source)
        if directory != ROOT and directory not in self.where:
            raise error(errno.ENOENT, target)  # the open directory was removed
        old = self.children[directory].get(name)
        if inode in self.above(directory):
            raise error(errno.EINVAL, target)  # a directory into itself
        if old in self.above(here):
            raise error(errno.ENOTEMPTY, target)
        if old == inode:
            return
        effects = [(inode, self.where[inode], (directory, name))]
        if old is not None:
            if (old in self.children) != (inode in self.children):
                raise error(errno.EISDIR if old in self.children else errno.ENOTDIR, target)
            if self.children.get(old):
                raise error(errno.ENOTEMPTY, target)
            effects.insert(0, (old, self.where[old], None))
        self.note(effects)

    def do_sync_dir(self, actor, fd):
        self.flush(self.handles[actor, fd])

    def do_sync_all(self, actor):
        self.flush_all()

    def do_remove(self, actor, path):
        inode = self.lookup(path)
        if inode in self.children:
            raise error(errno.EISDIR, path)
        self.note([(inode, self.where[inode], None)])

    def do_remove_dir(self, actor, path):
        try:
            inode = self.lookup(path)
        except OSError:
            return False
        if self.children.get(inode, True) or inode == ROOT:
            return False
        self.note([(inode, self.where[inode], None)])
        return True

    def do_lock(self, actor, path):
        """True if the lock was free; a caller that gets False tries again when it is scheduled again."""
        if path in self.locks:
            return False
        self.locks[path] = actor
        return True

    def do_unlock(self, actor, path):
        del self.locks[path]

    def do_lock_is_free(self, actor, path):
        return path not in self.locks

    # --- names, and what of them is durable

    def note(self, effects):
        """Carry out one name operation and remember that it is pending."""
        for inode, was, then in effects:
            if was:
                del self.children[was[0]][was[1]]
                del self.where[inode]
            if then:
                self.children[then[0]][then[1]] = inode
                self.where[inode] = then
        self.pending += (tuple(effects),)

    def flush(self, directory):
        """Sync a directory: what touched it, and the names of itself and its parents."""
        self.settle({i for i, op in enumerate(self.pending) if any(directory in _directories(e) for e in op)})
        for inode in self.above(directory):
            self.settle({i for i, op in enumerate(self.pending) if any(e[0] == inode for e in op)})

    def settle(self, wanted):
        """These pending operations are durable, with those that they need."""
        for i in reversed(range(len(self.pending))):
            if i in wanted:
                wanted = wanted | self._needed(i)
        self.durable = self._places(wanted)
        self.pending = tuple(op for i, op in enumerate(self.pending) if i not in wanted)

    def _needed(self, at):
        """The pending operations without which this one does not survive."""
        return {i for i in range(at) if _needs(self.pending[at], self.pending[i])}

    def _places(self, kept):
        """Where each inode is if these of the pending operations survive."""
        return {**self.durable, **{inode: then for i in sorted(kept) for inode, _, then in self.pending[i]}}

    def flush_all(self):
        self.settle(set(range(len(self.pending))))
        for inode, writes in self.files.items():
            self.synced[inode] = len(writes)

    # --- power cuts

    def cuts(self):
        """Every world that a power cut may leave: no process, no lock, all that survived durable."""
        seen = set()
        needed = [self._needed(i) for i in range(len(self.pending))]
        for kept in _surviving(needed, frozenset()):
            where = self._places(kept)
            loose = self._loose(where)
            for contents in product(*[list(_survivors(self.files[i], self.synced[i])) for i in loose]):
                world = self._after(where, dict(zip(loose, contents)))
                key = frozenset(world.tree().items())
                if key not in seen:
                    seen.add(key)
                    yield world

    def cut(self, choose):
        """One world that a power cut may leave: `choose(n)` picks a number below n, 0 for what loses least."""
        kept = set()
        for i in range(len(self.pending)):
            if self._needed(i) <= kept and choose(2) == 0:
                kept.add(i)
        where, contents = self._places(kept), {}
        for inode in self._loose(where):
            possible = list(_survivors(self.files[inode], self.synced[inode]))
            contents[inode] = possible[choose(len(possible))]
        return self._after(where, contents)

    def _loose(self, where):
        """The files that have a name there and a write that is not durable."""
        return [i for i in self.files if where.get(i) and self.synced[i] < len(self.files[i])]

    def _after(self, where, contents):
        world = World()
        world.now, world.next, world.denied = self.now, self.next, self.denied
        places = {inode: place for inode, place in where.items() if place}
        world.children.update({inode: {} for inode in places if inode in self.children})
        for inode, (directory, name) in places.items():
            world.children[directory][name] = inode
            world.where[inode] = world.durable[inode] = (directory, name)
            if inode in self.files:
                world.files[inode] = contents.get(inode, self.files[inode])
                world.synced[inode] = len(world.files[inode])
        return world


def _committed(path, content, live):
    """The lines of a task's file that are on its chain, or that somebody may yet point its name to."""
    parts = path.rpartition("/")[2].split(".")
    if content is None or len(parts) < 2 or content.count(b"\n{") < 2:
        return content
    lines = {line[9:23].decode(): line for line in content.split(b"\n") if line.startswith(b'{"gen": "')}
    kept, gen = set(), parts[1]
    while gen in lines and lines[gen] not in kept:
        kept.add(lines[gen])
        gen = lines[gen].partition(b'"prev": "')[2][:14].decode()
    return frozenset(kept | {line for gen, line in lines.items() if gen[8:] in live})


def _directories(effect):
    _, was, then = effect
    return {place[0] for place in (was, then) if place}


def _needs(later, earlier):
    """Does an operation survive only with an earlier one? They are on one file or one name, or the earlier one made the
    directory of the later one, or touched the directory that the later one removes."""
    touched, before = set().union(*map(_directories, later)), set().union(*map(_directories, earlier))
    return bool(
        {e[0] for e in later} & {e[0] for e in earlier}
        or {place for e in later for place in e[1:] if place} & {place for e in earlier for place in e[1:]}
        or touched & {inode for inode, was, _ in earlier if not was}
        or before & {inode for inode, _, then in later if not then}
    )


def _surviving(needed, kept, at=0):
    """Sets of operations that hold, with each, all those that it needs."""
    if at == len(needed):
        yield kept
        return
    if needed[at] <= kept:
        yield from _surviving(needed, kept | {at}, at + 1)
    yield from _surviving(needed, kept, at + 1)


def _survivors(writes, synced):
    """What a power cut may leave of a file's writes."""
    sure, loose = writes[:synced], writes[synced:]
    for mask in product((True, False), repeat=len(loose)):
        kept = tuple(w for w, keep in zip(loose, mask) if keep)
        yield sure + kept
        if kept and kept[-1]:
            yield (*sure, *kept[:-1], kept[-1][: len(kept[-1]) // 2])
            yield (*sure, *kept[:-1], b"\0" * len(kept[-1]))
