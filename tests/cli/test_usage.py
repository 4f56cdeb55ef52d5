"""What is said of a command line that cannot be used, help, the environment, and our own faults."""

from __future__ import annotations

import os
import subprocess
import sys
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gwtq import commands
from gwtq.cli import Unprintable, main, say
from gwtq.errors import BadInput
from gwtq.options import COMMANDS, GLOBAL, quick, thorough
from gwtq.version import __version__

from .conftest import tree
from .process import forked, run, said

# --- mistakes


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ([], "COMMAND"),
        (["steal"], "'steal'"),
        (["claim"], "--lane"),
        (["claim", "--lane"], "--lane"),
        (["claim", "--lane", "lane-1", "--fast"], "--fast"),
        (["claim", "--lan", "lane-1"], "--lane"),
        (["claim", "--lane", "lane-1", "q1"], "q1"),
        (["claim", "--queue", "elsewhere", "--lane", "lane-1"], "--queue"),
        (["--queue"], "--queue"),
        (["--queue", "", "stats"], "empty path"),
        (["--queue", "", "add", "--person", "Ana"], "empty path"),
        (["add", "--jsonl", ""], "empty path"),
        (["import", ""], "empty path"),
        (["done", "--id", "q1", "--token", "t"], "--result"),
        (["done", "--id", "-rf", "--token", "t", "--result", "hit"], "--id"),
        (["show"], "ID"),
        (["show", "q1", "q2"], "q2"),
        (["import"], "FILE"),
        (["export", "-o"], "-o"),
        (["add"], "--person"),
        (["add", "--person", "Ana", "--retry-failed"], "--dedupe"),
        (["add", "--person", "Ana", "--jsonl", "tasks.jsonl"], "--person"),
        (["add", "--jsonl", "tasks.jsonl", "--next-at", "2026-01-01"], "--next-at"),
    ],
)
def test_a_line_that_cannot_be_read_is_told_in_one_sentence(gwtq, cola, line, named):
    answer = gwtq(*line, code=64)
    assert named in answer.sentence
    assert not answer.out
    assert not cola.exists()


LEASES = ["0", "-1", "-0.5", "inf", "nan", "1e18", "5270401", "", " ", "soon", "1_0", "\u0661"]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        *[(["--max-tries", n, "claim", "--lane", "l"], "--max-tries") for n in ("0", "-1", "1.5", "x", "", "\u0663")],
        (["--max-tries", "0", "init"], "--max-tries"),
        (["add", "--person", ""], "person"),
        (["add", "--person", "?!"], "person"),
        (["add", "--person", "a\0b"], "NUL"),
        *[(["add", "--person", "Ana", "--priority", n], "priority") for n in ("high", "1.5", "1e3", "\u0663", "--5")],
        (["add", "--person", "Ana", "--priority", ""], "priority"),
        *[(["add", "--person", "Ana", "--priority", n], "1,000,000,000") for n in ("1000000001", "-9999999999999")],
        (["add", "--person", "Ana", "--kind", "nap"], "search, sweep, verify, followup"),
        (["add", "--person", "Ana", "--source", "!!"], "source"),
        (["add", "--person", "Ana", "--source", "ж" * 30], "too long"),
        *[
            (["add", "--person", "Ana", "--next-at", time], "next_at")
            for time in (
                "yesterday", "11-30T10:00", "2026-W10-1", "2026-02-30", "2026-13-01", "2026-10-25T24:00:00Z",
                "2026-12-31T23:59:60Z", "10000-01-01", "0000-01-01", "9999-12-31T23:59:59-01:00", "2026-1-1",
                "2026-01-01T10:00+25:00", "2026-01-01T10",
            )
        ],
        (["add", "--person", "Ana", "--note", "x" * 100_001], "note"),
        *[(["claim", "--lane", "lane-1", f"--lease-minutes={m}"], "minutes") for m in LEASES],
        *[(["claim", "--lane", lane], "lane") for lane in ("", " ", "x" * 101, "ñ" * 17, "a\0b")],
        (["claim", "--lane", "lane-1", "--kind", "nap"], "search, sweep, verify, followup"),
        (["claim", "--lane", "lane-1", "--source", "?"], "source"),
        (["list", "--status", "asleep"], "open, claimed, done, failed"),
        (["list", "--kind", "nap"], "search, sweep, verify, followup"),
        (["list", "--result", "found"], "hit, none"),
        *[([command, "--limit", n], "--limit") for command in ("list", "report") for n in ("-1", "x", "1.5", "")],
        *[(["init", "--kind", kind], "kind") for kind in ("Review", "a b", "../x", "", "x" * 41, "ñ", "a.b")],
    ],
)  # fmt: skip
def test_a_bad_value_is_named_and_changes_nothing(gwtq, cola, add, line, named):
    add("Eva")
    before = tree(cola)
    if line[0] == "init":
        line = ["--queue", "new", *line]
    assert named in gwtq(*line, code=64).sentence
    assert tree(cola) == before
    assert os.listdir(cola.parent) == ["cola"]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        *[(["renew", f"--lease-minutes={m}"], "minutes") for m in LEASES],
        *[(["fail", f"--backoff-minutes={m}"], "--backoff-minutes") for m in ("-1", "inf", "nan", "x", "", "1e999")],
        (["fail", "--backoff-minutes=1e18"], "ten years"),
        *[(["release", f"--retry-after={m}"], "--retry-after") for m in ("-1", "inf", "nan", "x", "", "1e999")],
        (["release", "--retry-after=1e18"], "ten years"),
        (["done", "--result", "found"], "hit, none, partial, out-of-coverage, blocked, denied"),
        (["done", "--result", ""], "hit, none"),
        (["done", "--result", "hit", "--evidence", "a\0b"], "NUL"),
        (["fail", "--note", "a\0b"], "NUL"),
    ],
)
def test_a_bad_value_leaves_the_claim_as_it_is(gwtq, cola, add, claim, line, named):
    add("Ana")
    id, token = claim()
    before = tree(cola)
    assert named in gwtq(line[0], "--id", id, "--token", token, *line[1:], code=64).sentence
    assert tree(cola) == before


def test_an_argument_that_is_not_utf8_is_refused(cola):
    answer = run(b"add", b"--person", b"Jos\xff")
    assert answer.code == 64
    assert "UTF-8" in answer.sentence
    assert not cola.exists()


# --- help


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_every_option_and_an_example(gwtq, command):
    answer = gwtq(command, "--help")
    assert answer.out.endswith(f"example:\n  {COMMANDS[command].example}\n")
    assert all(option.name in answer.out for option in COMMANDS[command].options)
    assert not answer.err


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_of_a_command_can_be_read(command):
    example = COMMANDS[command].example.replace("$(", "").replace(")", "").split("gwtq ", 1)[1]
    words = example.split(" && ")[0].split(" | ")[0].replace('"', "").replace("Ana Peiró Toledo", "Ana")
    words = words.replace("Peiró Toledo 1890", "q").replace("login expired", "n")
    assert thorough(words.split(), pytest.fail)[0] == command


def test_help_lists_the_commands(gwtq):
    answer = gwtq("--help")
    assert all(f"\n    {command}" in answer.out for command in COMMANDS)


def test_version(gwtq):
    assert gwtq("--version").out == f"gwtq {__version__}\n"


# --- the two readers


def plain_lines():
    """Command lines whose options all have a plain value."""
    value = st.sampled_from(["q1", "lane 2", "5", "é", "a-b", "=x", "done", "claim"])

    def options(command):
        words = [st.just([o.name]) if o.flag else value.map(lambda v, o=o: [o.name, v]) for o in command.options]
        needed = [word for word, option in zip(words, command.options) if option.required]
        if command.argument:
            needed.append(value.map(lambda v: [v]))
        more = st.lists(st.one_of(words), max_size=4) if words else st.just([])
        return st.tuples(*needed, more).map(lambda t: [*t[:-1], *t[-1]])

    before = st.lists(st.one_of([value.map(lambda v, o=o: [o.name, v]) for o in GLOBAL]), max_size=2)
    after = st.sampled_from(sorted(COMMANDS)).flatmap(
        lambda name: options(COMMANDS[name]).flatmap(st.permutations).map(lambda words: [[name], *words])
    )
    return st.tuples(before, after).map(lambda t: [word for words in (*t[0], *t[1]) for word in words])


@given(plain_lines())
def test_a_plain_line_is_read_without_argparse_and_as_argparse_reads_it(line):
    assert quick(line) == thorough(line, pytest.fail)


WORDS = ["--lane=x", "--lan", "--", "-", "-5", "-x", "", "- a", "--json", "--id", "--kind", "--queue", "--help", "x"]


@given(plain_lines(), st.lists(st.tuples(st.integers(0, 12), st.sampled_from(WORDS)), min_size=1, max_size=3))
def test_no_line_is_read_otherwise_than_by_argparse(line, more):
    for at, word in more:
        line.insert(at, word)
    try:
        read = thorough(line, list)
    except BadInput:
        read = None
    assert quick(line) in (read, None)


HEAVY = {"argparse", "json", "re", "enum", "datetime", "typing", "pathlib", "subprocess", "filelock", "traceback"}


def test_what_a_lane_runs_loads_nothing_heavy(cola, add):
    add("Ana", "Eva", "Leo")
    script = "import sys; from gwtq.cli import main; code = main(sys.argv[1:]); print(*sys.modules); sys.exit(code)"

    def loaded(*arguments):
        ran = subprocess.run(
            [sys.executable, "-S", "-c", script, *arguments], check=True, stdout=subprocess.PIPE, text=True
        )
        row, _, modules = ran.stdout.rpartition("\n")[0].rpartition("\n")
        assert not HEAVY & set(modules.split())
        return row.split("\t")

    for verb in (["done", "--result", "hit"], ["fail", "--backoff-minutes", "5"], ["release", "--retry-after", "5"]):
        row = loaded("claim", "--lane", "lane-1", "--kind", "sweep", "--lease-minutes", "5")
        claim = ["--id", row[0], "--token", row[16]]
        loaded("renew", *claim, "--lease-minutes", "30")
        loaded(verb[0], *claim, *verb[1:], "--note", "so it was")


# --- the environment


def test_the_queue_is_the_option_else_the_variable_else_cola(gwtq, monkeypatch, tmp_path):
    gwtq("--queue", "a", "init")
    monkeypatch.setenv("GWT_QUEUE", "b")
    gwtq("init")
    monkeypatch.setenv("GWT_QUEUE", "")
    gwtq("init")
    monkeypatch.delenv("GWT_QUEUE")
    gwtq("init")
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "cola"]


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"HOME": "/dev/null", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "POSIX", "LANG": "xx_YY.ISO-8859-1", "TZ": "America/Bogota"},
    ],
    ids=["nothing", "no home and an ASCII locale", "an unknown locale"],
)
def test_an_empty_or_odd_environment_will_do(tmp_path, env):
    needed = {key: os.environ[key] for key in ("PATH", "PYTHONPATH", "PYTHONPYCACHEPREFIX")}

    def gwtq(*arguments):
        answer = run(*arguments, env={**needed, **env}, cwd=tmp_path)
        assert answer.code == 0, answer.err
        return answer

    (tmp_path / "pruéba").write_text("")
    gwtq("--queue", "colá", "add", "--person", "José", "--next-at", "2020-01-01T10:00")
    row = gwtq("--queue", "colá", "claim", "--lane", "señal").tasks[0]
    assert (row["person_label"], row["next_at"]) == ("José", "2020-01-01T10:00:00Z")
    ended = ["--id", row["id"], "--token", row["token"], "--result", "hit", "--evidence", "pruéba"]
    assert not gwtq("--queue", "colá", "done", *ended).err
    assert "señal" in gwtq("--queue", "colá", "list").out
    gwtq("--queue", "colá", "export", "-o", "táble.tsv")
    assert "José" in (tmp_path / "táble.tsv").read_text("utf-8")
    gwtq("--queue", "otrá", "import", "táble.tsv")
    assert "Peiró" in gwtq("--help").out


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become a user without a name")
def test_a_user_without_a_name_will_do(gwtq, tmp_path, add, monkeypatch):
    add("Ana")  # which loads what the other user may not be allowed to read
    with TemporaryDirectory() as scratch:
        os.chmod(scratch, 0o777)
        monkeypatch.chdir(scratch)
        answer = said(forked(["--queue", "own", "add", "--person", "Ana"], tmp_path, user=54321), tmp_path)
        assert answer.out == "q1\tadded\n", answer.err


# --- streams


@pytest.mark.parametrize("line", [["list"], ["list", "--json"], ["show", "q1"], ["stats"], ["report"], ["--help"],
                                  ["export", "-o", "-"], ["add", "--person", "Eva"], ["--version"]])  # fmt: skip
def test_a_full_stdout_is_an_error(cola, add, line):
    add("Ana")
    with open("/dev/full", "wb") as full:
        answer = run(*line, stdout=full)
    assert answer.code == 74
    assert "No space left" in answer.sentence


def test_with_stdout_closed_nothing_is_done(cola, add):
    add("Ana")
    before = tree(cola)
    answer = run("add", "--person", "Eva", prefix=["sh", "-c", 'exec "$@" >&-', "sh"])
    assert answer.code == 74
    assert "nothing was done" in answer.sentence
    assert tree(cola) == before


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "<&-", "<&- 2>&-"])
def test_closed_stdin_and_stderr_do_no_harm(cola, redirection):
    answer = run("add", "--person", "Ana", prefix=["sh", "-c", f'exec "$@" {redirection}', "sh"])
    assert (answer.code, answer.out) == (0, "q1\tadded\n")
    assert b"gwtq:" not in b"".join(path.read_bytes() for path in cola.rglob("*") if path.is_file())


def test_a_batch_from_a_closed_stdin_is_refused(cola):
    answer = run("add", "--jsonl", "-", prefix=["sh", "-c", 'exec "$@" <&-', "sh"])
    assert answer.code == 66
    assert "stdin is closed" in answer.sentence
    assert not cola.exists()


def test_what_a_sentence_quotes_cannot_steer_the_terminal(capfd):
    say("the lane \x1b[2J\r\n\x9b0m is here")
    assert capfd.readouterr().err == "gwtq: the lane  [2J   0m is here\n"


# --- our own faults


@pytest.mark.parametrize(
    ("error", "code"),
    [(RuntimeError("oh"), 70), (RecursionError(), 70), (KeyboardInterrupt(), 130), (OSError(5, "EIO"), 74)],
)
def test_whatever_happens_has_its_exit_code_and_no_traceback(gwtq, monkeypatch, error, code):
    def fall(*_):
        raise error

    monkeypatch.setattr(commands, "run", fall)
    monkeypatch.delenv("GWTQ_DEBUG", raising=False)
    answer = gwtq("stats", code=code)
    assert answer.err.count("\n") == (code != 130)
    assert ("fault of gwtq itself" in answer.err) == (code == 70)


@pytest.mark.parametrize(("error", "shown"), [(RuntimeError("oh"), True), (Unprintable("Oh."), False)])
def test_gwtq_debug_shows_where_our_own_fault_is_and_keeps_its_code(cola, monkeypatch, capfd, error, shown):
    def fall(*_):
        raise error

    monkeypatch.setattr(commands, "run", fall)
    monkeypatch.setenv("GWTQ_DEBUG", "1")
    assert main(["stats"]) == (70 if shown else 74)
    assert ("in fall" in capfd.readouterr().err) == shown


def test_a_queue_that_breaks_its_own_rules_is_our_fault(gwtq, cola, add):
    add("Ana")
    for path in cola.rglob("q1.*"):
        path.unlink()
    assert "doctor" in gwtq("done", "--id", "q1", "--token", "t", "--result", "hit", code=70).sentence


def test_python_m_gwtq_is_the_command(cola):
    line = [sys.executable, "-m", "gwtq", "stats"]
    ran = subprocess.run(line, stderr=subprocess.PIPE, check=False)
    assert ran.returncode == 66
    assert ran.stderr.startswith(b"gwtq: There is no queue here")
