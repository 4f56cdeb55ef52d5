"""Real processes on the real file system: killed at random moments, raced, forked, all at once.

How long the lanes are killed: GWTQ_PROOF_SECONDS.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter

import pytest

from gwtq import Queue, Refused
from gwtq.cli import main
from gwtq.clock import Clock
from gwtq.task import ENDS_ATTEMPT, SETTLES

from . import lanes
from .conftest import DEPTH
from .lanes import Campaign, ended, fork, kill, lane, producer, sweeper

SECONDS = float(os.environ.get("GWTQ_PROOF_SECONDS", "12"))
TASKS = 60


class FakeClock(Clock):
    """A clock that goes only when it is told to, or somebody sleeps."""

    def __init__(self, now=1_800_000_000.0):
        self.time = now

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "cola")


@pytest.fixture
def queue(path):
    """A queue whose own process does not sync."""
    return Queue.create(path, durable=False)


def add(queue, count, **fields):
    return [id for id, _ in queue.add_many([{"person": f"Ana {i}", **fields} for i in range(count)])]


def serious(queue):
    """What doctor finds once a producer finished or removed what dead ones left."""
    list(queue.examine(fix=True))
    return [str(finding) for finding in queue.examine()]


# --- a campaign whose processes are killed


class Crew:
    """Processes that are killed at random moments and replaced."""

    def __init__(self, path, scratch):
        self.path, self.scratch = path, scratch
        self.rng = random.Random(1)
        self.count = 0
        self.members = {}  # process id -> what it is

    def start(self, program):
        self.count += 1
        pid = fork(program, self.path, self.scratch / f"history {self.count}", self.count)
        self.members[pid] = program

    def work(self, seconds):
        """Let them work, and kill one after the other."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(self.rng.random() * 0.25)
            victim = self.rng.choice(list(self.members))
            program = self.members.pop(victim)
            assert kill(victim) == -signal.SIGKILL, f"{program.__name__} ended by itself"
            self.start(program)

    def stop(self):
        codes = {program.__name__: kill(pid) for pid, program in self.members.items()}
        self.members = {}
        return codes


def drain(queue):
    """Work everything off, as a last lane that nobody kills."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        claim = queue.claim("last", lease=60)
        if claim:
            claim.done("hit")
        elif not (queue.stats().open or queue.stats().claimed):
            return
        else:
            time.sleep(0.05)


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """(the queue, what the histories tell, how many processes there were), drained."""
    scratch = tmp_path_factory.mktemp("campaign")
    path = str(scratch / "cola")
    queue = Queue.create(path)
    add(queue, TASKS)
    crew = Crew(path, scratch)
    try:
        for program in (lane, lane, lane, lane, sweeper, producer):
            crew.start(program)
        crew.work(SECONDS)
    finally:
        codes = crew.stop()
    assert set(codes.values()) == {-signal.SIGKILL}
    drain(queue)
    return queue, Campaign(scratch.glob("history *")), crew.count


def chains(queue):
    """token -> the entry that ended its claim, for every task; each ends one claim only."""
    found = {}
    for task in queue.tasks():
        for entry in task.entries:
            if entry["event"] in SETTLES:
                assert entry["token"] not in found, f"the claim {entry['token']} of {task.id} was settled twice"
                found[entry["token"]] = entry
    return found


def test_the_campaign_is_drained_and_sound(campaign):
    queue, told, processes = campaign
    stats = queue.stats()
    assert (stats.open, stats.claimed, stats.expired) == (0, 0, 0)
    assert serious(queue) == []
    assert processes > SECONDS * 2
    assert len(told.claims) > TASKS


def test_no_two_lanes_held_a_task_at_once_by_their_own_clocks(campaign):
    _, told, _ = campaign
    assert told.overlaps() == []


def test_what_was_acknowledged_is_in_the_log_and_what_was_refused_is_not(campaign):
    queue, told, _ = campaign
    entries = chains(queue)
    assert {token: entries[token]["event"] for token in told.settled} == told.settled
    if not told.refused:
        pytest.skip("no lane slept through its lease in this run; the races enumerate it")
    assert {entries[token]["event"] for token in told.refused if token not in told.settled} == {"expired"}


def test_every_claim_that_a_lane_got_ended_in_the_log_once(campaign):
    queue, told, _ = campaign
    assert set(told.claims) <= set(chains(queue))


def test_counts_are_exact(campaign):
    queue, told, _ = campaign
    tasks = list(queue.tasks())
    assert [task.id for task in tasks] == [f"q{n}" for n in range(1, len(tasks) + 1)]
    for task in tasks:
        events = [entry["event"] for entry in task.entries]
        assert task.tries == sum(event in ENDS_ATTEMPT for event in events)
        assert (task.status == "failed") == ("done" not in events)
        assert (task.status == "failed") <= (task.tries >= queue.settings.max_tries)
        assert (task.evidence in told.claims) == bool(task.evidence)
    stats = queue.stats()
    assert stats.done + stats.failed == len(tasks)


def test_a_batch_is_there_whole_or_not_at_all_and_whole_if_it_was_acknowledged(campaign):
    queue, told, _ = campaign
    batches = Counter(task.note for task in queue.tasks() if task.note)
    assert set(batches.values()) == {lanes.BATCH}
    assert set(told.added) <= set(batches) <= told.begun
    marked = {task.id: task.note for task in queue.tasks()}
    assert all(marked[id] == mark for mark, ids in told.added.items() for id in ids)


# --- any command, killed anywhere


def commands(rng, table):
    """Every command that writes, to be called again and again: it finds something to do or is refused."""
    held = ["--id", f"q{rng.randint(1, 9)}", "--token", "nobodys"]
    return rng.choice(
        [
            ["init"],
            ["add", "--person", "Ana", "--dedupe", "--note", str(rng.random())],
            ["add", "--person", f"Bo {rng.random()}"],
            ["claim", "--lane", "doomed", "--lease-minutes", "0.01"],
            ["CLAIM", "renew"],
            ["CLAIM", "done", "--result", "hit"],
            ["CLAIM", "fail", "--backoff-minutes", "0"],
            ["CLAIM", "release"],
            ["done", "--result", "hit", *held],
            ["requeue-expired"],
            ["export", "-o", table],
            ["import", table],
            ["doctor", "--fix"],
            ["list"],
        ]
    )


def run(path, arguments):
    """Run a command in this process, quietly; `CLAIM` stands for a claim whose id and token the verb gets."""
    if arguments[0] == "CLAIM":
        claim = Queue(path, durable=False).claim("doomed", lease=60)
        if not claim:
            return 0
        arguments = [*arguments[1:], "--id", claim.id, "--token", claim.token]
    return main(["--queue", path, *arguments])


def quietly(path, arguments):
    out = os.open(os.devnull, os.O_WRONLY)
    os.dup2(out, 1)
    os.dup2(out, 2)
    assert run(path, arguments) in (0, 1, 2)


def test_any_command_killed_at_any_point_leaves_a_queue_on_which_every_command_works(path, queue, tmp_path, capfd):
    rng, table = random.Random(7), str(tmp_path / "table.tsv")
    add(queue, 9)
    assert main(["--queue", path, "export", "-o", table]) == 0
    for _ in range(100 * DEPTH):
        command = commands(rng, table)
        pid = fork(quietly, path, command)
        time.sleep(rng.random() * 0.02)
        assert kill(pid) in (-signal.SIGKILL, 0), command
        assert run(path, command) in (0, 1, 2), command
        assert run(path, commands(rng, table)) in (0, 1, 2)
    assert serious(queue) == []
    capfd.readouterr()
    assert main(["--queue", path, "add", "--person", "Zoe"]) == 0
    assert main(["--queue", path, "claim", "--lane", "one"]) == 0


# --- a settle against a sweep, a rename against a look


def waits(read, program, *arguments):
    """Run a program as soon as the pipe is closed at its other end."""
    os.read(read, 1)
    program(*arguments)


def raced(*programs):
    """Start programs at the same moment; their exit codes."""
    read, write = os.pipe()

    def begin(program):
        os.close(write)
        waits(read, program)

    pids = [fork(begin, program) for program in programs]
    os.close(read)
    os.close(write)
    return [ended(pid) for pid in pids]


def test_done_against_requeue_expired_ends_in_one_state_and_the_loser_is_told(path, queue):
    late = Queue(path, clock=FakeClock(time.time() - 3600), durable=False)
    ids = add(queue, 100 * DEPTH)
    wins = 0
    for id in ids:
        claim = late.claim("late", lease=60, sweep=False)
        assert claim.id == id
        now = Queue(path, durable=False)

        def settle(now=now, claim=claim):
            try:
                now.done(claim.id, claim.token, "hit")
            except Refused:
                os._exit(2)

        code, swept = raced(settle, now.requeue_expired)
        task = queue.find(id)
        assert (code, swept) in ((0, 0), (2, 0))
        assert task.status == ("open" if code else "done")
        assert task.tries == 1
        wins += code == 0
        if code:
            again = queue.claim("next")
            assert again.id == id
            again.done("hit")
    assert serious(queue) == []


def test_renewing_and_listing_by_many_processes_takes_no_task_for_broken(path, queue):
    add(queue, 20)
    claims = [queue.claim(f"lane-{i}", lease=3600) for i in range(20)]

    def renew(part):
        mine, end = Queue(path, durable=False), time.monotonic() + 2.5
        for count in range(1 << 30):
            if time.monotonic() > end:
                return
            for claim in claims[part::4]:
                mine.renew(claim.id, claim.token, lease=3600 + count)

    def look():
        mine, end = Queue(path, reading=True), time.monotonic() + 2.5
        while time.monotonic() < end:
            tasks = list(mine.tasks())
            assert [(task.id, task.status, task.problem) for task in tasks] == [
                (f"q{n}", "claimed", "") for n in range(1, 21)
            ]
            assert len(mine.held()) <= 20

    pids = [fork(renew, part) for part in range(4)] + [fork(look) for _ in range(4)]
    assert [ended(pid) for pid in pids] == [0] * 8
    assert os.listdir(os.path.join(path, "failed")) == []
    assert [claim.done("hit").outcome for claim in claims] == ["done"] * 20


# --- one object, many users


def test_threads_that_share_a_queue_get_different_tasks(queue):
    add(queue, 48)
    got = []

    def work():
        got.extend([queue.claim("thread").id for _ in range(3)])

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == sorted(f"q{n}" for n in range(1, 49))


def test_forks_that_share_a_queue_get_different_tasks_and_tokens(queue, tmp_path):
    """Names that are made after a fork differ, though everything before it was the same."""
    add(queue, 40)

    def work(number):
        history = lanes.History(tmp_path / f"history {number}")
        for _ in range(10):
            claim = queue.claim("fork")
            history.note("claimed", id=claim.id, token=claim.token, until=0)

    assert [ended(pid) for pid in [fork(work, number) for number in range(4)]] == [0] * 4
    told = Campaign(tmp_path.glob("history *"))
    assert len(told.claims) == len({id for id, _, _ in told.claims.values()}) == 40


def test_a_child_forked_while_its_parent_holds_the_lock_does_not_hold_it(queue):
    disk = queue._store.disk
    with disk.lock(".lock"):
        read, write = os.pipe()

        def wait():
            os.close(write)
            os.read(read, 1)

        child = fork(wait)
    os.close(read)
    assert disk.lock_is_free(".lock")
    add(queue, 1)
    os.close(write)
    assert ended(child) == 0


def test_adds_by_many_processes_get_different_ids_in_order_of_each(path, queue, tmp_path):
    def work(number):
        mine, history = Queue(path, durable=False), lanes.History(tmp_path / f"history {number}")
        ids = [mine.add(f"Ana {number}", source="gaceta")[0] for _ in range(40)]
        history.note("added", mark=number, ids=ids)

    assert [ended(pid) for pid in [fork(work, number) for number in range(4)]] == [0] * 4
    added = Campaign(tmp_path.glob("history *")).added
    numbers = [[int(id[1:]) for id in ids] for ids in added.values()]
    assert all(mine == sorted(mine) for mine in numbers)
    assert sorted(number for mine in numbers for number in mine) == list(range(1, 161))


# --- the clock


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def timed(path, clock):
    """A queue whose clock is the test's."""
    return Queue.create(path, clock=clock, durable=False)


def test_after_the_clock_was_set_back_new_tasks_are_claimed_and_the_old_lease_is_no_longer_than_it_was(timed, clock):
    add(timed, 1)
    old = timed.claim("old", lease=7200)
    until = old.lease_until
    clock.time -= 12 * 3600
    add(timed, 1)
    assert timed.claim("new").id == "q2"
    old.renew(7200)
    assert old.lease_until == until
    assert timed.requeue_expired().moved == 0
    assert ["clock was set back" in finding.problem for finding in timed.examine()] == [True]
    assert old.done("hit").outcome == "done"


def test_a_lease_longer_than_any_that_is_given_out_is_named_by_doctor(timed, clock):
    add(timed, 1)
    timed.claim("old", lease=3660 * 86400)
    clock.time -= 86400
    assert ["later than any lease may" in finding.problem for finding in timed.examine()] == [True]


def test_a_clock_that_jumps_ahead_ends_leases_and_brings_what_waits(timed, clock):
    add(timed, 1)
    add(timed, 1, next_at="2027-01-15T09:00:00Z")
    dead = timed.claim("dead", lease=60)
    assert timed.claim("early") is None
    clock.time += 3600
    assert [timed.claim("late").id for _ in range(2)] == ["q1", "q2"]
    with pytest.raises(Refused):
        dead.done("hit")


def test_a_sweepers_lease_from_before_the_clock_was_set_back_holds_nothing_up(timed, clock):
    """The sweeper died with the task in its hands, in a year to come."""
    add(timed, 1)
    timed.claim("dead", lease=60)
    clock.time += 365 * 86400

    class Dies(BaseException):
        pass

    def append(fd, data):
        raise Dies

    disk = timed._store.disk
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "append", append)
        with pytest.raises(Dies):
            timed.requeue_expired()
    assert len(disk.names("recovering")) == 1
    clock.time -= 365 * 86400
    before = clock.time
    assert timed.claim("next").id == "q1"
    assert clock.time == before
