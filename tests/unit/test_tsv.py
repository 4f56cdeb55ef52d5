"""The table: cells that stay cells, and rows that are kept whole or refused by line."""

from __future__ import annotations

import json
import os
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gwtq import Queue, names, tsv
from gwtq.errors import BadData, BadInput, NoSuchFile
from gwtq.settings import Settings
from gwtq.task import COLUMNS, Task

from . import steady

SAMPLE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data", "cola-sample.tsv")
SETTINGS = Settings()
# Whatever some program takes for the end of a line or a cell, or for a formula.
ODD = [
    "\t", "\n", "\r", "\r\n", "\v", "\f", "\x00", "\x1c", "\x1e", "\x1f", "\x7f", "\x80", "\u0085", "\u2028", "\u2029",
    "'", '"', "=", "+", "-", "@", "|", ",", ";", " ", "a", "ñ", "王", "\ufeff", "\u200b", "\\n", "\\t",
]  # fmt: skip
TEXTS = [key for key in COLUMNS if key not in tsv.PLAIN]
odd_texts = st.lists(st.sampled_from(ODD), max_size=6).map("".join)


class Stopped:
    """A clock that stands still, and chance that counts."""

    def __init__(self, stamp):
        self.second = names.seconds(stamp)
        self.count = 0

    def now(self):
        return self.second

    def sleep(self, seconds):
        raise AssertionError("nobody waits here")

    def chance(self, size):
        self.count += 1
        return self.count.to_bytes(size, "big")


# --- cells


@pytest.mark.parametrize("odd", [c for c in ODD if not (c[0].isprintable() or c in "\ufeff\u200b")])
def test_what_could_end_a_line_or_a_cell_becomes_a_space(odd):
    assert tsv.cell(f"a{odd}b") == f"a{' ' * len(odd)}b"


@pytest.mark.parametrize("value", ["", "a b", "ñ王", "\ufeffa\u200bb", "\\n\\t", "'=1", '"a"'])
def test_other_text_is_shown_as_it_is(value):
    assert tsv.cell(value) == value


def test_only_what_could_end_a_line_or_a_cell_becomes_a_space():
    assert tsv.cell("a\u00a0b\u200b\u3000\te") == "a\u00a0b\u200b\u3000 e"


@pytest.mark.parametrize(("value", "cell"), [(0, "0"), (-5, "-5"), (10**9, "1000000000")])
def test_a_number_is_its_digits(value, cell):
    assert tsv.cell(value) == cell


def test_awk_counts_19_fields_in_each_of_a_thousand_odd_rows():
    chance = Random(19)
    for _ in range(1000):
        task = Task("q1", names.PENDING)
        for key in TEXTS:
            setattr(task, key, "".join(chance.choices(ODD, k=chance.randrange(6))))
        row = tsv.line(task)
        assert row.count("\t") == 18
        assert len(row.splitlines()) == 1
        assert row.isprintable() or set(row) & set("\t\ufeff\u200b")


@pytest.mark.parametrize(
    ("text", "cell"),
    [("=1+1", "'=1+1"), ("+34 600", "'+34 600"), ("-", "'-"), ("@x", "'@x"), ("'=1", "''=1"), ("''@", "'''@"),
     ("''", "''"), ("'", "'"), ("'tis", "'tis"), ("a=1", "a=1"), (" =1", " =1"), ("", ""), ("|x", "|x"),
     ('"=1"', '"=1"')],
)  # fmt: skip
def test_a_formula_gets_one_more_quote(text, cell):
    assert tsv.escape(text) == cell
    assert tsv.unescape(cell) == text


@steady
@given(odd_texts)
@example("'=")
@example("'''")
@example("'a=")
def test_an_escaped_text_comes_back_and_is_no_formula(text):
    cell = tsv.escape(text)
    assert tsv.unescape(cell) == text
    assert cell[:1] not in {"=", "+", "-", "@"}


# --- reading a table


def read(tmp_path, data, settings=SETTINGS):
    """The rows of a table as comparable fields, and how many were left out."""
    path = tmp_path / "cola.tsv"
    path.write_bytes(data)
    rows, left_out = tsv.parse(str(path), settings)
    return [{**json.loads(b"{" + row.fields), **placed(row)} for row in rows], left_out


def placed(row):
    keys = ("number", "state", "channel", "due", "lane", "token", "since", "until")
    return {f"[{key}]": getattr(row, key) for key in keys}


ROW = {
    "id": "q3", "person_key": "ana", "person_label": "Ana", "kind": "search", "source": "gaceta", "query": "q",
    "priority": "50", "status": "open", "tries": "0",
}  # fmt: skip
CLAIM = {
    "status": "claimed", "tries": "1", "lane": "lane-1", "claimed_at": "2026-11-30T10:00:00Z", "token": "9f2c",
    "lease_until": "2026-11-30T12:00:00Z",
}  # fmt: skip


def table(*rows, columns=COLUMNS):
    lines = ["\t".join(columns), *["\t".join([row.get(key, "") for key in columns]) for row in rows]]
    return "".join([line + "\n" for line in lines]).encode("utf-8")


def test_the_sample_is_read_with_every_status_a_gap_and_other_scripts(tmp_path):
    with open(SAMPLE, "rb") as file:
        rows, left_out = read(tmp_path, file.read())
    assert left_out == 0
    assert [(row["[number]"], row["[state]"]) for row in rows] == [
        (1, "done"), (2, "pending"), (3, "claimed"), (4, "claimed"), (5, "failed"), (6, "done"), (7, "pending"),
        (8, "pending"), (10, "pending"), (12, "pending"),
    ]  # fmt: skip
    by_number = {row["[number]"]: row for row in rows}
    assert by_number[1]["evidence"] == "hits/ana-peiro-sweep.txt"
    assert (by_number[1]["done_at"], by_number[1]["tries"]) == ("2026-10-02T09:02:13Z", 1)
    assert by_number[3]["tries"] == 1  # the attempt that runs is counted when it ends
    assert by_number[3]["[until]"] == "20361130T120000Z"
    assert (by_number[4]["[lane]"], by_number[4]["[token]"]) == ("lane 3 (night)", "0b7d")
    assert (by_number[7]["[due]"], by_number[7]["tries"]) == ("20360101T000000Z", 1)
    assert by_number[8]["dedupe_key"] == "round-31:grave:i0412"
    assert (by_number[10]["note"], by_number[10]["priority"]) == ("=leading sign kept as text", -5)
    assert by_number[12]["person_label"] == "王小明"


def test_the_sample_comes_out_as_it_went_in(tmp_path):
    # While both of its claims run: later, an expired one reads as open.
    clock = Stopped("20261101T233000Z")
    queue = Queue.create(str(tmp_path / "cola"), durable=False, clock=clock)
    assert queue.import_tsv(SAMPLE) == (10, 0, 0)
    assert queue.export() == 10
    with open(SAMPLE, "rb") as one, open(queue.path + ".tsv", "rb") as other:
        assert other.read() == one.read().replace(b"\t@I0412@", b"\t'@I0412@")


def test_an_export_of_odd_texts_is_a_table_that_comes_back(tmp_path):
    chance = Random(19)
    queue = Queue.create(str(tmp_path / "cola"), durable=False)
    odd = [c for c in ODD if c != "\x00"]
    queue.add_many(
        [
            {
                "person": f"x{n}",
                **{k: "".join(chance.choices(odd, k=4)) for k in ("label", "query", "note", "dedupe_key")},
            }
            for n in range(100)
        ]
    )
    claim = queue.claim("=lane\n2")
    claim.fail(final=True, note="+\tsite block")
    queue.claim("\u2028-'")
    queue.export()
    with open(queue.path + ".tsv", encoding="utf-8", newline="") as file:
        lines = file.read().split("\n")
    assert {line.count("\t") for line in lines[:-1]} == {18}
    assert (len(lines), lines[-1]) == (102, "")
    other = Queue.create(str(tmp_path / "other"), durable=False)
    assert other.import_tsv(queue.path + ".tsv") == (100, 0, 0)
    assert list(other.table()) == lines[:-1]
    assert other.import_tsv(queue.path + ".tsv") == (0, 100, 0)


@pytest.mark.parametrize(
    "changed",
    [
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.rstrip(b"\n"),
        lambda data: data.replace(b"\n", b"\n\n") + b"\r\n",
        lambda data: table(ROW, {**ROW, **CLAIM, "id": "q4", "note": "'=1"}, columns=sorted(COLUMNS)),
        lambda data: table(ROW, {**ROW, **CLAIM, "id": "q4", "note": "'=1"}, columns=COLUMNS[::-1]),
    ],
    ids=["CRLF", "BOM", "no last newline", "blank lines", "sorted columns", "reversed columns"],
)
def test_a_table_may_be_written_otherwise(tmp_path, changed):
    data = table(ROW, {**ROW, **CLAIM, "id": "q4", "note": "'=1"})
    assert len(read(tmp_path, data)[0]) == 2
    assert read(tmp_path, changed(data)) == read(tmp_path, data)


def test_a_table_may_have_no_rows(tmp_path):
    assert read(tmp_path, table()) == ([], 0)


@pytest.mark.parametrize(
    ("cells", "key", "value"),
    [
        ({"next_at": "2026-11-30 19:05:07+01:00"}, "next_at", "2026-11-30T18:05:07Z"),
        ({"next_at": "2026-11-30T19:05:07.5Z"}, "[due]", "20261130T190508Z"),
        ({"priority": "+5"}, "priority", 5),
        ({"status": "done", "result": "hit", "tries": "3"}, "tries", 3),
        ({"status": "failed", "tries": "0"}, "[state]", "failed"),
        ({"person_label": "'=x"}, "person_label", "=x"),
        ({"person_label": "''"}, "person_label", "''"),
        ({"note": "a\x0b\u2028b\r"}, "note", "a\x0b\u2028b\r"),
        ({"source": ""}, "[channel]", "search"),
        ({**CLAIM, "lane": "лев"}, "[lane]", "лев"),
        ({**CLAIM, "token": "'-1"}, "[token]", "-1"),
    ],
)
def test_a_cell_is_read_as(tmp_path, cells, key, value):
    (row,), _ = read(tmp_path, table({**ROW, **cells}))
    assert row[key] == value


def test_a_row_of_a_task_that_did_not_decode_is_left_out(tmp_path):
    problem = {
        "id": "q4",
        "status": "failed",
        "priority": "0",
        "tries": "0",
        "note": "The task's file does not decode.",
    }
    rows, left_out = read(tmp_path, table(problem, ROW))
    assert ([row["[number]"] for row in rows], left_out) == ([3], 1)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "the table is empty: not even a header line"),
        (b"\n", "line 1: The header must name these columns"),
        (b"q1\tana\n", "line 1: The header must name these columns"),
        (table(columns=COLUMNS[:-1]), "line 1: The header must name these columns"),
        (table(columns=(*COLUMNS, "colour")), "line 1: The header must name these columns"),
        (table(columns=(*COLUMNS[:-1], "id")), "line 1: The header must name these columns"),
        (table().replace(b"person_key", b"person key"), "line 1: The header must name these columns"),
        (b"\xff" + table(), "line 1: it is not UTF-8 text"),
        (table({**ROW, "note": "caf\u00e9"}).replace(b"\xc3\xa9", b"\xe9"), "line 2: it is not UTF-8 text"),
        (table(ROW).replace(b"\topen\t", b"\topen"), "line 2: It has 18 cells instead of 19"),
        (table(ROW, {**ROW, "note": "a\tb"}), "line 3: It has 20 cells instead of 19"),
        (table(ROW) + b"<<<<<<< HEAD\n", "line 3: It has 1 cells instead of 19"),
        (table(ROW) + b" \n", "line 3: It has 1 cells instead of 19"),
        (table(ROW, {**ROW, "id": "q4"}, ROW), "line 4: The id q3 is in the table twice"),
    ],
)
def test_what_is_no_table_is_refused_by_line(tmp_path, data, why):
    assert refusal(tmp_path, data).startswith(why)


def refusal(tmp_path, data):
    with pytest.raises(BadData) as told:
        read(tmp_path, data)
    return str(told.value)[len("The data cannot be used, nothing was changed: ") :]


LONG_TOKEN = "t" * 41


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ({"id": ""}, "'' is no task's id"),
        ({"id": "3"}, "'3' is no task's id"),
        ({"id": "q03"}, "'q03' is no task's id"),
        ({"id": "../q3"}, "'../q3' is no task's id"),
        ({"person_key": ""}, "It has no person_key"),
        ({"note": "a\0b"}, "The note holds a NUL character"),
        ({"query": "x" * 100_001}, "The query is longer than 100,000 characters"),
        ({"kind": "nap"}, "There is no kind 'nap' in this queue"),
        ({"kind": ""}, "There is no kind '' in this queue"),
        ({"source": "La Gaceta"}, "The source 'La Gaceta' is no slug; 'la-gaceta' would be one"),
        ({"source": "-"}, "The source '-' is no slug"),
        ({"source": "л" * 26}, "The source is too long"),
        ({"priority": ""}, "The priority must be a whole number, not ''"),
        ({"priority": "high"}, "The priority must be a whole number, not 'high'"),
        ({"priority": "5.0"}, "The priority must be a whole number, not '5.0'"),
        ({"priority": "1" + "0" * 30}, "The priority is beyond ±1,000,000,000"),
        ({"tries": ""}, "The number of tries must be a whole number"),
        ({"tries": "-1"}, "The number of tries must be a whole number"),
        ({"tries": "1.0"}, "The number of tries must be a whole number"),
        ({"tries": "9" * 5000}, "The number of tries must be a whole number"),
        ({"status": ""}, "There is no status ''; it is one of open, claimed, done, failed"),
        ({"status": "pending"}, "There is no status 'pending'"),
        ({"status": "Open"}, "There is no status 'Open'"),
        ({"result": "found"}, "There is no result 'found' in this queue"),
        ({"next_at": "soon"}, "The next_at must be a time"),
        ({"next_at": "2026-02-30"}, "The next_at '2026-02-30' does not exist"),
        ({"done_at": "2026-11-30T23:59:60Z"}, "The done_at '2026-11-30T23:59:60Z' does not exist"),
        ({"lane": "lane-1"}, "It is open, and has a lane or a claimed_at"),
        ({"claimed_at": "2026-11-30"}, "It is open, and has a lane or a claimed_at"),
        ({"token": "9f2c"}, "It is open, and has a token or a lease"),
        ({"lease_until": "2026-11-30"}, "It is open, and has a token or a lease"),
        ({"status": "done", "token": "9f2c"}, "It is done, and has a token or a lease"),
        ({"status": "failed", "lease_until": "2026-11-30"}, "It is failed, and has a token or a lease"),
        ({**CLAIM, "lane": ""}, "It is claimed, and has no lane"),
        ({**CLAIM, "claimed_at": ""}, "It is claimed, and has no claimed_at"),
        ({**CLAIM, "token": ""}, "It is claimed, and has no token"),
        ({**CLAIM, "lease_until": ""}, "It is claimed, and has no lease_until"),
        ({**CLAIM, "tries": "0"}, "It is claimed, and its tries do not count the attempt that runs"),
        ({**CLAIM, "lane": " "}, "A lane needs a name"),
        ({**CLAIM, "lane": "x" * 101}, "The lane's name is too long"),
        ({**CLAIM, "token": "t" * 65}, "The token is too long"),
        ({**CLAIM, "token": "ñ" * 11}, "The token is too long"),
        ({**CLAIM, "token": LONG_TOKEN, "lane": "x" * 81}, "The token and the lane's name are too long together"),
    ],
)
def test_a_row_that_cannot_be_kept_whole_is_refused_by_line(tmp_path, cells, why):
    assert refusal(tmp_path, table({**ROW, "id": "q1"}, {**ROW, **cells})).startswith(f"line 3: {why}")


def test_a_claim_that_just_fits_can_be_swept(tmp_path):
    (row,), _ = read(tmp_path, table({**ROW, **CLAIM, "token": LONG_TOKEN, "lane": "x" * 80}))
    claim = names.claim_name("q3", "0" * 14, row["[token]"], row["[since]"], row["[until]"], row["[lane]"])
    swept = names.recovering_name(claim, "p" * 8, row["[until]"])
    assert len(swept) == names.NAME_MAX
    assert names.parse_recovering(swept).lane == "x" * 80


def test_other_kinds_and_results_are_those_of_the_queue(tmp_path):
    settings = Settings(("review",), {"ok": True})
    row = {**ROW, "kind": "review", "status": "done", "result": "ok"}
    assert len(read(tmp_path, table(row), settings)[0]) == 1
    assert "its kinds are review" in refusal_of(tmp_path, table(ROW), settings)


def refusal_of(tmp_path, data, settings):
    with pytest.raises(BadData) as told:
        read(tmp_path, data, settings)
    return str(told.value)


def test_a_table_that_is_not_there_is_named(tmp_path):
    path = str(tmp_path / "Table.tsv")
    with pytest.raises(NoSuchFile, match=r"no such file: '.*/Table\.tsv'"):
        tsv.parse(path, SETTINGS)
    with pytest.raises(NoSuchFile, match="is a directory"):
        tsv.parse(str(tmp_path), SETTINGS)


# --- writing a table


@pytest.fixture
def queue(tmp_path):
    queue = Queue.create(str(tmp_path / "cola"), durable=False)
    queue.add("Ana")
    return queue


def test_an_export_leaves_the_table_and_its_lock_and_nothing_else(queue, tmp_path):
    queue.export()
    assert sorted(os.listdir(tmp_path)) == [".cola.tsv.lock", "cola", "cola.tsv"]


def test_an_export_that_fails_leaves_the_old_table(queue, tmp_path, monkeypatch):
    queue.export()
    before = (tmp_path / "cola.tsv").read_bytes()
    queue.add("Eva")

    def broken(store):
        yield "half a line"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tsv, "lines", broken)
    with pytest.raises(OSError, match="No space left"):
        queue.export()
    assert (tmp_path / "cola.tsv").read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == [".cola.tsv.lock", "cola", "cola.tsv"]


def test_an_export_needs_a_place_to_go(queue, tmp_path):
    with pytest.raises(BadInput, match="is a directory; name a file"):
        queue.export(str(tmp_path))
    with pytest.raises(NoSuchFile, match="does not exist"):
        queue.export(str(tmp_path / "nowhere" / "cola.tsv"))


def test_an_export_does_not_replace_a_device_or_a_pipe(queue, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    os.symlink(pipe, tmp_path / "link")
    for path in (pipe, tmp_path / "link"):
        with pytest.raises(BadInput, match="is no plain file, and a table would replace it"):
            queue.export(str(path))
    assert pipe.is_fifo()


@pytest.mark.parametrize("inside", ["seq", "queue.json", "new.tsv", "done/new.tsv"])
def test_an_export_goes_nowhere_into_the_queue(queue, tmp_path, inside):
    os.symlink(tmp_path / "cola", tmp_path / "link")
    before = sorted(path for path in tmp_path.rglob("*"))
    for root in ("cola", "link"):
        with pytest.raises(BadInput, match="is inside the queue's own directory"):
            queue.export(str(tmp_path / root / inside))
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_an_export_to_a_link_replaces_what_it_points_to(queue, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere" / "real.tsv", tmp_path / "link.tsv")
    queue.export(str(tmp_path / "link.tsv"))
    assert (tmp_path / "link.tsv").is_symlink()
    assert (tmp_path / "elsewhere" / "real.tsv").read_bytes().count(b"\n") == 2
