"""doc/cli.md tells what the commands do: made from the table of commands where it can be, compared where not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gwtq
from gwtq import errors
from gwtq.cli import FAULT, INTERRUPTED, IO_ERROR, NOTHING, OK
from gwtq.options import COMMANDS
from gwtq.settings import KINDS, RESULTS
from gwtq.task import COLUMNS

from .page import PAGE, PART, render
from .test_look import KEYS

TEXT = PAGE.read_text("utf-8")


def section(title: str) -> str:
    """What stands under a heading, up to the next of its level."""
    level = re.search(f"^(#+) {re.escape(title)}$", TEXT, re.MULTILINE)
    assert level, f"no section {title}"
    return re.split(f"^#{{1,{len(level[1])}}} ", TEXT[level.end() :], maxsplit=1, flags=re.MULTILINE)[0]


def cells(title: str) -> list[list[str]]:
    """The rows of the table of a section, its header left out."""
    rows = [line.strip("| ").split(" | ") for line in section(title).splitlines() if line.startswith("|")]
    return rows[2:]


def test_the_options_on_the_page_are_those_of_the_commands():
    assert render(TEXT) == TEXT, "python -m tests.cli.page writes it anew"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_section_with_its_options_and_what_it_promises(command):
    text = section(command)
    assert f"<!-- options: {command} -->" in text
    assert len(PART.sub("", text).strip()) > 40


def test_every_exit_code_is_on_the_page_and_no_other():
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    codes = {
        OK,
        NOTHING,
        FAULT,
        IO_ERROR,
        INTERRUPTED,
        *(value.exit_code for value in classes if value.__module__ == errors.__name__),
    }
    assert [int(code) for code, _ in cells("Exit codes")] == sorted(codes)


def test_the_columns_are_on_the_page_in_order():
    assert [(int(number), name) for number, name, _ in cells("The row")] == [
        (number, f"`{column}`") for number, column in enumerate(COLUMNS, 1)
    ]


def test_the_keys_of_json_are_on_the_page():
    told = {}
    for command, keys in cells("JSON"):
        columns = COLUMNS if "the columns" in keys and "each with" not in keys else ()
        words = set(re.findall(r"`(\w+)`", keys.split(": ")[-1]))
        told[command.strip("`")] = words - {"priority", "tries"} | set(columns)
    assert told == KEYS


def test_every_variable_of_the_environment_is_on_the_page():
    sources = [path.read_text("utf-8") for path in Path(gwtq.__file__).parent.glob("*.py") if path.stem != "demo"]
    read = {name for source in sources for name in re.findall(r"environ(?:\.get\(|\[)\"(\w+)\"", source)}
    page = section("Common options")
    assert {f"`{name}`" for name in read} == set(re.findall(r"^\| (`[A-Z_]+`) \|", page, re.MULTILINE))


def test_the_kinds_and_results_are_on_the_page():
    assert all(f"`{kind}`" in section("The row") for kind in KINDS)
    counts, others = section("add").split("One that was")
    assert [word for word, counted in RESULTS.items() if counted and f"`{word}`" not in counts] == []
    assert [word for word, counted in RESULTS.items() if not counted and f"`{word}`" not in others] == []
