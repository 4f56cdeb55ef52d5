"""`gwtq demo`: three lanes work a throw-away queue, one of them is killed, its task is brought back and finished.

Everything is done by the product's own commands in processes of their own, and shown as it is run. The lanes are the
shell loop of README.md; where a real lane would search, they wait for a line on their stdin, and the demo writes it. So
each act ends on what was seen, never on a guess how long it takes, and the demo tells the same story on a slow machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from itertools import zip_longest
from tempfile import TemporaryDirectory
from textwrap import TextWrapper
from threading import Timer

from .clock import Clock
from .errors import GwtqError
from .jsonline import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .cli import Output

PATIENCE_SECONDS = 120  # a demo that takes longer is stuck: its lanes are killed, and it says so
POLL_SECONDS = 0.1
WRAPPER = TextWrapper(
    80, initial_indent="    ", subsequent_indent="      ", replace_whitespace=False, break_on_hyphens=False
)
# What stands for the command `gwtq` in a shell: this interpreter and this package, installed or not.
PRELUDE = 'gwtq() { "$GWTQ_PYTHON" -m gwtq "$@"; }\n'

LANE = """\
lane=$1; shift
while row=$(gwtq claim --lane "$lane" "$@"); do
    id=$(printf '%s\\n' "$row" | cut -f1)
    token=$(printf '%s\\n' "$row" | cut -f17)
    echo "took $id, token $token"
    read -r result || exit      # the search itself: here the demo answers
    gwtq done --id "$id" --token "$token" --result "$result"
done
echo "nothing is due, going home"
"""

TASKS = (
    {"person": "Ana Peiró Toledo", "source": "gaceta", "query": "peiró toledo 1890", "priority": 100},
    {"person": "Juan Peiró Soler", "source": "ad33", "query": "peiro bordeaux 1884", "priority": 50},
    {"person": "María Toledo", "kind": "verify", "source": "gaceta", "priority": 10},
    {"person": "Ana Peiró Toledo", "kind": "sweep", "priority": 100},  # there already: --dedupe knows it
)


class Stuck(GwtqError):
    """The demo did not go as it should."""


def demo(out: Output) -> int:
    """Tell the story; returns 0. Raises Stuck. Nothing is left behind."""
    with TemporaryDirectory(prefix="gwtq-demo-") as directory, Stage(out, os.path.realpath(directory)) as stage:
        stage.show("A queue in a scratch directory (here ./), three lanes, one of them killed.")
        add(stage)
        lanes = start(stage)
        kill(stage, lanes[2])
        bring_back(stage)
        finish(stage, lanes)
        wake(stage, lanes[2])
        look(stage)
    return 0


# --- the acts


def add(stage: Stage) -> None:
    """Tasks come in."""
    stage.tell("A planner adds one task, then a batch. A task that is there already is known.")
    stage.run("gwtq", "add", "--person", "Ana Peiró Toledo", "--kind", "sweep", "--priority", "100")
    stage.write("tasks.jsonl", "".join([dumps(dict(task)) + "\n" for task in TASKS]))
    stage.run("gwtq", "add", "--jsonl", "tasks.jsonl", "--dedupe")
    stage.tell("What is due, highest priority first:")
    stage.run("gwtq", "report")


def start(stage: Stage) -> list[Lane]:
    """Three lanes take a task each."""
    stage.write("lane.sh", LANE)
    stage.tell("A lane is a loop in the shell:")
    stage.shell("cat lane.sh")
    stage.tell("Three of them start; the third takes a short lease, of two seconds.")
    lanes = [stage.lane("lane-1"), stage.lane("lane-2"), stage.lane("lane-3", "--lease-minutes", "0.02")]
    stage.tell("Each task is one file, and a claim is its name: who holds it, until when.")
    stage.shell("ls cola/claimed")
    return lanes


def kill(stage: Stage, lane: Lane) -> None:
    """One of them dies in the middle of its work."""
    stage.tell(f"{lane.name} is killed in the middle of its work. It can clean up nothing.")
    stage.shell(f"kill -s KILL -- -{lane.process.pid}")
    lane.process.wait()


def bring_back(stage: Stage) -> None:
    """Its lease runs out, and its task comes back."""
    stage.tell("Nobody has to notice that: once its lease ran out, its task is taken back.")
    stage.run("gwtq", "requeue-expired", until_answered=True)


def finish(stage: Stage, lanes: list[Lane]) -> None:
    """The others do what is left."""
    stage.tell("The other two lanes finish theirs, and take what is due: q3 first, again.")
    for lane, result in ((lanes[0], "hit"), (lanes[1], "none"), (lanes[0], "hit"), (lanes[1], "partial")):
        lane.answer(result)


def wake(stage: Stage, lane: Lane) -> None:
    """The dead lane's token is dead."""
    stage.tell(f"Had {lane.name} only slept, it would be refused now: its token is dead.")
    stage.run("gwtq", "done", "--id", lane.task, "--token", lane.token, "--result", "none", exit_code=2)


def look(stage: Stage) -> None:
    """What was done, and by whom."""
    stage.tell("The dead attempt is kept with its task:")
    stage.run("gwtq", "show", "q3")
    stage.tell("And the table, for people and spreadsheets (some of its 19 columns):")
    stage.run("gwtq", "export")
    stage.shell("cut -f1,3,4,8,9,12,14 cola.tsv")
    stage.tell("All was done in a scratch directory, which is gone now. Yours: gwtq add ...")


# --- the stage


class Stage:
    """The scratch directory, what runs in it, and what is shown of it."""

    def __init__(self, out: Output, root: str) -> None:
        self.out = out
        self.root = root
        self.clock = Clock()
        self.lanes: list[Lane] = []
        self.env = {**os.environ, "GWTQ_PYTHON": sys.executable, "PYTHONPATH": _python_path()}
        self.env.pop("GWT_QUEUE", None)  # the queue is ./cola
        self._watchdog = Timer(PATIENCE_SECONDS, self.end)

    def __enter__(self) -> Stage:  # noqa: PYI034 (Self is not in 3.8)
        self._watchdog.daemon = True
        self._watchdog.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._watchdog.cancel()
        self.end()
        for lane in self.lanes:
            lane.process.communicate()

    def end(self) -> None:
        """Kill what still runs, children included."""
        for lane in self.lanes:
            if lane.process.poll() is None:
                os.killpg(lane.process.pid, signal.SIGKILL)

    def tell(self, sentence: str) -> None:
        """A sentence before an act."""
        self.show("", sentence)

    def show(self, *lines: str) -> None:
        """Lines of text, at once."""
        for line in lines:
            self.out.line(line)
        self.out.flush()

    def write(self, name: str, text: str) -> None:
        """Put a file into the scratch directory."""
        with open(os.path.join(self.root, name), "w", encoding="utf-8") as file:
            file.write(text)

    def run(self, *argv: str, exit_code: int = 0, until_answered: bool = False) -> None:
        """Show a command of gwtq and its answer; `until_answered`: run it until there is one."""
        self.show("  $ " + " ".join([f'"{arg}"' if " " in arg else arg for arg in argv]))
        answer = self._run([sys.executable, "-m", *argv], exit_code)
        while until_answered and not answer:
            if not self._watchdog.is_alive():
                raise Stuck(f"`{' '.join(argv)}` has had nothing to say for {PATIENCE_SECONDS} seconds.")
            self.clock.sleep(POLL_SECONDS)
            answer = self._run([sys.executable, "-m", *argv], exit_code)
        self.show(*aligned(answer + ([f"(exit {exit_code})"] if exit_code else [])))

    def shell(self, command: str) -> None:
        """Show a line of the shell and its answer."""
        self.show(f"  $ {command}", *aligned(self._run(["sh", "-c", command], 0)))

    def lane(self, name: str, *options: str) -> Lane:
        """Start a lane; returns when it has taken a task."""
        self.show("  $ " + " ".join(["sh lane.sh", name, *options, "&"]))
        lane = Lane(self, name, options)
        self.lanes.append(lane)
        lane.listen()
        if not lane.task:
            raise Stuck(f"{name} has taken no task.")
        return lane

    def _run(self, argv: list[str], exit_code: int) -> list[str]:
        try:
            ran = subprocess.run(  # noqa: S603 (the demo's own commands)
                [arg.encode("utf-8") for arg in argv],  # bytes: whatever the locale says, gwtq reads UTF-8
                cwd=self.root, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                timeout=PATIENCE_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Stuck(f"`{' '.join(argv)}` did not end.") from None
        answer = ran.stdout.decode("utf-8", "replace").replace(self.root, ".")
        if ran.returncode != exit_code:
            raise Stuck(f"`{' '.join(argv)}` ended with {ran.returncode}: {answer}")
        return answer.splitlines()


class Lane:
    """A lane: a shell in a process group of its own, which says what it does and is told what it found."""

    def __init__(self, stage: Stage, name: str, options: tuple[str, ...]) -> None:
        self.stage = stage
        self.name = name
        self.task = self.token = ""
        self.process = subprocess.Popen(  # noqa: S603 (the loop above)
            ["sh", "-c", PRELUDE + ". ./lane.sh", "lane.sh", name, *options],  # noqa: S607 (sh is where PATH says)
            cwd=stage.root, env=stage.env, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def answer(self, result: str) -> None:
        """Let the lane find something, and go on to its next task."""
        assert self.process.stdin
        self.process.stdin.write(f"{result}\n".encode("ascii"))
        self.process.stdin.flush()
        self.listen()

    def listen(self) -> None:
        """Show what the lane says until it holds a task, or goes home."""
        assert self.process.stdout
        for raw in self.process.stdout:
            text = raw.decode("utf-8", "replace").rstrip("\n").replace("\t", "  ")
            self.stage.show(f"    {self.name}: {text}")
            if text.startswith("took "):
                _, self.task, _, self.token = text.replace(",", "").split()
                return
        if self.process.wait() != 0:
            raise Stuck(f"{self.name} ended with {self.process.returncode}.")


def aligned(lines: list[str]) -> list[str]:
    """An answer as it is shown: indented, in 80 columns, the cells of tab-separated lines one below the other."""
    table = [line.split("\t") for line in lines if "\t" in line]
    widths = [max(map(len, column)) for column in zip_longest(*table, fillvalue="")]
    shown = []
    for line in lines:
        cells = "  ".join([cell.ljust(width) for cell, width in zip(line.split("\t"), widths)])
        shown += WRAPPER.wrap(cells.rstrip() if "\t" in line else line)
    return shown


def _python_path() -> str:
    """PYTHONPATH with this package's directory, unless that is where every interpreter looks anyway."""
    parent = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    installed = os.path.basename(parent) in ("site-packages", "dist-packages")
    return os.pathsep.join([*([] if installed else [parent]), *filter(None, [os.environ.get("PYTHONPATH")])])
