"""Every interleaving of the actors of `races.py`, within the bound that each states."""

from __future__ import annotations

import pytest

from tests.proof import races


@pytest.mark.parametrize("name", races.SCENARIOS)
def test_race(name):
    races.run(name)
