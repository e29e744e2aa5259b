"""What all observers promise, with one that needs no other package."""

import logging
import os
import signal
import threading

import pytest

from backoff_ticker import CancellationToken, ZeroBackOff, cancel_on_signals, retry_call
from backoff_ticker.integrations._observer import Observer
from tests.helpers import eventually
from tests.integrations.test_metrics import failing, tell_everything


class Told(Observer):
    """Keeps what it is told, with the thread that told it, or fails with an error."""

    def __init__(self, error=None):
        self.facts = []
        self.threads = []
        self.error = error

    def note(self, *fact):
        if self.error is not None:
            raise self.error
        self.facts.append(fact)
        self.threads.append(threading.current_thread())

    _record = note


def test_an_observer_that_fails_breaks_nothing_and_is_logged(caplog, clock):
    tell_everything(Told(OSError("disk full")), clock)
    assert len(caplog.records) == 9
    assert {(each.name, each.levelno) for each in caplog.records} == {
        ("backoff_ticker", logging.ERROR)
    }
    assert {each.getMessage() for each in caplog.records} == {"Told failed"}
    assert all("disk full" in str(each.exc_info[1]) for each in caplog.records)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_an_observer_passes(interrupt):
    told = Told(interrupt())
    with pytest.raises(interrupt):
        retry_call(failing(ConnectionError(), 1), ZeroBackOff(), **told.hooks)


def test_the_end_of_a_watch(clock):
    told = Told()
    token = CancellationToken()
    assert told.watch_token(token, "shutdown").remove()
    token.cancel("late")
    told.watch_token(token, "cancelled already")
    clock.advance(0)
    assert told.facts == [("cancelled", {"token": "cancelled already", "cause": "late"})]


@pytest.mark.posix
def test_a_signal_handler_does_not_run_the_observer():
    """It interrupts the main thread anywhere, also where that holds the lock of a logger."""
    told = Told()
    with cancel_on_signals(signal.SIGUSR1) as token:
        told.watch_token(token, "shutdown")
        os.kill(os.getpid(), signal.SIGUSR1)
        assert token.wait(10)
        eventually(lambda: told.facts, "the fact")
    assert told.facts == [("cancelled", {"token": "shutdown", "cause": "SIGUSR1"})]
    assert told.threads != [threading.main_thread()]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda told: told.on_change(None), "name must be a str, not None"),
        (lambda told: told.watch_token(CancellationToken(), 5), "name must be a str, not 5"),
        (lambda told: told.watch_token(5, "shutdown"), "token must be a CancellationToken, not 5"),
        (lambda told: told.record_tick(1.5, "poll"), "tick must be a Tick, not 1.5"),
        (lambda told: told.record_job("lamp", "fleet"), "job must be a Job, not 'lamp'"),
    ],
)
def test_names_and_what_is_observed_are_checked(call, message):
    with pytest.raises(TypeError, match=f"^{message}$"):
        call(Told())
