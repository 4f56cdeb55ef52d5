"""JSON, a line at a time: what `json` says, without importing it, and stricter."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gwtq import Queue, jsonline

from . import steady

texts = st.text(st.characters(blacklist_categories=("Cs",)))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(scalars, lambda some: st.lists(some) | st.dictionaries(texts, some), max_leaves=4)

DEEP = "[" * 100_000 + "]" * 100_000
NO_JSON = [
    "", " ", "{", "}", '{"a": }', '{"a": 1,}', "{'a': 1}", '{"a": 1} x', '{"a": 1}{"a": 1}', "[1, 2", "nul", "01",
    "+1", "1.", ".5", "1e", "0x10", "--1", '"a', '"\x01"', '"\\x"', '"\\u12"', "\ufeff{}", "\u00a0{}", "{}\u2028", "\0",
    "truE", "<<<<<<< HEAD", "NaN", "Infinity", "-Infinity", '{"a": NaN}', "1e400", "-1e999", DEEP, "9" * 1001,
]  # fmt: skip


@steady
@given(values)
def test_what_is_written_here_json_reads_and_the_other_way_round(value):
    text = jsonline.dumps(value)
    assert json.loads(text) == value
    assert jsonline.loads(text) == value
    assert jsonline.loads(json.dumps(value)) == value
    assert text == json.dumps(value, ensure_ascii=False)


def outcome(loads, text):
    """The value, or the refusal."""
    try:
        return loads(text)
    except ValueError:
        return ValueError


@steady
@given(st.text('{}[]",:0123456789.eE+-\\trufals \t\r\n', max_size=12) | values.map(json.dumps).map(lambda t: t[:-1]))
def test_what_json_refuses_is_refused(text):
    ours, theirs = outcome(jsonline.loads, text), outcome(json.loads, text)
    assert ours == theirs or (ours is ValueError and "inf" in repr(theirs))


@pytest.mark.parametrize("text", NO_JSON)
def test_what_is_no_json_is_refused_with_a_sentence(text):
    with pytest.raises(ValueError, match=r"[a-z]"):
        jsonline.loads(text)


@pytest.mark.parametrize("number", ["9007199254740993", "-1" + "0" * 30, "0", "-0", "9" * 1000])
def test_whole_numbers_keep_every_digit(number):
    value = jsonline.loads(number)
    assert type(value) is int
    assert value == int(number)
    assert jsonline.dumps(value) == str(int(number))


@steady
@given(values)
def test_an_entry_is_one_line_for_whoever_splits_at_newlines(value):
    assert "\n" not in jsonline.dumps(value)


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), {1}, b"x", {"a": object()}, [2j]])
def test_what_json_has_no_word_for_is_not_written(value):
    with pytest.raises((TypeError, ValueError), match=r"no place in a record|not JSON compliant"):
        jsonline.dumps(value)


# --- what people and programs hand in


@steady
@given(st.dictionaries(texts, values, max_size=2))
def test_an_object_is_read_with_or_without_bom_and_crlf(value):
    raw = json.dumps(value, ensure_ascii=False).encode("utf-8")
    assert jsonline.strict_object(raw) == value
    assert jsonline.strict_object(b"\xef\xbb\xbf" + raw + b"\r\n") == value


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b'{"a": 1, "b": 2, "a": 1}', "the key 'a' is there twice"),
        (b'{"b": 2, "a": 1, "a": 1}', "the key 'a' is there twice"),
        (b'{"x": {"a": 1, "a": 2}}', "the key 'a' is there twice"),
        (b'{"a": 1, "\\u0061": 1}', "the key 'a' is there twice"),
        (b'{"a": NaN}', "NaN is not a number of JSON"),
        (b'{"a": [-Infinity]}', "-Infinity is not a number of JSON"),
        (b'{"a": 1e400}', "1e400 is too large"),
        (b'{"a": %s}' % (b"9" * 5000), "a number of 5000 digits is too large"),
        (b"[1]", "it is no JSON object"),
        (b"5", "it is no JSON object"),
        (b"null", "it is no JSON object"),
        (b'{"a": 1} x', "it is no JSON: Extra data at column 10"),
        (b'{"a": 1', "it is no JSON: .* at column 8"),
        (b"", "it is no JSON: .* at column 1"),
        (b'{"a": "\xff"}', "it is not UTF-8 text"),
        (b'{"a": "\xed\xa0\x80"}', "it is not UTF-8 text"),
        (b'{"a": "caf\xe9"}', "it is not UTF-8 text"),
        (b'{"a": "x\x00"}', "it is no JSON: Invalid control character"),
        (b'{"a": ' + DEEP.encode() + b"}", "it is nested too deeply"),
    ],
)
def test_a_line_that_cannot_be_used_says_why(raw, why):
    with pytest.raises(ValueError, match="^" + why):
        jsonline.strict_object(raw)


def test_a_refreshed_note_may_hold_what_unicode_calls_a_line_end(tmp_path):
    queue = Queue.create(str(tmp_path / "cola"), durable=False)
    batch = [{"person": "Ana", "note": "a"}, {"person": "Eva", "note": "b"}]
    queue.add_many(batch)
    odd = [{**task, "note": "x\u2028y\u0085z\x1c\x0b"} for task in batch]
    assert queue.add_many(odd, dedupe=True) == [("q1", "refreshed"), ("q2", "refreshed")]
    assert {task.note for task in queue.tasks()} == {"x\u2028y\u0085z\x1c\x0b"}


# --- other interpreters

AGREES = """
import sys
if sys.argv[1] == "without":
    sys.modules["_json"] = None
from gwtq import jsonline
assert ("json" in sys.modules) == (sys.argv[1] == "without")
for line in sys.stdin.buffer:
    try:
        print(ascii(jsonline.loads(line.decode("utf-8"))))
    except ValueError:
        print("refused")
import json, random
for seed in range(50):
    value = {"a": [seed, None, True, -0.5 * seed, chr(random.Random(seed).randrange(0x80, 0xd800)), {}, "\\x00\\"\\\\"]}
    assert json.loads(jsonline.dumps(value)) == jsonline.loads(jsonline.dumps(value)) == value
"""


@pytest.mark.parametrize("c_module", ["with", "without"])
def test_it_does_without_the_c_module(c_module):
    good = ['{"a": [1, -2.5e3, "\\u00e9\\n", null, true]}', "[]", '"ñ\u2028"', "5"]
    bad = [text for text in NO_JSON if "\n" not in text]
    told = subprocess.run(
        [sys.executable, "-c", AGREES, c_module],
        input="\n".join([*good, *bad]).encode("utf-8"),
        stdout=subprocess.PIPE,
        check=True,
        cwd=os.path.dirname(os.path.dirname(os.path.dirname(__file__))),
    ).stdout.decode("ascii").splitlines()  # fmt: skip
    assert told == [ascii(json.loads(text)) for text in good] + ["refused"] * len(bad)
