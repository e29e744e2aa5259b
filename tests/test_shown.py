"""What logs and reprs show of errors, and of texts from outside."""

import pytest

from backoff_ticker import Cancelled, CircuitOpen, Permanent, RejectedResult, RetryAfter
from backoff_ticker._shown import escaped, shown_error, shown_text, type_name


@pytest.mark.parametrize(
    "text, shown",
    [
        ("no route", "no route"),
        ("", ""),
        ("a\nb\x1b[2J\x7f\u202e\u2028", r"a\nb\x1b[2J\x7f\u202e\u2028"),
        (r"C:\new 'x'", r"C:\new 'x'"),
    ],
)
def test_control_characters_are_escaped(text, shown):
    assert escaped(text) == shown_text(text) == shown


@pytest.mark.parametrize(
    "text, shown",
    [
        ("at http://u:p@h:80/x?key=1#a", "at http://h:80/x?..."),
        ("at redis://:p%40@h/0, and 'http://u@i'", "at redis://h/0, and 'http://i'"),
        ("url: /x?key=1 (Caused by y)", "url: /x?... (Caused by y)"),
        ("http://h/?mail=a@b", "http://b"),
        ("why? a@b // c@d", "why? a@b // c@d"),
        ("Illegal Header value b'Bearer 1'\n2", "Illegal Header..."),
        ("bad cookie: a=1", "bad cookie..."),
        ("x" * 300, "x" * 200 + "..."),
    ],
)
def test_what_may_be_secret_is_left_out(text, shown):
    assert shown_text(text) == shown
    if len(shown) < 200:
        assert shown_error(ValueError(text)) == f"ValueError({shown!r})"


def test_a_long_text_takes_no_long_time():
    for text in ("//" * 500_000, "a@" * 500_000, "? " * 500_000):
        assert len(shown_text(text)) == 203


class Request:
    headers = "secret"


class Failed(Exception):
    """An error of a client: it has a request, a status, and a ``repr`` of its own."""

    request = Request()
    status = 503

    def __repr__(self):
        return "secret"


class Own(Exception):
    def __repr__(self):
        return "<Own http://u:p@h\n>"


class Unprintable(Exception):
    def __repr__(self):
        raise RuntimeError


CYCLE = ValueError()
CYCLE.args = (CYCLE,)


@pytest.mark.parametrize(
    "error, shown",
    [
        (OSError(111, "no route"), "ConnectionRefusedError(111, 'no route')"),
        (KeyError(("a", 1.5, None)), "KeyError(('a', 1.5, None))"),
        (ValueError(Request(), b"secret"), "ValueError(<Request>, <bytes>)"),
        (Failed("secret"), "Failed(status=503)"),
        (Own(), r"<Own http://h\n>"),
        (Unprintable(), "Unprintable"),
        (CYCLE, "ValueError"),
        (ExceptionGroup("two", [OSError(5), Failed()]), None),
        (Permanent(Failed()), "Permanent(Failed(status=503))"),
        (RetryAfter(5, Failed()), "RetryAfter(5, Failed(status=503))"),
        (Cancelled(Failed()), "Cancelled(Failed(status=503))"),
        (RejectedResult({"key": "secret"}), "RejectedResult(<dict>)"),
        (CircuitOpen(3), "CircuitOpen('the circuit is open, 3 s left')"),
        (ValueError("x" * 300), f"ValueError('{'x' * 188}..."),
    ],
)
def test_an_error_shows_its_class_its_texts_and_its_numbers(error, shown):
    if shown is None:
        shown = "ExceptionGroup('two', (OSError(5), Failed(status=503)))"
    assert shown_error(error) == shown
    if isinstance(error, (Permanent, RetryAfter, Cancelled, RejectedResult)):
        assert repr(error) == shown


def test_the_name_of_an_error_is_that_by_which_it_is_imported():
    kinds = {"builtins": "Gone", "requests.exceptions": "requests.exceptions.Gone"}
    kinds |= {"httpx._exceptions": "httpx.Gone", "_socket": "_socket.Gone"}
    for module, name in kinds.items():
        assert type_name(type("Gone", (Exception,), {"__module__": module})()) == name
