"""Metrics of retries, circuits, tokens and tickers for OpenTelemetry, and events of spans.

The SDK and its exporters are the program's choice; without an SDK nothing is recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import __version__
from ._observer import BUCKETS, METRICS, MetricsObserver
from ._shared import imports_of_extra

with imports_of_extra("opentelemetry"):
    from opentelemetry import metrics, trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.metrics import MeterProvider

_NAMES = {
    "retries": ("retries", "{retry}"),
    "retry_wait_seconds": ("retry.delay", "s"),
    "runs": ("runs", "{run}"),
    "circuits": ("circuits", "{circuit}"),
    "circuit_changes": ("circuit.changes", "{change}"),
    "cancels": ("cancels", "{cancel}"),
    "ticks": ("ticks", "{tick}"),
    "ticks_missed": ("tick.missed", "{tick}"),
    "tick_lateness_seconds": ("tick.lateness", "s"),
    "jobs": ("jobs", "{job}"),
    "jobs_missed": ("job.missed", "{job}"),
    "job_lateness_seconds": ("job.lateness", "s"),
}
"""The name and the unit of each metric."""

_ATTRIBUTES = {
    "error_type": "error.type",  # of the semantic conventions, as is "_OTHER"
    "circuit": "backoff_ticker.circuit.name",
    "state": "backoff_ticker.circuit.state",
    "token": "backoff_ticker.token.name",
    "cause": "backoff_ticker.cancel.cause",
    "ticker": "backoff_ticker.ticker.name",
    "schedule": "backoff_ticker.schedule.name",
}
_SPAN_EVENTS = {"retry", "gave_up", "recovered", "circuit_changed"}


class OpenTelemetryObserver(MetricsObserver):
    """Counts what happens in retries, circuits, tokens, tickers and schedules; adds it to spans.

    Make one when the program starts, and give it to what it is to observe.

    The metrics, with their attributes. All names but ``error.type`` begin with ``backoff_ticker.``,
    which is left out of most here.

    - ``retries``: failures that were retried; ``operation``, ``error.type``.
    - ``backoff_ticker.retry.delay``: a histogram of the delays before retries, in seconds;
      ``operation``.
    - ``runs``: runs that ended; ``operation``, ``outcome``, and ``error.type`` if they failed.
    - ``circuits``: how many circuits are in this state now; ``circuit.name``, ``circuit.state``.
    - ``circuit.changes``: changes to this state; ``circuit.name``, ``circuit.state``.
    - ``cancels``: tokens that were cancelled; ``token.name``, ``cancel.cause``.
    - ``ticks``: ticks that a reader took; ``ticker.name``.
    - ``tick.missed``: ticks that were dropped; ``ticker.name``.
    - ``tick.lateness``: a histogram of the times from when a tick was due until a reader took it,
      in seconds; ``ticker.name``.
    - ``jobs``, ``job.missed``, ``job.lateness``: the same of the jobs of a schedule, where times of
      a key's grid that were left out are missed; ``schedule.name``.

    An outcome is a ``StopReason``, an error type the class of the last error. A cause is the class
    of an exception, the name of a signal, ``text`` for any other text, or ``none``. Of each
    attribute the first ``max_label_values`` values are kept; all others are counted as ``_OTHER``.

    The span that is current where a retry runs gets the events ``backoff_ticker.retry``,
    ``backoff_ticker.gave_up``, ``backoff_ticker.recovered`` (a success after retries) and
    ``backoff_ticker.circuit_changed``. Their attributes also tell the number of attempts, and the
    seconds that they took; never the text of an error, nor arguments.

    Example:
        >>> from backoff_ticker import ZeroBackOff, retry_call
        >>> from backoff_ticker.integrations.opentelemetry import OpenTelemetryObserver
        >>> telemetry = OpenTelemetryObserver()
        >>> retry_call(lambda: "page", ZeroBackOff(), **telemetry.hooks)
        'page'

    Args:
        meter_provider: Where the metrics go: a ``MeterProvider``. None means the global one, also
            if it is set later.
        span_events: Whether the current span gets events.
        max_label_values: How many values each attribute of a metric may have, except for
            ``_OTHER``: an int >= 1.
    """

    def __init__(
        self,
        meter_provider: MeterProvider | None = None,
        *,
        span_events: bool = True,
        max_label_values: int = 100,
    ) -> None:
        if not isinstance(span_events, bool):
            raise TypeError(f"span_events must be a bool, not {span_events!r}")
        if not (meter_provider is None or hasattr(meter_provider, "get_meter")):
            expected = "meter_provider must be a MeterProvider or None"
            raise TypeError(f"{expected}, not {meter_provider!r}")
        super().__init__(max_label_values, "_OTHER")
        self._span_events = span_events
        meter = metrics.get_meter("backoff_ticker", __version__, meter_provider)
        self._metrics: dict[str, Callable[[float, dict[str, str]], None]] = {}
        for metric, (name, unit) in _NAMES.items():
            what = f"backoff_ticker.{name}", unit, METRICS[metric][0]
            if bounds := BUCKETS.get(metric):
                advice: Any = {"explicit_bucket_boundaries_advisory": bounds}
                self._metrics[metric] = meter.create_histogram(*what, **advice).record
            elif metric == "circuits":
                self._metrics[metric] = meter.create_up_down_counter(*what).add
            else:
                self._metrics[metric] = meter.create_counter(*what).add

    def _add(self, metric: str, amount: float, labels: dict[str, str]) -> None:
        told = {name: value for name, value in labels.items() if value or name != "error_type"}
        self._metrics[metric](amount, _attributes(told))

    def _record(self, event: str, facts: dict[str, Any]) -> None:
        super()._record(event, facts)
        span = trace.get_current_span()
        if event in _SPAN_EVENTS and self._span_events and span.is_recording():
            told = {name: facts[name] for name in facts if name not in {"error", "old_state"}}
            span.add_event(f"backoff_ticker.{event}", _attributes(told))


def _attributes(facts: dict[str, Any]) -> dict[str, Any]:
    return {_ATTRIBUTES.get(name, f"backoff_ticker.{name}"): fact for name, fact in facts.items()}
