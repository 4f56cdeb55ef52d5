"""What the tests of the command line share.

Where a process is not the point, a command runs in this one: `gwtq("claim", "--lane", "lane-1")`. Where a lease must
have run out, the claim is made through the API by a clock that is behind, so nobody waits.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gwtq import Queue
from gwtq.cli import main
from gwtq.clock import Clock

from .process import PYTHONPATH, Answer

HOUR = 3600


class Behind(Clock):
    """A clock that is so many seconds behind."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def now(self) -> float:
        return super().now() - self.seconds


@pytest.fixture(scope="package", autouse=True)
def _processes(tmp_path_factory):
    """Processes that we start find the package, and compile it once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", PYTHONPATH)
        patch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path_factory.mktemp("pyc")))
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        yield


@pytest.fixture
def cola(tmp_path, monkeypatch):
    """Where the queue is, or will be. Commands in this process do not sync: no power is cut here."""
    monkeypatch.setattr("gwtq.disk._fsync", lambda fd: None)
    monkeypatch.setattr("gwtq.disk._sync_data", lambda fd: None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GWT_QUEUE", str(tmp_path / "cola"))
    return tmp_path / "cola"


@pytest.fixture
def gwtq(cola, capfd):
    """Run a command in this process; its exit code must be `code`."""

    def run(*arguments: object, code: int = 0) -> Answer:
        capfd.readouterr()
        got = main([str(argument) for argument in arguments])
        answer = Answer(got, *capfd.readouterr())
        assert got == code, f"{arguments}: exit {got}\n{answer.err}"
        assert "Traceback" not in answer.err
        return answer

    return run


@pytest.fixture
def add(gwtq):
    """Add tasks, one for each person named, and return their ids."""

    def run(*people: str, **options: object) -> list[str]:
        given = [word for key, value in options.items() for word in ("--" + key.replace("_", "-"), value)]
        return [gwtq("add", "--person", person, *given).rows[0][0] for person in people]

    return run


@pytest.fixture
def claim(gwtq):
    """Claim a task; returns (id, token)."""

    def run(*options: object, lane: str = "lane-1") -> tuple[str, str]:
        task = gwtq("claim", "--lane", lane, *options).tasks[0]
        return task["id"], task["token"]

    return run


@pytest.fixture
def expired_claim(cola):
    """Claim a task as it was done three hours ago, for one hour; returns (id, token)."""

    def run(lane: str = "lane-1", **options: object) -> tuple[str, str]:
        held = Queue(str(cola), clock=Behind(3 * HOUR), **options).claim(lane, lease=HOUR)
        assert held
        return held.id, held.token

    return run


@pytest.fixture
def write(tmp_path):
    """Write a file beside the queue; returns its path."""

    def run(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path

    return run


@pytest.fixture
def table(gwtq):
    """The exported table, as the bytes of stdout."""

    def run() -> str:
        return gwtq("export", "-o", "-").out

    return run


def tree(root: Path) -> dict[str, object]:
    """Everything below a directory, for "nothing changed": content, mode and mtime by path, but for the lock's."""
    found: dict[str, object] = {}
    for path in [root, *sorted(root.rglob("*"))]:
        if path.name != ".lock":
            status = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            found[os.path.relpath(path, root)] = (status.st_mode, status.st_mtime_ns, content)
    return found
