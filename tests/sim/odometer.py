"""Choices that are counted instead of rolled: the same body runs again until every combination of choices was taken.

    def body(choose):
        k = choose.below(3, "crash before call")
        torn = choose.flag("torn")
        ...

    Odometer().run(body)    # six runs: 0,0  0,1  1,0  1,1  2,0  2,1

How many options there are may depend on the choices before. The first run takes the first option of everything; then
the last choice that can still grow is taken one further and all behind it are forgotten, as an odometer does. A body
must be deterministic: the same choices, the same questions. A failure tells its choices, and they alone replay it:

    pytest tests/proof --choices=1,0 -k name
"""

from __future__ import annotations


class Failed(AssertionError):
    """A body failed; the message begins with what it raised, and ends with the choices that led there."""


class Replayed(AssertionError):
    """The choices to be replayed do not fit the body."""


class Choices:
    """One run: answers the body's questions, the first ones as `taken` says and the others with 0."""

    def __init__(self, taken=()):
        self.taken = list(taken)
        self.counts = []  # of how many options each was
        self.labels = []

    def below(self, count, label="choice"):
        """A number from 0 to count - 1."""
        assert count > 0, f"nothing to choose from: {label}"
        at = len(self.counts)
        if at == len(self.taken):
            self.taken.append(0)
        if self.taken[at] >= count:
            raise Replayed(f"{label}: there are {count} options, and {self.taken[at]} was taken")
        self.counts.append(count)
        self.labels.append(label)
        return self.taken[at]

    def of(self, options, label="choice"):
        """One of these options."""
        index = self.below(len(options), label)
        self.labels[-1] = f"{label} {options[index]!r}" if isinstance(options[index], (str, int)) else label
        return options[index]

    def flag(self, label="flag"):
        """False, then True."""
        return bool(self.below(2, label))

    def next(self):
        """What the run after this one takes; None if this was the last."""
        for at in reversed(range(len(self.counts))):
            if self.taken[at] + 1 < self.counts[at]:
                return [*self.taken[:at], self.taken[at] + 1]
        return None

    def text(self):
        """As `--choices` takes them."""
        return ",".join(str(number) for number in self.taken[: len(self.counts)])

    def story(self):
        """What was chosen, in words."""
        return "; ".join(f"{label}: {number}" for label, number in zip(self.labels, self.taken))


class Odometer:
    """Runs a body with every combination of choices, or with `replay` only."""

    def __init__(self, replay=None, command="--choices="):
        self.replay = replay
        self.command = command  # how to replay: the choices are written behind it

    def run(self, body):
        """Returns the number of runs. Raises Failed with the choices of the first run that raised."""
        runs, taken = 0, self.replay or []
        while taken is not None:
            choices = Choices(taken)
            try:
                body(choices)
            except Exception as error:
                what = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
                raise Failed(f"{what}\n  after {choices.story()}\n  replay: {self.command}{choices.text()}") from error
            runs += 1
            taken = choices.next() if self.replay is None else None
        return runs
