"""The curves as SVG files."""

from __future__ import annotations

import re


def draw(curves, directory):
    """One file per curve; returns their names. Needs matplotlib (extra `bench`)."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "gwtq"  # the same figures make the same file
    from matplotlib import pyplot

    made = []
    for curve in curves:
        figure, axes = pyplot.subplots(figsize=(6.4, 4))
        for name, points in curve.series.items():
            axes.plot([x for x, _ in points], [1000 * y for _, y in points], marker="o", label=name)
        axes.set(title=curve.name, xlabel=curve.over, ylabel="milliseconds", xscale="log", yscale="log")
        axes.grid(visible=True, which="major", alpha=0.3)
        axes.legend()
        made.append(re.sub(r"\W+", "-", curve.name).strip("-") + ".svg")
        figure.savefig(f"{directory}/{made[-1]}", metadata={"Date": None}, bbox_inches="tight")
        pyplot.close(figure)
    return made
