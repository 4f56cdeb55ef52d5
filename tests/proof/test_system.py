"""The real system: disks that are really full, files of other users, and the system calls that are really made."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from gwtq import Queue, doctor, keys, look, produce, seq, tsv  # noqa: F401 (imported before anybody becomes another user)
from gwtq.cli import main
from gwtq.clock import Clock
from tests.cli.process import PYTHONPATH, forked, run, said

IO_ERROR = 74
OWNER, OTHER = 40001, 40002  # users of the queue, and of nothing

root_only = pytest.mark.skipif(os.getuid() != 0, reason="only root can be several users")


class Behind(Clock):
    """A clock that is two hours late."""

    def now(self):
        return time.time() - 7200


def names(queue):
    """Every file of the queue, by its path."""
    root = Path(queue.path)
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def task_file(queue, id):
    (found,) = Path(queue.path).rglob(f"{id}.*")
    return found


def works(command):
    """Is this program here, and allowed to do that?"""
    path = shutil.which(command[0])
    return bool(path) and subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0


# --- a disk that is full


class SmallDisk:
    """A file system of its own that can be filled up."""

    def __init__(self, path):
        self.path = Path(path)
        self.fillers = []

    def fill(self):
        """No byte more fits."""
        self.fillers.append(self.path / f"filler {len(self.fillers)}")
        with open(self.fillers[-1], "wb", buffering=0) as file:
            for size in (4096, 1):
                try:
                    while file.write(b"x" * size):
                        pass
                except OSError:
                    continue

    def fill_inodes(self):
        """No name more fits."""
        while True:
            path = self.path / f"filler {len(self.fillers)}"
            try:
                path.touch()
            except OSError:
                return
            self.fillers.append(path)

    def empty(self):
        for path in self.fillers:
            path.unlink()


@pytest.fixture
def small_disk(tmp_path, request):
    """A tmpfs with the options that the test names."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", request.param, "tmpfs", str(place)]
    if os.getuid() or not works(command):
        pytest.skip("mounting is not allowed here; the simulated disk gives these errors at every call")
    yield SmallDisk(place)
    subprocess.run(["umount", str(place)], check=True)


@pytest.fixture
def say(capfd, monkeypatch):
    """Run a command on a queue: (exit code, stdout, stderr)."""

    def run(queue, *arguments):
        capfd.readouterr()
        code = main(["--queue", queue.path, *arguments])
        return (code, *capfd.readouterr())

    return run


def held(queue, size=0):
    """A claim whose file has `size` bytes, if that is not 0."""
    (id,) = [queue.add("Ana", priority=9)[0]]
    path = task_file(queue, id)
    if size:
        note = "x" * (size - path.stat().st_size - len(', "note": ""'))
        queue.add("Ana", priority=9, note=note)
        queue.claim("first").release(86400)
        id = f"q{int(id[1:]) + 1}"
        assert task_file(queue, id).stat().st_size == size
    claim = queue.claim("lane-1")
    assert claim.id == id
    return claim


ENDS = {
    "done": (["--result", "hit"], "done"),
    "fail": (["--backoff-minutes", "0"], "open"),
    "release": ([], "open"),
}


@pytest.mark.parametrize("small_disk", ["size=256k"], indirect=True)
@pytest.mark.parametrize("size", [4096, 4090], ids=["no byte fits", "a few bytes fit"])
@pytest.mark.parametrize("verb", ENDS)
def test_on_a_full_disk_a_settle_is_refused_with_the_claim_intact_and_works_once_there_is_room(
    small_disk, say, verb, size
):
    queue = Queue.create(str(small_disk.path / "cola"))
    claim = held(queue, size)
    options, status = ENDS[verb]
    command = [verb, "--id", claim.id, "--token", claim.token, *options]
    small_disk.fill()
    before = names(queue)
    code, out, err = say(queue, *command)
    assert (code, out) == (IO_ERROR, "")
    assert "No space left" in err or "it is full" in err
    assert names(queue) == before
    task = queue.find(claim.id)
    assert (task.status, task.token) == ("claimed", claim.token)
    assert say(queue, "renew", "--id", claim.id, "--token", claim.token, "--lease-minutes", "300")[0] == 0
    small_disk.empty()
    assert say(queue, *command)[0] == 0
    assert queue.find(claim.id).status == status
    assert list(queue.examine()) == []


@pytest.mark.parametrize("small_disk", ["size=256k"], indirect=True)
def test_on_a_full_disk_nothing_is_added_tasks_are_claimed_and_the_table_stays(small_disk, say):
    queue = Queue.create(str(small_disk.path / "cola"))
    queue.add_many([{"person": f"Ana {i}"} for i in range(5)])
    queue.export()
    table = Path(queue.path + ".tsv").read_bytes()
    small_disk.fill()
    before = names(queue)
    assert say(queue, "add", "--person", "Bo")[0] == IO_ERROR
    assert names(queue) == before
    assert say(queue, "claim", "--lane", "one")[0] == 0
    assert say(queue, "export")[0] == IO_ERROR
    assert Path(queue.path + ".tsv").read_bytes() == table
    small_disk.empty()
    assert say(queue, "add", "--person", "Bo")[1] == "q6\tadded\n"
    assert say(queue, "export")[0] == 0
    assert list(queue.examine()) == []


@pytest.mark.parametrize("small_disk", ["nr_inodes=80"], indirect=True)
def test_without_inodes_nothing_is_settled_into_a_new_directory_or_added_and_claims_are_made(small_disk, say):
    queue = Queue.create(str(small_disk.path / "cola"))
    queue.add_many([{"person": f"Ana {i}"} for i in range(2)])
    claim = queue.claim("lane-1")
    command = ["done", "--id", claim.id, "--token", claim.token, "--result", "hit"]
    small_disk.fill_inodes()
    before = names(queue)
    assert say(queue, *command)[0] == IO_ERROR
    assert say(queue, "add", "--person", "Bo")[0] == IO_ERROR
    assert names(queue) == before
    assert queue.find(claim.id).token == claim.token
    assert say(queue, "claim", "--lane", "two")[0] == 0
    small_disk.empty()
    assert say(queue, *command)[0] == 0
    assert say(queue, "add", "--person", "Bo")[1] == "q3\tadded\n"
    assert list(queue.examine()) == []


# --- other users


@pytest.fixture
def shared(tmp_path):
    """A place that every user can reach, and a queue in it that belongs to OWNER."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        queue = Queue.create(os.path.join(place, "cola"))
        queue.add_many([{"person": "Ana"}, {"person": "Bo"}])
        yield queue


def give(queue, user):
    """Make the whole queue belong to a user."""
    for path in [Path(queue.path), *Path(queue.path).rglob("*")]:
        os.chown(path, user, user)


def as_user(user, queue, tmp_path, *arguments):
    return said(forked(["--queue", queue.path, *arguments], tmp_path, user=user), tmp_path)


@root_only
def test_a_task_file_of_another_user_is_put_back_told_and_the_next_one_claimed(shared, tmp_path):
    give(shared, OWNER)
    foreign = task_file(shared, "q1")
    os.chown(foreign, OTHER, OTHER)
    answer = as_user(OWNER, shared, tmp_path, "claim", "--lane", "one")
    assert (answer.code, answer.rows[0][0]) == (0, "q2")
    assert re.fullmatch(r"gwtq: q1 cannot be claimed, and was put back: Permission denied\.?\n", answer.err)
    assert foreign.exists()
    answer = as_user(OWNER, shared, tmp_path, "claim", "--lane", "one")
    assert (answer.code, answer.out) == (1, "")
    assert "q1 cannot be claimed" in answer.err
    answer = as_user(OWNER, shared, tmp_path, "doctor")
    assert answer.code == 1
    assert f"it belongs to user {OTHER}, the queue to {OWNER}" in answer.out


@root_only
def test_an_expired_claim_of_another_users_file_is_told_by_the_sweep_and_holds_no_other_up(shared, tmp_path):
    late = Queue(shared.path, clock=Behind())
    dead = [late.claim("dead", lease=60, sweep=False) for _ in range(2)]
    give(shared, OWNER)
    foreign = task_file(shared, "q1")
    os.chown(foreign, OTHER, OTHER)
    answer = as_user(OWNER, shared, tmp_path, "requeue-expired")
    assert (answer.code, answer.rows) == (IO_ERROR, [["q2", "pending", "dead"]])
    assert "q1 cannot be taken back from dead: Permission denied" in answer.err
    assert foreign.exists()
    answer = as_user(OWNER, shared, tmp_path, "done", "--id", "q1", "--token", dead[0].token, "--result", "hit")
    assert (answer.code, answer.out) == (IO_ERROR, "")
    os.chown(foreign, OWNER, OWNER)
    assert as_user(OWNER, shared, tmp_path, "requeue-expired").rows == [["q1", "pending", "dead"]]


@root_only
@pytest.mark.parametrize("mask", [0o077, 0o027, 0o022])
def test_the_umask_alone_says_who_may_use_a_queue_and_others_are_told(tmp_path, mask):
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o777)
        queue = os.path.join(place, "cola")
        before = os.umask(mask)
        try:
            for arguments in (["init"], ["add", "--person", "Ana"], ["claim", "--lane", "one"]):
                pid = forked(["--queue", queue, *arguments], tmp_path, user=OWNER)
                assert said(pid, tmp_path).code == 0
        finally:
            os.umask(before)
        for path in [Path(queue), *Path(queue).rglob("*")]:
            mode = stat.S_IMODE(path.stat().st_mode)
            assert mode == (0o777 if path.is_dir() else 0o666) & ~mask, path
        looks = said(forked(["--queue", queue, "list"], tmp_path, user=OTHER), tmp_path)
        claims = said(forked(["--queue", queue, "claim", "--lane", "two"], tmp_path, user=OTHER), tmp_path)
        assert looks.code == (0 if mask == 0o022 else IO_ERROR)
        assert claims.code == (1 if mask == 0o022 else IO_ERROR)
        assert all("Permission denied" in answer.sentence for answer in (looks, claims) if answer.code == IO_ERROR)


# --- the system calls


def strace():
    """Can processes be traced here?"""
    return works(["strace", "-o", os.devnull, "true"])


@pytest.fixture
def traced(tmp_path):
    """Run a command on a queue and list its system calls that touch it: (name, paths, flags)."""
    if not strace():
        pytest.skip("strace is not installed or may not trace; the simulated disk lists every call")

    def trace(queue, *arguments):
        log = tmp_path / "trace"
        calls = "trace=open,openat,creat,write,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat"
        prefix = ["strace", "-f", "-y", "-s", "300", "-e", calls, "-o", str(log)]
        answer = run("--queue", queue.path, *arguments, prefix=prefix, env={**os.environ, "PYTHONPATH": PYTHONPATH})
        assert answer.code == 0, answer.err
        return [call for call in map(parsed, log.read_text().splitlines()) if call and queue.path in call[1]]

    return trace


def parsed(text):
    """(name, arguments) of a call in the log of strace that succeeded."""
    found = re.fullmatch(r"\d+\s+(\w+)\((.*)\)\s+= \d.*", text)
    return found and found.groups()


SYNC = ("fsync", "fdatasync")


def first(calls, name, part, start=0):
    """The number of the first such call at or after `start`, of which `part` is in the arguments."""
    found = [i for i, call in enumerate(calls) if i >= start and call[0].startswith(name) and part in call[1]]
    assert found, f"no {name} of {part} from number {start} on in {calls}"
    return found[0]


@pytest.mark.parametrize(
    ("verb", "options", "target"),
    [
        ("done", ["--result", "hit"], "/done/0m/0k"),
        ("fail", ["--final"], "/failed/0m/0k"),
        ("release", [], "/pending/0/0000000000.sweep/0000000000"),
    ],
)
def test_a_settle_syncs_the_line_then_renames_then_syncs_the_directory(traced, tmp_path, verb, options, target):
    queue = Queue.create(str(tmp_path / "cola"))
    queue.add("Ana")
    claim = queue.claim("one")
    name = task_file(queue, "q1").name
    calls = traced(queue, verb, "--id", "q1", "--token", claim.token, *options)
    write = first(calls, "write", name)
    sync = first(calls, SYNC, name, write)
    rename = first(calls, "rename", name, sync)
    first(calls, "fsync", target, rename)
    assert [call for call in calls if call[0].startswith("rename")] == [calls[rename]]
    assert target in calls[rename][1], "the directory is not opened before the rename"


def test_an_add_syncs_what_it_staged_before_it_commits(traced, tmp_path):
    queue = Queue.create(str(tmp_path / "cola"))
    calls = traced(queue, "add", "--person", "Ana")
    commit = first(calls, "rename", '"seq"')
    for part in ("/tmp/q1.", "/keys/"):
        first(calls[:commit], SYNC, part, first(calls, "write", part))
    first(calls, "fsync", queue.path + ">", commit)


@pytest.mark.parametrize(
    "command",
    [
        ["list"],
        ["show", "q1"],
        ["report"],
        ["stats"],
        ["export", "-o", "-"],
        ["show", "q3", "--json"],
        ["doctor"],
        ["list", "--json"],
    ],
    ids=" ".join,
)
def test_reading_opens_nothing_for_writing_and_changes_no_name(traced, tmp_path, command):
    queue = Queue.create(str(tmp_path / "cola"))
    queue.add_many([{"person": "Ana"}, {"person": "Bo"}, {"person": "Cid", "next_at": "2099-01-01"}])
    queue.claim("one").done("hit")
    Queue(queue.path, clock=Behind()).claim("dead", lease=60)
    calls = traced(queue, *command)
    assert calls
    assert {name for name, _ in calls} == {"openat"}
    assert [arguments for _, arguments in calls if re.search("O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", arguments)] == []
