"""Names: the grammar, from both sides. What is made parses to what it was made of, and nothing else parses."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from gwtq import names
from gwtq.names import CLAIMED, DONE, FAILED, PENDING, RECOVERING, BadName, Name

from . import steady

HEAD, TOKEN, SWEEPER = "6b0de0f1k7m2p9", "8x0wq3vt51zd", "p9xd2m7k"
SINCE, UNTIL, DUE = "20261130T190507Z", "20261130T210507Z", "20261130T190530Z"
CLAIM = f"q14.{HEAD}.{TOKEN}.{SINCE}.{UNTIL}.lane-2"

GOOD = [
    (PENDING, f"q1.{HEAD}", Name("q1", HEAD)),
    (PENDING, f"q9999999999.{HEAD}", Name("q9999999999", HEAD)),
    (PENDING, f"q13.{HEAD}.{DUE}", Name("q13", HEAD, until=DUE)),
    (PENDING, f"q13.{HEAD}.99991231T235959Z", Name("q13", HEAD, until="99991231T235959Z")),
    (PENDING, "q13.00000000000000.00010101T000000Z", Name("q13", "0" * 14, until="00010101T000000Z")),
    (CLAIMED, CLAIM, Name("q14", HEAD, token=TOKEN, since=SINCE, until=UNTIL, lane="lane-2")),
    (
        CLAIMED,
        f"q14.{HEAD}.0b%2E7d.{SINCE}.{UNTIL}.lane%203%20%28ni%C3%B1o%29",
        Name("q14", HEAD, token="0b.7d", since=SINCE, until=UNTIL, lane="lane 3 (niño)"),
    ),
    (
        CLAIMED,
        f"q14.{HEAD}.{TOKEN}.{SINCE}.{SINCE}._A-9%0A%25",
        Name("q14", HEAD, token=TOKEN, since=SINCE, until=SINCE, lane="_A-9\n%"),
    ),
    (
        RECOVERING,
        f"{CLAIM}.{SWEEPER}.20261130T210509Z",
        Name(
            "q14", HEAD, token=TOKEN, since=SINCE, until=UNTIL, lane="lane-2",
            sweeper=SWEEPER, sweeper_until="20261130T210509Z",
        ),
    ),
    (DONE, f"q12345.{HEAD}", Name("q12345", HEAD)),
    (FAILED, f"q99.{HEAD}", Name("q99", HEAD)),
]  # fmt: skip

BAD = [
    (PENDING, ""),
    (PENDING, "q1"),
    (PENDING, "q1."),
    (PENDING, f".{HEAD}"),
    (PENDING, f"q.{HEAD}"),
    (PENDING, f"q0.{HEAD}"),
    (PENDING, f"q01.{HEAD}"),
    (PENDING, f"q-1.{HEAD}"),
    (PENDING, f"q1_0.{HEAD}"),
    (PENDING, f"q\u0661.{HEAD}"),
    (PENDING, f"q²3.{HEAD}"),
    (PENDING, f"Q1.{HEAD}"),
    (PENDING, f"q10000000000.{HEAD}"),
    (PENDING, f"q1.{HEAD.upper()}"),
    (PENDING, f"q1.g{HEAD[1:]}"),
    (PENDING, f"q1.{HEAD[:-1]}"),
    (PENDING, f"q1.{HEAD}0"),
    (PENDING, f"q1.{HEAD}."),
    (PENDING, f"q1.{HEAD}.{DUE}.{DUE}"),
    (PENDING, f"q1.{HEAD}.waiting"),
    (PENDING, CLAIM),
    (CLAIMED, f"q14.{HEAD}"),
    (CLAIMED, f"q14.{HEAD}..{SINCE}.{UNTIL}.lane-2"),
    (CLAIMED, f"q14.{HEAD}.{TOKEN}.{SINCE}.{UNTIL}."),
    (CLAIMED, f"q14.{HEAD}.{TOKEN}.{SINCE}..lane-2"),
    (CLAIMED, f"q14.{HEAD}.{TOKEN}.{SINCE}.{UNTIL}.lane 2"),
    (CLAIMED, f"q14.{HEAD}.{TOKEN}.{SINCE}.{UNTIL}.lane%2"),
    (CLAIMED, f"q14.{HEAD}.{'t' * 65}.{SINCE}.{UNTIL}.l"),
    (CLAIMED, f"{CLAIM}.{SWEEPER}.{UNTIL}"),
    (CLAIMED, f"q0.{CLAIM[4:]}"),
    (RECOVERING, CLAIM),
    (RECOVERING, f"{CLAIM}.{SWEEPER}"),
    (RECOVERING, f"{CLAIM}.{SWEEPER[1:]}.{UNTIL}"),
    (RECOVERING, f"{CLAIM}.{SWEEPER.upper()}.{UNTIL}"),
    (RECOVERING, f"{CLAIM}.{SWEEPER}.{UNTIL[:-1]}"),
    (DONE, f"q1.{HEAD}.{DUE}"),
    (FAILED, f"q1.{HEAD}.json"),
]
FOREIGN = [
    ".DS_Store", f"._q1.{HEAD}", ".nfs0001", f"q1.{HEAD}~", f"#q1.{HEAD}#", f".q1.{HEAD}.swp", "4913",
    f"q1.{HEAD} (conflicted copy)", f"q1.{HEAD} 2", f"q1.{HEAD}.sync-conflict", "desktop.ini", "Thumbs.db",
    "lost+found", ".Trash-1000", ".git", f"q1.{HEAD}\n", f" q1.{HEAD}", f"q1.{HEAD}.tmp",
]  # fmt: skip

ids = st.integers(1, names.ID_MAX).map("q{}".format)
heads = st.builds(names.generation, st.integers(0, 2**32 - 1), st.binary(min_size=6, max_size=6).map(names.letters))
stamps = st.integers(-62135596800, names.LAST_SECOND).map(names.stamp)
tokens = st.binary(min_size=12, max_size=12).map(names.letters)
sweepers = st.binary(min_size=8, max_size=8).map(names.letters)
texts = st.text(st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=40)
lanes = texts.filter(lambda text: len(names.encode(text)) <= names.LANE_MAX)


def made(state: str, name: Name) -> str:
    """The text of a name, made anew from its fields."""
    if state == PENDING:
        return names.pending_name(name.id, name.head, name.until)
    if state in (DONE, FAILED):
        return names.settled_name(name.id, name.head)
    claim = names.claim_name(name.id, name.head, name.token, name.since, name.until, name.lane)
    return names.recovering_name(claim, name.sweeper, name.sweeper_until) if state == RECOVERING else claim


# --- whole names


@pytest.mark.parametrize(("state", "text", "name"), GOOD)
def test_a_good_name_tells_its_fields(state, text, name):
    assert names.parse(state, text) == name
    assert made(state, name) == text


@pytest.mark.parametrize(("state", "text"), BAD)
def test_what_gwtq_would_not_have_made_is_refused(state, text):
    with pytest.raises(BadName):
        names.parse(state, text)


@pytest.mark.parametrize("state", names.STATES)
@pytest.mark.parametrize("text", FOREIGN)
def test_a_foreign_file_is_in_no_state_a_task(state, text):
    with pytest.raises(BadName):
        names.parse(state, text)


@pytest.mark.parametrize(("state", "text", "name"), GOOD)
def test_one_letter_less_more_or_other_is_refused_or_means_just_itself(state, text, name):
    refused = 0
    for at in range(len(text) + 1):
        for letter in ("", *"q0aZ.-%/ \n\xe9\u0661"):
            for mutant in (text[:at] + letter + text[at:], text[:at] + letter + text[at + 1 :]):
                try:
                    again = names.parse(state, mutant)
                except BadName:
                    refused += 1
                else:
                    assert made(state, again) == mutant
                    assert (again == name) == (mutant == text)
    assert refused > 10 * len(text)


@steady
@given(ids, heads, st.just("") | stamps)
def test_a_pending_name_comes_back(id, head, due):
    text = names.pending_name(id, head, due)
    assert names.parse(PENDING, text) == Name(id, head, until=due)
    assert names.number_of(text) == int(id[1:])


@steady
@given(ids, heads, st.sampled_from([DONE, FAILED]))
def test_a_settled_name_comes_back(id, head, state):
    assert names.parse(state, names.settled_name(id, head)) == Name(id, head)


@steady
@given(ids, heads, tokens, stamps, stamps, lanes)
@example("q9999999999", HEAD, TOKEN, SINCE, UNTIL, "\N{MAN}\u200d\N{WOMAN}\0./%\u2028")
def test_a_claims_name_comes_back_whatever_its_lane_is_called(id, head, token, since, until, lane):
    text = names.claim_name(id, head, token, since, until, lane)
    assert names.parse_claim(text) == Name(id, head, token=token, since=since, until=until, lane=lane)
    assert text.isascii()
    assert len(text) <= 174


@steady
@given(ids, texts, lanes)
def test_an_imported_token_comes_back_if_the_claim_can_be_swept(id, token, lane):
    text = names.claim_name(id, HEAD, token, SINCE, UNTIL, lane)
    assume(len(names.encode(token)) <= names.TOKEN_MAX and len(text) <= names.CLAIM_NAME_MAX)
    assert names.parse_claim(text).token == token


@steady
@given(ids, heads, tokens, lanes, sweepers, stamps)
def test_a_swept_claims_name_keeps_the_claim(id, head, token, lane, sweeper, until):
    claim = names.claim_name(id, head, token, SINCE, UNTIL, lane)
    once = names.recovering_name(claim, sweeper, until)
    assert names.parse(RECOVERING, once) == Name(
        id, head, token=token, since=SINCE, until=UNTIL, lane=lane, sweeper=sweeper, sweeper_until=until
    )
    assert names.recovering_name(once, SWEEPER, DUE) == f"{claim}.{SWEEPER}.{DUE}"
    assert len(once) <= names.NAME_MAX


@steady
@given(ids, heads, tokens, lanes, stamps)
def test_a_renewed_claim_differs_in_the_end_of_its_lease_alone(id, head, token, lane, until):
    claim = names.claim_name(id, head, token, SINCE, UNTIL, lane)
    assert names.renewed_name(claim, until) == names.claim_name(id, head, token, SINCE, until, lane)


def test_the_longest_claim_fits_into_a_name_when_it_is_swept():
    longest = names.claim_name(f"q{names.ID_MAX}", HEAD, TOKEN, SINCE, UNTIL, "%" * 33 + "x")
    assert len(longest) == names.CLAIM_NAME_MAX
    assert len(names.recovering_name(longest, SWEEPER, UNTIL)) == names.NAME_MAX == 200
    assert names.parse_recovering(names.recovering_name(longest, SWEEPER, UNTIL)).lane == "%" * 33 + "x"


def test_a_claim_that_could_not_be_swept_is_not_ours():
    claim = names.claim_name(f"q{names.ID_MAX}", HEAD, TOKEN + "t", SINCE, UNTIL, "x" * 100)
    assert len(claim) == names.CLAIM_NAME_MAX + 1
    with pytest.raises(BadName):
        names.parse_claim(claim)


def test_names_compare_by_their_fields_and_say_them():
    name = names.parse(PENDING, f"q13.{HEAD}.{DUE}")
    assert name != Name("q13", HEAD)
    assert name != "q13"
    assert repr(name) == f"Name(head={HEAD!r}, id='q13', number=13, until={DUE!r})"


# --- ids and generations


@pytest.mark.parametrize("text", ["q1", "q12", "q9999999999"])
def test_an_id_is_q_and_up_to_ten_digits(text):
    assert names.is_id(text)


@pytest.mark.parametrize(
    "text",
    ["", "q", "q0", "q01", "1", "Q1", "q1 ", " q1", "q-1", "q+1", "q1.0", "q1_0", "q10000000000", "q\u0661", "q²",
     "../q1", "a/b", ".", "..", " ", "-rf", "CON", "/etc/passwd", "q" * 300, "*", "q1\n", "q1\0"],
)  # fmt: skip
def test_anything_else_is_no_id(text):
    assert not names.is_id(text)


@pytest.mark.parametrize("text", [f"q12.{HEAD}", f"q12.{HEAD}.{DUE}", f"q12.{CLAIM[4:]}", f"q12.{HEAD}.json"])
def test_a_number_is_told_by_id_and_generation_alone(text):
    assert names.number_of(text) == 12


@pytest.mark.parametrize(
    "text", ["", "q12", f"q12{HEAD}", f"q012.{HEAD}", f"q12.{HEAD} 2", f"q12.{HEAD}~", "x12.y", HEAD]
)
def test_a_name_without_them_has_no_number(text):
    assert names.number_of(text) == 0


@steady
@given(st.integers(0, 2**32 - 1), st.binary(min_size=6, max_size=6))
def test_a_generation_tells_the_second_it_was_written_in(second, chance):
    gen = names.generation(second, names.letters(chance))
    assert names.is_gen(gen)
    assert names.generation_second(gen) == second


def test_letters_take_five_bits_of_each_byte_and_are_hard_to_misread():
    assert names.letters(bytes(range(256))) == names.ALPHABET * 8
    assert sorted(set(names.ALPHABET)) == list(names.ALPHABET)
    assert not set(names.ALPHABET) & set("ilo")


# --- percent-encoding


@steady
@given(texts)
def test_an_encoded_text_comes_back(text):
    assert names.decode(names.encode(text)) == text


@steady
@given(st.lists(st.sampled_from(["%", "2", "E", "e", "C3", "A9", "41", "x", "_", ".", "ñ"])).map("".join))
def test_what_decodes_was_encoded_just_so(text):
    try:
        plain = names.decode(text)
    except BadName:
        return
    assert names.encode(plain) == text


def test_letters_digits_dash_and_underscore_stay_readable():
    assert names.encode("Lane_3-b ñ.") == "Lane_3-b%20%C3%B1%2E"


@pytest.mark.parametrize(
    "text",
    [
        "%",
        "%2",
        "%2e",
        "%41",
        "%ZZ",
        "%+1",
        "% 1",
        "%-1",
        "a.b",
        "a b",
        "ñ",
        "%FF",
        "%C3",
        "%ED%A0%80",
        "%C0%AF",
        "%2E%",
    ],
)
def test_an_encoding_that_is_not_ours_is_refused(text):
    with pytest.raises(BadName):
        names.decode(text)


# --- stamps


@steady
@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)))
@example(datetime(1, 1, 1))
@example(datetime(1900, 2, 28, 23, 59, 59))
@example(datetime(2000, 2, 29))
@example(datetime(9999, 12, 31, 23, 59, 59))
def test_stamps_agree_with_datetime(moment):
    moment = moment.replace(microsecond=0, tzinfo=timezone.utc)
    second = (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(seconds=1)
    text = moment.isoformat().replace("+00:00", "Z").replace("-", "").replace(":", "")
    assert names.stamp(second) == text
    assert names.seconds(text) == second
    assert names.is_stamp(text)


@steady
@given(stamps, stamps)
def test_stamps_sort_as_time_does(one, other):
    assert (one < other) == (names.seconds(one) < names.seconds(other))


@pytest.mark.parametrize(
    "text",
    ["", "20261130", "20261130T1905Z", "20261130T190507", "20261130T190507z", "20261130 190507Z", "20261130T190507ZZ",
     "20260229T000000Z", "19000229T000000Z", "20261301T000000Z", "20260001T000000Z", "20261100T000000Z",
     "20261131T000000Z", "20261130T240000Z", "20261130T236000Z", "20261130T235960Z", "-0261130T190507Z",
     "2026\u0661130T190507Z", "99999999T999999Z", "2026113 T190507Z"],
)  # fmt: skip
def test_an_instant_that_does_not_exist_is_no_stamp(text):
    assert not names.is_stamp(text)


@steady
@given(stamps)
def test_the_readable_form_of_a_stamp_comes_back(stamp):
    assert names.from_iso(names.iso(stamp)) == stamp


def test_people_read_a_stamp_as_iso_8601():
    assert names.iso("20261130T190507Z") == "2026-11-30T19:05:07Z"
    assert names.iso("") == names.from_iso("") == ""


# --- directories below the states


@pytest.mark.parametrize("kind", ["a", "search", "follow-up_2", "x" * 40])
def test_a_kind_is_lower_case_with_a_letter_first(kind):
    assert names.is_kind(kind)
    assert names.parse_channel(kind) == (kind, "")


@pytest.mark.parametrize("kind", ["", "Search", "2nd", "-x", "_x", "a.b", "a b", "ñu", "aß", "x" * 41, "../x", "a/b"])
def test_anything_else_is_no_kind(kind):
    assert not names.is_kind(kind)


@steady
@given(texts)
def test_a_channel_tells_its_kind_and_source(source):
    assert names.parse_channel(names.channel_name("search", source)) == ("search", source)


@pytest.mark.parametrize(
    "text", ["", "search.", ".gaceta", "Search.gaceta", "search.ga.ceta", "search.ga ceta", "search.ñ", "q0/x"]
)
def test_what_is_no_channel_is_refused(text):
    with pytest.raises(BadName):
        names.parse_channel(text)


@pytest.mark.parametrize("priority", [0, 7, -5, 100, 10**9, -(10**9)])
def test_a_priority_is_its_own_directory(priority):
    assert names.parse_priority(str(priority)) == priority


@pytest.mark.parametrize(
    "text",
    ["", "-", "waiting", "007", "-0", "+5", "5.0", "1e3", " 5", "5 ", "1_0", "٣", "²", "--5", "1" * 11, "9" * 5000],
)
def test_anything_else_is_no_priority(text):
    with pytest.raises(BadName):
        names.parse_priority(text)
