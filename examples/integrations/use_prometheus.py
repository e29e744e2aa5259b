"""Metrics of retries, circuits and tickers for Prometheus.

Problem: you want to see how often calls are retried, and whether a circuit is open.
Shows: ``PrometheusObserver`` as hooks of all retries, of a circuit, and for ticks.

    python examples/integrations/use_prometheus.py
"""

from prometheus_client import CollectorRegistry, generate_latest

from backoff_ticker import (
    CancellationToken,
    CircuitBreaker,
    ConstantBackOff,
    Ticker,
    configure,
    retry,
    with_max_retries,
)
from backoff_ticker.integrations.prometheus import PrometheusObserver
from backoff_ticker.testing import no_wait

registry = CollectorRegistry()
metrics = PrometheusObserver(registry)  # default: the global registry

shutdown = CancellationToken()
metrics.watch_token(shutdown, "shutdown")
breaker = CircuitBreaker(failures=3, on_change=metrics.on_change("prices"))


@retry(
    ConstantBackOff(2),
    on=ConnectionError,
    max_attempts=3,
    breaker=breaker,
    token=shutdown,
)
def fetch() -> None:
    raise ConnectionError("no route")


# In a program without `with`: the block undoes it at its end.
with configure(**metrics.hooks), no_wait():
    try:
        fetch()
    except ConnectionError as error:
        print(error)

policy = with_max_retries(ConstantBackOff(0.001), 2)
for tick in Ticker(policy, token=shutdown):
    metrics.record_tick(tick, "poll")

served = generate_latest(registry).decode()  # to Prometheus
for line in served.splitlines():
    if "_total{" in line or "circuits{" in line:
        print(line.removeprefix("backoff_ticker_"))
