"""What all observers promise, with one that needs no other package."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading

import pytest

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    CircuitBreaker,
    ConstantBackOff,
    StopReason,
    Ticker,
    ZeroBackOff,
    cancel_on_signals,
    retry,
    retry_call,
    set_default_hooks,
    with_max_retries,
)
from backoff_ticker.integrations._metrics.observer import Observer, type_name
from tests.helpers import eventually


class Told(Observer):
    """Keeps what it is told, with the thread that told it; ``broken``: it fails instead."""

    def __init__(self, broken=False):
        self.facts = []
        self.threads = []
        self.broken = broken

    def note(self, *fact):
        if self.broken:
            raise OSError("disk full")
        self.facts.append(fact)
        self.threads.append(threading.current_thread())

    def _retried(self, outcome):
        self.note("retried", outcome.name, outcome.attempts, outcome.delay)

    def _ended(self, outcome):
        self.note("ended", outcome.name, outcome.attempts, outcome.reason)

    def _circuit_made(self, name):
        self.note("circuit", name)

    def _circuit_changed(self, name, old, new):
        self.note("changed", name, str(old), str(new))

    def _cancelled(self, name, cause):
        self.note("cancelled", name, cause)

    def _ticked(self, name, tick):
        self.note("tick", name, tick.number)


def failing():
    raise ConnectionError("no route")


def failing_once():
    answers = iter([ConnectionError("no route")])

    def fetch():
        for error in answers:
            raise error
        return "page"

    return fetch


def test_the_hooks_tell_of_each_retry_and_of_the_end():
    told = Told()
    assert retry_call(failing_once(), ZeroBackOff(), **told.hooks) == "page"
    name = "failing_once.<locals>.fetch"
    assert told.facts == [
        ("retried", name, 1, 0.0),
        ("ended", name, 2, StopReason.SUCCEEDED),
    ]


def test_the_hooks_serve_coroutines():
    told = Told()

    @retry(ZeroBackOff(), max_attempts=2, **told.hooks)
    async def fetch():
        raise ConnectionError("no route")

    with pytest.raises(ConnectionError):
        asyncio.run(fetch())
    assert [fact[0] for fact in told.facts] == ["retried", "ended"]
    assert told.facts[1][3] is StopReason.MAX_ATTEMPTS


def test_the_hooks_may_be_those_of_the_whole_process_and_stand_beside_others():
    first, second = Told(), Told()
    with set_default_hooks(**first.hooks):
        retry_call(str, ZeroBackOff(), on_success=second.on_success)
    assert first.facts == second.facts == [("ended", "str", 1, StopReason.SUCCEEDED)]


# An observer that fails


def test_an_observer_that_fails_breaks_nothing_and_is_logged(caplog):
    told = Told(broken=True)
    assert retry_call(failing_once(), ZeroBackOff(), **told.hooks) == "page"
    with pytest.raises(ConnectionError):
        retry_call(failing, ZeroBackOff(), max_attempts=1, **told.hooks)
    breaker = CircuitBreaker(on_change=told.on_change("prices"))
    breaker.open()
    told.record_tick(Ticker(ZeroBackOff()).receive(), "poll")
    token = CancellationToken()
    told.watch_token(token, "shutdown")
    token.cancel()
    eventually(lambda: len(caplog.records) == 7, "the records")
    assert {(each.name, each.levelno) for each in caplog.records} == {
        ("backoff_ticker", logging.ERROR)
    }
    assert {each.getMessage() for each in caplog.records} == {"Told failed"}
    assert all("disk full" in str(each.exc_info[1]) for each in caplog.records)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_an_observer_passes(interrupt):
    told = Told()
    told.note = lambda *_: (_ for _ in ()).throw(interrupt)
    with pytest.raises(interrupt):
        retry_call(failing_once(), ZeroBackOff(), **told.hooks)


# Circuits


def test_a_circuit_tells_of_its_changes(clock):
    told = Told()
    breaker = CircuitBreaker(ConstantBackOff(60), failures=1, on_change=told.on_change("prices"))
    guarded = breaker(failing_once())
    with pytest.raises(ConnectionError):
        guarded()
    clock.advance(60)
    guarded()
    assert told.facts == [
        ("circuit", "prices"),
        ("changed", "prices", "closed", "open"),
        ("changed", "prices", "open", "half-open"),
        ("changed", "prices", "half-open", "closed"),
    ]


# Tokens


@pytest.mark.parametrize("cause", [None, "maintenance", ValueError("why")])
def test_a_cancel_is_told_once_with_its_cause(clock, cause):
    told = Told()
    token = CancellationToken()
    told.watch_token(token, "shutdown")
    token.cancel(cause)
    token.cancel("again")
    clock.advance(0)
    assert told.facts == [("cancelled", "shutdown", cause)]


def test_a_deadline_is_told(clock):
    told = Told()
    token = CancellationToken(timeout=5)
    told.watch_token(token, "request")
    clock.advance(4)
    assert told.facts == []
    clock.advance(1)
    ((_, name, cause),) = told.facts
    assert (name, type_name(cause)) == ("request", "backoff_ticker.DeadlineExceeded")


def test_a_token_that_is_cancelled_already_is_told(clock):
    told = Told()
    token = CancellationToken()
    token.cancel("late")
    told.watch_token(token, "shutdown")
    clock.advance(0)
    assert told.facts == [("cancelled", "shutdown", "late")]


def test_the_end_of_a_watch(clock):
    told = Told()
    token = CancellationToken()
    assert told.watch_token(token, "shutdown").remove()
    token.cancel()
    clock.advance(0)
    assert told.facts == []


@pytest.mark.posix
def test_a_signal_handler_does_not_run_the_observer():
    """It interrupts the main thread anywhere, also where that holds the lock of a logger."""
    told = Told()
    with cancel_on_signals(signal.SIGUSR1) as token:
        told.watch_token(token, "shutdown")
        os.kill(os.getpid(), signal.SIGUSR1)
        assert token.wait(10)
        eventually(lambda: told.facts, "the fact")
    assert told.facts == [("cancelled", "shutdown", "SIGUSR1")]
    assert told.threads != [threading.main_thread()]


# Tickers


def test_ticks_of_a_thread_and_of_a_loop_are_told(clock):
    told = Told()
    backoff = with_max_retries(ZeroBackOff(), 1)

    async def read():
        async for tick in AsyncTicker(backoff):
            told.record_tick(tick, "loop")

    for tick in Ticker(backoff):
        told.record_tick(tick, "thread")
    clock.run_async(read())
    assert told.facts == [(*("tick", name), n) for name in ("thread", "loop") for n in (1, 2)]


# Bad input


@pytest.mark.parametrize("name", [None, 5, b"shutdown"])
def test_a_name_must_be_a_text(name):
    told = Told()
    for call in (
        lambda: told.on_change(name),
        lambda: told.watch_token(CancellationToken(), name),
        lambda: told.record_tick(Ticker(ZeroBackOff()).receive(), name),
    ):
        with pytest.raises(TypeError, match=f"^name must be a str, not {name!r}$"):
            call()


def test_what_is_observed_must_be_of_its_kind():
    with pytest.raises(TypeError, match="^token must be a CancellationToken, not 'shutdown'$"):
        Told().watch_token("shutdown", "shutdown")
    with pytest.raises(TypeError, match=r"^tick must be a Tick, not 1.5$"):
        Told().record_tick(1.5, "poll")


def test_the_name_of_an_error_is_that_by_which_it_is_imported():
    kinds = {"builtins": "Gone", "requests.exceptions": "requests.exceptions.Gone"}
    kinds |= {"httpx._exceptions": "httpx.Gone", "_socket": "_socket.Gone"}
    for module, name in kinds.items():
        assert type_name(type("Gone", (Exception,), {"__module__": module})()) == name
