"""The rules: every value that is handed in, normalised or refused, and the arithmetic of tries."""

from __future__ import annotations

import time
from datetime import timedelta
from unicodedata import normalize

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gwtq import Queue, rules
from gwtq.errors import BadInput
from gwtq.settings import Settings, new_settings

from . import steady

SETTINGS = Settings()
texts = st.text(st.characters(blacklist_categories=("Cs",)), max_size=20)


def draft(**values):
    return rules.draft({"person": "Ana", **values}, SETTINGS)


def refusal(function, *args, **named):
    """The reason that is told."""
    with pytest.raises(BadInput) as told:
        function(*args, **named)
    return told.value.detail


# --- one task as asked for


def test_a_person_alone_is_a_sweep():
    new = draft(person="Ana Peiró Toledo")
    assert new.fields() == {
        "person_key": "ana-peiro-toledo", "person_label": "Ana Peiró Toledo", "kind": "sweep", "priority": 0,
    }  # fmt: skip
    assert new.given == {"person"}


def test_every_field_is_normalised_once():
    new = draft(
        person="María  Toledo", label="María T.", source="La Gaceta", query=" Nombramiento\u3000MADRID\n1902 ",
        priority=-5, note="  as typed\t", next_at="2026-11-30T19:05:07+01:00", dedupe_key="Key 1", kind="verify",
    )  # fmt: skip
    assert new.fields() == {
        "person_key": "maria-toledo", "person_label": "María T.", "kind": "verify", "source": "la-gaceta",
        "query": "nombramiento madrid 1902", "priority": -5, "note": "  as typed\t", "next_at": "2026-11-30T18:05:07Z",
        "dedupe_key": "Key 1",
    }  # fmt: skip


def test_a_source_makes_it_a_search():
    assert draft(source="gaceta").kind == "search"
    assert draft(source="gaceta", kind="sweep").kind == "sweep"


@pytest.mark.parametrize("key", ["label", "kind", "source", "query", "priority", "note", "next_at", "dedupe_key"])
def test_null_is_not_given(key):
    new = draft(**{key: None})
    assert new.fields() == draft().fields()
    assert new.given == {"person"}


@pytest.mark.parametrize("key", ["label", "source", "query", "note", "next_at", "dedupe_key"])
def test_an_empty_text_is_given_and_empty(key):
    new = draft(**{key: ""})
    assert new.fields() == draft().fields()
    assert new.given == {"person", key}


@pytest.mark.parametrize("key", [key for key in rules.GIVEN if key != "priority"])
@pytest.mark.parametrize("value", [5, 5.0, True, ["a"], {"a": "b"}])
def test_a_text_must_be_a_text(key, value):
    assert refusal(draft_of, {key: value}) == f"The {key} must be a text, not {value!r}."


@pytest.mark.parametrize("key", [key for key in rules.GIVEN if key != "priority"])
@pytest.mark.parametrize(
    ("value", "why"),
    [("a\0b", "holds a NUL character"), ("a\ud800", "is not UTF-8 text: 'a\\ud800'"), ("\udfff", "is not UTF-8 text"),
     ("x" * 100_001, "is longer than 100,000 characters")],
)  # fmt: skip
def test_a_text_that_no_record_can_hold_is_refused(key, value, why):
    assert refusal(draft_of, {key: value}).startswith(f"The {key} {why}")


def draft_of(values):
    return rules.draft({"person": "Ana", **values}, SETTINGS)


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\tb", "a\\nb", "\x7f", "\u0085", "\u2028", "\ufeff", "x" * 100_000])
def test_other_control_characters_are_kept(text):
    assert draft(note=text, dedupe_key=text).fields()["note"] == text


@pytest.mark.parametrize("person", [None, "", " ", "---", "\u0301", "🙂", "\n"])
def test_a_task_needs_a_person(person):
    assert refusal(draft_of, {"person": person}).startswith("A task needs a person")


@pytest.mark.parametrize("values", [None, "Ana", 5, ["Ana"], [("person", "Ana")]])
def test_a_task_is_an_object(values):
    assert refusal(rules.draft, values, SETTINGS) == f"A task is an object with fields, not {values!r}."


def test_a_task_needs_a_person_to_be_named_at_all():
    assert refusal(rules.draft, {"note": "n"}, SETTINGS).startswith("A task needs a person")


@pytest.mark.parametrize("key", ["persn", "id", "status", "token", "person_key", "", "Person", "\ud800"])
def test_an_unknown_field_is_named(key):
    assert refusal(draft_of, {key: "x"}).startswith(f"There is no field {key!r}; the fields are person, label, kind")


@pytest.mark.parametrize("source", [" ", "//", "\u0301", "🙂"])
def test_a_source_needs_a_letter(source):
    assert refusal(draft_of, {"source": source}) == f"The source {source!r} has no letter or digit."


@pytest.mark.parametrize(("source", "kind"), [("x" * 152, "search"), ("л" * 26, "sweep"), ("x" * 153, "sweep")])
def test_a_source_must_fit_into_a_directorys_name(source, kind):
    assert refusal(draft_of, {"source": source, "kind": kind}).startswith("The source is too long")
    assert draft(source=source[:-1], kind=kind).source == source[:-1]


@pytest.mark.parametrize("kind", ["nap", "Search", "search ", "../x"])
def test_a_kind_is_one_of_the_queues_own(kind):
    assert refusal(draft_of, {"kind": kind}) == (
        f"There is no kind {kind!r} in this queue; its kinds are search, sweep, verify, followup."
    )


def test_a_result_is_one_of_the_queues_own():
    assert rules.result("out-of-coverage", SETTINGS) == "out-of-coverage"
    assert refusal(rules.result, "found", Settings(results={"yes": True, "no": False})) == (
        "There is no result 'found' in this queue; its results are yes, no."
    )


# --- numbers


@pytest.mark.parametrize("value", [0, 1, -1, 10**9, -(10**9)])
def test_a_priority_is_a_whole_number(value):
    assert draft(priority=value).priority == value
    assert rules.typed_priority(str(value)) == value


@pytest.mark.parametrize("value", [10**9 + 1, -(10**9) - 1, 10**30, 9007199254740993])
def test_a_priority_beyond_a_thousand_million_is_refused(value):
    assert refusal(rules.priority, value) == "The priority is beyond ±1,000,000,000."
    assert refusal(rules.typed_priority, str(value)) == "The priority is beyond ±1,000,000,000."


@pytest.mark.parametrize("value", [True, False, 5.0, float("nan"), float("inf"), [5], {}])
def test_a_priority_of_another_type_is_refused(value):
    assert refusal(draft_of, {"priority": value}) == f"The priority must be a whole number, not {value!r}."


@pytest.mark.parametrize("value", ["5", "", "high"])
def test_a_priority_that_a_program_hands_in_is_no_text(value):
    assert refusal(draft_by_program, {"person": "Ana", "priority": value}) == (
        f"The priority must be a whole number, not {value!r}."
    )
    assert draft_by_program({"person": "Ana", "priority": 5}).priority == 5


def draft_by_program(values):
    return rules.draft(values, SETTINGS, typed=False)


@pytest.mark.parametrize("value", ["+5", "0005", "000000000000000000005"])
def test_a_priority_may_be_typed_with_a_plus_and_zeros(value):
    assert rules.typed_priority(value) == 5
    assert draft(priority=value).priority == 5


@pytest.mark.parametrize(
    "value", ["", "-", "+", "high", "1.5", "5.0", "1e3", " 5", "5 ", "1_0", "\u0663", "²", "--5", "0x5"]
)
def test_a_priority_that_is_typed_otherwise_is_refused(value):
    assert refusal(rules.typed_priority, value) == f"The priority must be a whole number, not {value!r}."


def test_a_priority_of_very_many_digits_is_refused_like_any_other():
    assert refusal(rules.typed_priority, "-" + "9" * 10_000) == "The priority is beyond ±1,000,000,000."


@pytest.mark.parametrize(("value", "number"), [("1", 1), ("007", 7), ("1000000000", 10**9), ("0" * 5000 + "3", 3)])
def test_a_count_is_plain_digits(value, number):
    assert rules.count(value, "--limit") == number


@pytest.mark.parametrize(
    "value",
    [
        "",
        "0",
        "-1",
        "+1",
        "1.5",
        "x",
        " 1",
        "1 ",
        "1_0",
        "\u0663",
        "²",
        "1000000001",
        "9" * 10_000,
        "0" * 12 + "9" * 12,
    ],
)
def test_a_count_of_anything_else_is_refused(value):
    assert refusal(rules.count, value, "--limit").startswith("--limit must be a whole number from 1 to 1,000,000,000")


def test_a_count_may_begin_at_nothing():
    assert rules.count("0", "The number of tries", 0) == 0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("1", 60), ("0.5", 30), ("0", 0), ("-0", 0), ("1e3", 60_000), (".5", 30), ("525600", 31_536_000)],
)
def test_minutes_may_be_fractions(value, seconds):
    assert rules.minutes(value, "--lease-minutes") == seconds


@pytest.mark.parametrize(
    "value",
    ["", " ", "inf", "-inf", "nan", "-1", "-0.001", "1e999", "1_0", "\u0661", "0x10", "1,5", "2h", "infinity", "1\0"],
)
def test_minutes_that_are_no_finite_number_are_refused(value):
    assert refusal(rules.minutes, value, "--backoff-minutes") == (
        f"--backoff-minutes must be a number of minutes, 0 or more, not {value!r}."
    )


@pytest.mark.parametrize(
    ("duration", "seconds"), [(None, 7200), (0, 0), (1.5, 1.5), (timedelta(minutes=2, milliseconds=1), 120.001)]
)
def test_a_duration_is_a_timedelta_or_seconds(duration, seconds):
    assert rules.seconds_of(duration, 7200) == seconds


@pytest.mark.parametrize("duration", [True, "60", [60], {}])
def test_anything_else_is_no_duration(duration):
    assert refusal(rules.seconds_of, duration, 7200) == (
        f"A duration is a timedelta or a number of seconds, not {duration!r}."
    )


@pytest.mark.parametrize("seconds", [0.001, 1, 7200, 10 * 366 * 86400])
def test_a_lease_is_longer_than_nothing(seconds):
    assert rules.lease(seconds) == seconds


@pytest.mark.parametrize(
    "seconds", [0, -0.0, -1, 10 * 366 * 86400 + 1, 1e18 * 60, float("inf"), float("-inf"), float("nan")]
)
def test_a_lease_of_nothing_or_for_ever_is_refused(seconds):
    assert "longer than 0 minutes and at most ten years" in refusal(rules.lease, seconds)


@pytest.mark.parametrize("seconds", [0, 0.5, 10 * 366 * 86400])
def test_a_backoff_may_be_nothing(seconds):
    assert rules.retry_after(seconds) == seconds


@pytest.mark.parametrize("seconds", [-1, 10 * 366 * 86400 + 1, 6e19, float("inf"), float("nan")])
def test_a_backoff_of_less_than_nothing_or_for_ever_is_refused(seconds):
    assert "at most ten years" in refusal(rules.retry_after, seconds)


@pytest.mark.parametrize(
    ("seconds", "attempts", "wait"),
    [(3600, 1, 3600), (3600, 2, 7200), (3600, 5, 18_000), (0, 7, 0), (0.5, 3, 1.5), (86400, 29, 29 * 86400)],
)
def test_a_backoff_grows_with_each_attempt(seconds, attempts, wait):
    assert rules.backoff(seconds, attempts) == wait


@pytest.mark.parametrize("attempts", [62, 63, 64, 1025, 10**6, 10**400])
@pytest.mark.parametrize("seconds", [86400, 3e8])
def test_a_backoff_ends_at_thirty_days(seconds, attempts):
    assert rules.backoff(seconds, attempts) == 30 * 86400


# --- lanes and ids


@pytest.mark.parametrize(
    "lane", ["lane-1", "lane 3 (night)", "x" * 100, "ñ" * 16, "../x", "-rf", "a\nb", ".", "王小明"]
)
def test_a_lane_may_be_called_anything_that_fits_into_a_name(lane):
    assert rules.lane(lane) == lane


@pytest.mark.parametrize(
    ("lane", "why"),
    [("", "needs a name"), (" ", "needs a name"), ("\t\n", "needs a name"), ("\x01", "needs a name"),
     ("\u2028\u0085", "needs a name"), ("x" * 101, "too long"), ("ñ" * 17, "too long"), ("." * 34, "too long"),
     ("a\0", "NUL"), ("\ud800", "not UTF-8"), (5, "must be a text")],
)  # fmt: skip
def test_a_lane_that_does_not_is_refused(lane, why):
    assert why in refusal(rules.lane, lane)


def test_an_id_looks_like_q12():
    assert rules.task_id("q12") == "q12"


@pytest.mark.parametrize("id", ["../q12", "", "12", "q012", 12, None])
def test_an_id_that_does_not_is_refused(id):
    assert refusal(rules.task_id, id) == f"{id!r} is no task's id; an id looks like q12."


def test_a_status_is_a_word_that_people_see():
    assert [rules.status(word) for word in rules.STATUSES] == ["open", "claimed", "done", "failed"]
    assert refusal(rules.status, "pending") == (
        "There is no status 'pending'; it is one of open, claimed, done, failed."
    )


# --- times


@pytest.mark.parametrize(
    ("value", "stamp"),
    [
        ("2026-11-30T19:05:07Z", "20261130T190507Z"),
        ("2026-11-30T19:05:07z", "20261130T190507Z"),
        ("2026-11-30t19:05:07", "20261130T190507Z"),
        ("2026-11-30 19:05", "20261130T190500Z"),
        ("2026-11-30", "20261130T000000Z"),
        ("  2026-11-30T19:05:07Z\n", "20261130T190507Z"),
        ("2026-11-30T19:05:07+02:00", "20261130T170507Z"),
        ("2026-11-30T19:05:07+0200", "20261130T170507Z"),
        ("2026-11-30T19:05:07-02", "20261130T210507Z"),
        ("2026-11-30 19:05:07 +05:45", "20261130T132007Z"),
        ("2026-11-30T19:05:07-00:00", "20261130T190507Z"),
        ("2026-12-31T23:30-01:00", "20270101T003000Z"),
        ("2028-02-29T00:00:00Z", "20280229T000000Z"),
        ("0001-01-01", "00010101T000000Z"),
        ("0999-12-31T23:59:59Z", "09991231T235959Z"),
        ("9999-12-31T23:59:59Z", "99991231T235959Z"),
    ],
)
def test_a_time_is_an_instant_in_utc(value, stamp):
    assert rules.instant(value, "next_at") == stamp


@pytest.fixture(params=["Europe/Madrid", "UTC", "America/Bogota"])
def zone(request, monkeypatch):
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("value", ["2026-03-29T02:30", "2026-10-25T02:30"])  # never, and twice in Madrid
def test_a_time_without_a_zone_is_utc_wherever_it_is_read(zone, value):
    assert rules.instant(value, "next_at") == value.replace("-", "").replace(":", "") + "00Z"


@pytest.mark.parametrize(
    ("fraction", "second"), [(".0", "07"), (",000000", "07"), (".1", "08"), (",9", "08"), (".0000000001", "08")]
)
def test_a_fraction_of_a_second_rounds_up(fraction, second):
    assert rules.instant(f"2026-11-30T19:05:07{fraction}Z", "next_at") == f"20261130T1905{second}Z"
    assert rules.instant("2026-12-31T23:59:59.5Z", "next_at") == "20270101T000000Z"


@pytest.mark.parametrize(
    "value",
    ["", "yesterday", "now", "19:05", "11-30T10:00", "--11-30", "26-11-30", "2026-11", "2026", "2026-W49-1",
     "2026W491", "2026-334", "20261130", "20261130T190507Z", "2026-1-1", "10000-01-01", "-2026-01-01",
     "2026-11-30T19", "2026-11-30Z", "2026-11-30T19:05:07 CET", "2026-11-30T19:05:07[Europe/Madrid]",
     "2026-11-30T19:05:07.", "2026-11-30T19:05:7", "2026-11-30T1905", "2026/11/30", "2026-11-30T19:05:07+2",
     "2026-11-30\u00a019:05:07x", "\u0662026-11-30", "1764529507"],
)  # fmt: skip
def test_what_is_no_time_with_a_year_is_refused(value):
    assert refusal(rules.instant, value, "next_at") == (
        f"The next_at must be a time like 2026-11-30T19:05:00Z, not {value!r}."
    )


@pytest.mark.parametrize(
    "value",
    ["2026-12-31T23:59:60Z", "2026-11-30T24:00:00Z", "2026-11-30T19:60", "2026-13-01", "2026-00-01", "2026-02-29",
     "1900-02-29", "2026-11-31", "2026-11-00", "0000-01-01", "2026-11-30T19:05+24:00", "2026-11-30T19:05+02:60",
     "9999-12-31T23:59:59.5Z", "9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00"],
)  # fmt: skip
def test_a_time_that_does_not_exist_is_refused(value):
    assert refusal(rules.instant, value, "next_at").startswith(f"The next_at {value!r} does not exist: ")


# --- normalising


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("Ana Peiró Toledo", "ana-peiro-toledo"),
        ("  O'Brien, Seán (Jr.) ", "o-brien-sean-jr"),
        ("@I0412@", "i0412"),
        ("Straße İstanbul \u017f", "strasse-istanbul-s"),
        ("ﬁnd①Ⅳ", "find1iv"),
        ("Лев Толстой", "лев-толстои"),
        ("王小明", "王小明"),
        ("محمد٣", "محمد٣"),
        ("\N{MATHEMATICAL BOLD CAPITAL A}\N{FULLWIDTH LATIN CAPITAL LETTER B}", "ab"),
        ("a_b-c__d", "a-b-c-d"),
        ("🙂", ""),
        ("", ""),
    ],
)
def test_a_slug_is_letters_and_digits_of_any_script(text, slug):
    assert rules.slug(text) == slug


@steady
@given(texts)
@example("\u0345\u0301a")
@example("\u1fb4")
@example("\N{MATHEMATICAL BOLD CAPITAL A}")
def test_a_slug_is_its_own_slug_however_it_was_composed(text):
    slug = rules.slug(text)
    assert rules.slug(slug) == slug
    assert {rules.slug(normalize(form, text)) for form in ("NFC", "NFD", "NFKC", "NFKD")} == {slug}
    assert all(c.isalnum() or c == "-" for c in slug)
    assert slug.strip("-") == slug
    assert "--" not in slug


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("  Peiró\tTOLEDO \n 1890 ", "peiró toledo 1890"),
        ("Peiro\u0301", "peiró"),
        ("GROSSE Straße", "grosse strasse"),
        ("王小明\u30001890", "王小明 1890"),
        ("a\u00a0b\u2028c\u0085d", "a b c d"),
        ("\N{ANGSTROM SIGN}", "å"),
        ('"exact phrase" -not', '"exact phrase" -not'),
        ("", ""),
    ],
)
def test_a_query_keeps_its_accents_and_loses_its_capitals(text, query):
    assert rules.query(text) == query


@steady
@given(texts)
@example("\u1f80\u0301")
@example("\u03b1\u0345\u0301")
def test_a_query_is_its_own_query_however_it_was_composed(text):
    query = rules.query(text)
    assert rules.query(query) == query
    assert rules.query(normalize("NFD", text)) == rules.query(normalize("NFC", text)) == query


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"query": "Peiró Toledo"}, {"query": "peiro  TOLEDO"}),
        ({"query": "Peiro\u0301"}, {"query": "Peir\u00f3"}),
        ({"query": "İ \N{MATHEMATICAL BOLD CAPITAL A}"}, {"query": "i a"}),
        ({"source": "café"}, {"source": "Cafe\u0301"}),
        ({"person": "ANA"}, {"person": "Aná"}),
        ({"dedupe_key": "é"}, {"dedupe_key": "e\u0301"}),
        ({"dedupe_key": "k"}, {"dedupe_key": "k", "person": "Eva", "source": "pares", "query": "q"}),
        ({"label": "A", "note": "n", "priority": 3, "next_at": "2026-11-30"}, {}),
    ],
)
def test_the_same_task_typed_otherwise_has_one_identity(one, other):
    assert identity(**one) == identity(**other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"query": "a b"}, {"query": "ab"}),
        ({"query": "1890"}, {"query": "1891"}),
        ({"kind": "verify"}, {"kind": "sweep"}),
        ({"source": "gaceta"}, {"source": "pares"}),
        ({"person": "Eva"}, {"person": "Ana"}),
        ({"dedupe_key": "k"}, {"dedupe_key": "K"}),
        ({"dedupe_key": "é"}, {"dedupe_key": "e"}),
        ({"dedupe_key": "k"}, {}),
        ({"dedupe_key": "ana"}, {"person": "ana"}),
    ],
)
def test_another_task_has_another_identity(one, other):
    assert identity(**one) != identity(**other)


def identity(**values):
    new = draft(**values)
    return rules.identity(new.person_key, new.kind, new.source, new.query, new.dedupe_key)


@pytest.mark.parametrize(
    ("one", "other"),
    [(("ab", "c", "", "", ""), ("a", "bc", "", "", "")), (("a", "b", "c", "", ""), ("a", "b", "", "c", "")),
     (("", "", "", "", "a"), ("a", "", "", "", "")), (("", "", "", "a", ""), ("", "", "", "", "a"))],
)  # fmt: skip
def test_no_field_of_an_identity_runs_over_into_the_next(one, other):
    assert rules.identity(*one) != rules.identity(*other)


# --- what queue.json says


def test_settings_come_back():
    told = Settings(("review", "push"), {"ok": True, "no": False}, max_tries=3, lease_minutes=0.5, backoff_minutes=0)
    again = Settings.from_json(told.to_json())
    assert again.to_json() == told.to_json()
    assert (again.kinds, again.results) == (("review", "push"), {"ok": True, "no": False})


def test_settings_that_are_left_out_are_the_defaults():
    assert Settings.from_json({"format": 1}).to_json() == Settings().to_json()
    assert Settings().kinds == ("search", "sweep", "verify", "followup")
    assert (Settings().max_tries, Settings().lease_minutes, Settings().backoff_minutes) == (5, 120, 60)


def test_the_ledgers_words_that_count_as_done_are_these():
    assert [word for word, counts in Settings().results.items() if counts] == [
        "hit",
        "none",
        "partial",
        "out-of-coverage",
    ]


def test_a_result_counts_unless_it_says_false():
    assert Settings.from_json({"format": 1, "results": {"a": {}, "b": {"counts": False}}}).results == {
        "a": True,
        "b": False,
    }


def test_the_settings_of_a_queue_to_be_made_name_each_kind_once():
    assert new_settings(["b", "a", "b"], None).kinds == ("b", "a")
    assert new_settings(None, None).to_json() == Settings().to_json()


@pytest.mark.parametrize(
    ("kinds", "results"),
    [([], None), (["Review"], None), (["a b"], None), ([""], None), (None, {}), (None, {"": True}),
     (None, {"a\tb": True}), (None, {"\ud800": True}), (None, {"hit": "yes"})],
)  # fmt: skip
def test_what_no_queue_json_could_hold_makes_no_queue(kinds, results):
    assert refusal(new_settings, kinds, results).startswith("These settings make no queue: ")


@pytest.mark.parametrize(
    ("kinds", "results", "why"),
    [("review", None, "The kinds are a list of words, not 'review'."),
     (None, ["hit"], "The results are words with whether they count, like {'hit': True}, not ['hit'].")],
)  # fmt: skip
def test_kinds_and_results_of_another_type_are_refused(kinds, results, why):
    assert refusal(new_settings, kinds, results) == why


@pytest.mark.parametrize("filters", [{"kinds": "sweep"}, {"sources": "gaceta"}], ids=str)
def test_a_claim_takes_no_text_for_a_list_of_words(tmp_path, filters):
    queue = Queue.create(str(tmp_path / "cola"), durable=False)
    assert refusal(queue.claim, "lane-1", **filters).endswith(
        "are a list of words, not " + repr(*filters.values()) + "."
    )


def test_fields_of_a_newer_version_are_passed_over():
    assert Settings.from_json({"format": 2, "colour": "red"}).format == 2


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([], "no format number"),
        ({}, "no format number"),
        *[({"format": f}, "no format number") for f in ("1", 1.0, True, None, 0, -1)],
        *[
            ({"format": 1, "kinds": kinds}, '"kinds" are not a list of names')
            for kinds in (None, "search", {}, [], [5], ["Search"], ["a", ""], ["../x"])
        ],
        *[
            ({"format": 1, "results": results}, '"results" are not an object of objects')
            for results in (None, [], {}, ["hit"], {"hit": True}, {"hit": None})
        ],
        *[({"format": 1, "results": {"hit": {"counts": c}}}, '"counts"') for c in ("no", 0, 1, None, [])],
        *[({"format": 1, "max_tries": n}, '"max_tries"') for n in (0, -1, 0.5, 2.5, 3.0, True, None, "5", 10**30)],
        *[
            ({"format": 1, "lease_minutes": n}, '"lease_minutes"')
            for n in (0, -1, True, None, "120", 1e18, float("inf"), float("nan"), 10**400)
        ],
        *[
            ({"format": 1, "backoff_minutes": n}, '"backoff_minutes"')
            for n in (-1, True, None, "60", 1e18, float("inf"), float("nan"), 10**400)
        ],
    ],
)
def test_settings_that_cannot_be_used_are_named(value, why):
    with pytest.raises(ValueError, match=why):
        Settings.from_json(value)
