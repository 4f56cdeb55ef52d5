"""The command `gwtq`: arguments in, text out. It alone prints, exits and reads the environment.

Only data goes to stdout, all else to stderr. An error is a sentence and an exit code (`errors`, `doc/cli.md`); a
traceback is kept for our own faults, and shown with GWTQ_DEBUG=1.
"""

from __future__ import annotations

import os
import sys

from .errors import BadInput, GwtqError
from .options import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .jsonline import Json

OK, NOTHING, FAULT, IO_ERROR, INTERRUPTED = 0, 1, 70, 74, 130
CHUNK = 1 << 16
_SPACES = dict.fromkeys([*range(32), *range(127, 160)], " ")
_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(127, 160), 0x2028, 0x2029)}


class Unprintable(GwtqError):
    """The output cannot be written."""

    exit_code = IO_ERROR


class Output:
    """Stdout, written by hand: UTF-8 whatever the locale says, and an error is noticed before we exit."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def line(self, text: str) -> None:
        """One line of data."""
        data = (text + "\n").encode("utf-8")
        self._parts.append(data)
        self._size += len(data)
        if self._size > CHUNK:
            self.flush()

    def json(self, value: Json) -> None:
        """One line of JSON, also for readers that end a line at U+2028, or steer a terminal by U+009B."""
        from .jsonline import dumps

        text = dumps(value)
        self.line(text if text.isprintable() else text.translate(_ESCAPES))

    def flush(self) -> None:
        """Write what is there. Raises Unprintable."""
        data, self._parts, self._size = b"".join(self._parts), [], 0
        try:
            while data:
                data = data[os.write(1, data) :]
        except OSError as error:
            raise Unprintable(f"Stdout takes no more: {error.strerror}.") from None


def say(sentence: str) -> None:
    """A sentence for the person at the terminal; what it quotes cannot steer that terminal."""
    try:
        os.write(2, f"gwtq: {sentence.translate(_SPACES)}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        return  # nobody listens


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    try:
        _stand_in_for_closed_streams()
        out = Output()
        code = _run(_utf8(sys.argv[1:] if argv is None else argv), out)
        out.flush()
        return code
    except GwtqError as error:
        if error.exit_code == FAULT:
            _trace()
        say(str(error))
        return error.exit_code
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        say(f"{where}{error.strerror or error}")
        return IO_ERROR
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        _trace()
        say(f"a fault of gwtq itself ({type(error).__name__}: {error}); GWTQ_DEBUG=1 shows where. Please report it.")
        return FAULT


def _run(argv: list[str], out: Output) -> int:
    call = read(argv, out.line)
    if not call:
        return OK  # --help, --version
    from . import commands

    return commands.run(*call, out)


def _trace() -> None:
    """Where our own fault is, for who asks for it."""
    if os.environ.get("GWTQ_DEBUG") == "1":
        from traceback import print_exc

        print_exc()


def _stand_in_for_closed_streams() -> None:
    """A closed descriptor 0, 1 or 2 would be given to the next file that is opened, and printed into."""
    closed = []
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            closed.append(fd)
    if 1 in closed:
        raise Unprintable("Stdout is closed; nothing was done.")


def _utf8(argv: list[str]) -> list[str]:
    """The arguments as the UTF-8 text that their bytes are. Raises BadInput."""
    texts = []
    for argument in argv:
        try:
            texts.append(argument if argument.isascii() else os.fsencode(argument).decode("utf-8"))
        except UnicodeError:
            raise BadInput(f"The argument {argument!r} is not UTF-8 text.") from None
    return texts
