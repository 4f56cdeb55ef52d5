"""What queue.json says: the queue's own words and the defaults of its commands. Pure."""

from __future__ import annotations

from . import names
from .errors import BadInput
from .rules import LEASE_MAX_SECONDS, PRIORITY_MAX, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .jsonline import Json

FORMAT = 1  # of the directory, which this version writes
KINDS = ("search", "sweep", "verify", "followup")
# Does a task that ended so count as done for --dedupe? The ledger's words, as gwt-ledger counts them.
RESULTS = {
    "hit": True, "none": True, "partial": True, "out-of-coverage": True,
    "blocked": False, "denied": False, "restricted": False, "paid": False, "in-person": False, "unproven": False,
}  # fmt: skip


class Settings:
    """What queue.json says: the kinds and results of this queue, and the defaults of its commands."""

    __slots__ = ("backoff_minutes", "format", "kinds", "lease_minutes", "max_tries", "results")

    def __init__(
        self,
        kinds: Iterable[str] = KINDS,
        results: dict[str, bool] | None = None,
        *,
        format: int = FORMAT,
        max_tries: int = 5,
        lease_minutes: float = 120,
        backoff_minutes: float = 60,
    ) -> None:
        self.kinds = tuple(kinds)
        self.results = dict(RESULTS if results is None else results)
        self.format = format
        self.max_tries = max_tries
        self.lease_minutes = lease_minutes
        self.backoff_minutes = backoff_minutes

    def to_json(self) -> dict[str, Json]:
        """The object that queue.json holds."""
        return {
            "format": self.format,
            "kinds": list(self.kinds),
            "results": {word: {"counts": counts} for word, counts in self.results.items()},
            "max_tries": self.max_tries,
            "lease_minutes": self.lease_minutes,
            "backoff_minutes": self.backoff_minutes,
        }

    @classmethod
    def from_json(cls, value: Json) -> Settings:
        """Settings from what queue.json holds; a result counts unless told otherwise. Raises ValueError."""
        if not isinstance(value, dict) or not _is_whole(value.get("format")):
            raise ValueError("it has no format number")
        given = {**Settings().to_json(), **value}
        kinds, results, max_tries = given["kinds"], given["results"], given["max_tries"]
        if not isinstance(kinds, list) or not kinds or not all(isinstance(k, str) and names.is_kind(k) for k in kinds):
            raise ValueError('its "kinds" are not a list of names (lower-case letters, digits, - and _)')
        if not isinstance(results, dict) or not results or not all(isinstance(r, dict) for r in results.values()):
            raise ValueError('its "results" are not an object of objects')
        if not all(word and word.isprintable() for word in results):
            raise ValueError('a word of its "results" is empty or holds a control character')
        counts = {word: result.get("counts", True) for word, result in results.items()}
        if not all(isinstance(c, bool) for c in counts.values()):
            raise ValueError('the "counts" of its "results" are not all true or false')
        if not _is_whole(max_tries):
            raise ValueError('its "max_tries" is not a whole number above 0')
        lease_minutes, backoff_minutes = given["lease_minutes"], given["backoff_minutes"]
        if not _is_minutes(lease_minutes) or not lease_minutes:
            raise ValueError('its "lease_minutes" are not a number above 0, at most ten years')
        if not _is_minutes(backoff_minutes):
            raise ValueError('its "backoff_minutes" are not a number of 0 or more, at most ten years')
        return cls(
            kinds, counts, format=value["format"], max_tries=max_tries,
            lease_minutes=lease_minutes, backoff_minutes=backoff_minutes,
        )  # fmt: skip


def new_settings(kinds: Iterable[str] | None, results: dict[str, bool] | None) -> Settings:
    """The settings of a queue to be made. Raises BadInput for what queue.json could not hold."""
    settings = Settings(KINDS if kinds is None else dict.fromkeys(words(kinds, "kinds")))
    if results is not None:
        if not isinstance(results, dict):
            raise BadInput(f"The results are words with whether they count, like {{'hit': True}}, not {results!r}.")
        settings.results = dict(results)
    try:
        return Settings.from_json(settings.to_json())
    except ValueError as error:
        raise BadInput(f"These settings make no queue: {error}.") from None


def _is_whole(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= PRIORITY_MAX


def _is_minutes(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value * 60 <= LEASE_MAX_SECONDS
