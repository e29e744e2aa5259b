"""Errors that no caller can receive reach ``sys.unraisablehook``, and nothing else happens."""

import io
import sys

import pytest

from backoff_ticker import CircuitBreaker

CLOSED = io.StringIO()
CLOSED.close()


class Hook:
    """A hook of a circuit breaker that fails; nobody can receive its error."""

    def __init__(self, error, shown="Hook()"):
        self.error = error
        self.shown = shown

    def fail(self):
        CircuitBreaker(on_change=self).open()

    def __call__(self, *_):
        raise self.error

    def __repr__(self):
        return self.shown  # a TypeError, if it is none


@pytest.fixture
def written(monkeypatch, capsys):
    """A function that returns what was written to stderr, with the default hook in place."""
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    return lambda: capsys.readouterr().err


def test_a_hook_of_the_program_gets_what_the_interpreter_would_give_it(unraisable):
    error = ValueError("x")
    source = Hook(error)
    source.fail()
    (args,) = unraisable
    assert args.exc_type is ValueError
    assert args.exc_value is error
    assert args.exc_traceback is error.__traceback__
    assert args.exc_traceback is not None
    assert args.err_msg == "Exception in on_change of a circuit breaker"
    assert args.object is source


def test_the_default_hook_is_replaced_by_text_on_stderr(written):
    error = ValueError("outer")
    error.__cause__ = KeyError("inner")
    error.add_note("a note")
    Hook(error).fail()
    text = written()
    assert text.startswith("Exception in on_change of a circuit breaker: Hook()\n")
    assert "KeyError: 'inner'\n" in text
    assert "\nTraceback (most recent call last):\n" in text
    assert "in __call__\n    raise self.error\n" in text
    assert text.endswith("ValueError: outer\na note\n")


@pytest.mark.parametrize("stderr", [None, CLOSED])
def test_without_a_stderr_nothing_is_written_and_nothing_raised(monkeypatch, written, stderr):
    monkeypatch.setattr(sys, "stderr", stderr)
    Hook(ValueError()).fail()
    assert written() == ""


def test_a_source_that_cannot_be_printed_raises_nothing(written):
    Hook(ValueError(), shown=None).fail()
    assert "Exception in on_change of a circuit breaker: one of type Hook\n" in written()


def test_a_hook_that_fails_raises_nothing_here(monkeypatch):
    called = []

    def hook(args):
        called.append(args)
        raise ZeroDivisionError

    monkeypatch.setattr(sys, "unraisablehook", hook)
    Hook(ValueError()).fail()
    assert len(called) == 1
