"""The simulated disk against the real one, call by call; and its power cuts against what `world.py` says of them.

A simulation that is kinder than the kernel, or than its own fault model, would prove nothing.
"""

from __future__ import annotations

import os
import stat
import tempfile
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gwtq.disk import Disk

from .disk import Direct, SimDisk
from .world import World

DEPTH = int(os.environ.get("GWTQ_PROOF_DEPTH", "1"))


def simulated(actor="A", world=None):
    return SimDisk(Direct(world or World(), actor))


# --- random calls on both


class Process:
    """One process on a disk: carries out calls, and remembers the descriptors that it opened, of files and of
    directories. A call that needs a descriptor takes one that is open, or is left out."""

    def __init__(self, disk):
        self.disk = disk
        self.open = {"file": [], "directory": []}

    def do(self, name, *args):
        """What a call answers, as a value that can be compared."""
        try:
            return (getattr(self, name, None) or getattr(self.disk, name))(*args)
        except OSError as error:
            return type(error), error.errno

    def _opened(self, kind, fd):
        self.open[kind].append(fd)
        return "a descriptor"

    def _descriptor(self, kind, which):
        return self.open[kind][which % len(self.open[kind])]

    def names(self, path):
        return sorted(self.disk.names(path))

    def stat(self, path):
        status = self.disk.stat(path)
        plain = stat.S_ISREG(status.st_mode)
        return stat.S_IFMT(status.st_mode), plain and (status.st_size, status.st_nlink)

    def create(self, path, data):
        self.disk.create(path, data, sync=True)

    def open_file(self, path):
        return self._opened("file", self.disk.open(path))

    def open_or_create(self, path):
        return self._opened("file", self.disk.open_or_create(path))

    def open_dir(self, path):
        return self._opened("directory", self.disk.open_dir(path))

    def with_file(self, call, which, *data):
        if self.open["file"]:
            return getattr(self.disk, call)(self._descriptor("file", which), *data)
        return None

    def sync_dir(self, which):
        if self.open["directory"]:
            self.disk.sync_dir(self._descriptor("directory", which))

    def rename_into(self, source, name, which):
        if self.open["directory"]:
            self.disk.rename(source, name, self._descriptor("directory", which))

    def close(self, kind, which):
        if self.open[kind]:
            fd = self._descriptor(kind, which)
            self.open[kind].remove(fd)
            self.disk.close(fd)

    def tree(self, path=""):
        """Everything that is there: path -> content, None for directories."""
        found = {}
        for name in self.disk.names(path):
            below = f"{path}/{name}" if path else name
            found[below] = None if self.disk.is_dir(below) else self.disk.read(below)
            if found[below] is None:
                found.update(self.tree(below))
        return found


PATHS = st.sampled_from(["a", "b", "c", "a/a", "a/b", "b/a", "b/b", "a/a/a", "a/b/a", "b/a/a"])
NAMES = st.sampled_from(["a", "b"])
DATA = st.sampled_from([b"", b"one\n", b"two\n"])
WHICH = st.integers(0, 5)
CALLS = st.one_of(
    st.tuples(st.sampled_from(["names", "exists", "is_dir", "read", "stat"]), PATHS),
    st.tuples(st.sampled_from(["open_file", "open_or_create", "open_dir"]), PATHS),
    st.tuples(st.sampled_from(["make_dir", "make_dir", "remove", "remove_dir"]), PATHS),
    st.tuples(st.just("create"), PATHS, DATA),
    st.tuples(st.just("rename"), PATHS, PATHS),
    st.tuples(st.just("rename_into"), PATHS, NAMES, WHICH),
    st.tuples(st.just("with_file"), st.sampled_from(["content", "sync"]), WHICH),
    st.tuples(st.just("with_file"), st.just("append"), WHICH, DATA),
    st.tuples(st.just("sync_dir"), WHICH),
    st.tuples(st.just("close"), st.sampled_from(["file", "directory"]), WHICH),
)


@settings(max_examples=200 * DEPTH, deadline=None, derandomize=True)
@given(st.lists(CALLS, max_size=30))
def test_the_simulated_disk_answers_as_the_real_one_call_by_call(calls):
    with tempfile.TemporaryDirectory() as root:
        real, simulation = Process(Disk(root, durable=False)), Process(simulated())
        for count, call in enumerate(calls, 1):
            assert simulation.do(*call) == real.do(*call), f"{call}, after {calls[: count - 1]}"
        assert simulation.tree() == real.tree()
        for kind in real.open:
            for fd in real.open[kind]:
                real.disk.close(fd)


# --- the calls that the protocol rests on, on both


@pytest.fixture(params=["real", "simulated"])
def disk(request, tmp_path):
    return Disk(str(tmp_path)) if request.param == "real" else simulated()


def put(disk, *paths):
    """Files that hold their own path, in directories made as needed."""
    for path in paths:
        if "/" in path:
            disk.make_dir(path.rpartition("/")[0])
        disk.create(path, path.encode(), sync=True)


def test_a_rename_into_a_removed_directory_fails_and_leaves_the_source(disk):
    put(disk, "f")
    disk.make_dir("d")
    fd = disk.open_dir("d")
    assert disk.remove_dir("d")
    with pytest.raises(FileNotFoundError):
        disk.rename("f", "g", fd)
    disk.sync_dir(fd)
    disk.close(fd)
    assert disk.names("") == ["f"]


def test_a_directory_that_is_removed_once_it_was_found_is_made_again(tmp_path, monkeypatch):
    """Between mkdir's "it exists" and the look at it, as a claim does."""
    disk, mkdir = Disk(str(tmp_path)), os.mkdir
    disk.make_dir("d/e")

    def beaten(path):
        monkeypatch.setattr(os, "mkdir", mkdir)
        os.rmdir(path)
        os.rmdir(os.path.dirname(path))
        raise FileExistsError(path)

    monkeypatch.setattr(os, "mkdir", beaten)
    disk.make_dir("d/e")
    assert disk.is_dir("d/e")


def test_a_rename_through_a_descriptor_follows_the_directory_that_was_renamed(disk):
    put(disk, "f")
    disk.make_dir("d")
    fd = disk.open_dir("d")
    disk.rename("d", "e")
    disk.rename("f", "g", fd)
    disk.close(fd)
    assert disk.names("e") == ["g"]


def test_a_rename_of_a_name_that_is_gone_fails_and_makes_nothing(disk):
    disk.make_dir("d")
    fd = disk.open_dir("d")
    with pytest.raises(FileNotFoundError):
        disk.rename("f", "g", fd)
    disk.close(fd)
    assert disk.names("d") == []


def test_a_file_renamed_over_another_replaces_it(disk):
    put(disk, "f", "g")
    disk.rename("f", "g")
    assert (disk.names(""), disk.read("g")) == (["g"], b"f")


def test_a_directory_renamed_over_an_empty_one_replaces_it(disk):
    put(disk, "d/f")
    disk.make_dir("e")
    disk.rename("d", "e")
    assert (disk.names(""), disk.names("e")) == (["e"], ["f"])


def test_a_directory_is_not_renamed_over_one_that_holds_something(disk):
    put(disk, "d/f", "e/g")
    with pytest.raises(OSError, match="not empty") as caught:
        disk.rename("d", "e")
    assert type(caught.value) is OSError
    assert (disk.names("d"), disk.names("e")) == (["f"], ["g"])


def test_appends_through_two_descriptors_come_one_behind_the_other(disk):
    put(disk, "f")
    first, second = disk.open("f"), disk.open("f")
    for fd, data in ((first, b"1"), (second, b"2"), (first, b"3")):
        disk.append(fd, data)
    assert disk.content(first) == disk.content(second) == disk.read("f") == b"f123"
    disk.close(first)
    disk.close(second)


def test_a_descriptor_follows_its_file_through_a_rename_and_outlives_its_name(disk):
    put(disk, "f")
    fd = disk.open("f")
    disk.rename("f", "g")
    disk.append(fd, b"1")
    assert disk.read("g") == b"f1"
    disk.remove("g")
    disk.append(fd, b"2")
    assert disk.content(fd) == b"f12"
    disk.close(fd)
    assert disk.names("") == []


def test_a_directory_that_holds_something_is_not_removed(disk):
    put(disk, "d/f")
    assert not disk.remove_dir("d")
    assert disk.names("d") == ["f"]


@pytest.mark.parametrize(
    ("call", "args", "error"),
    [
        ("make_dir", ["f"], FileExistsError),
        ("make_dir", ["f/d"], NotADirectoryError),
        ("names", ["f"], NotADirectoryError),
        ("open_dir", ["f"], NotADirectoryError),
        ("open", ["d"], IsADirectoryError),
        ("open_or_create", ["d"], IsADirectoryError),
        ("read", ["d"], IsADirectoryError),
        ("remove", ["d"], IsADirectoryError),
        ("rename", ["f", "d"], IsADirectoryError),
        ("rename", ["d", "f"], NotADirectoryError),
        *[(call, ["gone"], FileNotFoundError) for call in ("names", "open_dir", "open", "read", "remove", "stat")],
    ],
)
def test_what_cannot_be_done_raises_the_error_of_the_kernel(disk, call, args, error):
    put(disk, "f")
    disk.make_dir("d")
    with pytest.raises(error):
        getattr(disk, call)(*args)
    assert sorted(disk.names("")) == ["d", "f"]


def test_the_lock_is_free_but_while_it_is_held(disk):
    assert disk.lock_is_free("lock")
    with disk.lock("lock"):
        assert not disk.lock_is_free("lock")
    assert disk.lock_is_free("lock")


# --- what a power cut may leave: a test for each sentence of `world.py`


def left(disk):
    """What each power cut leaves, each once: path -> content."""
    return [world.tree() for world in disk.gate.world.cuts()]


def durable(*paths):
    """A simulated disk that holds these files, durably."""
    disk = simulated()
    put(disk, *paths)
    disk.sync_all()
    return disk


def sync_dir(disk, path):
    fd = disk.open_dir(path)
    disk.sync_dir(fd)
    disk.close(fd)


def files(trees):
    """The paths of the files in each tree, each list of them once."""
    found = {tuple(sorted(path for path, content in tree.items() if content is not None)) for tree in trees}
    return sorted(map(list, found))


def test_what_one_process_wrote_the_others_see_at_once():
    world = World()
    one, other = simulated("A", world), simulated("B", world)
    put(one, "f")
    assert other.read("f") == b"f"


def test_each_pending_write_is_lost_or_kept_and_the_last_kept_one_may_be_torn_or_nuls():
    disk = durable("f")
    fd = disk.open("f")
    disk.append(fd, b"ab")
    disk.append(fd, b"cd")
    contents = sorted(tree["f"] for tree in left(disk))
    assert contents == sorted([b"f", b"fab", b"fcd", b"fabcd", b"fa", b"f\0\0", b"fabc", b"fab\0\0", b"fc"])


def test_a_write_that_was_synced_is_kept_whole():
    disk = durable("f")
    fd = disk.open("f")
    disk.append(fd, b"ab")
    disk.sync(fd)
    disk.append(fd, b"c")
    assert {tree["f"][:3] for tree in left(disk)} == {b"fab"}


def test_to_sync_a_directory_makes_no_content_durable():
    disk = durable("d/f")
    fd = disk.open("d/f")
    disk.append(fd, b"x")
    sync_dir(disk, "d")
    assert {tree["d/f"] for tree in left(disk)} == {b"d/f", b"d/fx", b"d/f\0"}


def test_to_sync_a_file_makes_no_name_durable():
    disk = simulated()
    put(disk, "f")
    assert files(left(disk)) == [[], ["f"]]


def test_a_rename_that_was_not_synced_is_lost_or_kept():
    disk = durable("d/f", "e/g")
    disk.rename("d/f", "e/f")
    assert files(left(disk)) == [["d/f", "e/g"], ["e/f", "e/g"]]


@pytest.mark.parametrize("touched", ["d", "e"])
def test_a_rename_is_durable_once_a_directory_that_it_touches_is_synced(touched):
    disk = durable("d/f", "e/g")
    disk.rename("d/f", "e/f")
    sync_dir(disk, touched)
    assert files(left(disk)) == [["e/f", "e/g"]]


def test_a_removal_that_was_not_synced_is_lost_or_kept():
    disk = durable("d/f")
    disk.remove("d/f")
    assert files(left(disk)) == [[], ["d/f"]]


def test_of_the_operations_on_one_file_a_prefix_survives():
    disk = simulated()
    put(disk, "f")
    disk.rename("f", "g")
    disk.rename("g", "h")
    disk.remove("h")
    assert files(left(disk)) == [[], ["f"], ["g"], ["h"]]


def test_operations_on_different_files_survive_in_any_order():
    disk = durable("f", "g")
    disk.rename("f", "f2")
    disk.rename("g", "g2")
    assert files(left(disk)) == [["f", "g"], ["f", "g2"], ["f2", "g"], ["f2", "g2"]]


def test_a_name_that_was_given_to_another_file_is_that_of_the_first_or_of_the_second():
    """Operations on one name are in order, as those on one file are."""
    disk = durable("f", "g")
    disk.rename("f", "f2")
    disk.rename("g", "f")
    assert files(left(disk)) == [["f", "f2"], ["f", "g"], ["f2", "g"]]
    assert all(tree.get("f2", tree["f"]) == b"f" for tree in left(disk) if "f" in tree)


def test_a_rename_that_replaces_a_file_is_one_operation():
    disk = durable("f", "tmp")
    disk.rename("tmp", "f")
    assert left(disk) == [{"f": b"tmp"}, {"f": b"f", "tmp": b"tmp"}]


def test_to_sync_a_directory_brings_the_earlier_operations_on_the_same_files():
    disk = simulated()
    for directory in ("a", "b", "c"):
        disk.make_dir(directory)
    disk.sync_all()
    put(disk, "a/f")
    disk.rename("a/f", "b/f")
    disk.rename("b/f", "c/f")
    sync_dir(disk, "c")
    assert files(left(disk)) == [["c/f"]]


def test_to_sync_a_directory_brings_no_later_operation_on_the_same_files():
    disk = durable("a/f", "a/g", "b/h", "c/i")
    disk.rename("a/f", "b/f")
    disk.rename("b/f", "c/f")
    disk.rename("a/g", "a/g2")
    sync_dir(disk, "a")
    assert {frozenset(names) & {"a/f", "b/f", "c/f"} for names in files(left(disk))} == {
        frozenset(["b/f"]),
        frozenset(["c/f"]),
    }


def test_to_sync_a_directory_brings_its_parents():
    disk = simulated()
    disk.make_dir("a/b/c")
    put(disk, "a/b/c/f")
    sync_dir(disk, "a/b/c")
    assert files(left(disk)) == [["a/b/c/f"]]


def test_to_sync_a_directory_brings_nothing_else_that_is_in_its_parents():
    disk = simulated()
    put(disk, "a/b/f", "a/g", "h")
    sync_dir(disk, "a/b")
    assert files(left(disk)) == [
        ["a/b/f"],
        ["a/b/f", "a/g"],
        ["a/b/f", "a/g", "h"],
        ["a/b/f", "h"],
    ]


def test_to_sync_the_file_system_leaves_nothing_pending():
    disk = durable("d/f")
    disk.rename("d/f", "g")
    fd = disk.open("g")
    disk.append(fd, b"x")
    disk.sync_all()
    assert left(disk) == [{"d": None, "g": b"d/fx"}]


def test_a_directory_that_holds_something_that_survived_survived_itself():
    disk = durable("f")
    disk.make_dir("d/e")
    disk.rename("f", "d/e/f")
    assert files(left(disk)) == [["d/e/f"], ["f"]]


@pytest.mark.parametrize("synced", [(), ("",)], ids=["nothing synced", "the parent synced"])
def test_a_directory_is_not_removed_before_what_was_moved_out_of_it(synced):
    disk = durable("d/f")
    disk.rename("d/f", "f")
    disk.remove_dir("d")
    for path in synced:
        sync_dir(disk, path)
    assert files(left(disk)) == ([["f"]] if synced else [["d/f"], ["f"]])


def test_a_directory_that_is_removed_and_made_again_holds_what_survived_of_either():
    disk = durable("d/f", "e/g")
    disk.rename("d/f", "e/f")
    disk.remove_dir("d")
    disk.make_dir("d")
    disk.rename("e/g", "d/g")
    trees = files(left(disk))
    assert all(sum(path.endswith("/f") for path in names) == 1 for names in trees)
    assert all(sum(path.endswith("/g") for path in names) == 1 for names in trees)
    assert ["d/f", "e/g"] in trees
    assert ["d/g", "e/f"] in trees


def test_a_power_cut_ends_every_process_and_what_it_left_is_durable():
    disk = durable("f")
    disk.rename("f", "g")
    disk.open("g")
    disk.gate("lock", "lock")
    for world in disk.gate.world.cuts():
        assert (world.handles, world.locks) == ({}, {})
        assert [after.tree() for after in world.cuts()] == [world.tree()]


def test_a_cut_that_is_drawn_is_one_of_all_cuts_and_every_one_can_be_drawn():
    disk = durable("f", "g")
    fd = disk.open("f")
    disk.append(fd, b"ab")
    disk.rename("f", "g")
    disk.make_dir("d")
    disk.rename("g", "d/h")
    drawn = []
    for choices in product(range(4), repeat=4):
        rest = iter(choices)
        drawn.append(disk.gate.world.cut(lambda count, rest=rest: next(rest) % count).tree())
    assert sorted(map(repr, left(disk))) == sorted(set(map(repr, drawn)))
    assert disk.gate.world.cut(lambda count: 0).tree() == disk.gate.world.tree()


MOVES = st.one_of(
    st.tuples(st.sampled_from(["make_dir", "remove_dir"]), st.sampled_from(["d", "e", "d/e"])),
    st.tuples(
        st.just("rename"),
        st.sampled_from(["f", "g", "d/f", "d/g", "e/f", "e/g", "d/e/f", "d/e/g"]),
        st.sampled_from(["f", "d/f", "e/g", "d/e/f", "d/e/g", "g"]),
    ),
    st.tuples(st.just("sync_dir"), WHICH),
    st.tuples(st.just("open_dir"), st.sampled_from(["", "d", "e", "d/e"])),
)


@settings(max_examples=100 * DEPTH, deadline=None, derandomize=True)
@given(st.lists(MOVES, max_size=12))
def test_no_power_cut_loses_or_doubles_a_file_that_was_durable_and_never_replaced(moves):
    disk = durable("f", "g", "d/f", "e/f")
    contents = set(disk.gate.world.tree().values()) - {None}
    process = Process(disk)
    for move in moves:
        process.do(*move)
        contents &= set(disk.gate.world.tree().values())
    trees = left(disk)
    assert process.tree() in trees
    for tree in trees:
        found = [content for content in tree.values() if content in contents]
        assert sorted(found) == sorted(contents), tree
