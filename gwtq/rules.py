"""The rules that know nothing of files: values, back-off, tries, identity. Pure.

What a person or a stream hands in is checked and normalised here, once; a value that cannot be used is refused with
a sentence that says what it was and what would do (BadInput).
"""

from __future__ import annotations

from . import names
from .errors import BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta
    from typing import Union

    from .jsonline import Json
    from .settings import Settings

    Duration = Union[timedelta, float]

PRIORITY_MAX = 1_000_000_000
TEXT_MAX = 100_000
YEAR_SECONDS = 366 * 86400
LEASE_MAX_SECONDS = 10 * YEAR_SECONDS
BACKOFF_MAX_SECONDS = 30 * 86400

STATUSES = ("open", "claimed", "done", "failed")
GIVEN = ("person", "label", "kind", "source", "query", "priority", "note", "next_at", "dedupe_key")


class Draft:
    """A task as it is asked for: every field checked and normalised, `given` naming those that the caller set."""

    __slots__ = (
        "dedupe_key", "given", "kind", "next_at", "note", "person_key", "person_label", "priority", "query", "source",
    )  # fmt: skip

    person_key: str
    person_label: str
    kind: str
    source: str
    query: str
    priority: int
    note: str
    next_at: str
    dedupe_key: str
    given: frozenset[str]

    def fields(self) -> dict[str, Json]:
        """The fields that the record holds; empty ones are left out."""
        values: dict[str, Json] = {}
        for key in (
            "person_key", "person_label", "kind", "source", "query", "priority", "note", "next_at", "dedupe_key",
        ):  # fmt: skip
            value = getattr(self, key)
            if value or key == "priority":
                values[key] = value
        return values


def draft(values: dict[str, Json], settings: Settings, *, typed: bool = True) -> Draft:
    """Check and normalise one task as asked for; absent or None means not given.

    `typed`: by a person, so the priority may be a text; what a program hands in has types, and must have them right.
    Raises BadInput with what is wrong and what would do.
    """
    if not isinstance(values, dict):
        raise BadInput(f"A task is an object with fields, not {values!r}.")
    for key in values:
        if key not in GIVEN:
            raise BadInput(f"There is no field {key!r}; the fields are {', '.join(GIVEN)}.")
    given = {key: value for key, value in values.items() if value is not None}
    texts = {key: text(given[key], key) if key in given else "" for key in GIVEN if key != "priority"}
    new = Draft()
    new.given = frozenset(given)
    new.person_key = slug(texts["person"])
    if not new.person_key:
        raise BadInput("A task needs a person: a name with at least one letter or digit.")
    new.person_label = texts["label"] or texts["person"]
    new.source = slug(texts["source"])
    if texts["source"] and not new.source:
        raise BadInput(f"The source {texts['source']!r} has no letter or digit.")
    new.kind = kind(texts["kind"] or ("search" if new.source else "sweep"), settings)
    channel(new.kind, new.source)
    new.query = query(texts["query"])
    wanted = given.get("priority", 0)
    new.priority = typed_priority(wanted) if typed and isinstance(wanted, str) else priority(wanted)
    new.note = texts["note"]
    new.next_at = names.iso(instant(texts["next_at"], "next_at")) if texts["next_at"] else ""
    new.dedupe_key = texts["dedupe_key"]
    return new


# --- single values


def text(value: Json, what: str) -> str:
    """A text that a record can hold. Raises BadInput for another type, NUL, a lone surrogate, or too much of it."""
    if not isinstance(value, str):
        raise BadInput(f"The {what} must be a text, not {value!r}.")
    if "\0" in value:
        raise BadInput(f"The {what} holds a NUL character.")
    if len(value) > TEXT_MAX:
        raise BadInput(f"The {what} is longer than {TEXT_MAX:,} characters.")
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise BadInput(f"The {what} is not UTF-8 text: {value!r}.") from None
    return value


def kind(value: str, settings: Settings) -> str:
    """One of the queue's own kinds."""
    if value not in settings.kinds:
        raise BadInput(f"There is no kind {value!r} in this queue; its kinds are {', '.join(settings.kinds)}.")
    return value


def channel(kind: str, source: str) -> str:
    """The channel of a kind and a source, as a part of a directory's name."""
    name = names.channel_name(kind, source)
    if len(name) > names.CHANNEL_MAX:
        raise BadInput(f"The source is too long: percent-encoded, with the kind, it exceeds {names.CHANNEL_MAX} bytes.")
    return name


def result(value: str, settings: Settings) -> str:
    """One of the queue's own results."""
    if value not in settings.results:
        raise BadInput(f"There is no result {value!r} in this queue; its results are {', '.join(settings.results)}.")
    return value


def status(value: str) -> str:
    """One of the words that people see."""
    if value not in STATUSES:
        raise BadInput(f"There is no status {value!r}; it is one of {', '.join(STATUSES)}.")
    return value


def lane(value: str) -> str:
    """A lane's name that fits into a file's name."""
    text(value, "lane")
    if not any(c.isprintable() and not c.isspace() for c in value):
        raise BadInput("A lane needs a name.")
    if len(names.encode(value)) > names.LANE_MAX:
        raise BadInput(f"The lane's name is too long: percent-encoded it exceeds {names.LANE_MAX} bytes.")
    return value


def task_id(value: str) -> str:
    """An id in the grammar."""
    if not isinstance(value, str) or not names.is_id(value):
        raise BadInput(f"{value!r} is no task's id; an id looks like q12.")
    return value


def priority(value: Json) -> int:
    """A whole number within ±1,000,000,000."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInput(f"The priority must be a whole number, not {value!r}.")
    if abs(value) > PRIORITY_MAX:
        raise BadInput(f"The priority is beyond ±{PRIORITY_MAX:,}.")
    return value


def typed_priority(value: str) -> int:
    """A priority as typed."""
    sign = value[:1] if value[:1] in ("-", "+") else ""
    number = _digits(value[len(sign) :])
    if number is None:
        raise BadInput(f"The priority must be a whole number, not {value!r}.")
    return priority(-number if sign == "-" else number)


def count(value: str, what: str, least: int = 1) -> int:
    """A whole number of at least `least`, as typed."""
    number = _digits(value)
    if number is None or not least <= number <= PRIORITY_MAX:
        raise BadInput(f"{what} must be a whole number from {least} to {PRIORITY_MAX:,}, not {value!r}.")
    return number


def _digits(value: str) -> int | None:
    """The number that plain digits write; one beyond any bound here if there are many of them, however many."""
    if not (value.isdigit() and value.isascii()):
        return None
    return int(value.lstrip("0")[:12] or "0")


def minutes(value: str, what: str) -> float:
    """Minutes as typed, fractions allowed, in seconds. Raises BadInput unless finite and not negative."""
    try:
        number = float(value) if value.isascii() and "_" not in value else float("nan")
    except ValueError:
        number = float("nan")
    if not 0 <= number < float("inf"):
        raise BadInput(f"{what} must be a number of minutes, 0 or more, not {value!r}.")
    return number * 60


def words(given: Iterable[str] | None, what: str) -> list[str]:
    """A list of words. Raises BadInput for a text, whose letters would be taken for them."""
    if isinstance(given, str):
        raise BadInput(f"The {what} are a list of words, not {given!r}.")
    return list(given or ())


def seconds_of(duration: Duration | None, default: float) -> float:
    """A timedelta or seconds as seconds. Raises BadInput for anything else."""
    if duration is None:
        return default
    total = getattr(duration, "total_seconds", lambda: duration)()
    if isinstance(total, bool) or not isinstance(total, (int, float)):
        raise BadInput(f"A duration is a timedelta or a number of seconds, not {duration!r}.")
    return total


def lease(seconds: float) -> float:
    """The seconds of a lease: above 0, at most ten years."""
    if not 0 < seconds <= LEASE_MAX_SECONDS:
        raise BadInput("A lease must be longer than 0 minutes and at most ten years.")
    return seconds


def retry_after(seconds: float) -> float:
    """The seconds of a back-off or cool-down: at most ten years."""
    if not 0 <= seconds <= LEASE_MAX_SECONDS:
        raise BadInput("A back-off must be at least 0 minutes and at most ten years.")
    return seconds


def backoff(seconds: float, attempts: int) -> float:
    """Seconds until a failed task may be tried again: `seconds` for each attempt so far, at most 30 days."""
    return min(seconds * min(attempts, BACKOFF_MAX_SECONDS), BACKOFF_MAX_SECONDS)


def instant(value: str, what: str) -> str:
    """A time as typed, as a stamp: ISO 8601 with a year; without a zone it is UTC; fractions round up.

    Raises BadInput for anything else, for instants that do not exist, and beyond the year 9999.
    """
    import re
    from datetime import datetime, timedelta, timezone

    shape = re.fullmatch(
        r"(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?\s*([Zz]|[+-]\d\d(?::?\d\d)?)?)?",
        value.strip(),
        re.ASCII,
    )
    if not shape:
        raise BadInput(f"The {what} must be a time like 2026-11-30T19:05:00Z, not {value!r}.")
    *digits, fraction, zone = shape.groups()
    try:
        moment = datetime(*[int(d or 0) for d in digits], tzinfo=timezone.utc)  # type: ignore[misc, arg-type]
        if fraction and fraction.strip("0"):
            moment += timedelta(seconds=1)
        if zone and zone not in "Zz":
            hours, rest = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
            if hours > 23 or rest > 59:
                raise ValueError(f"there is no zone {zone}")
            offset = timedelta(hours=hours, minutes=rest)
            moment -= offset if zone[0] == "+" else -offset
    except (ValueError, OverflowError) as error:
        raise BadInput(f"The {what} {value!r} does not exist: {error}.") from None
    return moment.strftime("%Y%m%dT%H%M%SZ").rjust(16, "0")


# --- normalising and identity


def slug(value: str) -> str:
    """Text as a key: NFKD, marks dropped, casefold, runs of anything but letters and digits become '-'.

    Letters of other scripts are kept.
    """
    folded = value.lower() if value.isascii() else _folded(value)
    return "-".join("".join([c if c.isalnum() else " " for c in folded]).split())


def query(value: str) -> str:
    """A search as the ledger writes it: NFC, casefold, white space folded, accents kept."""
    if value.isascii():
        return " ".join(value.lower().split())
    from unicodedata import normalize

    return " ".join(normalize("NFC", normalize("NFC", value).casefold()).split())


def identity(person_key: str, kind: str, source: str, query: str, dedupe_key: str) -> str:
    """What --dedupe compares: the dedupe_key if set, else person, kind, source and query without accents."""
    if dedupe_key:
        from unicodedata import normalize

        return "key\0" + normalize("NFC", dedupe_key)
    plain = query if query.isascii() else " ".join(_folded(query).split())
    return "\0".join(("task", person_key, kind, source, plain))


def _folded(value: str) -> str:
    return _without_marks(_without_marks(value).casefold())


def _without_marks(value: str) -> str:
    from unicodedata import category, normalize

    return "".join([c for c in normalize("NFKD", value) if category(c)[0] != "M"])
