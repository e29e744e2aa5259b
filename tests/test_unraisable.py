"""Errors that no caller can receive reach ``sys.unraisablehook``, and nothing else happens."""

from __future__ import annotations

import io
import sys

import pytest

from backoff_ticker._unraisable import report


def raised(error):
    """Return the error with a traceback."""
    try:
        raise error
    except BaseException as caught:
        return caught


CLOSED = io.StringIO()
CLOSED.close()


class Unprintable:
    def __repr__(self):
        raise ZeroDivisionError


@pytest.fixture
def written(monkeypatch, capsys):
    """A function that returns what was written to stderr, with the default hook in place."""
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    return lambda: capsys.readouterr().err


def test_a_hook_of_the_program_gets_what_the_interpreter_would_give_it(monkeypatch):
    given = []
    monkeypatch.setattr(sys, "unraisablehook", given.append)
    error, source = raised(ValueError("x")), object()
    report(error, "Exception in a test", source)
    (args,) = given
    assert args.exc_type is ValueError
    assert args.exc_value is error
    assert args.exc_traceback is error.__traceback__
    assert args.exc_traceback is not None
    assert args.err_msg == "Exception in a test"
    assert args.object is source


def test_the_default_hook_is_replaced_by_text_on_stderr(written):
    report(raised(ValueError("the text")), "Exception in a test", ["source"])
    text = written()
    assert text.startswith("Exception in a test: ['source']\nTraceback (most recent call last):\n")
    assert text.endswith("ValueError: the text\n")
    assert "in raised\n    raise error\n" in text


def test_causes_and_notes_are_shown(written):
    error = raised(ValueError("outer"))
    error.__cause__ = raised(KeyError("inner"))
    error.add_note("a note")
    report(error, "Exception in a test", None)
    text = written()
    assert "KeyError: 'inner'" in text
    assert text.endswith("ValueError: outer\na note\n")


@pytest.mark.parametrize("stderr", [None, CLOSED])
def test_without_a_stderr_nothing_is_written_and_nothing_raised(monkeypatch, written, stderr):
    monkeypatch.setattr(sys, "stderr", stderr)
    report(raised(ValueError()), "Exception in a test", None)
    assert written() == ""


def test_a_source_that_cannot_be_printed_raises_nothing(written):
    report(raised(ValueError()), "Exception in a test", Unprintable())


def test_a_hook_that_fails_raises_nothing_here(monkeypatch):
    called = []

    def hook(args):
        called.append(args)
        raise ZeroDivisionError

    monkeypatch.setattr(sys, "unraisablehook", hook)
    report(raised(ValueError()), "Exception in a test", None)
    assert len(called) == 1
