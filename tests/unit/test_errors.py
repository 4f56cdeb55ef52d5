"""Errors: the docstring begins the message, the class is the exit code."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys

import pytest

from gwtq import errors
from gwtq.errors import BadInput, Corrupt, GwtqError, NoSuchFile, Refused

CLASSES = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, Exception)]


def test_every_error_has_the_documented_exit_code():
    assert {c.__name__: c.exit_code for c in CLASSES} == {
        "GwtqError": 70, "Refused": 2, "BadInput": 64, "BadData": 65, "NewerFormat": 65, "NoSuchQueue": 66,
        "NoSuchFile": 66, "NoSuchTask": 66, "DiskError": 74, "Corrupt": 70, "Undecodable": 65,
    }  # fmt: skip


@pytest.mark.parametrize("error", CLASSES)
def test_every_error_is_caught_by_the_one_base_and_says_its_docstring(error):
    assert issubclass(error, GwtqError)
    assert str(error()) == error.__doc__.splitlines()[0]
    assert str(error()).endswith(".")


@pytest.mark.parametrize(
    ("detail", "message"),
    [
        ("The claim of q1 is over", "The claim is not yours any more: the claim of q1 is over."),
        ("The claim of q1 is over.", "The claim is not yours any more: the claim of q1 is over."),
        ("q1 is claimed by B.", "The claim is not yours any more: q1 is claimed by B."),
        ("NUL is no text", "The claim is not yours any more: NUL is no text."),
        ("A token is a text", "The claim is not yours any more: a token is a text."),
        ("x", "The claim is not yours any more: x."),
    ],
)
def test_the_detail_goes_on_the_sentence(detail, message):
    assert str(Refused(detail)) == message
    assert Refused(detail).detail == detail


@pytest.mark.parametrize("path", ["Cola.tsv", "cola..", "/tmp/Q", "a b"])
def test_a_quoted_path_is_named_as_it_is(path):
    assert str(NoSuchFile(repr(path))) == f"There is no such file: {path!r}."


@pytest.mark.parametrize("copied", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_comes_whole_out_of_another_process(copied):
    error = copied(BadInput("The person must be a text."))
    assert type(error) is BadInput
    assert str(error) == "This cannot be used: the person must be a text."


def test_an_error_of_another_module_may_do_without_a_docstring():
    class Stuck(Corrupt):
        pass

    assert str(Stuck("It does not end.")) == "Stuck: it does not end."


def test_errors_can_be_told_where_docstrings_are_stripped():
    code = "from gwtq.errors import Refused; print(Refused('The token is dead.'))"
    told = subprocess.run([sys.executable, "-OO", "-c", code], stdout=subprocess.PIPE, check=True)
    assert told.stdout == b"Refused: the token is dead.\n"
