"""The pages tell the truth: their examples run, and every public name is on them."""

from __future__ import annotations

import doctest
import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gwtq
from gwtq import errors
from gwtq.look import Stats
from gwtq.sweep import Recovered

ROOT = Path(__file__).resolve().parent.parent
API = (ROOT / "doc" / "api.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(page, language):
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def public(of):
    """The names that a class shows."""
    return [name for name in vars(of) if not name.startswith("_")]


# --- doc/api.md


def test_the_examples_of_the_api_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "\n".join(blocks(API, "python"))
    test = doctest.DocTestParser().get_doctest(text, {}, "doc/api.md", None, 0)
    assert len(test.examples) > 50
    told = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=told.append)
    assert runner.failures == 0, "".join(told)


@pytest.mark.parametrize("name", gwtq.__all__)
def test_every_public_name_is_in_the_tables_of_the_api_page(name):
    assert f"`{name}`" in API[API.index("## Every name") :]


@pytest.mark.parametrize(
    "name",
    [f"Queue.{name}" for name in public(gwtq.Queue)] + [f"Claim.{name}" for name in public(gwtq.Claim)],
)
def test_every_method_of_queue_and_claim_is_in_the_tables_of_the_api_page(name):
    assert f"`{name.partition('.')[2]}`" in API[API.index("## Every name") :]


@pytest.mark.parametrize("argument", list(inspect.signature(gwtq.Queue).parameters))
def test_every_argument_of_queue_is_told(argument):
    assert re.search(rf"\bQueue\(.*\b{argument}\b", API)


@pytest.mark.parametrize("method", ["add", "claim"])
def test_every_argument_is_in_the_signature_that_the_page_gives(method):
    told = re.search(rf"`{method}\((.*?)\)`", API)[1]
    names = re.findall(r"(\w+)(?:=\w+)?(?:, |$)", told)
    assert names == list(inspect.signature(getattr(gwtq.Queue, method)).parameters)[1:]


@pytest.mark.parametrize("verb", ["done", "fail", "release"])
def test_the_verbs_that_end_a_claim_have_the_signature_that_the_page_gives(verb):
    told = re.search(rf"`claim\.{verb}\((.*?)\)` \|", API)[1]
    parameters = list(inspect.signature(getattr(gwtq.Claim, verb)).parameters.values())[1:]
    assert told == ", ".join(
        p.name if p.default is p.empty else f"{p.name}={p.default!r}".replace("'", '"') for p in parameters
    )


@pytest.mark.parametrize("of", [Stats, Recovered, gwtq.State, gwtq.Enqueued])
def test_every_field_of_what_is_returned_is_told(of):
    names = [name for name in (*public(of), *getattr(of, "__slots__", ())) if name not in ("to_json", "KEYS")]
    assert [name for name in names if not re.search(rf"\b{name}\b", API)] == []


def test_the_table_of_errors_is_that_of_the_module():
    told = re.findall(r"^\| `(\w+)` \| (\d+) \| (.*) \|$", API, re.MULTILINE)
    classes = [c for c in vars(errors).values() if inspect.isclass(c)]
    assert sorted(told) == sorted(
        (c.__name__, str(c.exit_code), c.__doc__.splitlines()[0].rstrip(".")) for c in classes
    )


def test_every_error_is_public():
    assert {c.__name__ for c in vars(errors).values() if inspect.isclass(c)} <= set(gwtq.__all__)


# --- format.md


@pytest.fixture
def by_hand():
    """Runs what format.md has for a shell lane without the command, in the queue's directory; returns its exit code."""
    (script,) = [
        block for block in blocks((ROOT / "doc" / "format.md").read_text(encoding="utf-8"), "sh") if "mv " in block
    ]
    if sys.platform != "linux":
        pytest.skip("the dates are those of GNU date")
    return lambda queue: (
        subprocess.run(["sh", "-c", script], env={**os.environ, "queue": queue.path}, check=False).returncode
    )


def test_a_lane_without_the_command_does_every_task_in_order_and_then_none(tmp_path, by_hand):
    """Also past the end of a leaf, which it leaves empty."""
    queue = gwtq.Queue.create(str(tmp_path / "a cola"), durable=False)
    queue.add_many([{"person": f"Ana {number}", "source": "gaceta", "priority": 100} for number in range(252)])
    for _ in range(247):
        queue.claim("lane-1").done("none")
    held = queue.claim("lane-1")
    assert [by_hand(queue) for _ in range(2)] == [0, 0]
    assert [task.id for task in queue.due()] == ["q251", "q252"]
    held.release()
    assert [by_hand(queue) for _ in range(4)] == [0, 0, 0, 1]
    rows = [(task.id, task.status, task.result, task.lane, task.tries) for task in queue.tasks()][247:]
    assert rows == [(f"q{number}", "done", "hit", "by-hand", 1) for number in range(248, 253)]
    assert list(queue.examine()) == []


# --- README.md and links

SHELL_GWTQ = f'gwtq() {{ "{sys.executable}" -m gwtq "$@"; }}\n'


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """What README's quick start and lane loop leave behind, run in an empty directory."""
    if not shutil.which("bash"):
        pytest.skip("bash is not installed")
    where = tmp_path_factory.mktemp("campaign")
    environment = {key: value for key, value in os.environ.items() if key != "GWT_QUEUE"}
    environment["PYTHONPATH"] = str(ROOT)
    script = "set -e\n" + SHELL_GWTQ + "\n".join(blocks(README, "bash"))
    subprocess.run(["bash", "-c", script], cwd=where, env=environment, check=True, stdin=subprocess.DEVNULL)
    return where


def test_the_quick_start_and_the_lane_loop_of_the_readme_do_every_task(campaign):
    tasks = [(task.person_label, task.status, task.result, task.lane) for task in gwtq.Queue(campaign / "cola").tasks()]
    assert tasks == [("Ana Peiró Toledo", "done", "hit", "lane-2"), ("Juan Peiró Soler", "done", "hit", "lane-2")]


def test_the_python_of_the_readme_does_every_task(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    queue = gwtq.Queue.create("cola")
    queue.add("Ana")
    (python,) = blocks(README, "python")
    exec(python, {})
    assert queue.stats().done == 1


def test_the_commands_of_the_readme_are_those_that_ci_runs():
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    commands = [line for block in blocks(README, "sh") for line in block.splitlines()]
    assert len(commands) == 4
    assert [command for command in commands if command.replace(".venv", '"$venv"', 1) not in ci] == []


PAGES = sorted([ROOT / "README.md", *(ROOT / "doc").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    broken = set()
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if not link.startswith(("http:", "https:")):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists():
                broken.add(str(target.relative_to(ROOT)))
            elif anchor and anchor not in anchors(target):
                broken.add(link)
    assert broken == set()


def anchors(page):
    """The names by which a page's headings are linked to."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
