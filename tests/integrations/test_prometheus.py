"""Metrics of prometheus-client: what is its alone; the rest is in ``test_metrics``."""

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from backoff_ticker import ConstantBackOff, Ticker, retry_call
from backoff_ticker.integrations.prometheus import PrometheusObserver
from backoff_ticker.testing import no_wait
from tests.integrations.processes import run
from tests.integrations.test_metrics import failing


def test_the_buckets_of_the_histograms():
    def buckets(name):
        (family,) = (each for each in registry.collect() if each.name == name)
        return {
            each.labels["le"]: each.value for each in family.samples if each.name.endswith("bucket")
        }

    def observe(metrics):
        with no_wait():
            retry_call(failing(ConnectionError(), 1), ConstantBackOff(7), **metrics.hooks)
        metrics.record_tick(Ticker(ConstantBackOff(1)).receive(), "poll")

    registry = CollectorRegistry()
    observe(PrometheusObserver(registry))
    waits, lateness = "backoff_ticker_retry_wait_seconds", "backoff_ticker_tick_lateness_seconds"
    assert [buckets(waits)[each] for each in ("0.01", "5.0", "10.0", "3600.0")] == [0, 0, 1, 1]
    assert list(buckets(lateness))[::11] == ["0.0001", "+Inf"]
    own = {"wait_buckets": [1, 2], "lateness_buckets": [3]}
    observe(PrometheusObserver(registry, namespace="batch", **own))
    assert buckets("batch_retry_wait_seconds") == {"1.0": 0, "2.0": 0, "+Inf": 1}
    assert list(buckets("batch_tick_lateness_seconds")) == ["3.0", "+Inf"]


def test_the_global_registry_is_the_default():
    observer = PrometheusObserver(namespace="of_this_test")
    observer.record_tick(Ticker(ConstantBackOff(1)).receive(), "poll")
    assert REGISTRY.get_sample_value("of_this_test_ticks_total", {"ticker": "poll"}) == 1


@pytest.mark.parametrize("name", ["registry", "namespace"])
def test_where_the_metrics_go_is_checked(name):
    with pytest.raises(TypeError, match=f"^{name} must be .*, not 5$"):
        PrometheusObserver(**{"registry": None, name: 5})


def test_several_processes_are_counted_together(tmp_path):
    script = """
from backoff_ticker import CircuitBreaker, ConstantBackOff, Ticker
from backoff_ticker.integrations.prometheus import PrometheusObserver
metrics = PrometheusObserver()
CircuitBreaker(on_change=metrics.on_change("prices")).open()
metrics.record_tick(Ticker(ConstantBackOff(1)).receive(), "poll")
"""
    environment = {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    run(script, **environment)
    run(script, **environment)
    registry = CollectorRegistry()
    MultiProcessCollector(registry, str(tmp_path))
    served = generate_latest(registry).decode().splitlines()
    assert 'backoff_ticker_ticks_total{ticker="poll"} 2.0' in served
    assert 'backoff_ticker_circuits{circuit="prices",state="closed"} 0.0' in served
    assert 'backoff_ticker_circuits{circuit="prices",state="open"} 2.0' in served
