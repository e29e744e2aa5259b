"""Events of retries, circuits, tokens and tickers for the loggers of structlog."""

from __future__ import annotations

from inspect import iscoroutinefunction
from typing import Any, Protocol

from ._observer import Observer
from ._shared import imports_of_extra, shown_error

with imports_of_extra("structlog"):
    import structlog

_WARNINGS = {"retry", "gave_up", "circuit_changed", "ticks_missed"}


class Logger(Protocol):
    """The methods that a logger needs; structlog's loggers have them."""

    def debug(self, event: str, **values: Any) -> object:
        """Log an event that is only of interest to developers."""

    def info(self, event: str, **values: Any) -> object:
        """Log an event that is normal."""

    def warning(self, event: str, **values: Any) -> object:
        """Log an event that deserves attention."""


class StructlogObserver(Observer):
    """Logs what happens in retries, circuits, tokens, tickers and schedules, as events.

    Make one when the program starts, and give it to what it is to observe.

    The events, with their levels and keys:

    - ``"retry"``, warning: ``operation, attempts, elapsed, error_type, error, delay``.
    - ``"gave_up"``, warning: the same, with ``outcome`` instead of ``delay``.
    - ``"recovered"``, info: a success after retries; the same, without ``delay``.
    - ``"circuit_changed"``, warning, or info if it closed: ``circuit, old_state, state``.
    - ``"cancelled"``, info: ``token, cause``, and ``cause_type`` of an exception.
    - ``"tick"``, debug: ``ticker, tick, delay, lateness, missed, since_success``.
    - ``"ticks_missed"``, warning: the same, for a tick before which some were dropped.
    - ``"job"``, debug: ``schedule, key, lateness, missed, failures``.

    Times are in seconds. ``error`` is shown as by ``log_retries``; arguments are never logged. No
    event tells of a run that succeeds at the first attempt, nor of one that ends with an error
    which ``on`` does not name at the first attempt, or with Ctrl-C.

    What is bound by ``structlog.contextvars`` where a retry runs, or where ``watch_token()`` was
    called, is part of the event.

    Example:
        >>> import structlog
        >>> from backoff_ticker import ZeroBackOff, retry_call
        >>> from backoff_ticker.integrations.structlog import StructlogObserver
        >>> ask = iter([None, 42]).__next__
        >>> with structlog.testing.capture_logs() as events:
        ...     retry_call(ask, ZeroBackOff(), until=bool, **StructlogObserver().hooks)
        42
        >>> [(event["event"], event["attempts"]) for event in events]
        [('retry', 1), ('recovered', 2)]

    Thread safety: that of the logger, which is called in event loops, too: it must not take long.

    Args:
        logger: The logger. None means ``structlog.get_logger("backoff_ticker")``. Of an
            ``AsyncBoundLogger`` pass its ``sync_bl``.
    """

    def __init__(self, logger: Logger | None = None) -> None:
        log: Logger = structlog.get_logger("backoff_ticker") if logger is None else logger
        methods = [getattr(log, level, None) for level in ("debug", "info", "warning")]
        if not all(map(callable, methods)):
            raise TypeError(f"logger must have methods debug, info and warning, not {logger!r}")
        if any(map(iscoroutinefunction, methods)):
            raise TypeError(f"logger must not be async; use its sync_bl, not {logger!r}")
        self._log = log

    def _record(self, event: str, facts: dict[str, Any]) -> None:
        if event in {"circuit_made", "succeeded"}:
            return
        for name in facts.keys() & {"error", "cause"}:
            if isinstance(facts[name], BaseException):
                facts[name] = shown_error(facts[name])
        if event == "tick" and facts["missed"]:
            event = "ticks_missed"
        if event in _WARNINGS and facts.get("state") != "closed":
            log = self._log.warning
        else:
            log = self._log.debug if event in {"tick", "job"} else self._log.info
        log(event, **facts)
