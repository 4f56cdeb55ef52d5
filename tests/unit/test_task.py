"""The log and its fold: which lines of a file count, and what they make of the task."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gwtq import task
from gwtq.errors import NewerFormat, Undecodable
from gwtq.names import CLAIMED, DONE, FAILED, PENDING, RECOVERING, STATES, Name
from gwtq.task import chain, fold, line

from . import steady

A, B, C, D = (f"6b0de0f1aaaaa{letter}" for letter in "abcd")
NOW = "20261130T120000Z"
ADDED = {
    "gen": A, "event": "add", "at": "2026-11-30T08:00:00Z", "id": "q12", "person_key": "ana-peiro",
    "person_label": "Ana Peiró", "kind": "search", "source": "gaceta", "query": "peiró 1890", "priority": 100,
    "note": "round 31", "dedupe_key": "k", "next_at": "2026-11-30T09:00:00Z",
}  # fmt: skip
CLAIM = {"token": "t1", "lane": "lane-1", "since": "2026-11-30T10:00:00Z", "at": "2026-11-30T11:00:00Z"}
FAIL = {"gen": B, "prev": A, "event": "fail", **CLAIM, "next_at": "2026-11-30T12:30:00Z", "note": "site block"}
UPDATE = {"gen": C, "prev": B, "event": "update", "person_label": "Ana P.", "priority": 7}


def log(*entries):
    return b"".join([line(entry) for entry in entries])


def events(data, head):
    return [entry["event"] for entry in chain(data, head)]


def folded(*entries, state=PENDING, now=NOW, max_tries=5, **claim):
    name = Name("q12", entries[-1]["gen"], **claim)
    return fold(name, state, log(*entries), now=now, max_tries=max_tries)


# --- the chain


def test_an_entry_is_a_line_of_its_own_whatever_stands_before_it():
    assert line({"gen": A, "note": "ñ\n\u2028"}) == b'\n{"gen": "%s", "note": "\xc3\xb1\\n\xe2\x80\xa8"}\n' % A.encode()


def test_the_chain_runs_from_the_first_entry_to_the_head():
    assert chain(log(ADDED, FAIL, UPDATE), C) == [ADDED, FAIL, UPDATE]


def test_a_line_after_the_head_was_never_committed():
    assert chain(log(ADDED, FAIL, UPDATE), A) == [ADDED]


def test_a_line_off_the_chain_means_nothing():
    lost = {"gen": D, "prev": A, "event": "done", "token": "t0"}
    assert chain(log(ADDED, lost, FAIL, UPDATE), C) == [ADDED, FAIL, UPDATE]


@pytest.mark.parametrize(
    "lost",
    [
        {"gen": D, "prev": A, "event": "handed-over"},
        {"gen": D, "prev": D, "event": "fail"},
        {"gen": D, "event": "add", "id": "q13"},
        {"gen": D, "prev": 5, "event": ["fail"], "note": None, "priority": "high"},
        {"gen": 7, "event": "fail"},
        {"gen": None},
        {"gen": [A]},
        {},
    ],
)
def test_a_line_off_the_chain_may_hold_anything(lost):
    assert chain(log(lost, ADDED, lost, FAIL, lost), B) == [ADDED, FAIL]


def test_the_order_of_the_lines_is_not_the_order_of_the_chain():
    assert chain(log(UPDATE, FAIL, ADDED), C) == [ADDED, FAIL, UPDATE]


def test_a_torn_tail_means_nothing_and_does_no_harm_to_what_is_appended_to_it():
    whole = log(ADDED, FAIL)
    torn = line({"gen": D, "prev": B, "event": "done", "note": "ñ" * 3})
    for cut in range(len(torn) - 2):
        assert events(whole + torn[:cut], B) == ["add", "fail"]
        assert events(whole + torn[:cut] + line(UPDATE), C) == ["add", "fail", "update"]
        with pytest.raises(Undecodable):
            chain(whole + torn[:cut], D)


def test_an_entry_whose_last_newline_was_torn_off_is_whole():
    data = log(ADDED, FAIL)
    assert events(data[:-1], B) == ["add", "fail"]


@pytest.mark.parametrize(
    "junk",
    [
        b"<<<<<<< HEAD\n", b"=======\n>>>>>>> theirs\n", b"\n\n \t\r\n", b"\xff\xfe\n", b"\0" * 4096, b"{\n", b"[]\n",
        b"5\n", b"null\n", b'"text"\n', b'{"gen": "' + B.encode() + b'", "prev": NaN}\n', b"[" * 100_000 + b"\n",
        b'{"gen": "\\ud800"}\n', b'{"a": "\\ud800", "b": ' + b"[" * 900 + b"]" * 900 + b"}\n",
    ],
)  # fmt: skip
def test_junk_between_the_lines_is_passed_over(junk):
    data = junk + log(ADDED) + junk + log(FAIL) + junk
    assert events(data, B) == ["add", "fail"]


def test_a_file_that_went_through_an_editor_still_reads():
    data = log(ADDED, FAIL).replace(b"\n\n", b"\r\n").replace(b": ", b" :  ")
    assert chain(data, B) == [ADDED, FAIL]


@pytest.mark.parametrize("data", [b"", b"\n", b"\0" * 500, b"\0" * 1_000_000, b'{"id":', b"<<<<<<< HEAD\n"])
def test_a_file_without_a_line_that_decodes_says_so(data):
    with pytest.raises(Undecodable, match=r"no entry decodes\."):
        chain(data, A)


@pytest.mark.parametrize(
    ("entries", "head", "why"),
    [
        ([ADDED], B, f"the entry {B} is not in the file, or does not decode"),
        ([FAIL], B, f"the entry {A} is not in the file, or does not decode"),
        ([ADDED, {**FAIL, "prev": D}], B, f"the entry {D} is not in the file"),
        ([ADDED, {**FAIL, "prev": B}], B, f"the entry {B} is not in the file"),
        ([{**ADDED, "prev": B}, FAIL], B, f"the entry {B} is not in the file"),
        ([ADDED, {**FAIL, "prev": 5}], B, "the entry 5 is not in the file"),
        ([ADDED, {**FAIL, "prev": [A]}], B, "is not in the file"),
        ([ADDED, {**FAIL, "prev": ""}], B, "the entry  is not in the file"),
        ([ADDED, {**FAIL, "prev": None}], B, "the chain does not begin with the task as added"),
        ([ADDED, FAIL, {**UPDATE, "gen": B}], B, f"two entries carry the generation {B}"),
        ([ADDED, ADDED], A, f"two entries carry the generation {A}"),
        ([ADDED, {**FAIL, "event": "add"}], B, "the chain does not begin with the task as added"),
        ([{**ADDED, "event": "update"}], A, "the chain does not begin with the task as added"),
        ([{**ADDED, "note": "\ud800"}], A, "no entry decodes"),
        ([ADDED, {**FAIL, "note": "\udfff"}], B, f"the entry {B} is not in the file, or does not decode"),
    ],
)
def test_a_broken_chain_says_where_it_breaks(entries, head, why):
    # A lone surrogate cannot be written by us: a lane that writes by hand may escape one.
    data = b"".join([line(entry) if "\\ud" not in ascii(entry) else escaped(entry) for entry in entries])
    with pytest.raises(Undecodable, match=why):
        chain(data, head)


def escaped(entry):
    return line({**entry, "note": "%"}).replace(b"%", ascii(entry["note"])[1:-1].encode())


def test_a_generation_that_is_there_twice_off_the_chain_does_not_matter():
    lost = {"gen": D, "prev": A, "event": "fail"}
    assert events(log(ADDED, lost, lost, FAIL), B) == ["add", "fail"]


@pytest.mark.parametrize("event", ["handed-over", None, 5, ["done"], "DONE", ""])
def test_an_event_of_a_newer_version_is_refused_by_its_name(event):
    with pytest.raises(NewerFormat, match=r"of the kind"):
        chain(log(ADDED, {**FAIL, "event": event}), B)


def test_an_entry_without_an_event_is_refused_too():
    with pytest.raises(NewerFormat, match="None"):
        chain(log({"gen": A, "id": "q12"}), A)


def test_fields_of_a_newer_version_are_passed_over():
    assert folded({**ADDED, "colour": {"deep": [1]}}, {**FAIL, "host": "h"}).tries == 1


@steady
@given(st.binary(max_size=60), st.integers(0, 400), st.integers(0, 60))
def test_a_damaged_file_is_read_or_refused_and_nothing_else(damage, at, cut):
    data = log(ADDED, FAIL)
    damaged = data[:at] + damage + data[at + cut :]
    try:
        read = fold(Name("q12", B), PENDING, damaged, now=NOW, max_tries=5)
    except (Undecodable, NewerFormat):
        return
    assert read.id == "q12"
    assert [entry["gen"] for entry in read.entries] == [A, B]


# --- the fold


def test_a_task_reads_as_it_was_added():
    read = folded(ADDED)
    assert read.row() == [
        "q12", "ana-peiro", "Ana Peiró", "search", "gaceta", "peiró 1890", 100, "open", "", "", "", "", "", 0,
        "2026-11-30T09:00:00Z", "round 31", "", "", "k",
    ]  # fmt: skip
    assert (read.state, read.problem, read.entries) == (PENDING, "", [ADDED])


def test_fields_that_are_left_out_are_empty():
    read = folded({"gen": A, "event": "add", "id": "q12", "person_key": "ana", "kind": "sweep"})
    assert read.row() == ["q12", "ana", "", "sweep", "", "", 0, "open", *[""] * 5, 0, *[""] * 5]


def test_the_token_is_in_column_17_of_19():
    assert len(task.COLUMNS) == 19
    assert task.COLUMNS[16] == "token"


@pytest.mark.parametrize(
    ("event", "changed"),
    [
        ({"event": "update", "person_label": "Ana P.", "query": "p", "note": "n", "priority": -1},
         {"person_label": "Ana P.", "query": "p", "note": "n", "priority": -1}),
        ({"event": "update", "note": "", "person_label": ""}, {"note": "", "person_label": ""}),
        ({"event": "update", "kind": "verify", "tries": 9, "next_at": "x", "person_key": "eva", "source": "pares"}, {}),
        ({"event": "fail", **CLAIM, "next_at": "2026-12-01T12:30:00Z"},
         {"tries": 1, "next_at": "2026-12-01T12:30:00Z"}),
        ({"event": "fail", **CLAIM, "note": "site block"}, {"tries": 1, "next_at": "", "note": "site block"}),
        ({"event": "release", **CLAIM}, {"next_at": ""}),
        ({"event": "release", **CLAIM, "next_at": "2026-11-30T12:30:00Z", "note": "gate"},
         {"next_at": "2026-11-30T12:30:00Z", "note": "gate"}),
        ({"event": "expired", **CLAIM, "until": "2026-11-30T10:30:00Z"}, {"tries": 1, "next_at": ""}),
    ],
)  # fmt: skip
def test_an_event_changes_these_columns_of_an_open_task_and_no_other(event, changed):
    before = folded(ADDED)
    after = folded(ADDED, {"gen": B, "prev": A, **event})
    assert difference(before, after) == changed


def test_done_tells_who_did_it_and_what_came_of_it():
    done = {"gen": B, "prev": A, "event": "done", **CLAIM, "result": "hit", "evidence": "hits/ana.txt", "note": "p. 3"}
    assert difference(folded(ADDED), folded(ADDED, done, state=DONE)) == {
        "status": "done", "lane": "lane-1", "claimed_at": "2026-11-30T10:00:00Z", "done_at": "2026-11-30T11:00:00Z",
        "result": "hit", "evidence": "hits/ana.txt", "tries": 1, "next_at": "", "note": "p. 3",
    }  # fmt: skip


@pytest.mark.parametrize("event", ["fail", "expired"])
def test_a_failed_task_tells_who_had_it_last(event):
    read = folded(ADDED, {"gen": B, "prev": A, "event": event, **CLAIM}, state=FAILED)
    assert (read.status, read.lane, read.claimed_at, read.tries) == ("failed", "lane-1", "2026-11-30T10:00:00Z", 1)
    assert (read.token, read.lease_until) == ("", "")


def difference(before, after):
    return {key: getattr(after, key) for key in task.COLUMNS if getattr(after, key) != getattr(before, key)}


def test_an_attempt_counts_when_it_ran():
    ran = ["fail", "release", "expired", "update", "release", "fail"]
    gens = [f"6b0de0f1bbbbb{number}" for number in range(len(ran))]
    entries = [{"gen": gen, "prev": prev, "event": event, **CLAIM} for gen, prev, event in zip(gens, [A, *gens], ran)]
    assert folded(ADDED, *entries).tries == 3


def test_what_an_import_brought_is_the_base():
    imported = {
        **ADDED, "tries": 4, "lane": "lane-9", "claimed_at": "2026-10-02T08:11:40Z", "done_at": "2026-10-02T09:02:13Z",
        "result": "blocked", "evidence": "e",
    }  # fmt: skip
    read = folded(imported, state=DONE)
    assert (read.status, read.tries, read.lane, read.result) == ("done", 4, "lane-9", "blocked")
    assert (read.claimed_at, read.done_at, read.evidence) == ("2026-10-02T08:11:40Z", "2026-10-02T09:02:13Z", "e")
    again = folded(imported, FAIL)
    assert again.tries == 5


@pytest.mark.parametrize(
    "key",
    ["person_key", "person_label", "kind", "source", "query", "note", "dedupe_key", "next_at", "lane", "claimed_at",
     "done_at", "result", "evidence"],
)  # fmt: skip
@pytest.mark.parametrize("value", [5, None, True, ["a"], {"a": 1}, 1.5])
def test_a_text_of_another_type_is_refused_by_its_name(key, value):
    with pytest.raises(Undecodable, match=f"its field '{key}' is not a text"):
        folded({**ADDED, key: value})


@pytest.mark.parametrize("key", ["priority", "tries"])
@pytest.mark.parametrize("value", ["5", 5.0, True, None, [5]])
def test_a_number_of_another_type_is_refused_by_its_name(key, value):
    with pytest.raises(Undecodable, match=f"its field '{key}' is not a whole number"):
        folded({**ADDED, key: value})


@pytest.mark.parametrize(
    ("event", "key"),
    [("update", "person_label"), ("update", "query"), ("update", "note"), ("update", "priority"), ("fail", "next_at"),
     ("release", "lane"), ("expired", "since"), ("done", "result"), ("done", "evidence"), ("done", "at")],
)  # fmt: skip
def test_the_fields_of_events_are_looked_at_too(event, key):
    with pytest.raises(Undecodable, match=f"its field '{key}'"):
        folded(ADDED, {"gen": B, "prev": A, "event": event, **CLAIM, key: [1]})


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"id": "q13"}, "it is the record of 'q13', under the name of q12"),
        ({"id": None}, "it is the record of None"),
        ({"kind": ""}, "'' is no name of a kind"),
        ({"kind": "../../x"}, "'../../x' is no name of a kind"),
        ({"kind": "a/b"}, "'a/b' is no name of a kind"),
        ({"source": "x" * 154}, "its source is too long"),
        ({"source": "ñ" * 26}, "its source is too long"),
        ({"priority": 10**10}, "its priority 10000000000 is out of range"),
        ({"priority": -(10**30)}, "out of range"),
    ],
)
def test_a_record_that_has_no_place_in_the_tree_is_refused(fields, why):
    with pytest.raises(Undecodable, match=why.replace(".", r"\.")):
        folded({**ADDED, **fields})


def test_an_update_may_not_lead_out_of_the_tree_either():
    with pytest.raises(Undecodable, match="out of range"):
        folded(ADDED, {"gen": B, "prev": A, "event": "update", "priority": 10**10})


# --- what people see

HELD = {"token": "t2", "since": "20261130T110000Z", "lane": "lane 2"}
SWEPT = {**HELD, "sweeper": "p9xd2m7k", "sweeper_until": "20261130T120002Z"}


def test_a_claim_tells_its_holder_and_counts_the_attempt_that_runs():
    read = folded(ADDED, FAIL, state=CLAIMED, until="20261130T120001Z", **HELD)
    assert difference(folded(ADDED, FAIL), read) == {
        "status": "claimed", "lane": "lane 2", "claimed_at": "2026-11-30T11:00:00Z", "tries": 2, "token": "t2",
        "lease_until": "2026-11-30T12:00:01Z",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("until", "status"),
    [("20261130T120001Z", "claimed"), ("20261130T120000Z", "open"), ("20261130T115959Z", "open")],
)
def test_a_lease_has_run_out_when_now_is_its_end(until, status):
    assert folded(ADDED, state=CLAIMED, until=until, **HELD).status == status


@pytest.mark.parametrize(
    ("state", "until", "held"),
    [
        (CLAIMED, "20261130T115959Z", HELD),
        (RECOVERING, "20261130T115959Z", SWEPT),
        (RECOVERING, "20991231T000000Z", SWEPT),
    ],
)
@pytest.mark.parametrize(
    ("max_tries", "status", "lane"), [(3, "open", ""), (2, "failed", "lane 2"), (1, "failed", "lane 2")]
)
def test_an_expired_claim_reads_as_what_the_next_sweep_makes_of_it(state, until, held, max_tries, status, lane):
    read = folded(ADDED, FAIL, state=state, until=until, max_tries=max_tries, **held)
    assert (read.status, read.tries, read.lane) == (status, 2, lane)
    assert (read.token, read.lease_until) == ("", "")
    swept = {"gen": C, "prev": B, "event": "expired", "lane": "lane 2", "since": "2026-11-30T11:00:00Z"}
    after = folded(ADDED, FAIL, swept, state=PENDING if status == "open" else FAILED, max_tries=max_tries)
    assert difference(read, after) == {}


def test_a_live_claim_is_claimed_on_its_last_try_too():
    assert folded(ADDED, FAIL, state=CLAIMED, until="20261130T130000Z", max_tries=2, **HELD).status == "claimed"


@pytest.mark.parametrize("state", STATES)
def test_a_record_that_does_not_decode_reads_as_failed_and_why(state):
    read = task.undecodable("q12", state, "no entry decodes.")
    assert (read.id, read.state, read.status) == ("q12", state, "failed")
    assert read.note == read.problem == "no entry decodes."
    assert read.row() == ["q12", *[""] * 5, 0, "failed", *[""] * 5, 0, "", "no entry decodes.", "", "", ""]


def test_a_task_says_what_it_is():
    assert repr(folded(ADDED)) == "<Task q12 open: ana-peiro search gaceta>"


def test_the_states_and_outcomes_have_names():
    assert (task.State.PENDING, task.State.CLAIMED, task.State.RECOVERING) == ("pending", "claimed", "recovering")
    assert (task.State.DONE, task.State.FAILED) == ("done", "failed")
    assert (task.Enqueued.ADDED, task.Enqueued.KNOWN, task.Enqueued.REFRESHED) == ("added", "known", "refreshed")
