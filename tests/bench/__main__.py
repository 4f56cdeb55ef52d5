"""`python -m tests.bench`: measure, print the table, write it as JSON, draw the curves. README.md tells more."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time

from . import commands, cycles, growth, peers, whole
from .measure import Curve


class Size:
    """How much is measured: rounds, cycles; how many tasks where the table has 100,000; and the curves' points."""

    def __init__(self, rounds, cycles, tasks, pending, done):
        self.rounds, self.cycles, self.tasks, self.pending, self.done = rounds, cycles, tasks, pending, done
        self.whole = [count for count in (1000, 10_000, 100_000) if count <= tasks]


QUICK = Size(5, 80, 1000, [1000, 3000], [1000])
USUAL = Size(15, 400, 10_000, [1000, 10_000], [1000, 10_000])
FULL = Size(21, 800, 100_000, [1000, 10_000, 100_000, 1_000_000], [1000, 10_000, 100_000, 1_000_000])


def durable(directory, size):
    """Lanes at work, with syncs."""
    yield from cycles.rows(directory, tasks=size.cycles * 60, cycles=size.cycles, rounds=5, durable=True)


def unsafe(directory, size):
    """Lanes at work, without."""
    yield from cycles.rows(directory, tasks=size.cycles * 60, cycles=size.cycles * 2, rounds=5, durable=False)


def others(directory, size):
    """One lane, against what other queues there are."""
    yield from peers.rows(directory, cycles_a_round=size.cycles // 2, rounds=5)


MEASURES = {
    "commands": commands.commands, "polls": commands.polls, "durable": durable, "unsafe": unsafe,
    "pending": growth.pending, "done": growth.settled, "idle": growth.idle, "batch": whole.batch,
    "dedupe": whole.dedupe, "reading": whole.reading, "memory": whole.memory, "peers": others,
}  # fmt: skip


def options():
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure, as ratios to baselines.")
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--quick", dest="size", action="store_const", const=QUICK, help="does it run at all")
    sizes.add_argument("--full", dest="size", action="store_const", const=FULL, help="a million tasks: half an hour")
    parser.set_defaults(size=USUAL)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=MEASURES, help=", ".join(MEASURES))
    parser.add_argument("--most", type=int, default=10**9, metavar="N", help="leave out the curves' points above N")
    parser.add_argument("--dir", help="where the queues are made (default: the directory for temporary files)")
    parser.add_argument("--json", metavar="FILE", help="write the table and the curves")
    parser.add_argument("--plots", metavar="DIR", help="draw the curves as SVG")
    asked = parser.parse_args()
    for curve in ("pending", "done", "whole"):
        setattr(asked.size, curve, [count for count in getattr(asked.size, curve) if count <= asked.most])
    return asked


def line(row):
    """A row of the table, as text."""
    bounds = [f"{bound:g}" if bound is not None else "" for bound in (row.floor, row.aim)]
    figures = "; ".join(f"{name} {value:.4g}" for name, value in row.figures.items())
    return f"{row.measure:82} {row.value:7.2f}{row.unit:3} {bounds[0]:>5} {bounds[1]:>5}  {row.verdict:17} {figures}"


def main():
    """Measure."""
    asked, rows, curves = options(), [], []
    print(f"{'measure':82} {'now':>10} {'floor':>5} {'aim':>5}")
    for name in asked.only or MEASURES:
        begun, directory = time.monotonic(), tempfile.mkdtemp(prefix="gwtq-bench-", dir=asked.dir)
        try:
            for told in MEASURES[name](directory, asked.size):
                if isinstance(told, Curve):
                    curves.append(told)
                else:
                    rows.append(told)
                    print(line(told), flush=True)
        finally:
            shutil.rmtree(directory)
        print(f"  ({name}: {time.monotonic() - begun:.0f} s)", file=sys.stderr)
    if asked.json:
        with open(asked.json, "w", encoding="utf-8") as file:
            json.dump({"rows": [r.to_json() for r in rows], "curves": [c.to_json() for c in curves]}, file, indent=1)
    if asked.plots:
        from .plots import draw

        print("drawn:", *draw(curves, asked.plots))
    return 0


if __name__ == "__main__":
    sys.exit(main())
