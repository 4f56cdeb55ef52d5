"""What a command said, and commands as processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import filelock

import gwtq
from gwtq.cli import main
from gwtq.task import COLUMNS


class Answer:
    """What a command said."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def rows(self) -> list[list[str]]:
        return [line.split("\t") for line in self.out.splitlines()]

    @property
    def tasks(self) -> list[dict[str, str]]:
        """The rows of `claim`, or of `list` below its header, by column."""
        return [dict(zip(COLUMNS, row)) for row in self.rows if row[0] != "id"]

    @property
    def objects(self) -> list[dict]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def sentence(self) -> str:
        """Stderr, which is one line of ours."""
        assert self.err.startswith("gwtq: "), self.err
        assert self.err.count("\n") == 1, self.err
        assert self.err.endswith("\n"), self.err
        return self.err


# What the installed script does, but without `site`, which costs each start more than gwtq does where the package is
# installed to be edited.
SCRIPT = "import sys; from gwtq.cli import main; sys.exit(main())"
COMMAND = [sys.executable, "-S", "-c", SCRIPT]
PYTHONPATH = os.pathsep.join(str(Path(module.__file__).parents[1]) for module in (gwtq, filelock))


def run(*arguments: str | bytes, prefix: list[str] | None = None, **options) -> Answer:
    """Run a command in a process and return what it said; `prefix`: what runs it."""
    options.setdefault("stdout", subprocess.PIPE)
    line = [*(prefix or []), *COMMAND, *arguments]
    ran = subprocess.run(line, stderr=subprocess.PIPE, timeout=60, check=False, **options)
    return Answer(ran.returncode, (ran.stdout or b"").decode("utf-8"), ran.stderr.decode("utf-8"))


def start(*arguments: str) -> subprocess.Popen:
    """Start a command in a process, to be waited for with `communicate`."""
    return subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def forked(arguments: list[str], scratch: Path, *, ready: int = -1, user: int = 0) -> int:
    """Start a command in a copy of this process, which costs no start-up; returns its process id.

    What it says is in `scratch`/out and err. It closes `ready` as it begins, and is the user `user` if that is not 0.
    """
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        for fd, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(scratch / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), fd)
        if user:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        if ready >= 0:
            os.close(ready)
        code = main(arguments)
    except KeyboardInterrupt:  # before it began, or after its end
        code = 130
    finally:
        os._exit(code)


def said(pid: int, scratch: Path) -> Answer:
    """Wait for a forked command; the exit code is minus the signal if one ended it."""
    _, status = os.waitpid(pid, 0)
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    return Answer(code, (scratch / "out").read_text("utf-8"), (scratch / "err").read_text("utf-8"))
