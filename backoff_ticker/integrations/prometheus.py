"""Metrics of retries, circuits, tokens, tickers and schedules for prometheus-client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._observer import BUCKETS, METRICS, MetricsObserver
from ._shared import imports_of_extra

with imports_of_extra("prometheus"):
    from prometheus_client import REGISTRY, Counter, Gauge, Histogram

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prometheus_client import CollectorRegistry

_LABELS = {"operation": "name", "error_type": "error"}


class PrometheusObserver(MetricsObserver):
    """Counts what happens in retries, circuits, tokens, tickers and schedules.

    Make one when the program starts, and give it to what it is to observe.

    The metrics, with their labels. Each name begins with ``backoff_ticker_``.

    - ``retries_total{name, error}``: failures that were retried.
    - ``retry_wait_seconds{name}``: a histogram of the delays before retries.
    - ``runs_total{name, outcome, error}``: runs that ended, and how.
    - ``circuits{circuit, state}``: how many circuits are in this state now.
    - ``circuit_changes_total{circuit, state}``: changes to this state.
    - ``cancels_total{token, cause}``: tokens that were cancelled.
    - ``ticks_total{ticker}``: ticks that a reader took.
    - ``ticks_missed_total{ticker}``: ticks that were dropped.
    - ``tick_lateness_seconds{ticker}``: a histogram of the times from when a tick was due until a
      reader took it.
    - ``jobs_total{schedule}``: jobs that a worker took.
    - ``jobs_missed_total{schedule}``: times of a key's grid that were left out.
    - ``job_lateness_seconds{schedule}``: the same histogram, of jobs.

    ``name`` names the operation, ``outcome`` is a ``StopReason``, and ``error`` the class of the
    last error, empty for a success. ``cause`` is the class of an exception, the name of a signal,
    ``text`` for any other text, or ``none``. Of each label the first ``max_label_values`` values
    are kept; all others are counted as ``other``.

    Example:
        >>> from prometheus_client import CollectorRegistry
        >>> from backoff_ticker import ZeroBackOff, retry_call
        >>> from backoff_ticker.integrations.prometheus import PrometheusObserver
        >>> metrics = PrometheusObserver(CollectorRegistry())
        >>> retry_call(lambda: "page", ZeroBackOff(), **metrics.hooks)
        'page'

    With several processes and ``PROMETHEUS_MULTIPROC_DIR`` it counts what happens in all of them;
    ``circuits`` is that of the processes that are not marked as dead. Call ``on_change()`` in each
    process, after the fork: if it is called before, the number of closed circuits is too low.

    Args:
        registry: Where the metrics are registered: a ``CollectorRegistry``. None: nowhere.
        namespace: What all names begin with.
        wait_buckets: The upper bounds of ``retry_wait_seconds``; None: 13 from 0.01 to 3600.
        lateness_buckets: Those of the two of lateness; None: 11 from 0.0001 to 60.
        max_label_values: How many values each label may have, except for ``other``: an int >= 1.

    Raises:
        ValueError: The registry has such metrics already: make one observer for each registry, and
            share it.
    """

    def __init__(
        self,
        registry: CollectorRegistry | None = REGISTRY,
        *,
        namespace: str = "backoff_ticker",
        wait_buckets: Sequence[float] | None = None,
        lateness_buckets: Sequence[float] | None = None,
        max_label_values: int = 100,
    ) -> None:
        super().__init__(max_label_values, "other")
        if not (registry is None or hasattr(registry, "register")):
            raise TypeError(f"registry must be a CollectorRegistry or None, not {registry!r}")
        if not isinstance(namespace, str):
            raise TypeError(f"namespace must be a str, not {namespace!r}")
        buckets = dict(BUCKETS)
        if wait_buckets is not None:
            buckets["retry_wait_seconds"] = wait_buckets
        if lateness_buckets is not None:
            for name in ("tick_lateness_seconds", "job_lateness_seconds"):
                buckets[name] = lateness_buckets
        self._metrics: dict[str, Counter | Gauge | Histogram] = {}
        where: dict[str, Any] = {"namespace": namespace, "registry": registry}
        for metric, (text, *labels) in METRICS.items():
            what = metric, text, [_LABELS.get(label, label) for label in labels]
            if metric in buckets:
                self._metrics[metric] = Histogram(*what, **where, buckets=buckets[metric])
            elif metric == "circuits":
                self._metrics[metric] = Gauge(*what, **where, multiprocess_mode="livesum")
            else:
                self._metrics[metric] = Counter(*what, **where)

    def _add(self, metric: str, amount: float, labels: dict[str, str]) -> None:
        found = self._metrics[metric].labels(*labels.values())
        if isinstance(found, Histogram):
            found.observe(amount)
        else:
            found.inc(amount)
