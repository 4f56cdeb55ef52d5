"""`init` and `add`: what becomes of a task, a batch is all or nothing, `--dedupe` to the letter."""

from __future__ import annotations

import json

import pytest

from gwtq import Queue, stream

from .conftest import tree
from .process import forked, run, said

# --- init


def test_init_makes_a_queue_with_the_four_kinds_and_says_where(gwtq, cola):
    assert str(cola) in gwtq("init").sentence
    assert Queue(str(cola)).settings.kinds == ("search", "sweep", "verify", "followup")


def test_a_second_init_changes_nothing(gwtq, cola, add):
    gwtq("init", "--kind", "review", "--kind", "push")
    before = tree(cola)
    assert "unchanged" in gwtq("init").sentence
    assert "its kinds stay review, push" in gwtq("init", "--kind", "other").err
    assert tree(cola) == before


def test_a_queue_of_its_own_kinds_knows_no_others(gwtq, add, claim):
    gwtq("init", "--kind", "review", "--kind", "push")
    add("repo-1", kind="push")
    assert "review, push" in gwtq("add", "--person", "repo-1", code=64).sentence  # sweep, the default
    assert claim("--kind", "push")[0] == "q1"


# --- one task


def test_add_prints_the_id_and_what_became_of_it_and_makes_the_queue(gwtq, cola):
    answer = gwtq("add", "--person", "Ana Peiró Toledo")
    assert answer.out == "q1\tadded\n"
    assert f"made an empty queue in {cola}" in answer.sentence
    answer = gwtq("add", "--person", "Eva", "--json")
    assert (answer.objects, answer.err) == ([{"id": "q2", "outcome": "added"}], "")


def test_what_is_not_given_has_its_default(gwtq, add):
    add("Ana Peiró Toledo")
    add("Ana Peiró Toledo", source="Archives Départementales (33)")
    sweep, search = gwtq("list").tasks
    assert (sweep["person_key"], sweep["person_label"]) == ("ana-peiro-toledo", "Ana Peiró Toledo")
    assert (sweep["kind"], sweep["source"], sweep["priority"]) == ("sweep", "", "0")
    assert (search["kind"], search["source"]) == ("search", "archives-departementales-33")


def test_every_field_is_kept_as_it_was_given(gwtq, add):
    add("I0412", label="@I0412@", kind="verify", source="Gaceta", query="  PEIRÓ   Toledo\t1890 ", priority="-5",
        note="a\tb\nc", next_at="2020-06-01T10:00+02:00", dedupe_key="round-31")  # fmt: skip
    (task,) = gwtq("list", "--json").objects
    assert {key: task[key] for key in ("person_key", "person_label", "kind", "source", "query", "priority")} == {
        "person_key": "i0412", "person_label": "@I0412@", "kind": "verify", "source": "gaceta",
        "query": "peiró toledo 1890", "priority": -5,
    }  # fmt: skip
    assert (task["note"], task["next_at"]) == ("a\tb\nc", "2020-06-01T08:00:00Z")
    assert task["dedupe_key"] == "round-31"


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("2030-03-29T02:30", "2030-03-29T02:30:00Z"),
        ("2030-03-29 02:30z", "2030-03-29T02:30:00Z"),
        ("2030-03-29T02:30:15.001Z", "2030-03-29T02:30:16Z"),
        ("2030-03-29T02:30:00+0200", "2030-03-29T00:30:00Z"),
        ("2030-03-29T02:30:00-03", "2030-03-29T05:30:00Z"),
        ("2030-03-29", "2030-03-29T00:00:00Z"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
    ],
)
def test_a_time_is_utc_unless_it_has_a_zone(gwtq, add, monkeypatch, typed, kept):
    monkeypatch.setenv("TZ", "Europe/Madrid")
    add("Ana", next_at=typed)
    assert gwtq("list").tasks[0]["next_at"] == kept


# --- a batch


def test_a_batch_ends_with_one_line_of_counts(gwtq, write):
    batch = write("tasks.jsonl", '{"person": "Ana"}\n\n{"person": "Eva", "note": "x"}\n{"person": "ana"}\n')
    assert gwtq("add", "--jsonl", batch, "--dedupe").out == "2 added, 1 known, 0 refreshed\n"
    again = write("again.jsonl", '{"person": "Ana", "note": "new"}\n{"person": "Eva"}\n')
    answer = gwtq("add", "--jsonl", again, "--dedupe", "--json")
    assert answer.objects == [{"added": 0, "known": 1, "refreshed": 1}]


def test_a_batch_may_come_from_stdin(cola):
    answer = run("add", "--jsonl", "-", input='{"person": "José"}\n{"person": "Eva"}'.encode())
    assert (answer.code, answer.out) == (0, "2 added, 0 known, 0 refreshed\n")


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(gwtq, write):
    batch = write("tasks.jsonl", '\ufeff{"person": "Ana", "note": "n"}\r\n{"person": "Eva"}\r\n')
    assert gwtq("add", "--jsonl", batch).out.startswith("2 added")
    assert [task["note"] for task in gwtq("list").tasks] == ["n", ""]


def test_a_batch_that_is_not_there_makes_no_queue(gwtq, cola, tmp_path):
    assert "nowhere.jsonl" in gwtq("add", "--jsonl", "nowhere.jsonl", code=66).sentence
    assert "is a directory" in gwtq("add", "--jsonl", tmp_path, code=66).sentence
    assert not cola.exists()


BAD = {
    "not JSON": ('{"person": "Ana"', "JSON"),
    "two objects": ('{"person": "Ana"} {"person": "Eva"}', "JSON"),
    "no object": ('["Ana"]', "no JSON object"),
    "nested too deeply": ("[" * 200_000, "too deeply"),
    "latin-1": ('{"person": "José"}'.encode("latin-1"), "UTF-8"),
    "a key twice": ('{"person": "Ana", "person": "Eva"}', "'person' is there twice"),
    "an unknown key": ('{"person": "Ana", "prioridad": 5}', "'prioridad'"),
    "no person": ('{"label": "Ana"}', "person"),
    "a person of no letter": ('{"person": "?!"}', "person"),
    "a person that is a number": ('{"person": 5}', "person must be a text"),
    "a note that is a list": ('{"person": "Ana", "note": ["x"]}', "note must be a text"),
    "NUL": (r'{"person": "Ana", "note": "a\u0000b"}', "NUL"),
    "a lone surrogate": (r'{"person": "Ana", "note": "\ud800"}', "UTF-8"),
    "a raw control character": ('{"person": "Ana", "note": "a\x01b"}', "JSON"),
    "NaN": ('{"person": "Ana", "priority": NaN}', "NaN"),
    "Infinity": ('{"person": "Ana", "priority": -Infinity}', "Infinity"),
    "1e400": ('{"person": "Ana", "priority": 1e400}', "1e400"),
    "a boolean as a number": ('{"person": "Ana", "priority": true}', "priority"),
    "a fraction": ('{"person": "Ana", "priority": 5.0}', "priority"),
    "a priority beyond": ('{"person": "Ana", "priority": 1000000001}', "1,000,000,000"),
    "a priority of thirty digits": ('{"person": "Ana", "priority": -' + "9" * 30 + "}", "1,000,000,000"),
    "a priority of many digits": ('{"person": "Ana", "priority": ' + "9" * 5000 + "}", ""),
    "an unknown kind": ('{"person": "Ana", "kind": "nap"}', "search, sweep, verify, followup"),
    "a source of no letter": ('{"person": "Ana", "source": "--"}', "source"),
    "a source too long": (json.dumps({"person": "Ana", "source": "ж" * 30}), "too long"),
    "a text too long": (json.dumps({"person": "Ana", "note": "x" * 100_001}), "100,000"),
    "a time without a year": ('{"person": "Ana", "next_at": "11-30T10:00"}', "next_at"),
    "a time beyond 9999": ('{"person": "Ana", "next_at": "9999-12-31T23:59:59-01:00"}', "next_at"),
    "a day that does not exist": ('{"person": "Ana", "next_at": "2026-02-29"}', "next_at"),
    "a time that is a number": ('{"person": "Ana", "next_at": 1790000000}', "next_at must be a text"),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("there", [True, False], ids=["a queue", "no queue"])
def test_a_bad_line_51_is_named_and_nothing_is_added(gwtq, cola, add, write, bad, there):
    if there:
        add("Eva")
    before = tree(cola) if there else None
    line, named = BAD[bad]
    good = [b'{"person": "Ana %d"}' % number for number in range(60)]
    good[50] = line if isinstance(line, bytes) else line.encode("utf-8")
    answer = gwtq("add", "--jsonl", write("tasks.jsonl", b"\n".join(good)), "--dedupe", code=65)
    assert "line 51: " in answer.sentence
    assert named in answer.sentence
    assert len(answer.sentence) < 400
    assert not answer.out
    assert tree(cola) == before if there else not cola.exists()


def test_null_is_not_given(gwtq, write):
    gwtq("add", "--jsonl", write("tasks.jsonl", '{"person": "Ana", "priority": null, "source": null}'))
    assert gwtq("list").tasks[0]["kind"] == "sweep"


def test_a_bar_is_shown_on_a_terminal_once_it_takes_longer_than_a_second(monkeypatch, capfd):
    now = iter([0, 0.9, 1.1, 1.2])
    monkeypatch.setattr(stream.time, "monotonic", lambda: next(now))
    monkeypatch.setattr(stream.os, "isatty", lambda fd: fd == 2)
    with stream.Progress(2000, "adding") as step:
        step(10)
        assert capfd.readouterr().err == ""
        step(1000)
        assert "[###############               ] 1,000 of 2,000" in capfd.readouterr().err
    assert capfd.readouterr().err == "\r\x1b[K"


def test_no_bar_is_shown_where_stderr_is_no_terminal(monkeypatch, capfd):
    now = iter([0, 5])
    monkeypatch.setattr(stream.time, "monotonic", lambda: next(now))
    with stream.Progress(2000, "adding") as step:
        step(10)
    assert capfd.readouterr().err == ""


# --- dedupe

TASK = ["--person", "Ana Peiró", "--source", "gaceta", "--query", "Peiró Toledo 1890"]


def state(gwtq, claim, how):
    """Bring the only task to where --dedupe is to find it."""
    if how == "open":
        return
    claimed = [word for pair in zip(("--id", "--token"), claim()) for word in pair]
    if how == "failed":
        gwtq("fail", *claimed, "--final")
    elif how == "waiting":
        gwtq("fail", *claimed)
    elif how != "claimed":
        gwtq("done", *claimed, "--result", how)


@pytest.mark.parametrize(
    ("how", "options", "outcome"),
    [
        *[(how, [], "q1\tknown") for how in ("open", "waiting", "claimed", "failed")],
        *[(how, [], "q1\tknown") for how in ("hit", "none", "partial", "out-of-coverage")],
        *[(how, [], "q2\tadded") for how in ("blocked", "denied", "restricted", "paid", "in-person", "unproven")],
        ("failed", ["--retry-failed"], "q2\tadded"),
        *[(how, ["--retry-failed"], "q1\tknown") for how in ("open", "claimed", "hit")],
    ],
)
def test_dedupe_skips_what_is_queued_running_or_done(gwtq, claim, how, options, outcome):
    gwtq("add", *TASK)
    state(gwtq, claim, how)
    assert gwtq("add", *TASK, "--dedupe", *options).out.strip() == outcome


@pytest.mark.parametrize(
    ("other", "outcome"),
    [
        (["--person", "ANA PEIRO", "--source", "Gaceta", "--query", "peiro  toledo 1890"], "known"),
        (["--person", "Ana Peiró", "--source", "gaceta", "--query", "Peiró Toledo 1891"], "added"),
        (["--person", "Ana Peiró", "--source", "ad33", "--query", "Peiró Toledo 1890"], "added"),
        (["--person", "Eva Peiró", "--source", "gaceta", "--query", "Peiró Toledo 1890"], "added"),
        ([*TASK, "--kind", "verify"], "added"),
        ([*TASK, "--dedupe-key", "k"], "added"),
    ],
)
def test_the_same_is_the_same_person_kind_source_and_query_without_accents(gwtq, other, outcome):
    gwtq("add", *TASK)
    assert gwtq("add", *other[:4], *other[6:], "--query", other[5], "--dedupe").rows[0][1] in (outcome, "refreshed")


def test_with_a_dedupe_key_nothing_else_is_compared(gwtq):
    gwtq("add", "--person", "Ana", "--dedupe-key", "café")
    assert gwtq("add", "--person", "Eva", "--source", "x", "--dedupe-key", "cafe\u0301", "--dedupe").rows[0][0] == "q1"


def test_an_open_match_takes_what_is_given_and_keeps_the_rest(gwtq):
    gwtq("add", *TASK, "--note", "round 30", "--priority", "10", "--label", "Ana P.")
    answer = gwtq("add", *TASK, "--dedupe", "--note", "round 31", "--priority", "100")
    assert answer.out == "q1\trefreshed\n"
    (task,) = gwtq("list").tasks
    assert (task["note"], task["priority"], task["person_label"]) == ("round 31", "100", "Ana P.")
    assert gwtq("add", *TASK, "--dedupe", "--note", "round 31").out == "q1\tknown\n"


def test_only_an_open_match_is_refreshed(gwtq, claim):
    gwtq("add", *TASK, "--note", "round 30")
    claim()
    assert gwtq("add", *TASK, "--dedupe", "--note", "round 31").out == "q1\tknown\n"
    assert gwtq("list").tasks[0]["note"] == "round 30"


def test_an_expired_claim_that_matches_is_taken_back_and_refreshed(gwtq, expired_claim):
    gwtq("add", *TASK)
    expired_claim()
    assert gwtq("add", *TASK, "--dedupe", "--note", "n").out == "q1\trefreshed\n"
    (task,) = gwtq("list").tasks
    assert (task["status"], task["tries"]) == ("open", "1")


def test_of_several_matches_the_open_one_is_refreshed(gwtq, claim):
    gwtq("add", *TASK)
    state(gwtq, claim, "hit")
    gwtq("add", *TASK)
    assert gwtq("add", *TASK, "--dedupe", "--note", "n").out == "q2\trefreshed\n"


def test_without_dedupe_everything_is_added(gwtq):
    assert [gwtq("add", *TASK).out for _ in range(2)] == ["q1\tadded\n", "q2\tadded\n"]


def test_sixteen_at_once_add_one_task(gwtq, tmp_path):
    gwtq("init")
    places = [tmp_path / str(number) for number in range(16)]
    for place in places:
        place.mkdir()
    racers = [(forked(["add", *TASK, "--dedupe"], place), place) for place in places]
    answers = [said(pid, place) for pid, place in racers]
    assert sorted(answer.out for answer in answers) == ["q1\tadded\n"] + ["q1\tknown\n"] * 15
    assert {answer.err for answer in answers} == {""}
