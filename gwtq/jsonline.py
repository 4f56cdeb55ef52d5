"""JSON objects, one a line, without importing `json`.

A lane's commands decode one small record each. `import json` costs them 20 ms, nearly as much as the interpreter
itself, nearly all of it for `re` and `enum`; the scanner and the encoder that do the work are in the C module `_json`,
which `json` itself uses and which costs nothing (`doc/decisions/start-up.md`). Where it is missing, `json` does it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Union

    Json = Union[str, int, float, bool, None, list[Any], dict[str, Any]]
else:
    Json = object


_WHITE = " \t\n\r"
DIGITS_MAX = 1000  # of a whole number; newer interpreters refuse from 4,300 on, older ones take quadratic time


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is not a number of JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{digits} is too large")
    return number


def _whole(digits: str) -> int:
    if len(digits) > DIGITS_MAX:
        raise ValueError(f"a number of {len(digits)} digits is too large")
    return int(digits)


class _Strict:
    """What the scanner wants to know: the settings of a plain, strict decoder."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = staticmethod(_finite)
    parse_int = staticmethod(_whole)
    parse_constant = staticmethod(_refuse)


_NUMBERS: dict[str, Any] = {"parse_float": _finite, "parse_int": _whole, "parse_constant": _refuse}


def _no_place(value: object) -> Json:
    raise TypeError(f"{value!r} has no place in a record")


try:
    from _json import encode_basestring, make_encoder, make_scanner

    _scan = make_scanner(_Strict)  # type: ignore[arg-type]
    _encode = make_encoder(None, _no_place, encode_basestring, None, ": ", ", ", False, False, False)
except ImportError:  # not CPython
    from json import JSONDecoder, JSONEncoder

    _scan = JSONDecoder(**_NUMBERS).scan_once  # type: ignore[attr-defined]
    _encode = JSONEncoder(default=_no_place, ensure_ascii=False, allow_nan=False).iterencode  # type: ignore[assignment]


def loads(text: str) -> Json:
    """The value that `text` holds. Raises ValueError with a sentence."""
    text = text.strip(_WHITE)
    try:
        value, end = _scan(text, 0)
    except (StopIteration, ValueError, RecursionError, SystemError):
        return _complain(text)  # SystemError: 3.13's scanner expects json.decoder to be there when it complains
    if end != len(text):
        raise ValueError("something follows the JSON value")
    return value  # type: ignore[no-any-return]


def _complain(text: str) -> Json:
    import json

    try:
        return json.loads(text, **_NUMBERS)  # type: ignore[no-any-return]
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def strict_object(raw: bytes) -> dict[str, Json]:
    """The object of a line that a person or a program handed in: UTF-8, a BOM and CRLF allowed.

    Raises ValueError with a sentence for all else, for a key that is there twice, and for numbers that are not finite.
    """
    import json

    def once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            raise ValueError(f"the key {next(k for k in keys if keys.count(k) > 1)!r} is there twice")
        return found

    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
    try:
        value = json.loads(text, object_pairs_hook=once, **_NUMBERS)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return value


def dumps(value: Json) -> str:
    """Text, numbers, lists and objects as one line of JSON, text unescaped but for what JSON demands.

    Raises TypeError or ValueError for what JSON has no word for.
    """
    return "".join(_encode(value, 0))
