"""Retries, circuits, tokens and tickers as events of structlog."""

import asyncio
import logging

import pytest
import structlog

from backoff_ticker import (
    CancellationToken,
    CircuitBreaker,
    ConstantBackOff,
    DeadlineExceeded,
    Pace,
    Ticker,
    retry,
    retry_call,
    with_max_retries,
)
from backoff_ticker.integrations.structlog import StructlogObserver
from backoff_ticker.testing import no_wait
from tests.integrations.test_metrics import failing, tell_everything


@pytest.fixture
def events():
    with structlog.testing.capture_logs() as captured:
        yield captured


@pytest.fixture
def log():
    return StructlogObserver()


def test_no_key_is_one_of_those_that_logging_keeps_for_itself(caplog, clock):
    """``logging`` refuses an ``extra`` that overwrites a field of its records, such as ``name``."""
    caplog.set_level(logging.DEBUG)
    processors = [structlog.stdlib.render_to_log_kwargs]
    log = StructlogObserver(structlog.wrap_logger(logging.getLogger(), processors))
    tell_everything(log, clock)
    assert len(caplog.records) == 8


def test_the_events_with_their_levels_and_keys(events, log, clock):
    tell_everything(log, clock)
    retry_call(str, **log.hooks)  # a success at once is not told
    error = {"error_type": "ConnectionError", "error": "ConnectionError('no route')"}
    first = {"operation": "fetch", "attempts": 1, "elapsed": 0.0, **error}
    second = {"operation": "fetch", "attempts": 2, "elapsed": 7.0, **error}
    warning, info, debug = ({"log_level": level} for level in ("warning", "info", "debug"))
    times = {"lateness": 0.0, "missed": 0}
    circuit = {"circuit": "prices", "old_state": "closed", "state": "open"}
    tick = {"ticker": "poll", "tick": 1, "delay": 0.0, "since_success": 0}
    cancel = {"token": "shutdown", "cause": "OSError('full')", "cause_type": "OSError"}
    assert events == [
        {"event": "retry", **warning, **first, "delay": 7.0},
        {"event": "gave_up", **warning, **second, "outcome": "max_attempts"},
        {"event": "retry", **warning, **first, "delay": 7.0},
        {"event": "recovered", **info, **second},
        {"event": "circuit_changed", **warning, **circuit},
        {"event": "tick", **debug, **times, **tick},
        {"event": "job", **debug, **times, "schedule": "fleet", "key": "device", "failures": 0},
        {"event": "cancelled", **info, **cancel},
    ]


def test_a_circuit_that_closes_and_a_cancel_by_a_text_or_without_a_cause(events, log, clock):
    breaker = CircuitBreaker(on_change=log.on_change("prices"))
    breaker.open()
    breaker.reset()
    for cause in ("SIGTERM", None):
        token = CancellationToken()
        log.watch_token(token, "shutdown")
        token.cancel(cause)
    clock.advance(0)
    closed, *cancels = events[1:]
    assert (closed["log_level"], closed["state"]) == ("info", "closed")
    common = {"event": "cancelled", "log_level": "info", "token": "shutdown"}
    assert cancels == [{**common, "cause": "SIGTERM"}, {**common, "cause": None}]


def test_a_run_that_is_cut_in_its_first_attempt_has_no_error(events, log, clock):
    @retry(timeout=5, **log.hooks)
    async def hang():
        await asyncio.sleep(60)

    with pytest.raises(DeadlineExceeded):
        clock.run_async(hang())
    (event,) = events
    assert (event["event"], event["outcome"], event["elapsed"]) == ("gave_up", "deadline", 5.0)
    assert not {"error", "error_type"} & event.keys()


def test_what_is_bound_to_the_context_is_logged(log, clock):
    events = structlog.testing.LogCapture()
    token = CancellationToken()
    before = structlog.get_config()
    structlog.configure([structlog.contextvars.merge_contextvars, events])
    try:
        with structlog.contextvars.bound_contextvars(request="a1"):
            with no_wait():
                retry_call(failing(ConnectionError(), 1), **log.hooks)
            log.watch_token(token, "request")
        token.cancel()
        clock.advance(0)
    finally:
        structlog.configure(**before)
    assert [each["event"] for each in events.entries] == ["retry", "recovered", "cancelled"]
    assert {each["request"] for each in events.entries} == {"a1"}


def test_ticks_and_missed_ticks(events, log, clock):
    ticker = Ticker(with_max_retries(ConstantBackOff(10), 1), pace=Pace.SKIP)
    log.record_tick(ticker.receive(), "poll")
    clock.advance(25)
    with pytest.raises(TimeoutError):
        ticker.receive(timeout=0)
    clock.advance(5)
    log.record_tick(ticker.receive(), "poll")
    keys = ("event", "log_level", "missed", "lateness")
    told = [tuple(event[key] for key in keys) for event in events]
    assert told == [("tick", "debug", 0, 0.0), ("ticks_missed", "warning", 2, 0.0)]


def test_what_is_no_logger_for_threads_is_refused():
    async def refused():  # such loggers need a loop
        logger = structlog.wrap_logger(None, wrapper_class=structlog.stdlib.AsyncBoundLogger)
        for each in (logger, logger.bind()):
            with pytest.raises(TypeError, match=r"^logger must not be async; use its sync_bl, "):
                StructlogObserver(each)

    asyncio.run(refused())
    with pytest.raises(TypeError, match="^logger must have .* warning, not 42$"):
        StructlogObserver(42)
