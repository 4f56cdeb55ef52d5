"""Where things lie below the queue's directory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gwtq import layout, names

from . import steady

HEAD = "6b0de0f1k7m2p9"
numbers = st.integers(1, names.ID_MAX)


def test_each_state_is_a_directory_of_its_own():
    assert [layout.state_directory(state) for state in names.STATES] == [
        "pending", "claimed", "recovering", "done", "failed",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="open"):
        layout.state_directory("open")


@pytest.mark.parametrize(
    ("state", "holding", "settled"),
    [("pending", False, False), ("claimed", True, False), ("recovering", True, False), ("done", False, True),
     ("failed", False, True)],
)  # fmt: skip
def test_a_task_waits_is_held_or_has_ended(state, holding, settled):
    assert (layout.holding(state), layout.settled(state)) == (holding, settled)


@pytest.mark.parametrize(
    ("priority", "kind", "source", "path"),
    [
        (100, "search", "gaceta", "pending/100/0000100000.search.gaceta/0000123250"),
        (0, "sweep", "", "pending/0/0000100000.sweep/0000123250"),
        (-5, "search", "лев", "pending/-5/0000100000.search.%D0%BB%D0%B5%D0%B2/0000123250"),
        (1, "search", "../..", "pending/1/0000100000.search.%2E%2E%2F%2E%2E/0000123250"),
    ],
)
def test_ready_tasks_lie_by_priority_block_channel_and_leaf(priority, kind, source, path):
    assert layout.leaf(priority, names.channel_name(kind, source), 123_456) == path


@steady
@given(numbers)
def test_no_id_in_a_leaf_or_block_is_below_its_name(number):
    block, leaf = layout.leaf(0, "search.gaceta", number).split("/")[2:]
    assert int(leaf) <= number < int(leaf) + 250 == layout.parse_first_id(leaf, 250) + 250
    first, _, channel = block.partition(".")
    assert int(first) <= number < int(first) + 50_000 == layout.parse_first_id(first, 50_000) + 50_000
    assert channel == "search.gaceta"


@pytest.mark.parametrize(
    "text",
    ["", "q", "250", "000000250", "00000000250", "0000000251", "q000000250", "-000000250", " 000000250", "00000_0250",
     "0000000250 ", "000000025.", "000000025\u0660"],
)  # fmt: skip
def test_what_is_no_leaf_has_no_first_id(text):
    assert layout.parse_first_id(text, 250) == -1


def test_waiting_tasks_lie_by_the_day_and_minute_they_fall_due():
    assert layout.bucket("20261130T190530Z") == "pending/waiting/20261130/20261130T1905Z"


@pytest.mark.parametrize(
    ("due", "place"),
    [("", ("pending/5/0000000000.sweep/0000000000", f"q7.{HEAD}")),
     ("20261130T190530Z", ("pending/5/0000000000.sweep/0000000000", f"q7.{HEAD}")),
     ("20261130T190531Z", ("pending/waiting/20261130/20261130T1905Z", f"q7.{HEAD}.20261130T190531Z"))],
    ids=["at once", "due", "not due"],
)  # fmt: skip
def test_a_pending_task_waits_until_it_is_due(due, place):
    assert layout.pending_place("q7", HEAD, 5, "sweep", due, now="20261130T190530Z") == place


@pytest.mark.parametrize(
    ("number", "path"),
    [(1, "done/0m/0k"), (999, "done/0m/0k"), (1000, "done/0m/1k"), (12_345, "done/0m/12k"), (999_999, "done/0m/999k"),
     (1_000_000, "done/1m/0k"), (9_999_999_999, "done/9999m/999k")],
)  # fmt: skip
def test_settled_tasks_lie_a_thousand_to_a_directory(number, path):
    assert layout.shard("done", number) == path


@pytest.mark.parametrize(
    "directory",
    ["pending/100/0000000000.search.gaceta/0000000250", "pending/-5/0000000000.search.%D0%BB/0000000000",
     "pending/waiting/20261130/20261130T1905Z", "claimed", "failed/0m/12k"],
)  # fmt: skip
def test_a_staged_directory_tells_where_it_goes(directory):
    staged = layout.staged_name(directory)
    assert "/" not in staged
    assert layout.staged_target(staged) == directory
    assert layout.state_of(f"tmp/q1.{HEAD}/{staged}/q1.{HEAD}") == directory.split("/")[0]


def test_the_longest_staged_directory_fits_into_a_name():
    channel = "k" * 40 + "." + "x" * (names.CHANNEL_MAX - 41)
    leaf = layout.leaf(-(10**9), channel, names.ID_MAX)
    assert len(layout.staged_name(leaf)) <= names.NAME_MAX


@pytest.mark.parametrize("state", names.STATES)
def test_a_path_tells_its_state(state):
    assert layout.state_of(f"{state}/x/y") == layout.state_of(f"{state}/y") == state


@pytest.mark.parametrize("name", [f"q12.{HEAD}", f"refresh.{HEAD}"])
def test_a_batch_is_called_after_its_first_id_or_refresh(name):
    assert layout.is_batch(name)


@pytest.mark.parametrize(
    "name",
    ["", "q12", f"q0.{HEAD}", f"Refresh.{HEAD}", HEAD, f"q12.{HEAD}.x", f"q12.{HEAD} 2", "q12.conflictedcopy",
     f"seq.{HEAD}", "seq.k7m2p9", f".q12.{HEAD}"],
)  # fmt: skip
def test_anything_else_in_tmp_is_no_batch(name):
    assert not layout.is_batch(name)


def test_a_path_is_a_parent_and_a_base():
    path = "done/0m/12k/q12"
    assert (layout.parent(path), layout.base(path)) == ("done/0m/12k", "q12")
    assert layout.base("seq") == "seq"


def test_keys_are_spread_by_their_first_two_letters():
    assert layout.key_file("3f0b") == "keys/3f"
