"""The base classes of all observers, and of those that count."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from contextvars import copy_context
from signal import Signals
from typing import TYPE_CHECKING, Any, TypedDict

from ... import Tick
from ...types import Job
from .._shared import as_count, check_name, require_token, type_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ... import CancellationToken, CircuitBreaker, CircuitState, Outcome
    from ...types import CallbackHandle

    Cause = BaseException | str | None

METRICS = {
    "retries": ("Failures that were retried", "operation", "error"),
    "retry_wait_seconds": ("Delays before retries", "operation"),
    "runs": ("Runs of retries that ended, and how", "operation", "outcome", "error"),
    "circuits": ("Circuits that are in this state", "circuit", "state"),
    "circuit_changes": ("Changes of circuits to this state", "circuit", "state"),
    "cancels": ("Tokens that were cancelled", "token", "cause"),
    "ticks": ("Ticks that a reader took", "ticker"),
    "ticks_missed": ("Ticks that were dropped", "ticker"),
    "tick_lateness_seconds": ("From the time when a tick was due until a reader took it", "ticker"),
    "jobs": ("Jobs that a worker took", "schedule"),
    "jobs_missed": ("Times of a grid that were left out", "schedule"),
    "job_lateness_seconds": ("From the time when a key was due until a worker took it", "schedule"),
}
"""What each metric tells, and its labels. One that has no buckets counts; "circuits" also down."""

_LATENESS = (0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0)
BUCKETS: dict[str, Sequence[float]] = {
    "retry_wait_seconds": (
        *(0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0),
    ),
    "tick_lateness_seconds": _LATENESS,
    "job_lateness_seconds": _LATENESS,
}
"""The metrics that are histograms, with their upper bounds in seconds."""


class RetryHooks(TypedDict):
    """The hooks of an observer, by the names of the options of a retry."""

    on_retry: Callable[[Outcome], None]
    on_success: Callable[[Outcome], None]
    on_give_up: Callable[[Outcome], None]


def event_of(outcome: Outcome) -> tuple[str, dict[str, Any]]:
    """Return what a retry has told as an event: its name, "" for a success at once; and facts."""
    facts = {"operation": outcome.name, "attempts": outcome.attempts, "elapsed": outcome.elapsed}
    if outcome.last_error is not None:
        facts["error_type"] = type_name(outcome.last_error)
    if outcome.reason is None:
        return "retry", facts | {"delay": outcome.delay or 0.0}
    if not outcome.succeeded:
        return "gave_up", facts | {"outcome": str(outcome.reason)}
    return "recovered" if outcome.attempts > 1 else "", facts


class Observer(ABC):
    """Learns of retries, circuits, cancels, ticks and jobs; a subclass says what it makes of each.

    No error of a subclass reaches the program: it goes to the standard library's logger
    ``backoff_ticker``.
    """

    @property
    def hooks(self) -> RetryHooks:
        """The three hooks as options: ``configure(**observer.hooks)``."""
        return {
            "on_retry": self.on_retry,
            "on_success": self.on_success,
            "on_give_up": self.on_give_up,
        }

    def on_retry(self, outcome: Outcome) -> None:
        """Record a failure that will be retried. It is a hook of retries."""
        self._tell(self._retried, outcome)

    def on_success(self, outcome: Outcome) -> None:
        """Record the end of a run. It is a hook of retries."""
        self._tell(self._ended, outcome)

    on_give_up = on_success

    def on_change(self, name: str) -> Callable[[CircuitState, CircuitState, CircuitBreaker], None]:
        """Return a hook that records the changes of one circuit, for its option ``on_change``.

        Each breaker needs a hook of its own; several may have the same name, such as that of the
        service. A breaker that is dropped stays counted, so make breakers once. Do not open or
        reset one in a signal handler, which must not wait for the lock of a logger or metric.
        """
        check_name(name, empty=True)
        self._tell(self._circuit_made, name)

        def record(old: CircuitState, new: CircuitState, _breaker: CircuitBreaker) -> None:
            self._tell(self._circuit_changed, name, old, new)

        return record

    def watch_token(self, token: CancellationToken, name: str) -> CallbackHandle:
        """Record when a token is cancelled, and why; ``remove()`` of the handle ends the watch.

        Its children need calls of their own. The cancel is recorded in the thread of the token's
        clock, right after it (on a ``VirtualClock`` at its next step): it may come from a signal
        handler, which must not wait for the lock of a logger or metric. A program that exits at the
        same moment may be faster. It raises what ``on_cancel()`` does.
        """
        check_name(name, empty=True)
        require_token("token", token)
        clock = token.clock

        def post() -> None:
            run = copy_context().run  # what the caller of watch_token() has bound
            clock.call_at(
                clock.monotonic(), lambda: run(self._tell, self._cancelled, name, token.cause)
            )

        return token.on_cancel(post)

    def record_tick(self, tick: Tick, name: str) -> None:
        """Record a tick that a ticker has given to you, under a name for the ticker."""
        check_name(name, empty=True)
        if not isinstance(tick, Tick):
            raise TypeError(f"tick must be a Tick, not {tick!r}")
        self._tell(self._ticked, name, tick)

    def record_job(self, job: Job[Any], name: str) -> None:
        """Record a job that a schedule has given to you, under a name for the schedule."""
        check_name(name, empty=True)
        if not isinstance(job, Job):
            raise TypeError(f"job must be a Job, not {job!r}")
        self._tell(self._job_taken, name, job)

    def _tell(self, record: Callable[..., None], *facts: object) -> None:
        try:
            record(*facts)
        except Exception:
            logging.getLogger("backoff_ticker").exception("%s failed", type(self).__name__)

    @abstractmethod
    def _retried(self, outcome: Outcome) -> None: ...

    @abstractmethod
    def _ended(self, outcome: Outcome) -> None: ...

    def _circuit_made(self, name: str) -> None: ...  # noqa: B027 - most need not know

    @abstractmethod
    def _circuit_changed(self, name: str, old: CircuitState, new: CircuitState) -> None: ...

    @abstractmethod
    def _cancelled(self, name: str, cause: Cause) -> None: ...

    @abstractmethod
    def _ticked(self, name: str, tick: Tick) -> None: ...

    @abstractmethod
    def _job_taken(self, name: str, job: Job[Any]) -> None: ...


class MetricsObserver(Observer):
    """An observer that counts; a subclass says where.

    Each value of a label is a series of its own. So a label has at most ``most`` values, and
    ``other`` stands for all further ones.
    """

    def __init__(self, most: int, other: str) -> None:
        self._most = as_count("max_label_values", most, 1)
        self._other = other
        self._known: dict[str, set[str]] = {}

    @abstractmethod
    def _add(self, metric: str, amount: float, *labels: str) -> None:
        """Add to a counter or gauge, or to a histogram, the values of whose labels are given."""

    def _retried(self, outcome: Outcome) -> None:
        operation = self._bounded("operation", outcome.name)
        self._add("retries", 1, operation, self._error(outcome))
        self._add("retry_wait_seconds", outcome.delay or 0.0, operation)

    def _ended(self, outcome: Outcome) -> None:
        operation = self._bounded("operation", outcome.name)
        error = "" if outcome.succeeded else self._error(outcome)
        self._add("runs", 1, operation, str(outcome.reason), error)

    def _circuit_made(self, name: str) -> None:
        self._add("circuits", 1, self._bounded("circuit", name), "closed")

    def _circuit_changed(self, name: str, old: CircuitState, new: CircuitState) -> None:
        circuit = self._bounded("circuit", name)
        self._add("circuit_changes", 1, circuit, str(new))
        # Nothing is set: in whatever order threads come here, the sums are right.
        self._add("circuits", -1, circuit, str(old))
        self._add("circuits", 1, circuit, str(new))

    def _cancelled(self, name: str, cause: Cause) -> None:
        self._add("cancels", 1, self._bounded("token", name), self._cause(cause))

    def _ticked(self, name: str, tick: Tick) -> None:
        ticker = self._bounded("ticker", name)
        self._add("ticks", 1, ticker)
        self._add("ticks_missed", tick.missed, ticker)
        self._add("tick_lateness_seconds", tick.lateness, ticker)

    def _job_taken(self, name: str, job: Job[Any]) -> None:
        schedule = self._bounded("schedule", name)
        self._add("jobs", 1, schedule)
        self._add("jobs_missed", job.missed, schedule)
        self._add("job_lateness_seconds", job.lateness, schedule)

    def _bounded(self, label: str, value: str) -> str:
        """Return ``value``, or what stands for others if the label has too many by now."""
        known = self._known.setdefault(label, set())
        if value not in known:
            if len(known) >= self._most:
                return self._other
            known.add(value)  # threads that come here at the same moment may add one each
        return value

    def _error(self, outcome: Outcome) -> str:
        error = outcome.last_error
        return "" if error is None else self._bounded("error", type_name(error))

    def _cause(self, cause: Cause) -> str:
        """Return a short name of why a token was cancelled: texts may be as many as cancels."""
        if isinstance(cause, BaseException):
            return self._bounded("cause", type_name(cause))
        if cause is None:
            return "none"
        return cause if cause in Signals.__members__ else "text"
