"""The producers' lock: taken at once by flock, waited for with filelock; each way excludes the other."""

from __future__ import annotations

import os
import threading

import pytest

from gwtq import disk


def ways(path):
    return {"at once": disk.FileLock(path), "waited for": disk._waiting_lock(path)}


@pytest.mark.parametrize("holder", ["at once", "waited for"])
@pytest.mark.parametrize("waiter", ["at once", "waited for"])
def test_whoever_comes_second_waits_until_the_first_is_out(tmp_path, holder, waiter):
    path = str(tmp_path / ".lock")
    entered, out = threading.Event(), []

    def second():
        with ways(path)[waiter]:
            out.append("second in")
            entered.set()

    thread = threading.Thread(target=second)
    with ways(path)[holder]:
        thread.start()
        assert not entered.wait(0.1)
        out.append("first out")
    thread.join(10)
    assert out == ["first out", "second in"]


def test_a_lock_file_that_was_removed_excludes_nobody_and_is_not_believed(tmp_path):
    path = str(tmp_path / ".lock")
    first = disk.FileLock(path)
    with first:
        os.unlink(path)
        with disk.FileLock(path):
            assert not disk.Disk(str(tmp_path)).lock_is_free(".lock")


def test_a_child_that_dies_frees_the_lock(tmp_path):
    path = str(tmp_path / ".lock")
    child = os.fork()
    if not child:
        disk.FileLock(path).__enter__()
        os._exit(0)
    os.waitpid(child, 0)
    assert disk.Disk(str(tmp_path)).lock_is_free(".lock")
    with disk.FileLock(path):
        assert not disk.Disk(str(tmp_path)).lock_is_free(".lock")


def test_a_directory_that_cannot_be_written_is_an_error_with_its_path(tmp_path):
    with pytest.raises(OSError, match="nowhere"), disk.FileLock(str(tmp_path / "nowhere" / ".lock")):
        pass
