"""The ids given out, as ranges: a set of numbers in all that can be asked of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gwtq.idset import IdSet

from . import steady

# Small numbers meet and touch; large ones leave gaps.
numbers = st.integers(1, 12) | st.integers(1, 10**10)


@steady
@given(st.lists(numbers))
def test_it_is_the_set_of_what_was_put_in(wanted):
    ids, model = IdSet(), set()
    for number in wanted:
        ids.add(number)
        model.add(number)
        assert list(ids) == sorted(model)
        assert ids.last == max(model)
        for near in (number - 1, number, number + 1):
            assert (near in ids) == (near in model)


@steady
@given(st.lists(numbers))
def test_its_text_comes_back_and_is_the_same_in_whatever_order_it_was_filled(wanted):
    ids = IdSet(wanted)
    text = ids.render()
    assert list(IdSet.parse(text)) == list(ids)
    assert IdSet(sorted(wanted, reverse=True)).render() == text


@steady
@given(st.text("123- 0"))
def test_what_parses_was_written_just_so(text):
    try:
        ids = IdSet.parse(text)
    except ValueError:
        return
    assert ids.render() == text


def test_neighbours_are_one_range():
    assert IdSet([1, 2, 4, 9, 3, 8]).render() == "1-4 8-9"
    assert IdSet(range(1, 813)).render() == "1-812"
    assert IdSet([5, 900_000_000]).render() == "5 900000000"


def test_nothing_given_out_is_an_empty_line():
    ids = IdSet.parse("")
    assert (list(ids), ids.last, ids.render()) == ([], 0, "")
    assert 0 not in ids


@pytest.mark.parametrize(
    "text",
    ["0", "-1", "-", "1-", "1--2", "2-1", "1-1", "1 1", "1 2", "1-2 3", "1-3 2", "5 1", "1-4 2-3", " 1", "1 ", "1  3",
     "1,3", "01", "+1", "1_0", "\u0661", "1.0", "q1", "1-2-3", "\0", "1\n3", "9" * 5000, "<<<<<<< HEAD"],
)  # fmt: skip
def test_a_text_that_was_not_written_so_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        IdSet.parse(text)
