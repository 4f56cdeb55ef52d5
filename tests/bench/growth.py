"""What a claim and a settle cost as the queue grows. No syncs, an open queue: what is compared is what grows."""

from __future__ import annotations

import time

from . import build
from .measure import Curve, Row, in_turn, medians, ratio

SMALL = 1000


def claim(queue, **filters):
    """The seconds of one claim; what was claimed is settled, untimed."""
    begun = time.perf_counter()
    got = queue.claim("lane-1", **filters)
    taken = time.perf_counter() - begun
    if got:
        got.done("hit")
    return taken


def cycle(queue):
    """Claim a task and settle it."""
    queue.claim("lane-1").done("hit")


def pending(directory, size):
    """A claim against what is pending, on one channel and on twenty, and with a filter that nothing fits."""
    for channels, word in ((1, "one channel"), (20, "twenty channels")):
        small, big = build.queue(f"{directory}/small-{channels}"), build.queue(f"{directory}/big-{channels}")
        build.pending(small, SMALL, channels=channels)
        series, there, last = {"claim": [], "filter that matches nothing": []}, 0, {}
        for count in size.pending:
            build.pending(big, count - there, channels=channels, first=there + 1)
            there = count
            cases = {}
            for name, queue in (("small", small), ("big", big)):
                cases[name] = lambda queue=queue: claim(queue)
                cases[f"{name}, filtered"] = lambda queue=queue: claim(queue, sources=["nobody"])
            in_turn(cases, 2)
            last = in_turn(cases, size.rounds)
            middle = medians(last)
            series["claim"].append((count, middle["big"]))
            series["filter that matches nothing"].append((count, middle["big, filtered"]))
        yield Curve(f"claim, {word}", "pending", series)
        for tail, more in (("", ""), (", filtered", ", filter that matches nothing")):
            yield Row(f"claim (API) at {there:,} pending, against {SMALL:,}, {word}{more}",
                      ratio(last, f"big{tail}", f"small{tail}"), 4, 2,
                      figures={name: medians(last)[f"{name}{tail}"] for name in ("big", "small")})  # fmt: skip


def settled(directory, size):
    """Claim and done against what is done."""
    small = build.queue(f"{directory}/none-done", SMALL)
    big = build.queue(f"{directory}/many-done", SMALL)
    series, there, last = {"claim and done": []}, 0, {}
    for count in size.done:
        build.settled(big.path, count - there, first=10_000 + there)
        there = count
        cases = {"many done": lambda: cycle(big), "none done": lambda: cycle(small)}
        in_turn(cases, 5)
        last = in_turn(cases, size.rounds * 3)
        series["claim and done"].append((count, medians(last)["many done"]))
    yield Curve("claim and done", "done", series)
    yield Row(f"claim and done with {there:,} done, against none", ratio(last, "many done", "none done"), 1.2, 1.0,
              figures=medians(last))  # fmt: skip


def idle(directory, size):
    """A poll that finds nothing due: many tasks wait, against none."""
    empty, full = build.queue(f"{directory}/idle-empty"), build.waiting(f"{directory}/idle-full", size.tasks)
    cases = {"many wait": lambda: claim(full), "empty": lambda: claim(empty)}
    in_turn(cases, 3)
    taken = in_turn(cases, size.rounds * 5)
    yield Row(f"poll (claim API) with {size.tasks:,} not due on 28 days, against an empty queue",
              ratio(taken, "many wait", "empty"), 1.2, 1.05, figures=medians(taken))  # fmt: skip
