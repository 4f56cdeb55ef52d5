"""Imports: the pure modules know only each other, no module waits for itself, and a lane loads what it needs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from gwtq import Queue

ROOT = Path(__file__).resolve().parent.parent.parent
MODULES = sorted(path.stem for path in (ROOT / "gwtq").glob("*.py"))

# What each pure module is made of. Nothing here knows of files, of the environment, or what time it is: `names` takes
# its two functions of `time` to convert, and `tests/test_tidy.py` sees to it that they stay the only ones.
PURE = {
    "errors": set(),
    "names": {"time"},
    "idset": {"bisect"},
    "jsonline": {"_json", "json"},
    "layout": {"gwtq.names"},
    "task": {"gwtq.errors", "gwtq.jsonline", "gwtq.names"},
    "rules": {"gwtq.errors", "gwtq.names", "datetime", "re", "unicodedata"},
    "settings": {"gwtq.errors", "gwtq.names", "gwtq.rules"},
}
# What costs a lane its start-up (milliseconds each), and what it brings along.
HEAVY = {
    "argparse", "collections", "ctypes", "dataclasses", "datetime", "decimal", "enum", "filelock", "functools",
    "hashlib", "inspect", "json", "logging", "pathlib", "random", "re", "shutil", "socket", "subprocess", "tempfile",
    "threading", "traceback", "typing", "unicodedata", "uuid",
}  # fmt: skip
COMMAND_LINE = {"__main__", "cli", "commands", "demo", "options", "report", "stream"}
NOT_A_LANES = {f"gwtq.{name}" for name in ("demo", "doctor", "look", "produce", "report", "stream")}


def statements(node, *, lazy):
    """Every statement that runs; those inside functions, which run later, only with `lazy`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            for other in child.orelse:
                yield from statements(other, lazy=lazy)
        elif lazy or not isinstance(child, (ast.FunctionDef, ast.Lambda)):
            yield child
            yield from statements(child, lazy=lazy)


def imports(module, *, lazy=True):
    """The modules that a module imports, its own package's as `gwtq.x`."""
    tree = ast.parse((ROOT / "gwtq" / f"{module}.py").read_text(encoding="utf-8"))
    found = set()
    for node in statements(tree, lazy=lazy):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level:
            found |= {f"gwtq.{node.module}"} if node.module else {f"gwtq.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module.split(".")[0])
    return found - {"__future__"}


@pytest.mark.parametrize("module", PURE)
def test_a_pure_module_is_made_of_these(module):
    assert imports(module) == PURE[module]


def needed(module, *, lazy):
    """All modules of the package that a module leads to."""
    seen, todo = set(), [module]
    while todo:
        for name in imports(todo.pop(), lazy=lazy):
            package, _, stem = name.partition(".")
            if package == "gwtq" and stem in MODULES and stem not in seen:
                seen.add(stem)
                todo.append(stem)
    return seen


@pytest.mark.parametrize("module", MODULES)
def test_no_module_needs_itself_to_be_loaded(module):
    # `commands` prints through `cli`, which loads it when it knows the command: that is the one loop, and it is lazy.
    if module in {"cli", "commands"}:
        assert needed(module, lazy=True) >= {"cli", "commands"}
        assert "commands" not in imports("cli", lazy=False)
        return
    assert module not in needed(module, lazy=True)


@pytest.mark.parametrize("module", [module for module in MODULES if module not in COMMAND_LINE])
def test_nothing_below_the_command_line_knows_of_it(module):
    assert not needed(module, lazy=True) & COMMAND_LINE


@pytest.mark.parametrize("module", ["disk", "clock"])
def test_the_seams_to_the_system_know_nothing_of_tasks(module):
    assert imports(module) & {f"gwtq.{name}" for name in MODULES} <= {"gwtq.errors"}


# --- what a command loads

LOADS = """
import os, sys
sys.path.insert(0, sys.argv[1])
before = set(sys.modules)
exec(sys.argv[2])
os.write(2, " ".join(sorted(set(sys.modules) - before)).encode())
"""


def loaded(code, *args):
    """The modules that `code` loads in an interpreter that has loaded nothing else, and what it prints."""
    command = [sys.executable, "-I", "-S", "-c", LOADS, str(ROOT), code, *args]
    ran = subprocess.run(command, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    return set(ran.stderr.decode().split()), ran.stdout.decode("utf-8")


@pytest.mark.parametrize("code", ["import gwtq", "from gwtq.options import quick; import gwtq.commands, gwtq.lane"])
def test_the_package_loads_nothing_heavy(code):
    names, _ = loaded(code)
    assert "gwtq.queue" in names
    assert not names & HEAVY
    assert not names & NOT_A_LANES


@pytest.fixture
def queue(tmp_path):
    queue = Queue.create(str(tmp_path / "cola"), durable=False)
    queue.add("Ana Peiró", source="gaceta", query="peiró 1890", note="=1\n2")
    return queue


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("renew --lease-minutes 180", ":"),
        ("done --result hit --evidence /dev/null --note read", "q1\tdone"),
        ("fail --backoff-minutes 0.5 --note blocked", "q1\twaiting"),
        ("fail --final", "q1\tfailed"),
        ("release --retry-after 5 --json", '{"id": "q1", "outcome": "waiting"'),
    ],
)
def test_a_command_of_a_lane_loads_nothing_heavy(queue, command, printed):
    verb, *options = command.split()
    claim = queue.claim("lane-1")
    line = ["--queue", queue.path, verb, "--id", claim.id, "--token", claim.token, *options]
    names, out = loaded("from gwtq.cli import main; main(sys.argv[3:])", *line)
    assert printed in out
    assert not names & HEAVY
    assert not names & NOT_A_LANES


@pytest.mark.parametrize(
    "options", [[], ["--kind", "search", "--source", "gaceta"], ["--json", "--lease-minutes", "0.5"]]
)
def test_claim_loads_nothing_heavy(queue, options):
    line = ["--queue", queue.path, "--max-tries", "3", "claim", "--lane", "lane 2", *options]
    names, out = loaded("from gwtq.cli import main; main(sys.argv[3:])", *line)
    assert "ana-peiro" in out
    assert not names & HEAVY
    assert not names & NOT_A_LANES
