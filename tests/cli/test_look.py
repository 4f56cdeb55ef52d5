"""`list`, `show`, `report`, `stats`: what they print, and that they change nothing."""

from __future__ import annotations

import os
import re
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory

import pytest

from gwtq import Queue
from gwtq.task import COLUMNS

from .conftest import HOUR, Behind, tree
from .process import forked, said
from .test_settle import by

READING = [
    ["list"], ["list", "--json"], ["list", "--status", "open"], ["show", "q1"], ["show", "q3", "--json"], ["stats"],
    ["stats", "--json"], ["report"], ["report", "--json"], ["export", "-o", "-"],
]  # fmt: skip


def timeless(text: str) -> str:
    """Times and what is derived from them taken out."""
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text)
    text = re.sub(r'(oldest_open_seconds(\t|": ))\d+', r"\1AGE", text)
    return re.sub(r"1 h 59 min left|2 h 0 min left", "TWO HOURS left", text)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Tasks of every status: q1 done, q2 failed, q3 held, q4 waiting, q5 expired, q6 and q7 open."""
    path = tmp_path_factory.mktemp("template") / "cola"
    queue = Queue.create(str(path), durable=False)
    queue.add("Ana Peiró", source="gaceta", query="peiró", priority=100)
    queue.claim("lane-1").done("blocked", note="captcha")
    queue.add("Eva")
    queue.claim("lane-2").fail(final=True, note="no login")
    queue.add("Leo")
    queue.claim("lane-3")
    queue.add("Mía", next_at="2999-01-01")
    queue.add("Noé")
    Queue(str(path), durable=False, clock=Behind(3 * HOUR)).claim("lane-5", lease=HOUR)
    queue.add("Ana Peiró", kind="verify", priority=50, note="see q1")
    queue.add("Ana Peiró", source="ad33", query="bordeaux")
    return path


@pytest.fixture
def campaign(template, cola):
    """A copy of the template."""
    copytree(template, cola)


# --- list


def test_list_prints_a_header_and_a_row_for_each_task_by_number(gwtq, campaign):
    header, *rows = gwtq("list").rows
    assert header == list(COLUMNS)
    assert [row[0] for row in rows] == [f"q{n}" for n in range(1, 8)]
    assert {len(row) for row in rows} == {19}


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        (["--status", "open"], ["q4", "q5", "q6", "q7"]),
        (["--status", "claimed"], ["q3"]),
        (["--status", "done"], ["q1"]),
        (["--status", "failed"], ["q2"]),
        (["--person", "Ana Peiró"], ["q1", "q6", "q7"]),
        (["--person", "ana-peiro"], ["q1", "q6", "q7"]),
        (["--lane", "lane-1"], ["q1"]),
        (["--lane", "lane-3"], ["q3"]),
        (["--result", "blocked"], ["q1"]),
        (["--result", "hit"], []),
        (["--kind", "search"], ["q1", "q7"]),
        (["--source", "Gaceta"], ["q1"]),
        (["--person", "ana-peiro", "--status", "open"], ["q6", "q7"]),
        (["--person", "ana-peiro", "--limit", "2"], ["q1", "q6"]),
        (["--status", "failed", "--limit", "1"], ["q2"]),
        (["--limit", "0"], []),
        (["--person", "nobody"], []),
    ],
)
def test_filters_go_before_the_limit(gwtq, campaign, filters, ids):
    answer = gwtq("list", *filters)
    assert answer.rows[0] == list(COLUMNS)
    assert [task["id"] for task in answer.tasks] == ids
    assert [task["id"] for task in gwtq("list", "--json", *filters).objects] == ids


# --- show


def test_show_tells_the_attempts_and_what_came_of_each(gwtq, add, claim, expired_claim):
    add("Ana", source="gaceta")
    expired_claim("lane-1")
    gwtq("fail", *by(claim(lane="lane-2")), "--backoff-minutes", "0", "--note", "login expired")
    gwtq("release", *by(claim(lane="lane-3")), "--note", "gate paused")
    gwtq("add", "--person", "Ana", "--source", "gaceta", "--dedupe", "--note", "round 31")
    gwtq("done", *by(claim(lane="lane-4")), "--result", "hit", "--evidence", "conftest.py")
    assert timeless(gwtq("show", "q1").out).splitlines()[-13:] == [
        "lane: lane-4",
        "claimed_at: TIME",
        "done_at: TIME",
        "result: hit",
        "evidence: conftest.py",
        "tries: 3",
        "note: round 31",
        "refreshed: 1 time",
        "attempts: 4",
        "  TIME .. TIME  lane-1  lease expired",
        "  TIME .. TIME  lane-2  failed  -- login expired",
        "  TIME .. TIME  lane-3  released, not tried  -- gate paused",
        "  TIME .. TIME  lane-4  done:  hit  conftest.py",
    ]


def test_show_tells_who_holds_the_task(gwtq, add, claim):
    add("Ana")
    claim(lane="a\tb")
    assert timeless(gwtq("show", "q1").out).splitlines()[-2:] == ["attempts: 1", "  TIME ..   a b  held  until TIME"]


def test_show_tells_a_wait_and_an_end_for_good(gwtq, add, claim):
    add("Ana", "Eva")
    gwtq("fail", *by(claim()))
    gwtq("fail", *by(claim()), "--final")
    waits, ended = (timeless(gwtq("show", id).out).splitlines()[-1] for id in ("q1", "q2"))
    assert waits == "  TIME .. TIME  lane-1  failed  next at TIME"
    assert ended == "  TIME .. TIME  lane-1  failed  for good"


def test_show_of_a_task_that_is_not_there(gwtq, campaign):
    assert "q8 was never added" in gwtq("show", "q8", code=66).sentence


# --- report and stats


def test_report_is_the_list_of_open_leads(gwtq, campaign):
    assert timeless(gwtq("report").out).splitlines() == [
        "due: 3",
        "  q6  50  verify  Ana Peiró  -- see q1",
        "  q5  0  sweep  Noé  (1 try so far)",
        "  q7  0  search ad33  Ana Peiró  bordeaux",
        "waiting: 1, the first until TIME",
        "held: 1",
        "  q3  lane-3  Leo  TWO HOURS left",
        "failed: 1 (gwtq list --status failed)",
        "done: 1",
    ]


def test_report_shows_the_first_twenty_or_as_many_as_it_is_told(gwtq, write):
    gwtq("add", "--jsonl", write("tasks.jsonl", "".join(f'{{"person": "Ana {n}"}}\n' for n in range(25))))
    lines = gwtq("report").out.splitlines()
    assert (lines[0], lines[20].split()[0], lines[21]) == ("due: 25", "q20", "  and 5 more (--limit N)")
    assert gwtq("report", "--limit", "30").out.splitlines()[25].split()[0] == "q25"
    assert gwtq("report", "--limit", "0").out.splitlines()[:2] == ["due: 25", "  and 25 more (--limit N)"]


def test_report_of_an_empty_queue(gwtq):
    gwtq("init")
    assert gwtq("report").out == "due: 0\nwaiting: 0\nheld: 0\nfailed: 0\ndone: 0\n"


@pytest.mark.parametrize(
    ("minutes", "left"),
    [("0.5", "(2[0-9]|3[01]) s"), ("59.9", "59 min"), ("90", "1 h (29|30) min"), ("3000", "2 d [12] h")],
)
def test_report_tells_how_long_a_lease_still_runs(gwtq, add, claim, minutes, left):
    add("Ana")
    claim("--lease-minutes", minutes)
    assert re.search(f"Ana  ({left}) left\n", gwtq("report").out)


def test_stats_counts_by_status_and_tells_what_will_happen(gwtq, campaign):
    rows = dict(gwtq("stats").rows)
    assert {key: rows[key] for key in ("open", "waiting", "claimed", "done", "failed", "expired")} == {
        "open": "4", "waiting": "1", "claimed": "1", "done": "1", "failed": "1", "expired": "1",
    }  # fmt: skip
    assert 0 <= int(rows["oldest_open_seconds"]) < 60
    assert rows["next_due"] == "2999-01-01T00:00:00Z"
    assert rows["next_lease_end"] == gwtq("list", "--status", "claimed").tasks[0]["lease_until"]


def test_stats_of_an_empty_queue(gwtq):
    gwtq("init")
    (counts,) = gwtq("stats", "--json").objects
    assert counts.pop("format") == 1
    assert counts.pop("oldest_open_seconds") is None
    assert counts.pop("next_due") == counts.pop("next_lease_end") == ""
    assert set(counts.values()) == {0}


# --- they change nothing


@pytest.mark.parametrize("line", READING, ids=" ".join)
def test_looking_changes_nothing(gwtq, cola, campaign, line):
    before = tree(cola)
    first = timeless(gwtq(*line).out)
    assert timeless(gwtq(*line).out) == first
    assert tree(cola) == before


def test_reading_works_without_write_permission_and_writing_says_why_not(gwtq, cola, campaign, tmp_path, monkeypatch):
    """Root, who may write anywhere, does it as somebody else."""
    user = 0 if os.getuid() else 65534
    expected = {tuple(line): timeless(gwtq(*line).out) for line in READING}
    with TemporaryDirectory() as place:  # the test's own directories are closed to others
        there = Path(place, "cola")
        cola.rename(there)
        monkeypatch.setenv("GWT_QUEUE", str(there))
        everything = [there.parent, there, *there.rglob("*")]
        for path in everything:
            path.chmod(0o555 if path.is_dir() else 0o444)
        before = tree(there)
        for line in READING:
            answer = said(forked(line, tmp_path, user=user), tmp_path)
            assert (answer.code, answer.err) == (0, "")
            assert timeless(answer.out) == expected[tuple(line)]
        for line in (["claim", "--lane", "l"], ["requeue-expired"], ["add", "--person", "Ana"], ["export"]):
            answer = said(forked(line, tmp_path, user=user), tmp_path)
            assert answer.code == 74
            assert "Permission denied" in answer.err
            assert all(text.startswith("gwtq: ") for text in answer.err.splitlines())
        assert tree(there) == before
        for path in everything:
            path.chmod(0o755)


# --- the keys of --json

TASK = set(COLUMNS)
COUNTS = {
    "open", "waiting", "claimed", "done", "failed", "expired", "oldest_open_seconds", "next_due", "next_lease_end",
}  # fmt: skip
KEYS = {
    "add": {"id", "outcome"},
    "add --jsonl": {"added", "known", "refreshed"},
    "claim": TASK,
    "renew": {"lease_until"},
    "done": {"id", "outcome", "next_at"},
    "fail": {"id", "outcome", "next_at"},
    "release": {"id", "outcome", "next_at"},
    "requeue-expired": {"id", "state", "lane"},
    "report": {"due", "held", *COUNTS},
    "list": TASK,
    "show": {*TASK, "problem", "attempts"},
    "stats": {"format", *COUNTS},
    "import": {"imported", "known", "undecodable"},
    "doctor": {"path", "problem", "cure", "fixed"},
}


@pytest.fixture
def example(cola, add, expired_claim, claim, write, table):
    """A line of each command that prints something as JSON, and what else it needs."""

    def line(name: str) -> list[object]:
        command, *more = name.split()
        add("Ana", "Eva")
        if command in ("renew", "done", "fail", "release"):
            more = by(claim()) + (["--result", "hit"] if command == "done" else [])
        if command == "requeue-expired":
            expired_claim()
        if command == "doctor":
            (cola / "claimed" / "notes.txt").write_text("not ours")
        fixed = {
            "add": ["--jsonl", write("tasks.jsonl", '{"person": "Leo"}\n')] if more else ["--person", "Leo"],
            "claim": ["--lane", "lane-1"],
            "show": ["q1"],
            "import": [write("table.tsv", table())],
        }
        return [command, *fixed.get(command, more), "--json"]

    return line


@pytest.mark.parametrize("name", KEYS)
def test_json_is_one_object_a_line_with_the_documented_keys(gwtq, example, name):
    *tasks, last = gwtq(*example(name), code=name == "doctor").objects
    assert set(last) == KEYS[name]
    assert all(set(task) == TASK for task in tasks)


def test_json_of_report_names_who_holds_what(gwtq, campaign):
    *due, summary = gwtq("report", "--json").objects
    assert [task["id"] for task in due] == ["q6", "q5", "q7"]
    (held,) = summary["held"]
    assert timeless(str(held)) == "{'id': 'q3', 'lane': 'lane-3', 'lease_until': 'TIME'}"


def test_json_of_show_lists_the_attempts(gwtq, add, claim):
    add("Ana")
    gwtq("fail", *by(claim(lane="a\tb")), "--note", "no\tlogin", "--final")
    (attempt,) = gwtq("show", "q1", "--json").objects[0]["attempts"]
    assert {**attempt, "since": 0, "at": 0} == {
        "since": 0, "at": 0, "lane": "a\tb", "event": "fail", "final": True, "note": "no\tlogin",
    }  # fmt: skip
