"""`gwtq demo`: what a newcomer sees, and that nothing is left of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from typing import NamedTuple

import pytest

from gwtq import demo

REFUSED = 2
IO_ERROR = 74
INTERRUPTED = 130
COMMAND = [sys.executable, "-m", "gwtq", "demo"]


class Told(NamedTuple):
    """One run of the demo, and a word on how fast this machine is."""

    code: int
    text: str
    errors: str
    seconds: float
    command_seconds: float
    left: list[str]


def environment(scratch, **more):
    """The demo's scratch directory goes where the test can look whether it is gone."""
    return {**os.environ, "TMPDIR": str(scratch), **more}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """One run for all tests: stdout is a pipe, the locale ASCII, and $GWT_QUEUE names a queue that is not its own."""
    scratch = tmp_path_factory.mktemp("scratch")
    elsewhere = str(tmp_path_factory.mktemp("other") / "cola")
    env = environment(scratch, LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0", GWT_QUEUE=elsewhere)
    begun = time.monotonic()
    subprocess.run([sys.executable, "-m", "gwtq", "--version"], check=True, capture_output=True)
    command_seconds = time.monotonic() - begun
    ran = subprocess.run(COMMAND, check=False, env=env, capture_output=True, stdin=subprocess.DEVNULL)
    seconds = time.monotonic() - begun - command_seconds
    assert not os.path.exists(elsewhere)
    return Told(
        ran.returncode, ran.stdout.decode("utf-8"), ran.stderr.decode("utf-8"), seconds, command_seconds,
        os.listdir(scratch),
    )  # fmt: skip


def test_it_exits_0_with_nothing_on_stderr(told):
    assert (told.code, told.errors) == (0, "")


def test_it_leaves_nothing_behind(told):
    assert told.left == []


def test_it_takes_less_than_ten_seconds_on_a_machine_that_runs_ten_commands_a_second(told):
    assert told.seconds < max(10, 100 * told.command_seconds)


def test_it_fits_into_80_columns(told):
    assert [line for line in told.text.splitlines() if len(line) > 80] == []


def test_every_act_is_told_before_it_is_run(told):
    """Each paragraph begins with a sentence, at the margin, and holds what was run or done, indented."""
    for paragraph in told.text.rstrip("\n").split("\n\n")[1:-1]:
        sentence, *acts = paragraph.splitlines()
        assert re.fullmatch(r"\S.*[.:]", sentence)
        assert acts
        assert all(act.startswith("  ") for act in acts)


def test_the_killed_lanes_task_is_taken_back_and_finished_by_another(told):
    acts = re.search(
        r"lane-3: took q3, token (\w+)\n.*\$ kill -s KILL .*\$ gwtq requeue-expired\n    q3  pending  lane-3\n"
        r".*lane-1: took q3, token (\w+)\n.*lane-1: q3  done\n",
        told.text,
        re.DOTALL,
    )
    assert acts
    assert acts[1] != acts[2]


def test_three_lanes_hold_a_task_each_when_one_is_killed(told):
    listing = re.search(r"\$ ls cola/claimed\n(.*?)\n\n", told.text, re.DOTALL)[1].split()
    assert [(name.split(".")[0], name.split(".")[-1]) for name in listing] == [
        ("q1", "lane-1"),
        ("q2", "lane-2"),
        ("q3", "lane-3"),
    ]


def test_the_dead_token_is_refused(told):
    assert re.search(
        r"\$ gwtq done --id q3 .*\n    gwtq: The claim is not yours any more: .*(\n .*)*\(exit 2\)", told.text
    )


def test_the_table_shows_every_task_done_and_the_dead_attempt_counted(told):
    rows = told.text[told.text.index("$ cut ") :].split("\n\n")[0].splitlines()[2:]
    assert [re.split(r"  +", row.strip()) for row in rows] == [
        ["q1", "Ana Peiró Toledo", "sweep", "done", "lane-1", "hit", "1"],
        ["q2", "Ana Peiró Toledo", "search", "done", "lane-2", "none", "1"],
        ["q3", "Juan Peiró Soler", "search", "done", "lane-1", "hit", "2"],
        ["q4", "María Toledo", "verify", "done", "lane-2", "partial", "1"],
    ]


def started(scratch):
    """The demo, running, its three lanes at work; and what it will still say."""
    process = subprocess.Popen(
        COMMAND, env=environment(scratch), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    while b"lane-3: took" not in process.stdout.readline():
        assert process.poll() is None
    return process


def test_interrupted_it_leaves_nothing_behind(tmp_path):
    with started(tmp_path) as process:
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == INTERRUPTED
    assert os.listdir(tmp_path) == []


def test_cut_off_by_a_reader_that_had_enough_it_leaves_nothing_behind(tmp_path):
    with started(tmp_path) as process:
        process.stdout.close()
        process.wait()
    assert process.returncode == IO_ERROR
    assert os.listdir(tmp_path) == []


class Lines:
    """An Output that keeps its lines."""

    def __init__(self):
        self.lines = []

    def line(self, text):
        self.lines.append(text)

    def flush(self):
        pass


@pytest.fixture
def stage(tmp_path):
    with demo.Stage(Lines(), str(tmp_path)) as stage:
        stage.write("lane.sh", demo.LANE)
        yield stage


def test_a_lane_dies_with_the_stage(tmp_path):
    with demo.Stage(Lines(), str(tmp_path)) as stage:
        stage.write("lane.sh", demo.LANE)
        stage.run("gwtq", "add", "--person", "Ana")
        lane = stage.lane("lane-1")
    assert lane.process.returncode == -signal.SIGKILL


def test_a_lane_that_finds_no_task_stops_the_demo(stage):
    stage.run("gwtq", "init")
    with pytest.raises(demo.Stuck, match="lane-1 has taken no task"):
        stage.lane("lane-1")


def test_a_lane_that_was_killed_stops_the_demo(stage):
    """So the watchdog, which kills the lanes, ends the wait for them."""
    stage.run("gwtq", "add", "--person", "Ana")
    lane = stage.lane("lane-1")
    stage.end()
    with pytest.raises(demo.Stuck, match="lane-1 ended with -9"):
        lane.listen()


def test_a_command_that_fails_stops_the_demo_with_what_it_said(stage):
    with pytest.raises(demo.Stuck, match=r"ended with 66: gwtq: There is no queue here"):
        stage.run("gwtq", "report")


def test_a_command_that_never_answers_stops_the_demo(stage):
    stage.run("gwtq", "init")
    stage._watchdog.cancel()
    stage._watchdog.join()
    with pytest.raises(demo.Stuck, match="nothing to say"):
        stage.run("gwtq", "requeue-expired", until_answered=True)
