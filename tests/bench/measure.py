"""How things are measured here: subject and baseline in turn, in one run, medians, and ratios of those.

A shared machine is slow by moments. So nothing is measured for long at a stretch: each round measures every case once,
in an order that turns, and what is compared was measured within a second or two of each other.
"""

from __future__ import annotations

import gc
import time
from statistics import median

LESS, MORE = "less", "more"  # what is better


class Row:
    """One line of the table: a ratio, and what it has to reach."""

    def __init__(self, measure, value, floor, aim, *, better=LESS, unit="x", figures=None):
        self.measure = measure
        self.value = value
        self.floor = floor
        self.aim = aim
        self.better = better
        self.unit = unit
        self.figures = figures or {}  # what it was made of, in seconds (or per second, where the name says so)

    def reaches(self, bound):
        """Is the value as good as the bound?"""
        if bound is None:
            return True
        return self.value <= bound if self.better == LESS else self.value >= bound

    @property
    def verdict(self):
        """A word on it."""
        if self.floor is None and self.aim is None:
            return ""
        return (
            "MISSES THE FLOOR" if not self.reaches(self.floor) else "" if not self.reaches(self.aim) else "aim reached"
        )

    def to_json(self):
        """The row as an object."""
        return {
            "measure": self.measure, "value": round(self.value, 4), "unit": self.unit, "floor": self.floor,
            "aim": self.aim, "better": self.better, "verdict": self.verdict,
            "figures": {key: float(f"{value:.4g}") for key, value in self.figures.items()},
        }  # fmt: skip


class Curve:
    """What something costs as the queue grows: `series` is {name: [(how many, seconds)]}."""

    def __init__(self, name, over, series):
        self.name = name
        self.over = over
        self.series = series

    def to_json(self):
        """The curve as an object."""
        return {"name": self.name, "over": self.over, "series": self.series}


def in_turn(cases, rounds, *, quiet=True):
    """The seconds of each case in each round: {name: [seconds]}. `cases`: {name: a function that returns seconds, or
    one that is timed if it returns None}."""
    taken = {name: [] for name in cases}
    order = list(cases)
    gc.collect()
    if quiet:
        gc.disable()
    try:
        for _ in range(rounds):
            for name in order:
                begun = time.perf_counter()
                told = cases[name]()
                taken[name].append(time.perf_counter() - begun if told is None else told)
            order = order[1:] + order[:1]
    finally:
        gc.enable()
    return taken


def medians(taken):
    """The median of each case."""
    return {name: median(values) for name, values in taken.items()}


def ratio(taken, subject, baseline):
    """The median of the rounds' ratios: noise that lasts longer than a round hits both and drops out."""
    return median([a / b for a, b in zip(taken[subject], taken[baseline])])
