"""The tree of errors: what each is, says, and keeps through pickle."""

from __future__ import annotations

import asyncio
import copy
import pickle
import subprocess
import sys

import pytest

import backoff_ticker
from backoff_ticker import (
    BackoffTickerError,
    Cancelled,
    CircuitOpen,
    CircuitState,
    CloseReason,
    DeadlineExceeded,
    TickerClosed,
    WouldBlock,
)
from tests.helpers import readable_id

CAUSE = ValueError("secret")

ERRORS = [
    BackoffTickerError("text"),
    WouldBlock("text"),
    *(TickerClosed(reason) for reason in CloseReason),
    Cancelled(),
    Cancelled("why"),
    Cancelled(CAUSE),
    DeadlineExceeded(),
    DeadlineExceeded("why"),
    CircuitOpen(),
    CircuitOpen(3.25),
    CircuitOpen(state=CircuitState.HALF_OPEN),
]


@pytest.mark.parametrize(
    ("error", "bases"),
    [
        (BackoffTickerError, (Exception,)),
        (WouldBlock, (BackoffTickerError,)),
        (TickerClosed, (BackoffTickerError,)),
        (Cancelled, (BackoffTickerError,)),
        (DeadlineExceeded, (Cancelled, TimeoutError)),
        (CircuitOpen, (BackoffTickerError,)),
    ],
)
def test_each_error_has_its_place(error, bases):
    assert error.__bases__ == bases


NAMES = [
    name
    for name in backoff_ticker.__all__
    if isinstance(value := getattr(backoff_ticker, name), type)
    and issubclass(value, BackoffTickerError)
]


@pytest.mark.parametrize("name", NAMES)
def test_tracebacks_and_pickles_name_an_error_as_it_is_imported(name):
    error = getattr(backoff_ticker, name)
    assert (error.__module__, error.__qualname__) == ("backoff_ticker", name)
    assert b"_errors" not in pickle.dumps(error)
    earlier = f"cbackoff_ticker._errors\n{name}\n.".encode()  # a pickle with the private module
    assert pickle.loads(pickle.dumps(error)) is pickle.loads(earlier) is error


def test_a_pickled_error_is_read_where_the_package_was_not_imported_yet():
    code = f"import pickle; print(repr(pickle.loads({pickle.dumps(Cancelled('why'))!r})))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True
    )
    assert done.stdout == "Cancelled('why')\n"


def test_an_error_of_a_user_keeps_its_own_module():
    assert type("Mine", (Cancelled,), {"__module__": "mine"}).__module__ == "mine"


def test_an_end_of_work_is_not_an_end_of_the_task():
    assert not issubclass(Cancelled, asyncio.CancelledError)
    assert issubclass(Cancelled, Exception)


def test_a_time_out_of_ours_is_the_built_in_one():
    with pytest.raises(TimeoutError):
        raise DeadlineExceeded
    assert not issubclass(Cancelled, TimeoutError)
    assert not issubclass(TickerClosed, (StopIteration, StopAsyncIteration))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TickerClosed(CloseReason.STOPPED), "the ticker is closed: stopped"),
        (TickerClosed(CloseReason.EXHAUSTED), "the ticker is closed: exhausted"),
        (TickerClosed(CloseReason.CANCELLED), "the ticker is closed: cancelled"),
        (TickerClosed(CloseReason.FAILED), "the ticker is closed: failed"),
        (Cancelled(), "cancelled"),
        (Cancelled("why"), "cancelled: why"),
        (Cancelled(""), "cancelled: "),
        (Cancelled(CAUSE), "cancelled: ValueError"),
        (DeadlineExceeded(), "the deadline has passed"),
        (DeadlineExceeded(CAUSE), "the deadline has passed"),
        (DeadlineExceeded("the next wait is too long"), "the next wait is too long"),
        (WouldBlock("no tick is due"), "no tick is due"),
        (CircuitOpen(), "the circuit is open"),
        (CircuitOpen(3.25), "the circuit is open, 3.25 s left"),
        (
            CircuitOpen(state=CircuitState.HALF_OPEN),
            "the circuit is half-open, and lets no further probe through",
        ),
    ],
)
def test_each_error_says_what_happened(error, text):
    assert str(error) == text


def test_the_text_of_a_cause_is_not_told():
    assert "secret" not in str(Cancelled(CAUSE))


def test_causes_and_reasons_are_kept():
    assert Cancelled().cause is None
    assert Cancelled("why").cause == "why"
    assert Cancelled(CAUSE).cause is CAUSE
    assert DeadlineExceeded(CAUSE).cause is CAUSE
    assert TickerClosed(CloseReason.FAILED).reason is CloseReason.FAILED


def test_a_deadline_has_no_error_number():
    assert DeadlineExceeded().errno is None
    assert DeadlineExceeded("why").errno is None


@pytest.mark.parametrize("error", ERRORS, ids=readable_id)
def test_errors_survive_pickle_and_copy(error):
    twins = [pickle.loads(pickle.dumps(error, p)) for p in range(pickle.HIGHEST_PROTOCOL + 1)]
    for twin in (*twins, copy.copy(error), copy.deepcopy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert repr(getattr(twin, "cause", None)) == repr(getattr(error, "cause", None))
        assert getattr(twin, "reason", None) is getattr(error, "reason", None)
        assert getattr(twin, "seconds", None) == getattr(error, "seconds", None)
