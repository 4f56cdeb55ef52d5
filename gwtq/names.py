"""File names <-> fields. Pure: no disk, no clock.

    id        q1 q2 ...                     'q', no leading zero, up to ten digits
    stamp     20261130T190507Z              UTC, whole seconds
    gen       6a1c9f03k7m2p9                the second of writing in hex, then 30 random bits
    token     8x0wq3vt51zd                  60 random bits; an imported one is percent-encoded

    pending/…/        ID.HEAD               ready
                      ID.HEAD.DUE           waiting until DUE; the stamp stays when it is promoted
    claimed/          ID.HEAD.TOKEN.SINCE.UNTIL.LANE
    recovering/       ID.HEAD.TOKEN.SINCE.UNTIL.LANE.SWEEPER.UNTIL
    done/… failed/…   ID.HEAD

HEAD is the generation of the entry that the task's log ends with (`doc/format.md`). Every name that gwtq makes is made
here, and every name that it finds is parsed here: what does not parse is not ours and is left alone.
No name exceeds 200 bytes: an id takes 11, a generation 14, a token of our own 12, a stamp 16, a lane at most 100. A
claim's takes 174 at most, so that it fits into recovering/ too.
"""

from __future__ import annotations

from time import gmtime, strftime

PENDING, CLAIMED, RECOVERING, DONE, FAILED = STATES = ("pending", "claimed", "recovering", "done", "failed")

ID_MAX = 9_999_999_999
NAME_MAX = 200
LANE_MAX = 100
CHANNEL_MAX = 158  # a staged leaf's name holds 'pending', a priority, a block, the channel and the leaf: 42 bytes more
TOKEN_MAX = 64
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
GEN_LENGTH, GEN_CHANCE, TOKEN_LENGTH, SWEEPER_LENGTH = 14, 6, 12, 8
CLAIM_NAME_MAX = NAME_MAX - (1 + SWEEPER_LENGTH + 1 + 16)  # recovering/ adds a sweeper and a stamp
DIGITS_MAX = 10  # of an id, a block, a leaf, a priority
READY_NAME_MAX = 1 + DIGITS_MAX + 1 + GEN_LENGTH  # of a task that never waited
LAST_SECOND, LAST_STAMP = 253402300799, "99991231T235959Z"

_HEX = frozenset("0123456789abcdef")
_LOWER = frozenset("0123456789abcdefghijklmnopqrstuvwxyz")
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


class BadName(ValueError):
    """A name that is not in the grammar."""


class Name:
    """The fields of a task's file name; those that its state does not have are empty."""

    __slots__ = ("head", "id", "lane", "number", "since", "sweeper", "sweeper_until", "token", "until")

    def __init__(
        self,
        id: str,
        head: str,
        *,
        until: str = "",
        token: str = "",
        since: str = "",
        lane: str = "",
        sweeper: str = "",
        sweeper_until: str = "",
    ) -> None:
        self.id = id
        self.number = int(id[1:])
        self.head = head
        self.until = until  # of a claim: the end of its lease; of a pending task: when it falls due
        self.token = token
        self.since = since
        self.lane = lane
        self.sweeper = sweeper
        self.sweeper_until = sweeper_until

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Name) and all(getattr(self, k) == getattr(other, k) for k in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "Name({})".format(", ".join(f"{k}={getattr(self, k)!r}" for k in self.__slots__ if getattr(self, k)))


# --- making names


def pending_name(id: str, head: str, due: str = "") -> str:
    """The name of a pending task: ready, or waiting until the stamp `due`."""
    return f"{id}.{head}.{due}" if due else f"{id}.{head}"


def claim_name(id: str, head: str, token: str, since: str, until: str, lane: str) -> str:
    """The name of a claim: whole from the instant it exists, since nothing else is written."""
    return f"{id}.{head}.{encode(token)}.{since}.{until}.{encode(lane)}"


def renewed_name(claim: str, until: str) -> str:
    """The name of the same claim with a later end of its lease."""
    parts = claim.split(".")
    parts[4] = until
    return ".".join(parts)


def recovering_name(claim: str, sweeper: str, until: str) -> str:
    """The name of an expired claim on its way back: the claim's own, then the sweeper's token and short lease."""
    return ".".join((*claim.split(".")[:6], sweeper, until))


def settled_name(id: str, head: str) -> str:
    """The name of a task in done/ or failed/."""
    return f"{id}.{head}"


def generation(second: int, chance: str) -> str:
    """A generation: `second` since 1970 and six letters of chance; new for each entry ever appended."""
    return f"{second:08x}{chance}"


def generation_second(gen: str) -> int:
    """When the entry of this generation was written, in seconds since 1970."""
    return int(gen[:8], 16)


def letters(chance: bytes) -> str:
    """Random bytes as letters of a name, five bits each."""
    return "".join([ALPHABET[b & 31] for b in chance])


# --- parsing names


def parse(state: str, text: str) -> Name:
    """The fields of a name found in `state`.

    Raises BadName for anything that gwtq would not have made: a foreign file, a conflict copy, a torn rename.
    """
    if state == CLAIMED:
        return parse_claim(text)
    if state == RECOVERING:
        return parse_recovering(text)
    parts = text.split(".")
    if not 2 <= len(parts) <= (3 if state == PENDING else 2):
        raise BadName(text)
    due = parts[2] if len(parts) == 3 else ""
    if len(parts) == 3 and not is_stamp(due):
        raise BadName(text)
    return Name(_id(parts[0], text), _gen(parts[1], text), until=due)


def parse_claim(text: str) -> Name:
    """The fields of a name in claimed/."""
    parts = text.split(".")
    if len(parts) != 6 or len(text) > CLAIM_NAME_MAX:
        raise BadName(text)
    return _claim(parts, text)


def parse_recovering(text: str) -> Name:
    """The fields of a name in recovering/."""
    parts = text.split(".")
    if len(parts) != 8 or len(text) > NAME_MAX or not is_stamp(parts[7]):
        raise BadName(text)
    if len(parts[6]) != SWEEPER_LENGTH or not _LOWER.issuperset(parts[6]):
        raise BadName(text)
    name = _claim(parts, text)
    name.sweeper, name.sweeper_until = parts[6:]
    return name


def _claim(parts: list[str], text: str) -> Name:
    id, head, token, since, until, lane = parts[:6]
    if not (is_stamp(since) and is_stamp(until) and 0 < len(token) <= TOKEN_MAX and 0 < len(lane) <= LANE_MAX):
        raise BadName(text)
    return Name(_id(id, text), _gen(head, text), token=decode(token), since=since, until=until, lane=decode(lane))


def _id(text: str, whole: str) -> str:
    if not is_id(text):
        raise BadName(whole)
    return text


def _gen(text: str, whole: str) -> str:
    if not is_gen(text):
        raise BadName(whole)
    return text


def is_id(text: str) -> bool:
    """Is this a task's id?"""
    digits = text[1:]
    return (
        text[:1] == "q" and 0 < len(digits) <= DIGITS_MAX and digits.isdigit() and digits.isascii() and digits[0] != "0"
    )


def is_gen(text: str) -> bool:
    """Is this a generation?"""
    return len(text) == GEN_LENGTH and _HEX.issuperset(text[:8]) and _LOWER.issuperset(text[8:])


def number_of(name: str) -> int:
    """The number of the id that a name begins with; 0 unless it begins with an id and a generation.

    Cheaper than `parse`; it does not look at what follows.
    """
    id, _, rest = name.partition(".")
    return int(id[1:]) if is_id(id) and is_gen(rest.partition(".")[0]) else 0


# --- percent-encoding


def encode(text: str) -> str:
    """Text as one component of a name: letters, digits, '-' and '_' as they are, every other byte as %XX."""
    if _PLAIN.issuperset(text):
        return text
    return "".join([chr(b) if chr(b) in _PLAIN else f"%{b:02X}" for b in text.encode("utf-8")])


def decode(text: str) -> str:
    """The inverse of `encode`. Raises BadName unless `text` is just what `encode` makes."""
    if _PLAIN.issuperset(text):
        return text
    first, *rest = text.split("%")
    try:
        raw = first.encode("ascii") + b"".join([bytes([int(p[:2], 16)]) + p[2:].encode("ascii") for p in rest])
        plain = raw.decode("utf-8")
    except ValueError:
        raise BadName(text) from None
    if encode(plain) != text:
        raise BadName(text)
    return plain


# --- stamps


def stamp(second: int) -> str:
    """Seconds since 1970 as ISO basic, UTC: it sorts as time does, so leases are compared as text."""
    return strftime("%Y%m%dT%H%M%SZ", gmtime(second)).rjust(16, "0")


def is_stamp(text: str) -> bool:
    """Is this a stamp, of an instant that exists?"""
    digits = text[:8] + text[9:15]
    if len(text) != 16 or text[8] != "T" or text[15] != "Z" or not (digits.isdigit() and digits.isascii()):
        return False
    if "01" <= text[4:6] <= "12" and "01" <= text[6:8] <= "28":  # then only the time of day can be wrong
        return text[9:11] < "24" and text[11:13] < "60" and text[13:15] < "60"
    return stamp(seconds(text)) == text


def seconds(text: str) -> int:
    """A stamp as seconds since 1970. Days by H. Hinnant's days_from_civil (datetime costs a lane's start-up 3 ms)."""
    year, month, day = int(text[:4]), int(text[4:6]), int(text[6:8])
    if month <= 2:
        year -= 1
    era_year = year % 400
    year_day = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    days = year // 400 * 146097 + era_year * 365 + era_year // 4 - era_year // 100 + year_day - 719468
    return days * 86400 + int(text[9:11]) * 3600 + int(text[11:13]) * 60 + int(text[13:15])


def iso(text: str) -> str:
    """A stamp as people read it: 2026-11-30T19:05:07Z; '' stays ''."""
    if not text:
        return ""
    return f"{text[:4]}-{text[4:6]}-{text[6:11]}:{text[11:13]}:{text[13:]}"


def from_iso(text: str) -> str:
    """The inverse of `iso`."""
    return text.replace("-", "").replace(":", "")


# --- directories below the states


def channel_name(kind: str, source: str) -> str:
    """The channel of a task, its kind and source: the end of a block's name."""
    return f"{kind}.{encode(source)}" if source else kind


def parse_channel(text: str) -> tuple[str, str]:
    """(kind, source) of a channel. Raises BadName."""
    kind, dot, source = text.partition(".")
    if not is_kind(kind) or (dot and not source):
        raise BadName(text)
    return kind, decode(source)


def is_kind(text: str) -> bool:
    """Is this the name of a kind? Lower-case letters, digits, '-' and '_', a letter first, at most 40."""
    return 0 < len(text) <= 40 and "a" <= text[0] <= "z" and (_LOWER | {"-", "_"}).issuperset(text)


def parse_priority(text: str) -> int:
    """The priority that a directory of pending/ stands for. Raises BadName for `waiting` and all else."""
    digits = text[1:] if text[:1] == "-" else text
    plain = digits.isdigit() and digits.isascii() and len(digits) <= DIGITS_MAX
    if not plain or str(int(text)) != text:
        raise BadName(text)
    return int(text)
