"""`export` and `import`: the table that people see, whole at every instant, and its way back."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest

from gwtq import Queue
from gwtq.cli import main
from gwtq.task import COLUMNS

from .conftest import tree
from .test_settle import by

HEADER = "\t".join(COLUMNS)
SAMPLE = Path(__file__).parents[1] / "data" / "cola-sample.tsv"


def row(**cells: str) -> str:
    """A row of a table; what is not given is an open task."""
    return "\t".join({**dict.fromkeys(COLUMNS, ""), **OPEN, **cells}.values())


OPEN = {"id": "q1", "person_key": "ana", "kind": "sweep", "priority": "0", "status": "open", "tries": "0"}
HELD = {
    "status": "claimed", "lane": "l", "tries": "1", "token": "t", "claimed_at": "2026-01-01T00:00:00Z",
    "lease_until": "2099-01-01T00:00:00Z",
}  # fmt: skip


# --- export


def test_the_table_has_a_header_and_a_row_for_each_task_by_number(gwtq, cola, add):
    add(*["Ana"] * 11)
    assert gwtq("export").err == f"gwtq: wrote 11 tasks to {cola}.tsv\n"
    text = (cola.parent / "cola.tsv").read_text("utf-8")
    assert text.splitlines()[0] == HEADER
    assert [line.split("\t")[0] for line in text.splitlines()[1:]] == [f"q{n}" for n in range(1, 12)]
    assert gwtq("export", "-o", "-").out == text
    gwtq("export", "-o", "elsewhere.tsv")
    assert (cola.parent / "elsewhere.tsv").read_text("utf-8") == text


def test_an_export_replaces_the_table_whole(gwtq, cola, write):
    gwtq("init")
    target = write("cola.tsv", "x" * 100_000)
    gwtq("export")
    assert target.read_text() == HEADER + "\n"


@pytest.mark.parametrize(("target", "code"), [("nowhere/t.tsv", 66), (".", 64), ("", 64), ("cola/queue.json/t", 66)])
def test_a_target_that_is_no_file_is_refused(gwtq, cola, add, target, code):
    add("Ana")
    before = tree(cola)
    assert gwtq("export", "-o", target, code=code).sentence
    assert tree(cola) == before


def test_a_line_is_a_task_and_a_tab_a_column_whatever_the_texts_hold(gwtq, write, table):
    text = "".join(f"\\u{code:04x}" for code in (*range(1, 48), *range(127, 161), 0x2028, 0x2029, 0xFEFF))
    fields = ", ".join(f'"{key}": "x{text}"' for key in ("person", "label", "query", "note", "dedupe_key"))
    gwtq("add", "--jsonl", write("tasks.jsonl", "{" + fields + "}\n{" + fields + "}\n"))
    lines = table().split("\n")
    assert lines[3] == ""
    assert {line.count("\t") for line in lines[:3]} == {18}
    assert lines[:3] == table().splitlines()


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "'=1+1", "''-x"])
def test_no_spreadsheet_runs_a_text(gwtq, add, claim, table, text):
    add("Ana", priority=-5)
    gwtq("done", *by(claim(lane="=lane")), "--result", "hit", f"--note={text}")
    cells = dict(zip(COLUMNS, table().splitlines()[1].split("\t")))
    assert cells["note"] == "'" + text
    assert (cells["lane"], cells["priority"]) == ("'=lane", "-5")
    assert gwtq("list", "--json").objects[0]["note"] == text


@pytest.mark.parametrize("text", ["1-1", "'quoted'", "a=b", " =1", "#x", "'"])
def test_a_text_that_is_no_formula_stays_as_it_is(gwtq, add, table, text):
    add("Ana", note=text)
    assert table().splitlines()[1].split("\t")[15] == text


@contextmanager
def processes(*jobs):
    """Run functions again and again in processes of their own, until the block ends."""
    pids = []
    for job in jobs:
        pid = os.fork()
        if not pid:
            while True:
                job()
        pids.append(pid)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def test_a_storm_of_moves_never_loses_doubles_or_halves_a_row(gwtq, cola, add, table, monkeypatch):
    """Two lanes work and a third process exports; we read the table on stdout and the one beside the queue."""
    add(*[f"Ana {n}" for n in range(60)])
    path = cola.parent / "cola.tsv"
    gwtq("export")

    def storm():
        queue = Queue(str(cola), durable=False, max_tries=10**9)
        held = [queue.claim(f"lane-{os.getpid()}") for _ in range(8)]
        for number, claim in enumerate(held):
            if claim and number % 4 == 0:
                claim.renew(86400)
            if claim and number % 2:
                claim.fail(0)
            elif claim:
                claim.release()

    ids = [f"q{n}" for n in range(1, 61)]
    seen = set()
    with processes(storm, storm, lambda: main(["export"])):
        for _ in range(25):
            for text in (table(), path.read_text("utf-8")):
                header, *rows = text.split("\n")
                assert header == HEADER
                assert rows.pop() == ""
                assert [line.split("\t")[0] for line in rows] == ids
                assert {line.count("\t") for line in rows} == {18}
                seen.add(text)
    assert len(seen) > 12, "nothing moved"


# --- import


def test_what_was_exported_is_imported_as_it_was(gwtq, write, add, claim, table, tmp_path, monkeypatch):
    add("Ana Peiró", source="gaceta", query="peiró", label="=Ana", priority="-5", dedupe_key="@k", note="'=x")
    add("Eva", next_at="2999-01-01")
    add("Leo", "Mía", "Noé", "Ana")
    gwtq("done", *by(claim("--kind", "sweep", lane="lane 1")), "--result", "partial", "--evidence=-x")
    gwtq("fail", *by(claim("--kind", "sweep")), "--final")
    gwtq("fail", *by(claim("--kind", "sweep")))
    claim("--kind", "sweep", lane="señal (2)")
    before = table()
    exported = write("cola.tsv", before)
    monkeypatch.setenv("GWT_QUEUE", str(tmp_path / "other"))
    answer = gwtq("import", exported)
    assert answer.out == "6 imported, 0 known\n"
    assert "made an empty queue" in answer.sentence
    assert table() == before


def test_a_second_import_changes_nothing(gwtq, cola):
    gwtq("import", SAMPLE)
    before = tree(cola)
    assert gwtq("import", SAMPLE, "--json").objects == [{"imported": 0, "known": 10, "undecodable": 0}]
    assert tree(cola) == before


def test_a_task_that_is_there_stays_as_it_is(gwtq, add, write):
    add("Ana", "Eva")
    other = write("table.tsv", "\n".join([HEADER, row(id="q2", person_key="leo"), row(id="q3", person_key="mia")]))
    assert gwtq("import", other).out == "1 imported, 1 known\n"
    assert [task["person_key"] for task in gwtq("list").tasks] == ["ana", "eva", "mia"]


def test_the_seeds_table_moves_over_without_losing_a_claim(gwtq, cola, table):
    assert gwtq("import", SAMPLE).out == "10 imported, 0 known\n"
    as_it_was = {line.split("\t")[0]: line for line in SAMPLE.read_text("utf-8").splitlines()}
    as_it_is = {line.split("\t")[0]: line for line in table().splitlines()}
    assert list(as_it_is) == list(as_it_was)
    assert [id for id in as_it_is if as_it_is[id] != as_it_was[id]] == ["q4", "q8"]
    assert "\topen\t\t\t\t\t\t1\t" in as_it_is["q4"]  # its lease ran out
    assert as_it_is["q8"] == as_it_was["q8"].replace("@I", "'@I", 1)  # which a spreadsheet would run
    assert [name.split(".")[-1] for name in os.listdir(cola / "claimed") if name[:2] == "q4"] == [
        "lane%203%20%28night%29"
    ]


def test_a_claim_of_the_seeds_table_that_ran_out_comes_back(gwtq):
    gwtq("import", SAMPLE)
    assert gwtq("requeue-expired").rows == [["q4", "pending", "lane 3 (night)"]]
    (task,) = gwtq("list", "--person", "juan-peiro-soler", "--status", "open").tasks
    assert (task["id"], task["tries"], task["lane"]) == ("q4", "1", "")
    assert "lane 3 (night)  lease expired" in gwtq("show", "q4").out


def test_a_claim_of_the_seeds_table_that_runs_is_settled_with_its_token(gwtq):
    gwtq("import", SAMPLE)
    live = by(("q3", "9f2c1e7ab04d4c6f"))
    assert gwtq("renew", *live).rows == [["2036-11-30T12:00:00Z"]]
    gwtq("done", *live, "--result", "hit", "--evidence", "conftest.py")
    task = gwtq("list").tasks[2]
    assert (task["status"], task["tries"], task["lane"]) == ("done", "2", "lane-2")


def test_after_an_import_ids_go_on_and_order_and_dedupe_hold(gwtq, add, claim):
    gwtq("import", SAMPLE)
    assert add("Ana") == ["q13"]
    assert [claim()[0] for _ in range(3)] == ["q2", "q4", "q12"]
    again = ["--person", "@I0412@", "--kind", "followup", "--dedupe-key", "round-31:grave:i0412", "--dedupe"]
    assert gwtq("add", *again).out == "q8\tknown\n"
    blocked = ["--person", "María Toledo", "--source", "pares", "--query", "Toledo pasajeros", "--dedupe"]
    assert gwtq("add", *blocked).out == "q7\tknown\n"  # the open one, not the blocked q6


def test_an_imported_text_loses_the_mark_that_export_gave_it(gwtq):
    gwtq("import", SAMPLE)
    assert gwtq("list", "--json", "--person", "лев-толстой").objects[0]["note"] == "=leading sign kept as text"


def test_columns_may_come_in_another_order_with_windows_line_ends(gwtq, write):
    names = list(reversed(COLUMNS))
    cells = dict(zip(COLUMNS, row(note="n").split("\t")))
    text = "\ufeff" + "\t".join(names) + "\r\n" + "\t".join(cells[name] for name in names) + "\r\n\r\n"
    gwtq("import", write("table.tsv", text))
    assert gwtq("list").tasks[0]["note"] == "n"


BAD = {
    "a cell too few": (row()[:-1], "18 cells instead of 19"),
    "a cell too many": (row() + "\t", "20 cells instead of 19"),
    "an id twice": (row(id="q2"), "q2 is in the table twice"),
    "a bad id": (row(id="Q9"), "'Q9'"),
    "an id with a zero": (row(id="q09"), "'q09'"),
    "an unknown status": (row(status="asleep"), "open, claimed, done, failed"),
    "an unknown kind": (row(kind="nap"), "search, sweep, verify, followup"),
    "an unknown result": (row(status="done", result="found"), "hit, none"),
    "a priority that is no number": (row(priority="high"), "'high'"),
    "tries that are no number": (row(tries="-1"), "'-1'"),
    "a time that is none": (row(next_at="soon"), "'soon'"),
    "no person": (row(person_key=""), "person_key"),
    "a source that is no slug": (row(source="Gaceta!"), "'gaceta'"),
    "an open task with a lane": (row(lane="l"), "open, and has a lane"),
    "an open task with a token": (row(token="t"), "open, and has a token"),
    "a claim without a token": (row(**{**HELD, "token": ""}), "no token"),
    "a claim without a lane": (row(**{**HELD, "lane": ""}), "no lane"),
    "a claim without a lease": (row(**{**HELD, "lease_until": ""}), "no lease_until"),
    "a claim that counts no attempt": (row(**{**HELD, "tries": "0"}), "tries"),
    "a claim by too long a name": (row(**{**HELD, "lane": "x" * 101}), "too long"),
    "a claim under too long a token": (row(**{**HELD, "token": "x" * 65}), "too long"),
    "a claim too long together": (row(**{**HELD, "token": "x" * 64, "lane": "x" * 100}), "too long together"),
    "latin-1": (row(note="José").encode("latin-1"), "UTF-8"),
    "NUL": (row(note="a\0b"), "NUL"),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("there", [True, False], ids=["a queue", "no queue"])
def test_a_row_that_cannot_be_kept_whole_is_named_and_nothing_is_imported(gwtq, cola, add, write, bad, there):
    if there:
        add("Eva")
    before = tree(cola) if there else None
    line, named = BAD[bad]
    lines = [HEADER, row(id="q2"), row(id="q3"), line, row(id="q5")]
    text = b"\n".join(text if isinstance(text, bytes) else text.encode("utf-8") for text in lines)
    answer = gwtq("import", write("table.tsv", text), code=65)
    assert "line 4: " in answer.sentence
    assert named in answer.sentence
    assert tree(cola) == before if there else not cola.exists()


@pytest.mark.parametrize("text", ["", "\n", "id\tperson\n", HEADER.replace("\t", ",") + "\n", HEADER + "\tid\n"])
def test_a_table_without_the_header_is_refused(gwtq, cola, write, text):
    assert "header" in gwtq("import", write("table.tsv", text), code=65).sentence
    assert not cola.exists()


def test_a_table_that_is_not_there_is_refused(gwtq, cola, tmp_path):
    assert "nowhere.tsv" in gwtq("import", "nowhere.tsv", code=66).sentence
    assert "directory" in gwtq("import", tmp_path, code=66).sentence
    assert not cola.exists()


def test_a_task_that_did_not_decode_is_left_out_and_counted(gwtq, cola, add, write, table, tmp_path):
    add("Ana", "Eva")
    next(cola.glob("pending/*/*/*/q1.*")).write_bytes(b"{")
    exported = write("table.tsv", table())
    assert gwtq("--queue", "other", "import", exported).out == "1 imported, 0 known, 1 undecodable left out\n"
