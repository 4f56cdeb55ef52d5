"""The only module that touches files of a queue.

Paths are relative to the queue's directory, with '/' between their parts. Errors are the kernel's own (OSError):
FileNotFoundError from a rename is a lost race or a directory that was removed meanwhile, and its callers look which;
everything else is loud. Nothing here knows what a task is.

What is durable: nothing until `sync` of the file and `sync_dir` of the directory that its name is in. `tests/sim` has a
disk with the same calls that forgets at a power cut whatever the real one may forget.
"""

from __future__ import annotations

import os
import sys
from stat import S_ISDIR

from .errors import DiskError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

APPEND = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe under a task's name must not hang a reader
READ_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
CHUNK = 1 << 20
TRIES_MAX = 20  # bound of every "look again"; past it the fault is ours


class Disk:
    """The files below one directory."""

    def __init__(self, root: str, *, durable: bool = True) -> None:
        """`durable=False` leaves out every sync: for scratch queues that need not survive a power cut."""
        self.root = os.path.abspath(root)
        self._prefix = self.root + "/"
        self.durable = durable

    # --- looking

    def names(self, path: str) -> list[str]:
        """The names in a directory, in no order. A scan is not a snapshot: a name that is renamed meanwhile may be
        missed or met twice (POSIX leaves it open; ext4 does it from a few hundred names on)."""
        return os.listdir(self._prefix + path)

    def exists(self, path: str) -> bool:
        """Is there something of this name? An error is no answer: it is raised."""
        return self._mode(path) != 0

    def is_dir(self, path: str) -> bool:
        """Is there a directory of this name (not a link to one)?"""
        return S_ISDIR(self._mode(path))

    def _mode(self, path: str) -> int:
        try:
            return os.lstat(self._prefix + path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def read(self, path: str) -> bytes:
        """The whole content of a file, opened for reading only."""
        fd = os.open(self._prefix + path, READ)
        try:
            return self.content(fd)
        finally:
            os.close(fd)

    def stat(self, path: str) -> os.stat_result:
        """Owner, size and permissions, for `doctor`."""
        return os.lstat(self._prefix + path)

    # --- files

    def open(self, path: str) -> int:
        """Open an existing file for reading and appending."""
        return os.open(self._prefix + path, APPEND)

    def create(self, path: str, data: bytes, *, sync: bool) -> None:
        """Make a new file of this content. Its name is durable only after `sync_dir`."""
        fd = os.open(self._prefix + path, CREATE, 0o666)
        try:
            self.append(fd, data)
            if sync:
                self.sync(fd)
        finally:
            os.close(fd)

    def open_or_create(self, path: str) -> int:
        """Open a file for reading and appending; make an empty one if there is none."""
        return os.open(self._prefix + path, APPEND | os.O_CREAT, 0o666)

    def content(self, fd: int) -> bytes:
        """What an open file holds from the beginning."""
        os.lseek(fd, 0, os.SEEK_SET)
        data = os.read(fd, 16384)
        if len(data) < 16384:
            return data
        parts = [data]
        while data:
            data = os.read(fd, CHUNK)
            parts.append(data)
        return b"".join(parts)

    def append(self, fd: int, data: bytes) -> None:
        """Write at the end, in one write. A write cut short is an error; what it left is a torn line."""
        written = os.write(fd, data)
        if written < len(data):
            raise DiskError(f"It took {written} of {len(data)} bytes: it is full, or a quota is.")

    def sync(self, fd: int) -> None:
        """Make the content of an open file durable; its times may stay behind."""
        if self.durable:
            _sync_data(fd)

    def close(self, fd: int) -> None:
        """Close a file or a directory."""
        os.close(fd)

    # --- names

    def make_root(self) -> None:
        """Make the queue's own directory and its parents, durably. FileExistsError if the path is a file."""
        os.makedirs(self.root, exist_ok=True)
        if self.durable:
            fd = os.open(os.path.dirname(self.root), READ_DIR)
            try:
                _fsync(fd)
            finally:
                os.close(fd)

    def make_dir(self, path: str) -> None:
        """Make a directory and its parents, as far as they are missing. The root itself must be there.

        Claims remove empty directories, also between two calls of this one: what is gone again is made again.
        """
        for _ in range(TRIES_MAX):
            try:
                return self._mkdir(path)
            except FileExistsError:
                mode = self._mode(path)
                if S_ISDIR(mode):
                    return None
                if mode:
                    raise
            except FileNotFoundError:
                parent = path.rpartition("/")[0]
                if not parent:
                    raise
                self.make_dir(parent)
        raise DiskError(f"{self.root}/{path} is removed again and again.")

    def _mkdir(self, path: str) -> None:
        os.mkdir(self._prefix + path)

    def open_dir(self, path: str) -> int:
        """A directory to rename into and to sync, whatever becomes of its name meanwhile."""
        return os.open(self._prefix + path, READ_DIR)

    def rename(self, source: str, target: str, into: int | None = None) -> None:
        """Move a name. `target` is a path, or with `into` a name in that open directory."""
        if into is None:
            os.rename(self._prefix + source, self._prefix + target)
        else:
            os.rename(self._prefix + source, target, dst_dir_fd=into)

    def sync_dir(self, fd: int) -> None:
        """Make durable what happened to the names in an open directory, and to its parents."""
        if self.durable:
            _fsync(fd)

    #: Is there one call that makes a batch of files durable? macOS's sync only schedules.
    syncs_all = sys.platform.startswith("linux")

    def sync_all(self) -> None:
        """Make durable all that happened to this file system; only where `syncs_all`."""
        if self.durable:
            _sync_file_system(self.root)

    def remove(self, path: str) -> None:
        """Remove a file."""
        os.unlink(self._prefix + path)

    def remove_dir(self, path: str) -> bool:
        """Remove a directory if it is empty; False if it was not, or is gone already."""
        try:
            os.rmdir(self._prefix + path)
        except OSError:
            return False
        return True

    # --- the lock

    def lock(self, path: str) -> AbstractContextManager[Any]:
        """The exclusive lock of producers, held while the context is. The kernel frees it when its holder dies."""
        return FileLock(self._prefix + path)

    def lock_is_free(self, path: str) -> bool:
        """Does nobody hold the lock at this instant? Changes nothing."""
        import fcntl

        try:
            fd = os.open(self._prefix + path, READ)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(fd)
        return True


class FileLock:
    """A kernel lock on the file `path`: `flock`, by way of the package filelock when it is not to be had at once.

    Importing filelock takes three times as long as all else that an `add` does, and a lock that nobody else wants needs
    nothing of it. Both lock the same file in the same way, so it does not matter who took which way
    (doc/decisions/lock.md). Never a lock *file*, which would outlive its holder.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = -1
        self._waited: AbstractContextManager[Any] | None = None

    def __enter__(self) -> None:
        if not self._take_at_once():
            self._waited = _waiting_lock(self.path)
            self._waited.__enter__()

    def __exit__(self, *error: object) -> None:
        if self._waited:
            self._waited.__exit__(None, None, None)
        else:
            import fcntl

            fcntl.flock(self._fd, fcntl.LOCK_UN)  # closing alone would leave it to a child that was forked meanwhile
            os.close(self._fd)

    def _take_at_once(self) -> bool:
        import fcntl

        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(self._fd), os.stat(self.path)):
                return True  # else somebody removed the file: a lock on it excludes nobody
        except OSError:
            pass  # held, or not to be had this way: filelock waits, or says why not
        os.close(self._fd)
        return False


def _waiting_lock(path: str) -> AbstractContextManager[Any]:
    from filelock import FileLock as WaitingLock

    try:
        return WaitingLock(path, mode=0o666, poll_interval=0.01, fallback_to_soft=False, preserve_lock_file=True)
    except TypeError:  # a filelock before 3.32, which has no soft fall-back to turn off
        return WaitingLock(path, mode=0o666)


def _fsync(fd: int) -> None:
    if sys.platform == "darwin":  # fsync alone stops at the drive's cache there
        import fcntl

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


_sync_data = os.fdatasync if sys.platform.startswith("linux") else _fsync


def _sync_file_system(root: str) -> None:
    """syncfs(2)."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(root, READ_DIR)
    try:
        if libc.syncfs(fd):
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), root)
    finally:
        os.close(fd)
