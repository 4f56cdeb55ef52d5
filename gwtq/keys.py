"""keys/: which ids an identity was ever given, so that --dedupe need not look at every task.

A line `DIGEST ID` for each task, in the file named by the digest's first letters, appended by producers before their
commit. So a key proves nothing by itself: whoever finds one asks `seq` whether the id was given out, and the record
whether its identity is the same.
"""

from __future__ import annotations

from . import layout, names, rules, tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .disk import Disk
    from .store import Store
    from .task import Task


def digest(person_key: str, kind: str, source: str, query: str, dedupe_key: str) -> str:
    """The key under which keys/ lists a task: 128 bits of its identity, in hex."""
    try:
        from _blake2 import blake2b  # what hashlib hands out, without loading OpenSSL for it
    except ImportError:
        from hashlib import blake2b

    identity = rules.identity(person_key, kind, source, query, dedupe_key)
    return blake2b(identity.encode("utf-8"), digest_size=16).hexdigest()


def digest_of(task: Task) -> str:
    """The same for a task that is in the queue."""
    return digest(task.person_key, task.kind, task.source, task.query, task.dedupe_key)


class Keys:
    """keys/ during one operation: which ids an identity was given, and those to be written."""

    def __init__(self, store: Store) -> None:
        self._disk = store.disk
        self._files: dict[str, bytes] = {}
        self._new: dict[str, list[str]] = {}

    def find(self, digest: str) -> list[int]:
        """The numbers of the ids that were ever written for this identity, highest first."""
        path = layout.key_file(digest)
        if path not in self._files:
            try:
                self._files[path] = self._disk.read(path)
            except FileNotFoundError:
                self._files[path] = b""
        data, start = self._files[path], f"\n{digest} q".encode("ascii")
        found, at = [], data.rfind(start)
        while at >= 0:
            digits = data[at + len(start) : data.find(b"\n", at + 1)]
            if digits.isdigit():
                found.append(int(digits))
            at = data.rfind(start, 0, at)
        return found

    def add(self, digest: str, id: str) -> None:
        """An id to be written."""
        self._new.setdefault(layout.key_file(digest), []).append(key_line(digest, id))

    def write(self, *, sync: bool) -> None:
        """Append what was added, a write for each file."""
        for path, lines in self._new.items():
            fd = self._disk.open_or_create(path)
            try:
                self._disk.append(fd, "".join(lines).encode("ascii"))
                if sync:
                    self._disk.sync(fd)
            finally:
                self._disk.close(fd)


def key_line(digest: str, id: str) -> str:
    """A line of keys/, as it is appended."""
    return f"\n{digest} {id}\n"


def key_lines(data: bytes) -> list[tuple[str, int]]:
    """(digest, number) of each whole line in a file of keys/."""
    found = []
    for text in data.split(b"\n"):
        key, _, id = text.decode("ascii", "replace").partition(" ")
        if len(key) == 32 and names.is_id(id):
            found.append((key, int(id[1:])))
    return found


def every_key(disk: Disk) -> dict[tuple[str, int], str]:
    """(digest, number) -> its file, of every whole line of keys/."""
    paths = [f"{layout.KEYS}/{file}" for file in tree.listing(disk, layout.KEYS) if layout.is_key_file(file)]
    return {key: path for path in paths for key in key_lines(disk.read(path))}


def highest_key(disk: Disk) -> int:
    """The highest id that keys/ mentions."""
    return max((number for _, number in every_key(disk)), default=0)
