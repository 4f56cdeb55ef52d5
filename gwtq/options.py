"""The command line as a table, and two readers of it. Every value stays text; the commands check it.

`argparse` reads whatever is asked for. It costs a command 25 ms of start-up, more than all else that a claim does, so
the plain spelling is read by `quick`, and whatever that does not know at first sight (`--help`, `--lane=x`, a mistake)
goes to argparse. `doc/cli.md` is made from the same table.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn, Union

    Values = dict[str, Union[str, list[str], bool, None]]


class Option:
    """One option: a text, a `flag`, or with `many` a text that may be given several times."""

    __slots__ = ("flag", "help", "many", "metavar", "name", "required")

    def __init__(
        self, name: str, metavar: str, help: str, *, required: bool = False, flag: bool = False, many: bool = False
    ) -> None:
        self.name = name
        self.metavar = metavar
        self.help = help
        self.required = required
        self.flag = flag
        self.many = many

    @property
    def key(self) -> str:
        """The name under which the value is found."""
        return self.name.lstrip("-").replace("-", "_")


class Command:
    """One command: what it does in a line, its options, an example, and at most one positional argument."""

    __slots__ = ("argument", "example", "help", "options")

    def __init__(self, help: str, example: str, *options: Option, argument: Option | None = None) -> None:
        self.help = help
        self.example = example
        self.options = options
        self.argument = argument


QUEUE = Option("--queue", "DIR", "the queue's directory (else $GWT_QUEUE, else ./cola)")
MAX_TRIES = Option("--max-tries", "N", "attempts until a task is parked as failed (else the queue's own: 5)")
JSON = Option("--json", "", "print JSON objects, one a line", flag=True)
ID = Option("--id", "ID", "the task's id, like q12", required=True)
TOKEN = Option("--token", "T", "the claim's token, column 17 of the row that claim printed", required=True)
LEASE = Option("--lease-minutes", "M", "how long the claim holds, fractions allowed (else the queue's own: 120)")
NOTE = Option("--note", "TEXT", "free text, replaces the task's note")

COMMANDS = {
    "init": Command(
        "make a queue; one that is there stays as it is",
        "gwtq --queue reviews init --kind review --kind push",
        Option("--kind", "K", "a kind of task, may be repeated (else search, sweep, verify, followup)", many=True),
    ),
    "add": Command(
        "add one task, or a batch of them, all or nothing; prints id and what became of it",
        'gwtq add --person "Ana Peiró Toledo" --source gaceta --query "Peiró Toledo 1890" --priority 100 --dedupe',
        Option("--person", "P", "whom the task is about: a name or a key"),
        Option("--label", "TEXT", "the readable name (else the person as typed)"),
        Option("--kind", "K", "one of the queue's kinds (else search with a source, sweep without)"),
        Option("--source", "S", "where to look"),
        Option("--query", "TEXT", "what to look for"),
        Option("--priority", "N", "higher goes first (else 0)"),
        NOTE,
        Option("--next-at", "TIME", "not claimable before this instant; UTC unless it has a zone"),
        Option("--dedupe-key", "KEY", "what --dedupe compares instead of person, kind, source and query"),
        Option("--jsonl", "FILE", "a batch: one JSON object a line, same fields; - is stdin"),
        Option("--dedupe", "", "skip what is queued, running or done; refresh what is open", flag=True),
        Option("--retry-failed", "", "with --dedupe: a failed match does not count", flag=True),
        JSON,
    ),
    "claim": Command(
        "take the best task that is due; prints its row; exit 1 when nothing is due",
        'row=$(gwtq claim --lane lane-2 --kind search --source gaceta) && token=$(cut -f17 <<<"$row")',
        Option("--lane", "L", "who takes it", required=True),
        Option("--kind", "K", "only tasks of this kind, may be repeated", many=True),
        Option("--source", "S", "only tasks for this source, may be repeated", many=True),
        LEASE,
        JSON,
    ),
    "renew": Command(
        "push the end of a claim's lease out; prints it",
        'gwtq renew --id "$id" --token "$token" --lease-minutes 30',
        ID,
        TOKEN,
        LEASE,
        JSON,
    ),
    "done": Command(
        "close a claimed task with a result",
        'gwtq done --id "$id" --token "$token" --result hit --evidence hits/ana.txt',
        ID,
        TOKEN,
        Option("--result", "R", "one of the queue's results, like hit or none", required=True),
        Option("--evidence", "FILE", "where it is written down"),
        NOTE,
        JSON,
    ),
    "fail": Command(
        "the attempt ran and could not finish; the task waits, or is parked as failed",
        'gwtq fail --id "$id" --token "$token" --note "login expired" --backoff-minutes 30',
        ID,
        TOKEN,
        Option("--backoff-minutes", "M", "wait this long for each attempt so far, at most 30 days (else 60)"),
        Option("--final", "", "park it as failed at once", flag=True),
        NOTE,
        JSON,
    ),
    "release": Command(
        "nothing ran: give the task back, and its try with it",
        'gwtq release --id "$id" --token "$token" --retry-after 15',
        ID,
        TOKEN,
        Option("--retry-after", "M", "not claimable for so many minutes (else 0)"),
        NOTE,
        JSON,
    ),
    "requeue-expired": Command(
        "take back the claims of dead lanes; prints id, pending or failed, and the lane",
        "gwtq requeue-expired",
        JSON,
    ),
    "report": Command(
        "the open leads: what is due by priority, what waits, is held, has failed",
        "gwtq report --limit 50",
        Option("--limit", "N", "how many of the due tasks (else 20)"),
        JSON,
    ),
    "list": Command(
        "the tasks, one a row with a header line; filters go before the limit",
        "gwtq list --status done --result blocked",
        Option("--status", "S", "open, claimed, done or failed"),
        Option("--person", "P", "of this person"),
        Option("--lane", "L", "held, or ended, by this lane"),
        Option("--result", "R", "closed with this result"),
        Option("--kind", "K", "of this kind"),
        Option("--source", "S", "for this source"),
        Option("--limit", "N", "so many rows at the most"),
        JSON,
    ),
    "show": Command(
        "one task and its attempts: when, which lane, what came of it",
        "gwtq show q12",
        JSON,
        argument=Option("id", "ID", "the task's id", required=True),
    ),
    "stats": Command("counts, and what will happen next", "gwtq stats --json", JSON),
    "export": Command(
        "write the table for people and for the ledger",
        "gwtq export -o - | column -ts $'\\t'",
        Option("-o", "FILE", "where to (else the queue's path with .tsv); - is stdout"),
    ),
    "import": Command(
        "read a table into the queue, keeping ids, tries and claims",
        "gwtq --queue cola import cola.tsv",
        JSON,
        argument=Option("file", "FILE", "the table", required=True),
    ),
    "doctor": Command(
        "check every invariant; each finding with its cure; exit 1 when there is one",
        "gwtq doctor",
        Option("--fix", "", "carry out the cures that lose nothing", flag=True),
        JSON,
    ),
    "demo": Command("watch three lanes work a throw-away queue, one of them killed; under ten seconds", "gwtq demo"),
}
GLOBAL = (QUEUE, MAX_TRIES)


def read(argv: list[str], show: Callable[[str], object]) -> tuple[str, Values] | None:
    """(command, its values); None when `show` was called with what --help or --version print. Raises BadInput."""
    return quick(argv) or thorough(argv, show)


def quick(argv: list[str]) -> tuple[str, Values] | None:
    """What argparse would read, of a command line that is spelled plainly; None for anything else."""
    values: Values = {option.key: None for option in GLOBAL}
    at = _take(argv, 0, GLOBAL, None, values)
    if at >= len(argv) or argv[at] not in COMMANDS:
        return None
    command = COMMANDS[argv[at]]
    expected = (*command.options, *([command.argument] if command.argument else []))
    values.update({o.key: [] if o.many else False if o.flag else None for o in expected})
    if _take(argv, at + 1, command.options, command.argument, values) < len(argv):
        return None
    if any(option.required and values[option.key] is None for option in expected):
        return None
    return argv[at], values


def _take(argv: list[str], at: int, options: tuple[Option, ...], argument: Option | None, values: Values) -> int:
    """Read argv[at:] while it is spelled plainly; returns how far it came."""
    known = {option.name: option for option in options}
    while at < len(argv):
        option = known.get(argv[at])
        if not option:
            if not argument or not _plain(argv[at]) or values[argument.key] is not None:
                break
            values[argument.key] = argv[at]
        elif option.flag:
            values[option.key] = True
        else:
            at += 1
            if at == len(argv) or not _plain(argv[at]):
                return at - 1
            values[option.key] = [*(values[option.key] or []), argv[at]] if option.many else argv[at]  # type: ignore[misc]
        at += 1
    return at


def _plain(value: str) -> bool:
    return value[:1] not in ("-", "")


def thorough(argv: list[str], show: Callable[[str], object]) -> tuple[str, Values] | None:
    """Read everything, with argparse."""
    import argparse

    from .errors import BadInput
    from .version import __version__

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise BadInput(f"{message}; `{self.prog} --help` tells more.")

        def _print_message(self, message: str, file: object = None) -> None:
            show(message.rstrip("\n"))

    raw = argparse.RawDescriptionHelpFormatter
    parser = Parser(
        prog="gwtq",
        description="A file queue: hands tasks to lanes one at a time and takes them back from the dead.",
        epilog='example:\n  gwtq add --person "Ana Peiró Toledo" && gwtq claim --lane lane-1',
        formatter_class=raw,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"gwtq {__version__}")
    for option in GLOBAL:
        _add(parser, option)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        sub = commands.add_parser(
            name, help=command.help, description=command.help, epilog=f"example:\n  {command.example}",
            formatter_class=raw, allow_abbrev=False,
        )  # fmt: skip
        if name in argv:  # no other can be the one, and what they take costs time
            _fill(sub, command)
    try:
        values = vars(parser.parse_args(argv))
    except SystemExit:
        return None  # --help or --version, and it is shown
    return values.pop("command"), values


def _fill(parser: Any, command: Command) -> None:
    for option in command.options:
        _add(parser, option)
    if command.argument:
        parser.add_argument(command.argument.name, metavar=command.argument.metavar, help=command.argument.help)


def _add(parser: Any, option: Option) -> None:
    more: dict[str, object] = {"dest": option.key, "help": option.help.replace("%", "%%")}
    if option.flag:
        more["action"] = "store_true"
    else:
        more["metavar"] = option.metavar
        more["required"] = option.required
        if option.many:
            more.update(action="append", default=[])
    parser.add_argument(option.name, **more)
