"""The base classes of all observers, and of those that count.

What an observer is told becomes an ``Event``, which ``_record()`` of a subclass gets. Its facts
have the names of labels in ``METRICS``.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from contextvars import copy_context
from signal import Signals
from typing import TYPE_CHECKING, Any, TypedDict

from .. import Tick
from ..types import Job
from ._shared import as_count, check_name, require_token, type_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .. import CancellationToken, CircuitBreaker, CircuitState, Outcome
    from ..types import CallbackHandle

    Cause = BaseException | str | None

METRICS = {
    "retries": ("Failures that were retried", "operation", "error_type"),
    "retry_wait_seconds": ("Delays before retries", "operation"),
    "runs": ("Runs of retries that ended, and how", "operation", "outcome", "error_type"),
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

_DELAYS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
_LATENESS = (0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0)
BUCKETS: dict[str, Sequence[float]] = {
    "retry_wait_seconds": _DELAYS,
    "tick_lateness_seconds": _LATENESS,
    "job_lateness_seconds": _LATENESS,
}
"""The metrics that are histograms, with their upper bounds in seconds."""


class RetryHooks(TypedDict):
    """The hooks of an observer, by the names of the options of a retry."""

    on_retry: Callable[[Outcome], None]
    on_success: Callable[[Outcome], None]
    on_give_up: Callable[[Outcome], None]


Event = tuple[str, dict[str, Any]]
"""What has happened, by its name, and the facts of it; errors are facts themselves."""


def _of_retry(outcome: Outcome) -> Event:
    facts = {"operation": outcome.name, "attempts": outcome.attempts, "elapsed": outcome.elapsed}
    error = outcome.last_error
    if error is not None:
        facts["error_type"] = type_name(error)
    event = "recovered" if outcome.attempts > 1 else "succeeded"
    if outcome.reason is None:
        event, facts["delay"] = "retry", outcome.delay or 0.0
    elif not outcome.succeeded:
        event, facts["outcome"] = "gave_up", str(outcome.reason)
    return event, facts if error is None else {**facts, "error": error}


def _of_circuit(name: str, old: CircuitState, new: CircuitState) -> Event:
    return "circuit_changed", {"circuit": name, "old_state": str(old), "state": str(new)}


def _of_token(name: str, cause: Cause) -> Event:
    types = {"cause_type": type_name(cause)} if isinstance(cause, BaseException) else {}
    return "cancelled", {"token": name, "cause": cause, **types}


def _of_tick(name: str, tick: Tick) -> Event:
    facts = {"ticker": name, "tick": tick.number, "delay": tick.delay, "lateness": tick.lateness}
    return "tick", {**facts, "missed": tick.missed, "since_success": tick.since_success}


def _of_job(name: str, job: Job[Any]) -> Event:
    facts = {"schedule": name, "key": job.key, "lateness": job.lateness}
    return "job", {**facts, "missed": job.missed, "failures": job.failures}


class Observer(ABC):
    """Learns of retries, circuits, cancels, ticks and jobs; a subclass says what it makes of them.

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
        """Record a failure that will be retried, or the end of a run. It is a hook of retries."""
        self._tell(_of_retry, outcome)

    on_success = on_retry
    on_give_up = on_retry

    def on_change(self, name: str) -> Callable[[CircuitState, CircuitState, CircuitBreaker], None]:
        """Return a hook that records the changes of one circuit, for its option ``on_change``.

        Each breaker needs a hook of its own; several may have the same name, such as that of the
        service. A breaker that is dropped stays counted, so make breakers once. Do not open or
        reset one in a signal handler, which must not wait for the lock of a logger or metric.
        """
        check_name(name, empty=True)
        self._tell(lambda: ("circuit_made", {"circuit": name, "state": "closed"}))

        def record(old: CircuitState, new: CircuitState, _breaker: CircuitBreaker) -> None:
            self._tell(_of_circuit, name, old, new)

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
            clock.call_at(clock.monotonic(), lambda: run(self._tell, _of_token, name, token.cause))

        return token.on_cancel(post)

    def record_tick(self, tick: Tick, name: str) -> None:
        """Record a tick that a ticker has given to you, under a name for the ticker."""
        check_name(name, empty=True)
        if not isinstance(tick, Tick):
            raise TypeError(f"tick must be a Tick, not {tick!r}")
        self._tell(_of_tick, name, tick)

    def record_job(self, job: Job[Any], name: str) -> None:
        """Record a job that a schedule has given to you, under a name for the schedule."""
        check_name(name, empty=True)
        if not isinstance(job, Job):
            raise TypeError(f"job must be a Job, not {job!r}")
        self._tell(_of_job, name, job)

    def _tell(self, event: Callable[..., Event], *told: object) -> None:
        try:
            self._record(*event(*told))
        except Exception:
            logging.getLogger("backoff_ticker").exception("%s failed", type(self).__name__)

    @abstractmethod
    def _record(self, event: str, facts: dict[str, Any]) -> None: ...


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
    def _add(self, metric: str, amount: float, labels: dict[str, str]) -> None:
        """Add to a counter or gauge, or to a histogram; the labels are in the order of METRICS."""

    def _record(self, event: str, facts: dict[str, Any]) -> None:
        missed, lateness = facts.get("missed", 0), facts.get("lateness", 0.0)
        if event == "retry":
            self._count(facts, retries=1, retry_wait_seconds=facts["delay"])
        elif event == "gave_up":
            self._count(facts, runs=1)
        elif event in {"recovered", "succeeded"}:  # whose last error is no label
            self._count({"operation": facts["operation"], "outcome": "succeeded"}, runs=1)
        elif event == "circuit_made":
            self._count(facts, circuits=1)
        elif event == "circuit_changed":
            # Nothing is set: in whatever order threads come here, the sums are right.
            self._count({**facts, "state": facts["old_state"]}, circuits=-1)
            self._count(facts, circuit_changes=1, circuits=1)
        elif event == "cancelled":
            self._count(facts, cancels=1)
        elif event == "tick":
            self._count(facts, ticks=1, ticks_missed=missed, tick_lateness_seconds=lateness)
        else:
            self._count(facts, jobs=1, jobs_missed=missed, job_lateness_seconds=lateness)

    def _count(self, facts: dict[str, Any], **amounts: float) -> None:
        for metric, amount in amounts.items():
            _, *labels = METRICS[metric]
            self._add(metric, amount, {name: self._label(name, facts.get(name)) for name in labels})

    def _label(self, label: str, fact: Any) -> str:
        """Return the value of a label, or what stands for others if it has too many by now."""
        if label == "cause" and fact is None:
            return "none"
        if label == "cause" and isinstance(fact, str):  # texts may be as many as cancels
            return fact if fact in Signals.__members__ else "text"
        if label in {"outcome", "state"} or fact is None:  # few values: no bound
            return fact or ""
        value = type_name(fact) if label == "cause" else fact
        known = self._known.setdefault(label, set())
        if value not in known:
            if len(known) >= self._most:
                return self._other
            known.add(value)  # threads that come here at the same moment may add one each
        return value
