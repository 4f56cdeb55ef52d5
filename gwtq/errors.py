"""Everything that can go wrong, one class each; its docstring begins the message.

The command's exit code for each error is a field of its class, so that a caller of the Python API and a shell
script see the same classes of failure. `doc/cli.md` lists the codes.
"""

from __future__ import annotations


class GwtqError(Exception):
    """gwtq could not do what was asked."""

    exit_code = 70

    def __init__(self, detail: str = "") -> None:
        """`detail` is a sentence for people; one that begins or ends with a path or a value has it in quotes."""
        self.detail = detail
        sentence = (type(self).__doc__ or type(self).__name__).strip().splitlines()[0].rstrip(".")
        if detail[1:2].islower() or detail[1:2] == " ":
            detail = detail[0].lower() + detail[1:]
        super().__init__(f"{sentence}: {detail.rstrip('.')}." if detail else f"{sentence}.")

    def __reduce__(self) -> tuple[type[GwtqError], tuple[str]]:
        return type(self), (self.detail,)


class Refused(GwtqError):
    """The claim is not yours any more."""

    exit_code = 2


class BadInput(GwtqError):
    """This cannot be used."""

    exit_code = 64


class BadData(GwtqError):
    """The data cannot be used, nothing was changed."""

    exit_code = 65


class NewerFormat(GwtqError):
    """A newer gwtq wrote this."""

    exit_code = 65


class NoSuchQueue(GwtqError):
    """There is no queue here."""

    exit_code = 66


class NoSuchFile(GwtqError):
    """There is no such file."""

    exit_code = 66


class NoSuchTask(GwtqError):
    """There is no such task in this queue."""

    exit_code = 66


class DiskError(GwtqError):
    """The disk did not do what was asked."""

    exit_code = 74


class Corrupt(GwtqError):
    """The queue breaks its own rules; `gwtq doctor` tells more."""

    exit_code = 70


class Undecodable(GwtqError):
    """The task's file does not decode."""

    exit_code = 65
