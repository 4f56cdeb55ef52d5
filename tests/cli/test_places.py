"""What is met in the wrong place: malformed ids, no queue, other files, records that do not decode, newer formats."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from gwtq import Queue, layout
from gwtq.options import COMMANDS

from .conftest import tree
from .test_settle import by

# Every command, as it is called on a queue that holds q1 (a demo takes no queue). The token is nobody's.
NOBODYS = ["--id", "q1", "--token", "nobodys"]
READ = {
    "report": [],
    "list": [],
    "show": ["q1"],
    "stats": [],
    "export": ["-o", "-"],
    "doctor": [],
}
WRITE = {
    "claim": ["--lane", "lane-1"],
    "renew": NOBODYS,
    "done": [*NOBODYS, "--result", "hit"],
    "fail": NOBODYS,
    "release": NOBODYS,
    "requeue-expired": [],
    "doctor": ["--fix"],
}
MAKE = {"init": [], "add": ["--person", "Ana"], "import": [Path(__file__).parents[1] / "data" / "cola-sample.tsv"]}
LINES = [[name, *more] for commands in (READ, WRITE, MAKE) for name, more in commands.items()]
READ_LINES, WRITE_LINES = ([[name, *more] for name, more in commands.items()] for commands in (READ, WRITE))


def name_of(line: list) -> str:
    return " ".join(str(word) for word in line[:2])


def test_every_command_is_tried_here():
    assert {line[0] for line in LINES} == set(COMMANDS) - {"demo"}


# --- ids

MALFORMED = [
    "../x", "a/b", "/etc/passwd", ".", "..", "", " ", "*", "q*", "CON", "x" * 300, "q" + "1" * 300, "q0", "q01", "Q1",
    "q", "1", "q-1", "q1 ", "q1\n", "q1.2", "q\u0661", "q12345678901", "q1\tq2", "-rf", "--id",
]  # fmt: skip


@pytest.mark.parametrize("verb", ["renew", "done", "fail", "release", "show"])
def test_a_malformed_id_is_refused_and_nothing_changes(gwtq, cola, add, claim, verb):
    add("Ana")
    claim()
    before = tree(cola)
    for id in MALFORMED:
        more = ["--result", "hit"] if verb == "done" else []
        line = [verb, id] if verb == "show" else [verb, "--id", id, "--token", "t", *more]
        assert gwtq(*line, code=64).sentence
        assert tree(cola) == before, id
    assert [path.name for path in cola.parent.iterdir()] == ["cola"]


# --- no queue


@pytest.mark.parametrize("line", [*READ_LINES, *WRITE_LINES], ids=name_of)
def test_without_a_queue_the_path_is_named_and_none_is_made(gwtq, cola, line):
    answer = gwtq(*line, code=66)
    assert f"`gwtq --queue {cola} init` makes one" in answer.sentence
    assert not cola.exists()


@pytest.mark.parametrize("line", LINES, ids=name_of)
def test_a_file_in_the_place_of_the_queue_is_left_alone_and_its_import_told(gwtq, cola, line):
    cola.write_text("a table")
    assert f"`gwtq --queue cola import {cola}`" in gwtq(*line, code=66).sentence
    assert cola.read_text() == "a table"


@pytest.mark.parametrize("line", LINES, ids=name_of)
def test_a_directory_with_other_things_is_no_queue(gwtq, cola, line):
    (cola / "letters").mkdir(parents=True)
    before = tree(cola)
    assert str(cola) in gwtq(*line, code=66).sentence
    assert tree(cola) == before


def test_init_leaves_the_files_of_a_directory_that_is_called_like_one_of_its_own(gwtq, cola):
    (cola / "tmp" / "drafts").mkdir(parents=True)
    (cola / "tmp" / "letter.txt").write_text("dear Ana")
    gwtq("init")
    assert (cola / "tmp" / "letter.txt").read_text() == "dear Ana"


@pytest.mark.parametrize("settings", ["", "{", "[]", '{"format": "1"}', '{"format": 1, "kinds": "all"}', "\0" * 40])
def test_settings_that_do_not_decode_are_named(gwtq, cola, add, settings):
    add("Ana")
    (cola / "queue.json").write_text(settings)
    before = tree(cola)
    for line in LINES:
        assert f"{cola}/queue.json" in gwtq(*line, code=65).sentence
        assert tree(cola) == before, line


def test_a_lost_state_directory_is_made_again_and_not_taken_for_all_done(gwtq, cola, add):
    add("Ana")
    shutil.rmtree(cola / "claimed")
    assert gwtq("claim", "--lane", "lane-1").tasks[0]["id"] == "q1"
    shutil.rmtree(cola / "done")
    assert "done was missing and is made again" in gwtq("claim", "--lane", "lane-1", code=1).sentence


# --- a newer format


@pytest.mark.parametrize("line", READ_LINES, ids=name_of)
def test_reading_a_newer_queue_warns(gwtq, cola, add, line):
    add("Ana")
    settings = (cola / "queue.json").read_text()
    expected = gwtq(*line)
    (cola / "queue.json").write_text(settings.replace('"format": 1', '"format": 2'))
    before = tree(cola)
    answer = gwtq(*line)
    assert answer.err.splitlines()[0].endswith("has format 2, this version knows 1: update gwtq.")
    assert line[0] in ("stats", "doctor") or answer.out == expected.out
    assert tree(cola) == before


@pytest.mark.parametrize("line", [*WRITE_LINES, *[[name, *more] for name, more in MAKE.items()]], ids=name_of)
def test_writing_into_a_newer_queue_is_refused(gwtq, cola, add, line):
    add("Ana")
    settings = (cola / "queue.json").read_text()
    (cola / "queue.json").write_text(settings.replace('"format": 1', '"format": 2'))
    before = tree(cola)
    assert "update gwtq" in gwtq(*line, code=65).sentence
    assert tree(cola) == before


@pytest.mark.parametrize("line", [*READ_LINES, *WRITE_LINES], ids=name_of)
def test_a_newer_queue_whose_settings_look_otherwise_asks_for_a_newer_version(gwtq, cola, add, line):
    add("Ana")
    (cola / "queue.json").write_text('{"format": 2, "kinds": {"search": {}}, "max_tries": null}')
    assert "has format 2, this version knows 1: update gwtq." in gwtq(*line, code=65).sentence


def newer_entry(path: Path) -> None:
    """Put an entry of a kind that this version does not know on a task."""
    head = path.name.split(".")[1]
    with path.open("a") as file:
        file.write('\n{"gen": "0000000azzzzzz", "prev": "' + head + '", "event": "split"}\n')
    path.rename(path.with_name(path.name.replace(head, "0000000azzzzzz")))


def test_a_task_that_a_newer_version_wrote_is_neither_claimed_nor_parked(gwtq, cola, add):
    add("Ana")
    newer_entry(next(cola.glob("pending/*/*/*/q1.*")))
    before = {path for path in tree(cola) if "q1." in path}
    assert "'split'" in gwtq("claim", "--lane", "lane-1", code=65).sentence
    assert {path for path in tree(cola) if "q1." in path} == before
    assert "'split'" in gwtq("show", "q1").out


# --- records that do not decode

BROKEN = {
    "torn": b'{"id":',
    "empty": b"",
    "zeros": bytes(1_000_000),
    "merge markers": b"<<<<<<< HEAD\n{}\n=======\n>>>>>>> theirs\n",
    "latin-1": b'{"gen": "\xff"}\n',
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_record_that_does_not_decode_is_shown_as_failed_by_who_reads(gwtq, cola, add, broken):
    add("Ana", "Eva")
    next(cola.glob("pending/*/*/*/q1.*")).write_bytes(BROKEN[broken])
    before = tree(cola)
    bad, good = gwtq("list").tasks
    assert (bad["status"], good["status"]) == ("failed", "open")
    assert bad["note"].startswith("The task's file does not decode: ")
    assert gwtq("list", "--status", "failed").tasks == [bad]
    assert gwtq("show", "q1", "--json").objects[0]["problem"] == bad["note"]
    assert gwtq("export", "-o", "-").tasks == [bad, good]
    assert [line.split()[0] for line in gwtq("report").out.splitlines() if line.startswith("  q")] == ["q2"]
    assert gwtq("stats").code == 0
    assert tree(cola) == before


@pytest.mark.parametrize("broken", BROKEN)
def test_a_record_that_does_not_decode_is_set_aside_once_with_the_reason(gwtq, cola, add, claim, broken):
    add("Ana", priority=100)
    add("Eva")
    path = next(cola.glob("pending/*/*/*/q1.*"))
    path.write_bytes(BROKEN[broken])
    answer = gwtq("claim", "--lane", "lane-1")
    assert answer.tasks[0]["id"] == "q2"
    assert answer.sentence.startswith("gwtq: q1 is parked as failed: The task's file does not decode: ")
    assert (cola / "failed" / "0m" / "0k" / path.name).read_bytes() == BROKEN[broken]
    assert gwtq("claim", "--lane", "lane-1", code=1).err == ""


@pytest.mark.parametrize("verb", ["done", "fail", "release"])
def test_a_claim_whose_record_was_broken_is_not_settled(gwtq, cola, add, claim, verb):
    add("Ana")
    id, token = claim()
    next(cola.glob("claimed/*")).write_bytes(b"{")
    before = tree(cola)
    more = ["--result", "hit"] if verb == "done" else []
    assert "does not decode" in gwtq(verb, "--id", id, "--token", token, *more, code=65).sentence
    assert tree(cola) == before
    assert gwtq("renew", "--id", id, "--token", token, "--lease-minutes", "500").out


def test_an_expired_claim_whose_record_was_broken_is_parked(gwtq, cola, add, expired_claim):
    add("Ana")
    expired_claim("lane-1")
    next(cola.glob("claimed/*")).write_bytes(b"{")
    assert gwtq("requeue-expired").rows == [["q1", "failed", "lane-1"]]


def test_a_directory_in_the_place_of_a_task_is_put_back_and_named(gwtq, cola, add):
    add("Ana", "Eva")
    path = next(cola.glob("pending/*/*/*/q1.*"))
    path.unlink()
    path.mkdir()
    answer = gwtq("claim", "--lane", "lane-1")
    assert answer.tasks[0]["id"] == "q2"
    assert "q1 cannot be claimed, and was put back: Is a directory" in answer.sentence
    assert path.is_dir()


# --- foreign files

FOREIGN = [
    ".DS_Store", "._{name}", ".nfs0001", "x~", "#x#", ".x.swp", "4913", "{name} (conflicted copy).json", "{name} 2",
    "{name}~", "{name}.sync-conflict-20261130-190507-ABC", "q1", "q1.", "q1.json", "x1.y", "-1.x", "desktop.ini",
    "Thumbs.db", "q7.0123456789abcdef.json",
]  # fmt: skip
FOREIGN_DIRECTORIES = [
    "lost+found",
    ".Trash-1000",
    ".git",
    "q64.bak",
    "5 (copy)",
    "search.gaceta.d",
    "20200102",
    "0k (2)",
]


def litter(cola: Path) -> dict[Path, bytes]:
    """Put foreign files and directories into every directory of the queue; returns the files."""
    found = {}
    for directory in [cola, *(path for path in cola.rglob("*") if path.is_dir())]:
        names = [path.name for path in directory.iterdir() if path.is_file() and path.name[0] == "q"]
        for foreign in FOREIGN:
            path = directory / foreign.format(name=(names or ["q1.6a1c9f03k7m2p9"])[0])
            path.write_bytes(b"\0\5\26\7\0\2\0\0Mac OS X")
            found[path] = path.read_bytes()
        for foreign in FOREIGN_DIRECTORIES:
            (directory / foreign).mkdir()
            path = directory / foreign / "q1.6a1c9f03k7m2p9"
            path.write_bytes(b"inside")
            found[path] = b"inside"
    return found


@pytest.fixture
def littered(gwtq, cola, add, claim, expired_claim):
    """A queue with tasks of every status, and foreign files in each of its directories."""
    add("Ana", "Eva", "Leo", source="gaceta")
    gwtq("done", *by(claim()), "--result", "hit")
    gwtq("fail", *by(claim()), "--final")
    gwtq("fail", *by(claim()))
    add("Mía", "Noé", "Pau", "Zoe")
    held = claim("--lease-minutes", "90.5", lane="lane-2")  # not on the edge of a minute
    expired_claim("lane-9")
    before = {name_of(line): gwtq(*line).out for line in READ_LINES if line[0] not in ("doctor", "stats")}
    return held, before, litter(cola)


def test_foreign_files_are_not_read_and_not_counted(gwtq, littered):
    _, before, _ = littered
    assert {name_of(line): gwtq(*line).out for line in READ_LINES if line[0] not in ("doctor", "stats")} == before
    (counts,) = gwtq("stats", "--json").objects
    assert {key: counts[key] for key in ("open", "waiting", "claimed", "done", "failed", "expired")} == {
        "open": 4, "waiting": 1, "claimed": 1, "done": 1, "failed": 1, "expired": 1,
    }  # fmt: skip


def test_no_command_trips_over_foreign_files_and_none_removes_them(gwtq, cola, littered):
    held, _, foreign = littered
    assert gwtq("init").sentence
    assert gwtq("requeue-expired").rows == [["q5", "pending", "lane-9"]]
    assert gwtq("renew", *by(held), "--lease-minutes", "95").rows
    assert gwtq("release", *by(held)).rows == [["q4", "pending"]]
    tasks = [gwtq("claim", "--lane", "lane-1").tasks[0] for _ in range(4)]
    assert [task["id"] for task in tasks] == ["q4", "q5", "q6", "q7"]
    for task, how in zip(tasks, (["done", "--result", "hit"], ["fail"], ["fail", "--final"], ["release"])):
        gwtq(how[0], *by((task["id"], task["token"])), *how[1:])
    assert gwtq("add", "--person", "Ana", "--source", "gaceta", "--dedupe").rows == [["q1", "known"]]
    assert gwtq("add", "--person", "Zoe", "--note", "n", "--dedupe").rows == [["q7", "refreshed"]]
    assert gwtq("add", "--person", "Rut").rows == [["q8", "added"]]
    gwtq("import", *MAKE["import"])
    assert gwtq("export").err
    gwtq("doctor", "--fix", code=1)
    assert {path: path.read_bytes() for path in foreign} == foreign


def test_a_conflict_copy_of_a_task_is_named_by_doctor_and_never_handed_out(gwtq, cola, add, claim):
    add("Ana", "Eva", "Leo", "Mía", "Noé")
    gwtq("done", *by(claim()), "--result", "hit")
    gwtq("fail", *by(claim()), "--final")
    gwtq("fail", *by(claim()))
    claim()
    copies = {path.with_name(path.name + " (conflicted copy)"): path for path in cola.rglob("q?.*")}
    for copy, path in copies.items():
        shutil.copy(path, copy)
    found = [finding["path"] for finding in gwtq("doctor", "--json", code=1).objects]
    assert sorted(found) == sorted(str(copy.relative_to(cola)) for copy in copies)
    assert len(found) == 5
    assert claim()[0] == "q5"
    assert gwtq("claim", "--lane", "lane-1", code=1).err == ""
    assert all(copy.exists() for copy in copies)


def test_foreign_files_do_not_keep_a_claim_from_saying_that_nothing_is_due(gwtq, cola):
    gwtq("init")
    litter(cola)
    for directory in ("pending/5/0000000000.search.gaceta/0000000250", layout.bucket("20200101T000000Z")):
        (cola / directory).mkdir(parents=True)
    litter(cola / "pending" / "5")
    litter(cola / "pending" / "waiting")
    answer = gwtq("claim", "--lane", "lane-1", code=1)
    assert (answer.out, answer.err) == ("", "")


LEAF = "pending/0/0000000000.search.gaceta/0000000000"


@pytest.mark.parametrize("at", [LEAF, layout.parent(LEAF), "pending/0"])
def test_an_add_whose_place_is_taken_by_a_foreign_file_is_refused_before_it_counts(gwtq, cola, at):
    gwtq("init")
    (cola / at).parent.mkdir(parents=True, exist_ok=True)
    (cola / at).write_text("mine")
    before = sorted(cola.rglob("*"))
    sentence = gwtq("add", "--person", "Ana", "--source", "gaceta", code=74).sentence
    assert f"{LEAF} is to be a directory, and a file that is not ours is in its way." in sentence
    assert sorted(cola.rglob("*")) == before
    assert gwtq("add", "--person", "Ana", "--source", "other", "--priority", "1").rows == [["q1", "added"]]
    assert gwtq("claim", "--lane", "lane-1").tasks[0]["id"] == "q1"


def test_a_batch_that_a_foreign_file_keeps_from_its_place_does_not_stop_the_lanes(gwtq, cola, add, monkeypatch):
    add("Eva")
    monkeypatch.setattr("gwtq.produce.Producer._finish", lambda producer, batch: sys.exit("died after its commit"))
    with pytest.raises(SystemExit, match="died"):
        Queue(str(cola)).add("Ana", source="gaceta")
    (cola / LEAF).parent.mkdir(parents=True)
    (cola / LEAF).write_text("mine")
    answer = gwtq("claim", "--lane", "lane-1")
    assert answer.tasks[0]["id"] == "q1"
    assert "cannot be put in its place: Not a directory" in answer.err
    (cola / LEAF).unlink()
    assert gwtq("claim", "--lane", "lane-1").tasks[0]["id"] == "q2"


def test_a_link_to_itself_among_the_leaves_is_left_alone(gwtq, cola, add):
    add("Ana")
    (leaf,) = cola.glob("pending/*/*/*")
    os.symlink("0000000250", leaf.with_name("0000000250"))
    assert gwtq("doctor", code=1).out.count("0000000250") == 1
    assert gwtq("claim", "--lane", "lane-1").rows
    assert gwtq("claim", "--lane", "lane-1", code=1).err == ""
