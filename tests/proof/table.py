"""The table of what the proofs explored: a row for each operation of each proof, for `doc/testing.md`."""

from __future__ import annotations

import time
from contextlib import contextmanager

COLUMNS = ("proof", "operation", "disk calls", "crash or error points", "worlds", "seconds")
ROWS = []


class Row:
    """What one proof of one operation went through."""

    def __init__(self, proof, operation):
        self.proof = proof
        self.operation = operation
        self.calls = 0  # of the operation when nothing happens to it
        self.points = 0  # runs of it with a crash or an error somewhere
        self.worlds = 0  # that were judged: what was left, and every power cut of that
        self.seconds = 0.0

    def cells(self):
        return [self.proof, self.operation, *(f"{n:,}" for n in (self.calls, self.points, self.worlds)),
                f"{self.seconds:.1f}"]  # fmt: skip


@contextmanager
def timed(proof, operation):
    """A row of the table, filled in by who runs the proof."""
    row = Row(proof, operation)
    begun = time.monotonic()
    yield row
    row.seconds = time.monotonic() - begun
    if row.points:
        ROWS.append(row)


def text():
    """The table, in Markdown, with a line of sums."""
    total = Row("", "together")
    for row in ROWS:
        for number in ("calls", "points", "worlds", "seconds"):
            setattr(total, number, getattr(total, number) + getattr(row, number))
    lines = [COLUMNS, ("---", "---", "---:", "---:", "---:", "---:"), *(row.cells() for row in [*ROWS, total])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
