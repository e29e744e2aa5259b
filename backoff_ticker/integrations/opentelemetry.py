"""Metrics of retries, circuits, tokens and tickers for OpenTelemetry, and events of spans.

It needs the extra ``opentelemetry``: ``pip install 'backoff-ticker[opentelemetry]'``. The SDK and
its exporters are the program's choice; without an SDK nothing is recorded.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from ._metrics.observer import LATENESS_BUCKETS, WAIT_BUCKETS, MetricsObserver, type_name
from ._shared import imports_of_extra

with imports_of_extra("opentelemetry"):
    from opentelemetry import metrics, trace

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram, MeterProvider, UpDownCounter

    from .._errors import CircuitState
    from ..retries import Outcome

OPERATION = "backoff_ticker.operation"
OUTCOME = "backoff_ticker.outcome"
CIRCUIT = "backoff_ticker.circuit.name"
STATE = "backoff_ticker.circuit.state"
TOKEN = "backoff_ticker.token.name"  # noqa: S105 - no password
CAUSE = "backoff_ticker.cancel.cause"
TICKER = "backoff_ticker.ticker.name"
ERROR_TYPE = "error.type"  # of the semantic conventions, as is "_OTHER"

_ATTRIBUTES = {
    "retries": (OPERATION, ERROR_TYPE),
    "waits": (OPERATION,),
    "runs": (OPERATION, OUTCOME, ERROR_TYPE),
    "circuits": (CIRCUIT, STATE),
    "changes": (CIRCUIT, STATE),
    "cancels": (TOKEN, CAUSE),
    "ticks": (TICKER,),
    "missed": (TICKER,),
    "lateness": (TICKER,),
}


class OpenTelemetryObserver(MetricsObserver):
    """Counts what happens in retries, circuits, tokens and tickers, and adds it to spans.

    Make one when the program starts, and give it to what it is to observe.

    The metrics, with their attributes, whose names all but ``error.type`` begin with
    ``backoff_ticker.``:

    - ``backoff_ticker.retries``: failures that were retried; ``operation``, ``error.type``.
    - ``backoff_ticker.retry.delay``: a histogram of the delays before retries, in seconds;
      ``operation``.
    - ``backoff_ticker.runs``: runs that ended; ``operation``, ``outcome``, and ``error.type`` if
      they failed.
    - ``backoff_ticker.circuits``: how many circuits are in this state now; ``circuit.name``,
      ``circuit.state``.
    - ``backoff_ticker.circuit.changes``: changes to this state; ``circuit.name``,
      ``circuit.state``.
    - ``backoff_ticker.cancels``: tokens that were cancelled; ``token.name``, ``cancel.cause``.
    - ``backoff_ticker.ticks``: ticks that a reader took; ``ticker.name``.
    - ``backoff_ticker.tick.missed``: ticks that were dropped; ``ticker.name``.
    - ``backoff_ticker.tick.lateness``: a histogram of the times from when a tick was due until a
      reader took it, in seconds; ``ticker.name``.

    An outcome is a ``StopReason``, an error type the class of the last error. A cause is the class
    of an exception, the name of a signal, ``text`` for any other text, or ``none``. Of each
    attribute the first ``max_label_values`` values are kept; all others are counted as ``_OTHER``.

    A run that ends with an error which ``on`` does not name at the first attempt is not counted,
    nor is one that is interrupted, such as by Ctrl-C.

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

    Thread safety: all threads and event loops may share it.

    Args:
        meter_provider: Where the metrics go: a ``MeterProvider``. None means the global one, also
            if it is set later.
        span_events: Whether the current span gets events.
        max_label_values: How many values each attribute of a metric may have, except for
            ``_OTHER``: an int >= 1.

    Raises:
        TypeError, ValueError: ``max_label_values`` is not an int >= 1, or ``span_events`` not a
            bool.
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
        super().__init__(max_label_values, "_OTHER")
        self._span_events = span_events
        meter = metrics.get_meter("backoff_ticker", _version(), meter_provider)
        counter = meter.create_counter
        self._counters: dict[str, Counter | UpDownCounter] = {
            "retries": counter("backoff_ticker.retries", "{retry}", "Failures that were retried"),
            "runs": counter("backoff_ticker.runs", "{run}", "Runs of retries that ended, and how"),
            "circuits": meter.create_up_down_counter(
                "backoff_ticker.circuits", "{circuit}", "Circuits that are in this state"
            ),
            "changes": counter(
                "backoff_ticker.circuit.changes", "{change}", "Changes of circuits to this state"
            ),
            "cancels": counter("backoff_ticker.cancels", "{cancel}", "Tokens that were cancelled"),
            "ticks": counter("backoff_ticker.ticks", "{tick}", "Ticks that a reader took"),
            "missed": counter("backoff_ticker.tick.missed", "{tick}", "Ticks that were dropped"),
        }
        self._histograms: dict[str, Histogram] = {
            "waits": meter.create_histogram(
                "backoff_ticker.retry.delay",
                "s",
                "Delays before retries",
                explicit_bucket_boundaries_advisory=WAIT_BUCKETS,
            ),
            "lateness": meter.create_histogram(
                "backoff_ticker.tick.lateness",
                "s",
                "From the time when a tick was due until a reader took it",
                explicit_bucket_boundaries_advisory=LATENESS_BUCKETS,
            ),
        }

    def _add(self, metric: str, amount: float, *labels: str) -> None:
        names = _ATTRIBUTES[metric]
        attributes = {
            name: value
            for name, value in zip(names, labels, strict=True)
            if value or name != ERROR_TYPE
        }
        if metric in self._histograms:
            self._histograms[metric].record(amount, attributes)
        else:
            self._counters[metric].add(amount, attributes)

    def _retried(self, outcome: Outcome) -> None:
        super()._retried(outcome)
        self._add_event("retry", outcome, {"backoff_ticker.delay": outcome.delay or 0.0})

    def _ended(self, outcome: Outcome) -> None:
        super()._ended(outcome)
        if not outcome.succeeded:
            self._add_event("gave_up", outcome, {OUTCOME: str(outcome.reason)})
        elif outcome.attempts > 1:
            self._add_event("recovered", outcome, {})

    def _circuit_changed(self, name: str, old: CircuitState, new: CircuitState) -> None:
        super()._circuit_changed(name, old, new)
        if self._span_events:
            trace.get_current_span().add_event(
                "backoff_ticker.circuit_changed", {CIRCUIT: name, STATE: str(new)}
            )

    def _add_event(self, event: str, outcome: Outcome, more: dict[str, str | float]) -> None:
        span = trace.get_current_span()
        if self._span_events and span.is_recording():
            attributes: dict[str, str | float] = {
                OPERATION: outcome.name,
                "backoff_ticker.attempts": outcome.attempts,
                "backoff_ticker.elapsed": outcome.elapsed,
            }
            if outcome.last_error is not None:
                attributes[ERROR_TYPE] = type_name(outcome.last_error)
            span.add_event(f"backoff_ticker.{event}", attributes | more)


def _version() -> str:
    try:
        return version("backoff-ticker")
    except PackageNotFoundError:
        return ""  # a copy of the sources
