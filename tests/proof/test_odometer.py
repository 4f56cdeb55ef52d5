"""The odometer takes every combination of choices once, and a failure can be replayed."""

from __future__ import annotations

import subprocess
import sys
from itertools import product

import pytest

from tests.sim.odometer import Choices, Failed, Odometer, Replayed


def all_runs(body, **options):
    seen = []
    count = Odometer(**options).run(lambda choose: seen.append(body(choose)))
    assert count == len(seen)
    return seen


def test_every_combination_is_taken_once_the_last_choice_first():
    assert all_runs(lambda c: (c.below(2), c.flag(), c.of("xyz"))) == list(product(range(2), (False, True), "xyz"))


def test_a_body_without_choices_runs_once():
    assert all_runs(lambda c: "ran") == ["ran"]


def test_the_number_of_options_may_depend_on_the_choices_before():
    assert all_runs(lambda c: [c.below(n + 1) for n in range(c.below(4))]) == [
        [], [0], [0, 0], [0, 1], [0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 1, 0], [0, 1, 1], [0, 1, 2],
    ]  # fmt: skip


@pytest.mark.parametrize("size", range(1, 6))
def test_every_permutation_is_met(size):
    def permutation(choose):
        left = list(range(size))
        return tuple(left.pop(choose.below(len(left))) for _ in range(size))

    seen = all_runs(permutation)
    assert len(seen) == len(set(seen)) == [1, 2, 6, 24, 120][size - 1]


def fails_at(*bad):
    def body(choose):
        got = choose.below(3, "first"), choose.of(["no", "yes"], "second"), choose.below(2, "third")
        if got == bad:
            raise AssertionError("found it")

    return body


def test_a_failure_prints_its_choices_in_numbers_and_in_words():
    with pytest.raises(Failed) as failure:
        Odometer(command="pytest --choices=").run(fails_at(2, "yes", 0))
    assert str(failure.value).splitlines() == [
        "found it", "  after first: 2; second 'yes': 1; third: 0", "  replay: pytest --choices=2,1,0",
    ]  # fmt: skip


def test_an_error_of_the_body_is_told_with_its_choices_too():
    with pytest.raises(Failed, match=r"ZeroDivisionError.*\n.*x: 1\n.*=1") as failure:
        Odometer().run(lambda choose: 1 // (1 - choose.below(2, "x")))
    assert isinstance(failure.value.__cause__, ZeroDivisionError)


def test_a_replay_runs_just_these_choices():
    assert all_runs(lambda c: (c.below(3), c.below(3)), replay=[2, 1]) == [(2, 1)]


def test_a_replay_that_is_cut_short_goes_on_with_the_first_options():
    assert all_runs(lambda c: (c.below(3), c.below(3)), replay=[2]) == [(2, 0)]


def test_a_replay_of_choices_that_there_are_not_is_no_success():
    with pytest.raises(Failed, match="3 options, and 7 was taken") as failure:
        Odometer([7]).run(lambda choose: choose.below(3))
    assert isinstance(failure.value.__cause__, Replayed)


def test_a_choice_among_nothing_is_a_fault_of_the_body():
    with pytest.raises(AssertionError, match="nothing to choose from: worlds"):
        Choices().of([], "worlds")


def test_the_fixture_runs_all_choices_or_those_of_the_command_line(odometer, request):
    seen = []
    odometer.run(lambda choose: seen.append((choose.below(2), choose.below(2))))
    replay = request.config.getoption("choices")
    assert seen == ([tuple(replay)] if replay else [(0, 0), (0, 1), (1, 0), (1, 1)])


@pytest.mark.parametrize(("choices", "code"), [("1,0", 0), ("7,0", 1)])
def test_choices_on_the_command_line_replay_one_run(choices, code):
    """The test above, alone: it passes with choices that there are, and fails with others."""
    command = [sys.executable, "-m", "pytest", __file__, f"--choices={choices}", "-k", "the_fixture_runs"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == code, ended.stdout
    assert ("replay: pytest" in ended.stdout) == bool(code)
