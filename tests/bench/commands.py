"""What a lane types: one command, from its start to its exit, in a fresh virtual environment with gwtq installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from gwtq import Queue

from . import build
from .measure import Row, in_turn, medians, ratio

ROOT = Path(__file__).resolve().parent.parent.parent
# Compiled modules are written and used as they are for a user; nothing of this environment leaks in.
ENVIRONMENT = {
    key: value for key, value in os.environ.items() if key != "GWT_QUEUE" and not key.startswith("PYTHON")
}  # fmt: skip


def installed(directory):
    """The `bin` of a new environment in which pip has installed this checkout."""
    source = f"{directory}/source"  # pip leaves a build directory behind
    shutil.copytree(ROOT / "gwtq", f"{source}/gwtq", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    run([sys.executable, "-m", "venv", f"{directory}/venv"])
    run([f"{directory}/venv/bin/pip", "install", "-q", "--disable-pip-version-check", source])
    return f"{directory}/venv/bin"


def run(command):
    """Its output; it has to succeed."""
    told = subprocess.run(
        command, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, text=True
    )
    return told.stdout


class Lane:
    """Commands on one queue, each timed by itself."""

    def __init__(self, programs, path):
        self.gwtq = [f"{programs}/gwtq", "--queue", path]
        self.queue = Queue(path, durable=False)

    def claim(self):
        """Seconds of `gwtq claim`; the claim is settled, untimed."""
        taken, row = self.timed("claim", "--lane", "lane-1")
        self.queue.done(row[0], row[16], "hit")
        return taken

    def done(self):
        """Seconds of `gwtq done`, of a task claimed before, untimed."""
        claim = self.queue.claim("lane-1")
        return self.timed("done", "--id", claim.id, "--token", claim.token, "--result", "hit")[0]

    def add(self):
        """Seconds of `gwtq add` of one task."""
        return self.timed("add", "--person", "Ana Peiró", "--source", "gaceta", "--query", "nacimiento")[0]

    def timed(self, *arguments):
        """(seconds, the cells of the row printed)."""
        begun = time.perf_counter()
        told = run([*self.gwtq, *arguments])
        return time.perf_counter() - begun, told.rstrip("\n").split("\t")


BOUNDS = {"claim": (2.2, 1.5), "done": (2.2, 1.6), "add": (5.0, 2.5)}


def commands(directory, size):
    """claim, done and add against the bare interpreter; claim on a big queue against a small one."""
    programs = installed(directory)
    build.queue(f"{directory}/small", 1000)
    build.queue(f"{directory}/big", size.tasks)
    small, big = Lane(programs, f"{directory}/small"), Lane(programs, f"{directory}/big")
    cases = {
        "python -c pass": lambda: bare(programs),
        "claim": small.claim, "done": small.done, "add": small.add, "big claim": big.claim,
    }  # fmt: skip
    in_turn(cases, 2)  # compiles what is imported
    taken = in_turn(cases, size.rounds)
    for name, (floor, aim) in BOUNDS.items():
        figures = {key: medians(taken)[key] for key in (name, "python -c pass")}
        yield Row(f"{name} command, against python -c pass", ratio(taken, name, "python -c pass"), floor, aim,
                  figures=figures)  # fmt: skip
    yield Row(f"claim command at {size.tasks:,} pending, against 1,000", ratio(taken, "big claim", "claim"), 1.15, 1.05,
              figures={key: medians(taken)[key] for key in ("big claim", "claim")})  # fmt: skip


def polls(directory, size):
    """Eight idle lanes that poll with the command, all at once: many tasks wait, against none."""
    programs = installed(directory)
    queues = {
        "many wait": build.waiting(f"{directory}/polls-full", size.tasks).path,
        "empty": build.queue(f"{directory}/polls-empty").path,
    }
    cases = {name: lambda path=path: poll(programs, path) for name, path in queues.items()}
    in_turn(cases, 2)
    taken = in_turn(cases, size.rounds)
    yield Row(f"poll of eight lanes (claim command) with {size.tasks:,} not due on 28 days, against an empty queue",
              ratio(taken, "many wait", "empty"), 1.2, 1.05, figures=medians(taken))  # fmt: skip


def poll(programs, path):
    """Seconds until eight commands have said that nothing is due."""
    begun = time.perf_counter()
    command = [f"{programs}/gwtq", "--queue", path, "claim", "--lane"]
    lanes = [subprocess.Popen([*command, f"lane-{number}"], env=ENVIRONMENT) for number in range(8)]
    assert [lane.wait() for lane in lanes] == [1] * 8
    return time.perf_counter() - begun


def bare(programs):
    """Seconds of an interpreter that does nothing."""
    begun = time.perf_counter()
    run([f"{programs}/python", "-c", "pass"])
    return time.perf_counter() - begun
