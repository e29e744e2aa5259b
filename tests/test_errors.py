"""The tree of errors: what each is, says, and keeps through pickle."""

import copy
import pickle

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

BASES = {
    BackoffTickerError: (Exception,),
    WouldBlock: (BackoffTickerError,),
    TickerClosed: (BackoffTickerError,),
    Cancelled: (BackoffTickerError,),
    DeadlineExceeded: (Cancelled, TimeoutError),
    CircuitOpen: (BackoffTickerError,),
}
# Each error, its text, and what it keeps.
ERRORS = [
    *(
        (TickerClosed(reason), f"the ticker is closed: {reason}", {"reason": reason})
        for reason in CloseReason
    ),
    (Cancelled(), "cancelled", {"cause": None}),
    (Cancelled("why"), "cancelled: why", {"cause": "why"}),
    (Cancelled(""), "cancelled: ", {"cause": ""}),
    (Cancelled(CAUSE), "cancelled: ValueError", {"cause": CAUSE}),  # its text may be secret
    (DeadlineExceeded(), "the deadline has passed", {"cause": None, "errno": None}),
    (DeadlineExceeded(CAUSE), "the deadline has passed", {"cause": CAUSE, "errno": None}),
    (DeadlineExceeded("the next is late"), "the next is late", {"errno": None}),
    (WouldBlock("no tick is due"), "no tick is due", {}),
    (CircuitOpen(), "the circuit is open", {"seconds": None}),
    (CircuitOpen(3.25), "the circuit is open, 3.25 s left", {"seconds": 3.25}),
    (
        CircuitOpen(state=CircuitState.HALF_OPEN),
        "the circuit is half-open, and lets no further probe through",
        {"state": CircuitState.HALF_OPEN},
    ),
]


@pytest.mark.parametrize("error", BASES)
def test_each_error_has_its_place(error):
    """An end of work does not end the task, and a passed deadline is the built-in TimeoutError."""
    assert error.__bases__ == BASES[error]


@pytest.mark.parametrize(("error", "text", "kept"), ERRORS, ids=readable_id)
def test_each_error_says_what_happened_keeps_why_and_survives_pickle_and_copy(error, text, kept):
    twins = [pickle.loads(pickle.dumps(error, p)) for p in range(pickle.HIGHEST_PROTOCOL + 1)]
    for twin in (error, *twins, copy.copy(error), copy.deepcopy(error)):
        assert type(twin) is type(error)
        assert str(twin) == text
        assert repr({name: getattr(twin, name) for name in kept}) == repr(kept)


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
