"""Every interleaving of the actors of `races.py`, within the bound that each states."""

from __future__ import annotations

import pytest

from tests.proof import races


@pytest.mark.parametrize("name", races.SCENARIOS)
def test_race(name, explored):
    explorer = races.run(name)
    explored.states, explored.steps = explorer.states, explorer.steps
