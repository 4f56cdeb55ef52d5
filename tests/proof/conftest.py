"""What the proofs share: how deep they go, how a failure is replayed, and the table of what was explored.

GWTQ_PROOF_DEPTH: 1 (the default) is what every change is tested with; 2 and more explore further.
"""

from __future__ import annotations

import pytest

from tests.sim.odometer import Odometer

from . import DEPTH, table


def pytest_addoption(parser):
    parser.addoption(
        "--choices",
        type=lambda text: [int(number) for number in text.split(",") if number],
        help="replay one run of a proof: the choices that a failure printed",
    )


@pytest.fixture(scope="session")
def depth():
    """How deep the proofs go; each test says what that means for it."""
    return DEPTH


@pytest.fixture
def odometer(request):
    """Runs a body with every combination of choices, or with those of --choices."""
    command = f"pytest '{request.node.nodeid}' --choices="
    return Odometer(request.config.getoption("choices"), command)


@pytest.fixture
def explored(request):
    """Counts what a proof went through; `pytest -s tests/proof` prints the table."""
    parameters = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    with table.timed(request.node.originalname, ", ".join(map(str, parameters.values()))) as row:
        yield row


def pytest_terminal_summary(terminalreporter, config):
    if config.getoption("capture") == "no" and table.ROWS:
        terminalreporter.write_line("\n" + table.text())
