"""The parts of doc/cli.md that are made from the table of commands: `python -m tests.cli.page` writes them anew.

A part stands between `<!-- options: NAME -->` and `<!-- end -->`; what lies between parts is written by hand.
"""

from __future__ import annotations

import re
from pathlib import Path

from gwtq.options import COMMANDS, GLOBAL, Option

PAGE = Path(__file__).parents[2] / "doc" / "cli.md"
PART = re.compile(r"(<!-- options: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def render(page: str) -> str:
    """The page with its parts made anew."""
    return PART.sub(lambda match: match[1] + part(match[2]) + match[3], page)


def part(name: str) -> str:
    """How a command is called, an example, and its options; of `gwtq`, the options of all commands."""
    if name == "gwtq":
        return f"\n{options(GLOBAL)}\n"
    command = COMMANDS[name]
    expected = (*command.options, *([command.argument] if command.argument else []))
    call = " ".join(["gwtq", name, *map(usage, expected)])
    return f"\n```sh\n{call}\n{command.example}      # for example\n```\n\n{options(expected)}\n"


def usage(option: Option) -> str:
    """An option, or an argument, as it stands in a call."""
    text = spelled(option)
    if option.many:
        text += " …"
    return text if option.required else f"[{text}]"


def spelled(option: Option) -> str:
    return " ".join([*([option.name] if option.name[0] == "-" else []), *([option.metavar] if option.metavar else [])])


def options(expected: tuple[Option, ...]) -> str:
    rows = [f"| `{spelled(option)}` | {option.help} |\n" for option in expected]
    return "| option | |\n| --- | --- |\n" + "".join(rows) if rows else "No options.\n"


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text("utf-8")), "utf-8")
