"""Each fault that is made by hand is found, and only that; what --fix cures is gone afterwards, the rest stays."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gwtq import Queue


@pytest.fixture
def queue(tmp_path):
    """Tasks in every state: q1 done, q2 failed, q3 claimed, q4 ready, q5 waiting."""
    queue = Queue.create(str(tmp_path / "cola"), durable=False)
    for number in range(1, 5):
        queue.add(f"Ana {number}", source="gaceta")
    queue.add("Ana 5", next_at="2036-01-01")
    queue.claim("a").done("hit")
    queue.claim("a").fail(final=True)
    queue.claim("a")
    return queue


def place(queue, id):
    """Where a task's file is."""
    (path,) = Path(queue.path).rglob(f"{id}.*")
    return path


def found(queue, *, fix=False):
    return [(finding.path, finding.problem, finding.fixed) for finding in queue.examine(fix=fix)]


def test_a_queue_in_order_has_no_findings(queue):
    assert found(queue) == []


def two_states(queue):
    here = place(queue, "q4")
    there = Path(queue.path, "done/0m/0k", here.name)
    shutil.copy(here, there)
    return "q4 is also at"


def moved(queue, id, directory):
    here = place(queue, id)
    os.makedirs(Path(queue.path, directory))
    here.rename(Path(queue.path, directory, here.name))
    return "wrong directory"


def wrong_shard(queue):
    return moved(queue, "q1", "done/0m/7k")


def wrong_channel(queue):
    return moved(queue, "q4", "pending/9/0000000000.sweep/0000000000")


def wrong_bucket(queue):
    return moved(queue, "q5", "pending/waiting/20350101/20350101T0000Z")


def lost_head(queue):
    here = place(queue, "q4")
    here.rename(here.with_name("q4." + "0" * 14))
    return "is not in the file"


def broken_chain(queue):
    here = place(queue, "q1")
    here.write_text(here.read_text().replace('"prev": "', '"prev": "x'))
    return "is not in the file"


def torn_record(queue):
    place(queue, "q4").write_bytes(b'{"id":')
    return "does not decode"


def key_lost(queue):
    for file in Path(queue.path, "keys").iterdir():
        file.write_text("\n".join(line for line in file.read_text().split("\n") if not line.endswith(" q4")))
    return "q4 has no key"


def key_of_nobody(queue):
    with Path(queue.path, "keys/ab").open("a") as file:
        file.write("\n" + "ab" * 16 + " q77\n")
    return "lists q77"


def seq_behind(queue):
    Path(queue.path, "seq").write_text("1-4\n")
    return "q5 is not in seq"


def seq_lost(queue):
    Path(queue.path, "seq").unlink()
    return "is lost"


def file_lost(queue):
    place(queue, "q4").unlink()
    return "q4 has no file"


def batch_left(queue):
    os.mkdir(Path(queue.path, "tmp/q6.6b0de0f1c5bc0f"))
    return "a producer died"


def lease_too_long(queue):
    here = place(queue, "q3")
    here.rename(here.with_name(".".join([*here.name.split(".")[:4], "90000101T000000Z", here.name.split(".")[5]])))
    return "later than any lease"


def claimed_in_the_future(queue):
    here = place(queue, "q3")
    parts = here.name.split(".")
    here.rename(here.with_name(".".join([*parts[:3], "20340101T000000Z", "20340101T000001Z", parts[5]])))
    return "clock was set back"


def unreadable(queue):
    place(queue, "q4").chmod(0o200)
    return "may not read"


def second_link(queue):
    os.link(place(queue, "q1"), Path(queue.path).parent / "link")
    return "second name"


def huge(queue):
    with place(queue, "q1").open("a") as file:
        file.write(" " * 1_000_001)
    return "its log has"


def directory_lost(queue):
    shutil.rmtree(Path(queue.path, "recovering"))
    return "is missing"


def wrong_state(queue):
    here = place(queue, "q1")
    here.rename(place(queue, "q4").with_name(here.name))
    return "its log ends in 'done'"


def taken_place(queue):
    here = place(queue, "q4")
    os.makedirs(Path(queue.path, "pending/9/0000000000.sweep/0000000000"))
    shutil.copy(here, Path(queue.path, "pending/9/0000000000.sweep/0000000000", here.name))
    with here.open("ab") as file:
        file.write(b"\n")
    return "it belongs in pending/0/0000000000.search.gaceta/0000000000"


def token_of_no_text(queue):
    here = place(queue, "q1")
    here.write_bytes(here.read_bytes().replace(b'"token": "', b'"token": ["x"], "t": "'))
    return "'token' is not a text"


CURED = [
    wrong_shard,
    wrong_channel,
    wrong_bucket,
    key_lost,
    key_of_nobody,
    seq_behind,
    seq_lost,
    batch_left,
    directory_lost,
]
BY_HAND = [
    two_states, lost_head, broken_chain, torn_record, file_lost, lease_too_long, claimed_in_the_future, unreadable,
    second_link, huge, wrong_state, taken_place, token_of_no_text,
]  # fmt: skip


@pytest.mark.parametrize("fault", CURED + BY_HAND, ids=lambda f: f.__name__)
def test_a_fault_is_found_and_nothing_is_changed(queue, fault):
    expected = fault(queue)
    before = sorted(Path(queue.path).rglob("*"))
    problems = [problem for _, problem, _ in found(queue)]
    assert any(expected in problem for problem in problems), problems
    assert sorted(Path(queue.path).rglob("*")) == before


@pytest.mark.parametrize("fault", CURED, ids=lambda f: f.__name__)
def test_what_fix_cures_is_gone(queue, fault):
    fault(queue)
    found(queue, fix=True)
    assert found(queue) == []
    assert [task.id for task in queue.tasks()] == ["q1", "q2", "q3", "q4", "q5"]


@pytest.mark.parametrize("fault", BY_HAND, ids=lambda f: f.__name__)
def test_what_fix_cannot_cure_without_loss_stays_and_is_said_again(queue, fault):
    expected = fault(queue)
    found(queue, fix=True)
    assert any(expected in problem for _, problem, _ in found(queue))


def test_two_files_of_one_name_both_stay(queue):
    taken_place(queue)
    before = {path: path.read_bytes() for path in Path(queue.path).rglob("q4.*")}
    found(queue, fix=True)
    assert len(before) == 2
    assert {path: path.read_bytes() for path in Path(queue.path).rglob("q4.*")} == before


@pytest.mark.parametrize("where", ["tmp/old/x", "tmp/q9.6b0de0f1c5bc0f/x", "tmp/q1.6b0de0f1c5bc0f/x"])
def test_a_copy_that_somebody_keeps_in_tmp_is_no_task(queue, where):
    here, aside = place(queue, "q4"), Path(queue.path, where)
    aside.mkdir(parents=True)
    shutil.copy(here, aside)
    assert queue.claim("a").id == "q4"
    assert [task.status for task in queue.tasks()] == ["done", "failed", "claimed", "claimed", "open"]
    assert not Path(queue.path, "x").exists()
    found(queue)


@pytest.mark.parametrize(
    "path",
    ["notes.txt", "queue.json (conflicted copy)", "keys/x", "pending/.DS_Store", "pending/0/x", "pending/waiting/x",
     "claimed/x~", "done/0m (copy)", "failed/lost+found", "tmp/4913"],
)  # fmt: skip
def test_what_is_not_ours_is_named_and_left_alone(queue, path):
    file = Path(queue.path, path)
    if file.parent.is_dir():
        file.write_text("")
    else:
        pytest.skip("no such place in this queue")
    assert [where for where, _, _ in found(queue, fix=True)] == [path]
    assert file.exists()
    assert queue.stats().open == 2


def test_a_lease_to_the_end_of_all_years_is_held_like_any_other(queue):
    here = place(queue, "q3")
    here.rename(here.with_name(".".join([*here.name.split(".")[:4], "99991231T235959Z", here.name.split(".")[5]])))
    assert [task.id for task in queue.held()] == ["q3"]
    assert queue.next_claim_expiry().days > 365 * 7000
