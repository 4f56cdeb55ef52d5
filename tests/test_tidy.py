"""Lint as a test: the rules of the house that no tool knows (`doc/hacking.md`)."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = sorted((ROOT / "gwtq").glob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
PAGES = sorted([ROOT / "README.md", *(ROOT / "doc").rglob("*.md")])

FUNCTION_LINES_MAX = 40
MODULE_LINES_MAX = 350

# Who may use what the system gives: files, time, chance, processes, streams. Nobody else imports these at all.
SYSTEM = {
    "os": {"cli", "clock", "commands", "demo", "disk", "stream", "tsv"},
    "sys": {"__main__", "cli", "demo", "disk", "stream"},
    "time": {"clock", "names", "stream"},
    **{module: {"demo"} for module in ("signal", "subprocess", "tempfile", "threading")},
    **{module: {"disk"} for module in ("ctypes", "fcntl", "filelock")},
    "random": set(), "secrets": set(), "uuid": set(), "shutil": set(), "pathlib": set(), "io": set(), "glob": set(),
    "fileinput": set(), "mmap": set(), "socket": set(), "sqlite3": set(), "logging": set(), "typing": set(),
}  # fmt: skip
# And where a module may use only a part of one.
PARTS = {
    ("cli", "os"): {"O_RDWR", "devnull", "environ", "fsencode", "fstat", "open", "write"},
    ("clock", "os"): {"urandom"},
    ("commands", "os"): {"environ", "fsdecode", "path"},
    ("demo", "os"): {"environ", "killpg", "path", "pathsep"},
    ("demo", "sys"): {"executable"},
    ("disk", "sys"): {"platform"},
    ("names", "time"): {"gmtime", "strftime"},
    ("stream", "os"): {"isatty", "write"},
    ("stream", "sys"): {"stdin"},
    ("stream", "time"): {"monotonic"},
}
OPENS_FILES = {"demo", "stream", "tsv"}


def named(paths):
    """Parameters that are called as the files are."""
    return [pytest.param(path, id=str(path.relative_to(ROOT))) for path in paths]


def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def at_run_time(node):
    """Every node but what only a type checker sees."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING"):
            yield child
            yield from at_run_time(child)


def imports(path):
    """(module, its name or '', relative or not) of every import at run time, those inside functions too."""
    for node in at_run_time(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "", False) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name, bool(node.level)) for alias in node.names)


def own_imports(path):
    """The modules of the package that a module imports."""
    return {module or name for module, name, relative in imports(path) if relative}


def parts_used(path, module):
    """What of an imported module is used: names imported from it, attributes of it."""
    used = {name for from_module, name, relative in imports(path) if from_module == module and name and not relative}
    for node in at_run_time(tree(path)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == module:
            used.add(node.attr)
    return used


def length(path):
    return len(path.read_text(encoding="utf-8").splitlines())


def lines(node):
    """How long a function is, its docstring not counted."""
    length = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node) is not None:
        length -= node.body[0].end_lineno - node.body[0].lineno + 1
    return length


def layers():
    """The lines of the table of modules in doc/hacking.md, from the bottom up."""
    page = (ROOT / "doc" / "hacking.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|", page[page.index("## Layout") : page.index("## To add")], re.MULTILINE)
    return [re.findall(r"`(\w+)`", row) for row in rows]


# --- size


@pytest.mark.parametrize("path", named(PACKAGE))
def test_a_module_is_of_at_most_350_lines(path):
    assert length(path) <= MODULE_LINES_MAX


@pytest.mark.parametrize("path", named(PACKAGE + TESTS))
def test_a_function_is_of_at_most_40_lines(path):
    functions = [node for node in ast.walk(tree(path)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    assert [f"{node.name}: {lines(node)}" for node in functions if lines(node) > FUNCTION_LINES_MAX] == []


# --- every file


@pytest.mark.parametrize("path", named(PACKAGE + [p for p in TESTS if p.stem != "__init__"]))
def test_annotations_are_of_the_future(path):
    assert ("__future__", "annotations", False) in list(imports(path))


@pytest.mark.parametrize("path", named(PACKAGE + TESTS + PAGES))
def test_nothing_is_left_to_be_done(path):
    words = "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X"))
    assert re.findall(rf"\b(?:{words})\b", path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", named(PACKAGE))
def test_a_module_says_what_it_is_for(path):
    assert ast.get_docstring(tree(path))


# --- who may do what


@pytest.mark.parametrize("path", named(PACKAGE))
def test_only_the_modules_for_it_use_the_system(path):
    modules = {module.split(".")[0] for module, _, relative in imports(path) if not relative}
    assert [module for module in sorted(modules) if path.stem not in SYSTEM.get(module, {path.stem})] == []


@pytest.mark.parametrize(("stem", "module"), PARTS)
def test_a_module_that_may_use_a_part_of_the_system_uses_just_that(stem, module):
    assert parts_used(ROOT / "gwtq" / f"{stem}.py", module) == PARTS[stem, module]


@pytest.mark.parametrize("module", [module for module in SYSTEM if SYSTEM[module]])
def test_who_may_use_the_system_does(module):
    """Else the list above would be wider than what is needed."""
    assert {path.stem for path in PACKAGE if module in {m for m, _, relative in imports(path) if not relative}} == (
        SYSTEM[module]
    )


@pytest.mark.parametrize("path", named(PACKAGE))
def test_only_the_modules_for_it_open_files(path):
    calls = {
        node.func.id
        for node in at_run_time(tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert "open" not in calls or path.stem in OPENS_FILES
    assert "print" not in calls


@pytest.mark.parametrize("path", named(PACKAGE))
def test_only_clock_asks_for_the_time(path):
    """`datetime` may be used to reckon, not to look at the clock; nor do a file's times tell it."""
    attributes = [node for node in at_run_time(tree(path)) if isinstance(node, ast.Attribute)]
    asked = {f"{getattr(node.value, 'id', '') or getattr(node.value, 'attr', '')}.{node.attr}" for node in attributes}
    pattern = r"datetime\.now|.*\.(utcnow|today|fromtimestamp|getmtime|st_.time(_ns)?)"
    assert [text for text in asked if re.fullmatch(pattern, text)] == []


# --- layers


def test_the_table_of_modules_holds_every_module_once():
    told = [module for layer in layers() for module in layer]
    assert sorted(told) == [path.stem for path in PACKAGE if not path.stem.startswith("__")]


@pytest.mark.parametrize("layer", range(len(layers())))
def test_imports_go_one_way(layer):
    reachable = {module for row in layers()[: layer + 1] for module in row}
    beyond = {module: own_imports(ROOT / "gwtq" / f"{module}.py") - reachable for module in layers()[layer]}
    assert {module: names for module, names in beyond.items() if names} == {}
