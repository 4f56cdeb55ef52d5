"""`renew`, `done`, `fail`, `release`, `requeue-expired`: the token fences, tries are counted, back-off."""

from __future__ import annotations

import os
from errno import ENOSPC
from itertools import product

import pytest

from gwtq.clock import Clock
from gwtq.names import from_iso, seconds
from gwtq.task import COLUMNS

from .conftest import tree

DAY = 86400
VERBS = {
    "renew": [],
    "done": ["--result", "hit", "--note", "late"],
    "fail": ["--note", "late"],
    "release": ["--note", "late"],
}
SETTLES = [verb for verb in VERBS if verb != "renew"]


def by(claimed: tuple[str, str]) -> list[str]:
    return ["--id", claimed[0], "--token", claimed[1]]


def ahead(time: str) -> float:
    """Seconds from now until a time of the table."""
    return seconds(from_iso(time)) - Clock().now()


# --- the token


@pytest.mark.parametrize("verb", VERBS)
def test_a_dead_token_is_refused_though_the_same_lane_holds_the_task_again(
    gwtq, cola, add, claim, expired_claim, table, verb
):
    add("Ana")
    dead = expired_claim("lane-1")
    live = claim(lane="lane-1")
    held, before = os.listdir(cola / "claimed"), table()
    answer = gwtq(verb, *by(dead), *VERBS[verb], code=2)
    assert "lease ran out" in answer.sentence
    assert "claimed by lane-1" in answer.sentence
    assert not answer.out
    assert table() == before
    assert os.listdir(cola / "claimed") == held
    gwtq("done", *by(live), "--result", "hit")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("token", ["", " ", "nope", "../x", "*", "x" * 300, "ñ"])
def test_a_token_that_never_was_is_refused(gwtq, cola, add, claim, verb, token):
    add("Ana")
    claim()
    before = tree(cola)
    assert "never claimed under this token" in gwtq(verb, *by(("q1", token)), *VERBS[verb], code=2).sentence
    assert tree(cola) == before


@pytest.mark.parametrize("verb", VERBS)
def test_a_task_that_is_not_there_is_refused(gwtq, cola, add, verb):
    add("Ana")
    before = tree(cola)
    assert "no task q2" in gwtq(verb, *by(("q2", "token")), *VERBS[verb], code=2).sentence
    assert tree(cola) == before


@pytest.mark.parametrize("verb", VERBS)
def test_a_lease_that_ran_out_and_was_not_swept_still_settles(gwtq, add, expired_claim, verb):
    add("Ana")
    gwtq(verb, *by(expired_claim()), *VERBS[verb])
    assert gwtq("requeue-expired").out == ""


@pytest.mark.parametrize(("first", "then"), [pair for pair in product(SETTLES, SETTLES) if pair[0] != pair[1]])
def test_a_claim_ends_once(gwtq, add, claim, table, first, then):
    add("Ana")
    claimed = claim()
    gwtq(first, *by(claimed), *VERBS[first])
    before = table()
    assert first in gwtq(then, *by(claimed), *VERBS[then], code=2).sentence
    assert "over" in gwtq("renew", *by(claimed), code=2).sentence
    assert table() == before


@pytest.mark.parametrize("verb", SETTLES)
def test_the_same_again_is_already_so(gwtq, cola, add, claim, verb):
    add("Ana")
    claimed = claim()
    gwtq(verb, *by(claimed), *VERBS[verb])
    before = tree(cola)
    assert gwtq(verb, *by(claimed), *VERBS[verb]).out == "q1\talready\n"
    assert gwtq(verb, *by(claimed), "--json", *VERBS[verb]).objects[0]["outcome"] == "already"
    assert tree(cola) == before


@pytest.mark.parametrize(
    ("first", "then"), [(["done", "--result", "hit"], ["done", "--result", "none"]), (["fail"], ["fail", "--final"])]
)
def test_the_same_with_another_result_is_refused(gwtq, cola, add, claim, first, then):
    add("Ana")
    claimed = claim()
    gwtq(first[0], *by(claimed), *first[1:])
    before = tree(cola)
    assert "is over" in gwtq(then[0], *by(claimed), *then[1:], code=2).sentence
    assert tree(cola) == before


def test_a_late_retry_is_already_so_though_another_lane_holds_the_task(gwtq, add, claim, table):
    add("Ana")
    first = claim()
    gwtq("fail", *by(first), "--backoff-minutes", "0")
    claim(lane="lane-2")
    before = table()
    assert gwtq("fail", *by(first), "--backoff-minutes", "0").rows == [["q1", "already"]]
    assert table() == before


@pytest.mark.parametrize("verb", SETTLES)
def test_a_disk_that_takes_no_more_leaves_the_claim_and_is_named(gwtq, cola, add, claim, table, monkeypatch, verb):
    add("Ana")
    claimed = claim()
    before = table()

    def full(_):
        raise OSError(ENOSPC, os.strerror(ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("gwtq.disk._sync_data", full)
        answer = gwtq(verb, *by(claimed), *VERBS[verb], code=74)
    assert answer.sentence == f"gwtq: {cola}: No space left on device\n"
    assert table() == before
    gwtq(verb, *by(claimed), *VERBS[verb])


# --- renew


def test_renew_prints_the_new_end_of_the_lease(gwtq, add, claim):
    add("Ana")
    claimed = claim("--lease-minutes", "1")
    (until,) = gwtq("renew", *by(claimed)).rows[0]
    assert 7190 < ahead(until) <= 7201
    assert gwtq("list").tasks[0]["lease_until"] == until
    (answer,) = gwtq("renew", *by(claimed), "--lease-minutes", "180", "--json").objects
    assert 10790 < ahead(answer["lease_until"]) <= 10801


def test_renew_never_shortens_a_lease(gwtq, cola, add, claim):
    add("Ana")
    claimed = claim("--lease-minutes", "180")
    before = tree(cola)
    (until,) = gwtq("renew", *by(claimed), "--lease-minutes", "1").rows[0]
    assert ahead(until) > 10790
    assert tree(cola) == before


def test_the_token_outlives_a_renewal(gwtq, add, claim):
    add("Ana")
    claimed = claim("--lease-minutes", "1")
    gwtq("renew", *by(claimed))
    gwtq("done", *by(claimed), "--result", "hit")


# --- done


@pytest.mark.parametrize("result", ["hit", "none", "partial", "out-of-coverage", "blocked", "denied", "restricted",
                                    "paid", "in-person", "unproven"])  # fmt: skip
def test_done_closes_the_task_with_each_result(gwtq, add, claim, result):
    add("Ana", note="direct line")
    answer = gwtq("done", *by(claim()), "--result", result, "--evidence", "conftest.py")
    assert answer.out == "q1\tdone\n"
    (task,) = gwtq("list").tasks
    assert (task["status"], task["result"], task["evidence"]) == ("done", result, "conftest.py")
    assert (task["lane"], task["tries"], task["note"]) == ("lane-1", "1", "direct line")
    assert -5 < ahead(task["done_at"]) <= 0
    assert task["token"] == task["lease_until"] == ""


def test_a_missing_evidence_file_is_a_warning(gwtq, add, claim, write):
    add("Ana", "Eva")
    assert (
        "hits/ana.txt does not exist"
        in gwtq("done", *by(claim()), "--result", "hit", "--evidence", "hits/ana.txt").sentence
    )
    there = write("eva.txt", "here")
    assert gwtq("done", *by(claim()), "--result", "hit", "--evidence", there).err == ""


@pytest.mark.parametrize("verb", SETTLES)
def test_a_note_replaces_the_note(gwtq, add, claim, verb):
    add("Ana", note="old")
    gwtq(verb, *by(claim()), *VERBS[verb])
    assert gwtq("list").tasks[0]["note"] == "late"


# --- fail


@pytest.mark.parametrize(("minutes", "tries", "wait"), [
    (None, 1, 3600), (None, 2, 7200), (None, 4, 14400), ("0.5", 3, 90), ("1e-9", 2, 0),
    ("20000", 2, 20000 * 120), ("20000", 3, 30 * DAY), ("60", 1_000_000, 30 * DAY), ("5000000", 1, 30 * DAY),
])  # fmt: skip
def test_the_back_off_grows_with_the_attempts_so_far_up_to_thirty_days(gwtq, write, minutes, tries, wait):
    cells = dict.fromkeys(COLUMNS, "")
    cells.update(id="q1", person_key="ana", kind="sweep", priority="0", status="claimed", lane="l", tries=str(tries),
                 claimed_at="2026-01-01T00:00:00Z", lease_until="2099-01-01T00:00:00Z", token="t")  # fmt: skip
    gwtq("import", write("table.tsv", "\t".join(cells) + "\n" + "\t".join(cells.values()) + "\n"))
    options = [] if minutes is None else ["--backoff-minutes", minutes]
    id, outcome, next_at = gwtq("--max-tries", "9999999", "fail", *by(("q1", "t")), *options).rows[0]
    assert (id, outcome) == ("q1", "waiting")
    assert wait - 5 < ahead(next_at) <= wait + 1
    assert gwtq("list").tasks[0]["next_at"] == next_at


def test_a_back_off_of_nothing_makes_the_task_claimable_at_once(gwtq, add, claim):
    add("Ana", "Eva")
    assert gwtq("fail", *by(claim()), "--backoff-minutes", "0").out == "q1\tpending\n"
    assert claim()[0] == "q1"


def test_final_parks_the_task_at_once(gwtq, add, claim):
    add("Ana")
    assert gwtq("fail", *by(claim()), "--final", "--json").objects == [{"id": "q1", "outcome": "failed", "next_at": ""}]
    (task,) = gwtq("list").tasks
    assert (task["status"], task["tries"], task["lane"]) == ("failed", "1", "lane-1")
    gwtq("claim", "--lane", "lane-1", code=1)


def test_a_task_that_always_fails_does_not_block_the_rest(gwtq, add, claim):
    add("Ana", priority=9)
    add("Eva", "Leo", priority=1)
    gwtq("fail", *by(claim()))
    assert [claim()[0] for _ in range(2)] == ["q2", "q3"]


# --- release


def test_release_gives_the_task_and_its_try_back(gwtq, add, claim):
    add("Ana")
    assert gwtq("release", *by(claim())).out == "q1\tpending\n"
    (task,) = gwtq("list").tasks
    assert (task["status"], task["tries"], task["lane"], task["claimed_at"]) == ("open", "0", "", "")


def test_no_number_of_releases_uses_up_the_tries(gwtq, add, claim):
    add("Ana")
    for _ in range(20):
        gwtq("--max-tries", "1", "release", *by(claim()))
    assert claim()[0] == "q1"


def test_retry_after_keeps_the_task_for_a_while(gwtq, add, claim):
    add("Ana")
    id, outcome, next_at = gwtq("release", *by(claim()), "--retry-after", "1.5").rows[0]
    assert (id, outcome) == ("q1", "waiting")
    assert 85 < ahead(next_at) <= 91
    gwtq("claim", "--lane", "lane-1", code=1)


# --- tries


MIXES = [mix for tries in (1, 2, 3) for mix in product(["fail", "expiry"], repeat=tries)]


@pytest.mark.parametrize("mix", MIXES, ids="-".join)
def test_exactly_max_tries_attempts_run(gwtq, add, claim, expired_claim, mix):
    """However each attempt ends; a release between them is no attempt."""
    add("Ana")
    limit = ["--max-tries", str(len(mix))]
    for how in mix:
        gwtq(*limit, "release", *by(claim()))
        if how == "expiry":
            expired_claim(max_tries=len(mix))
            gwtq(*limit, "requeue-expired")
        else:
            gwtq(*limit, "fail", *by(claim()), "--backoff-minutes", "0")
    gwtq(*limit, "claim", "--lane", "lane-1", code=1)
    (task,) = gwtq("list").tasks
    assert (task["status"], task["tries"]) == ("failed", str(len(mix)))
    events = [attempt["event"] for attempt in gwtq("show", "q1", "--json").objects[0]["attempts"]]
    assert events == [event for how in mix for event in ("release", "expired" if how == "expiry" else "fail")]


def test_the_queues_own_limit_is_five_attempts(gwtq, add, claim):
    add("Ana")
    outcomes = [gwtq("fail", *by(claim()), "--backoff-minutes", "0").rows[0][1] for _ in range(5)]
    assert outcomes == ["pending"] * 4 + ["failed"]


def test_the_queues_own_defaults_are_in_queue_json(gwtq, cola, add, claim):
    add("Ana")
    settings = (cola / "queue.json").read_text()
    settings = settings.replace('"max_tries": 5', '"max_tries": 2').replace('_minutes": 60', '_minutes": 0')
    (cola / "queue.json").write_text(settings.replace('"lease_minutes": 120', '"lease_minutes": 10'))
    assert 590 < ahead(gwtq("claim", "--lane", "lane-1").tasks[0]["lease_until"]) <= 601
    token = gwtq("list").tasks[0]["token"]
    assert gwtq("fail", *by(("q1", token))).rows[0] == ["q1", "pending"]
    assert gwtq("fail", *by(claim())).rows[0] == ["q1", "failed"]


# --- requeue-expired


def test_requeue_expired_tells_where_each_task_went_and_whose_it_was(gwtq, add, expired_claim):
    add("Ana", "Eva")
    expired_claim("lane-1")
    expired_claim("lane\t2")
    answer = gwtq("--max-tries", "1", "requeue-expired")
    assert sorted(answer.rows) == [["q1", "failed", "lane-1"], ["q2", "failed", "lane 2"]]
    assert gwtq("requeue-expired").out == ""


def test_requeue_expired_as_json(gwtq, add, expired_claim):
    add("Ana")
    expired_claim("lane\t2")
    assert gwtq("requeue-expired", "--json").objects == [{"id": "q1", "state": "pending", "lane": "lane\t2"}]


def test_one_task_that_is_stuck_does_not_stop_the_others(gwtq, cola, add, expired_claim):
    add("Ana", "Eva", "Leo")
    for lane in ("lane-1", "lane-2", "lane-3"):
        expired_claim(lane)
    (middle,) = cola.glob("claimed/q2.*")
    middle.unlink()
    middle.mkdir()
    answer = gwtq("requeue-expired", code=74)
    assert sorted(answer.rows) == [["q1", "pending", "lane-1"], ["q3", "pending", "lane-3"]]
    stuck, summary = answer.err.splitlines()
    assert stuck == "gwtq: q2 cannot be taken back from lane-2: Is a directory"
    assert "1 could not be taken back" in summary
    assert middle.is_dir()
