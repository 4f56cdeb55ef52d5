"""A real campaign: 422 tasks, three lanes of the shell, one of them killed while it holds a task."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .process import SCRIPT

TASKS = Path(__file__).parents[1] / "data" / "bourbon.jsonl"

PATIENCE_SECONDS = 300

# The loop of the README, where the search is a line in a file. The lane that is to die stops at its fifth task.
LANE = r"""
lane=$1; shift
while row=$(gwtq claim --lane "$lane" "$@"); do
    id=$(cut -f1 <<<"$row"); token=$(cut -f17 <<<"$row")
    echo "$id" >>"ran-$lane"
    if [ "$lane" = lane-3 ] && [ "$(wc -l <ran-lane-3)" = 5 ]; then touch holding; sleep 100; fi
    echo found >"hits/$id.txt"
    gwtq done --id "$id" --token "$token" --result hit --evidence "hits/$id.txt" >>"told-$lane"
done
"""


@pytest.fixture
def lanes(cola, monkeypatch):
    """Start lanes, each a process group; they find the command `gwtq` on their path."""
    command = cola.parent / "bin" / "gwtq"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable} -S\n{SCRIPT}\n")
    command.chmod(stat.S_IRWXU)
    (cola.parent / "hits").mkdir()
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    started = []

    def start(name, *options):
        line = ["bash", "-c", LANE, "lane", name, *options]
        started.append(subprocess.Popen(line, stderr=subprocess.PIPE, start_new_session=True))
        return started[-1]

    yield start
    for lane in started:
        if lane.poll() is None:
            os.killpg(lane.pid, signal.SIGKILL)
        lane.communicate()


def wait_for(happened):
    """Look until it did."""
    patience = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        assert time.monotonic() < patience
        time.sleep(0.02)


def test_every_task_is_settled_once_though_a_lane_is_killed(gwtq, cola, table, lanes):
    scratch = cola.parent
    gwtq("add", "--jsonl", TASKS, "--dedupe")
    ids = [task["id"] for task in gwtq("list").tasks]
    others = [lanes("lane-1"), lanes("lane-2")]
    dying = lanes("lane-3", "--lease-minutes", "0.03")
    wait_for((scratch / "holding").exists)
    os.killpg(dying.pid, signal.SIGKILL)
    lost = (scratch / "ran-lane-3").read_text().split()[-1]
    for lane in others:  # they would take it back by themselves
        os.killpg(lane.pid, signal.SIGSTOP)
    rows = []
    wait_for(lambda: rows.extend(gwtq("requeue-expired").rows) or [lost, "pending", "lane-3"] in rows)
    for lane in others:
        os.killpg(lane.pid, signal.SIGCONT)
    for lane in others:
        assert lane.communicate(timeout=PATIENCE_SECONDS) == (None, b"")
        assert lane.returncode == 0

    ran = [id for lane in (1, 2, 3) for id in (scratch / f"ran-lane-{lane}").read_text().split()]
    told = "".join((scratch / f"told-lane-{lane}").read_text() for lane in (1, 2, 3)).splitlines()
    assert sorted(ran) == sorted([*ids, lost])
    assert sorted(told) == sorted(f"{id}\tdone" for id in ids)
    exported = [line.split("\t")[0] for line in table().splitlines()[1:]]
    assert exported == ids == [f"q{n}" for n in range(1, len(ids) + 1)]
    assert {task["status"] for task in gwtq("list").tasks} == {"done"}
    assert {task["id"]: task["tries"] for task in gwtq("list").tasks if task["tries"] != "1"} == {lost: "2"}
    assert gwtq("doctor").out == ""
    assert (
        gwtq("add", "--jsonl", TASKS, "--dedupe").out
        == f"0 added, {len(TASKS.read_bytes().splitlines())} known, 0 refreshed\n"
    )
