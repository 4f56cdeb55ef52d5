"""`claim`: which task, what row, and what becomes of a claim whose row is not printed."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import closing, suppress

import pytest

from gwtq import Queue
from gwtq.cli import Output
from gwtq.names import parse_claim
from gwtq.task import COLUMNS

from .conftest import HOUR, Behind, tree
from .process import forked, run, said, start

# --- which task


def test_the_highest_priority_goes_first_then_the_lowest_number(add, claim):
    add(*["Ana"] * 12, priority=10)
    add("Eva", priority=-5)
    add("Leo", priority=100)
    assert [claim()[0] for _ in range(14)] == ["q14", *[f"q{n}" for n in range(1, 13)], "q13"]


def test_a_task_that_was_given_back_is_older_than_a_higher_number(gwtq, add, claim):
    add(*["Ana"] * 12)
    claims = [claim() for _ in range(10)]
    for id, token in (claims[9], claims[1]):
        gwtq("release", "--id", id, "--token", token)
    assert [claim()[0] for _ in range(4)] == ["q2", "q10", "q11", "q12"]


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        ([], ["q1", "q2", "q3", "q4", "q5"]),
        (["--kind", "verify"], ["q3"]),
        (["--kind", "verify", "--kind", "sweep"], ["q3", "q5"]),
        (["--source", "Ad 33"], ["q2", "q4"]),
        (["--source", "gaceta", "--source", "ad-33"], ["q1", "q2", "q3", "q4"]),
        (["--kind", "search", "--source", "gaceta"], ["q1"]),
        (["--kind", "followup"], []),
        (["--source", "pares"], []),
    ],
)
def test_a_lane_may_take_only_some_kinds_and_sources(gwtq, add, filters, ids):
    add("Ana", source="gaceta")
    add("Ana", source="ad-33")
    add("Ana", source="gaceta", kind="verify")
    add("Eva", source="ad-33")
    add("Eva")
    taken = [gwtq("claim", "--lane", "lane-1", *filters).tasks[0]["id"] for _ in ids]
    assert taken == ids
    assert gwtq("claim", "--lane", "lane-1", *filters, code=1).out == ""


def test_when_nothing_is_due_claim_says_nothing_and_exits_1(gwtq, add, claim):
    gwtq("init")
    answer = gwtq("claim", "--lane", "lane-1", code=1)
    assert (answer.out, answer.err) == ("", "")
    add("Ana")
    claim()
    answer = gwtq("claim", "--lane", "lane-2", code=1)
    assert (answer.out, answer.err) == ("", "")


def test_a_task_is_not_claimable_before_its_next_at(gwtq, add, claim):
    add("Ana", next_at="9999-12-31", priority=100)
    assert gwtq("claim", "--lane", "lane-1", code=1).out == ""
    add("Eva", next_at="2001-01-01", priority=1)
    assert claim()[0] == "q2"


def test_a_task_is_claimable_once_it_fell_due(gwtq, cola, add, claim):
    gwtq("init")
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - HOUR))
    Queue(str(cola), clock=Behind(2 * HOUR)).add("Ana", next_at=soon)
    assert list(cola.glob("pending/waiting/*/*/q1.*"))
    assert claim()[0] == "q1"


# --- the row


def test_the_row_has_19_columns_and_names_the_claim(gwtq, cola, add):
    add("Ana Peiró", source="gaceta", query="Peiró 1890", priority="7")
    row = gwtq("claim", "--lane", "lane 3 (night)", "--lease-minutes", "0.5").rows[0]
    assert len(row) == 19
    task = dict(zip(COLUMNS, row))
    (held,) = os.listdir(cola / "claimed")
    name = parse_claim(held)
    assert (task["id"], task["token"], task["lane"]) == (name.id, name.token, "lane 3 (night)")
    assert (task["status"], task["tries"], task["priority"]) == ("claimed", "1", "7")
    since, until = (time.mktime(time.strptime(task[c], "%Y-%m-%dT%H:%M:%SZ")) for c in ("claimed_at", "lease_until"))
    assert 30 <= until - since <= 31


def test_the_token_is_in_column_17_whatever_the_texts_hold(gwtq, cola, write):
    text = "a\\tb\\nc\\r\\nd\\u0085e\\u2028f\\u000bg\\u000ch\\u001b"
    fields = ", ".join(f'"{key}": "{text}"' for key in ("person", "label", "query", "note", "dedupe_key"))
    gwtq("add", "--jsonl", write("tasks.jsonl", "{" + fields + "}"))
    answer = gwtq("claim", "--lane", "a\tb\nc")
    assert answer.out.splitlines() == [answer.out[:-1]]
    assert answer.rows[0][16] == parse_claim(os.listdir(cola / "claimed")[0]).token
    assert answer.rows[0][15] == "a b c  d e f g h "


def test_json_tells_the_texts_as_they_are(gwtq, write):
    gwtq("add", "--jsonl", write("tasks.jsonl", r'{"person": "Ana", "note": "a\tb\nc\u2028", "label": "=1+1"}'))
    (task,) = gwtq("claim", "--lane", "a\tb", "--json").objects
    assert (task["note"], task["person_label"], task["lane"]) == ("a\tb\nc\u2028", "=1+1", "a\tb")


def test_every_claim_has_a_token_of_its_own(gwtq, add, claim):
    add("Ana")
    tokens = set()
    for _ in range(5):
        id, token = claim()
        tokens.add(token)
        gwtq("release", "--id", id, "--token", token)
    assert len(tokens) == 5


def test_claim_names_what_it_parked(gwtq, cola, add, expired_claim):
    add("Ana")
    add("Eva", "Leo", priority=-1)
    expired_claim("lane-9")
    (bad,) = cola.glob("pending/-1/*/*/q2.*")
    bad.write_bytes(b'{"id":')
    answer = gwtq("--max-tries", "1", "claim", "--lane", "lane-1")
    assert answer.tasks[0]["id"] == "q3"
    assert answer.err.splitlines() == [
        "gwtq: q1 is parked as failed: its lease ran out on attempt 1, the last",
        "gwtq: q2 is parked as failed: The task's file does not decode: no entry decodes.",
    ]


# --- at once


def test_48_at_once_take_40_tasks_and_8_find_nothing(gwtq, write):
    gwtq("add", "--jsonl", write("tasks.jsonl", "".join(f'{{"person": "Ana {n}"}}\n' for n in range(40))))
    lanes = [start("claim", "--lane", f"lane-{n}") for n in range(48)]
    said = [lane.communicate() for lane in lanes]
    assert sorted(lane.returncode for lane in lanes) == [0] * 40 + [1] * 8
    assert {out.split(b"\t")[0].decode() for out, _ in said if out} == {f"q{n}" for n in range(1, 41)}
    assert {err for _, err in said} == {b""}


# --- a row that nobody got


def full_pipe():
    """The end of a pipe that takes no more and does not wait."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, bytes(4096))
    return reading, writing


def broken_pipe():
    """The end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing, os.dup(writing)


def full_disk():
    """A file on a disk that is full."""
    return os.open("/dev/null", os.O_RDONLY), os.open("/dev/full", os.O_WRONLY)


@pytest.mark.parametrize("stdout", [full_pipe, broken_pipe, full_disk])
@pytest.mark.parametrize("json", [[], ["--json"]], ids=["row", "json"])
def test_a_claim_whose_row_cannot_be_printed_is_given_back(gwtq, add, stdout, json):
    add("Ana")
    other, fd = stdout()
    answer = run("claim", "--lane", "lane-1", *json, stdout=fd)
    os.close(fd)
    os.close(other)
    assert answer.code == 74
    assert answer.err.splitlines()[0] == "gwtq: q1 was given back: its row could not be printed"
    assert answer.err.splitlines()[1].startswith("gwtq: The output cannot be written: stdout takes no more: ")
    (task,) = gwtq("list").tasks
    assert (task["status"], task["tries"], task["lane"]) == ("open", "0", "")


def test_a_claim_that_is_interrupted_before_its_row_is_printed_is_given_back(gwtq, add, monkeypatch):
    add("Ana")

    def interrupt(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Output, "flush", interrupt)
        assert "given back" in gwtq("claim", "--lane", "lane-1", code=130).sentence
    (task,) = gwtq("list").tasks
    assert (task["status"], task["tries"]) == ("open", "0")


def test_with_stdout_closed_nothing_is_claimed(cola, add):
    add("Ana")
    before = tree(cola)
    answer = run("claim", "--lane", "lane-1", prefix=["sh", "-c", 'exec "$@" >&-', "sh"])
    assert answer.code == 74
    assert "nothing was done" in answer.sentence
    assert tree(cola) == before


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_at_any_moment_leaves_the_task_open_or_held(gwtq, cola, tmp_path, add, sent):
    """Sixty claims, each hit by a signal somewhere between its beginning and a little after its end."""
    add("Ana")
    queue = Queue(str(cola))
    span = 0.005
    outcomes = set()
    for seed in range(60):
        ready, closing_tells = os.pipe()
        pid = forked(["claim", "--lane", "lane-1"], tmp_path, ready=closing_tells)
        os.close(closing_tells)
        with closing(os.fdopen(ready, "rb")) as begins:
            begins.read()
        time.sleep(random.Random(seed).uniform(0, span))
        os.kill(pid, sent)
        answer = said(pid, tmp_path)
        span *= 1.3 if answer.code else 0.77  # so that as many come before its end as after
        assert answer.code in (0, -sent, 130), answer.err
        assert "Traceback" not in answer.err
        task = queue.find("q1")
        outcomes.add((answer.code, task.status))
        assert task.tries == (task.status == "claimed")
        if answer.code == 0:
            assert task.token == answer.tasks[0]["token"]
        if task.status == "claimed":
            assert queue.next_claim_expiry().total_seconds() > 1.9 * HOUR
            queue.release("q1", task.token)
        assert os.listdir(cola / "recovering") == os.listdir(cola / "tmp") == []
    assert len(outcomes) > 1, "every signal came before the claim, or after it"
