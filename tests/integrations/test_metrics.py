"""What holds for every observer that counts: what is counted, under which labels."""

import asyncio
import threading
from importlib import import_module

import pytest

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    Cancelled,
    CircuitBreaker,
    ConstantBackOff,
    DeadlineExceeded,
    Pace,
    Permanent,
    Schedule,
    Ticker,
    configure,
    retry,
    retry_call,
    with_max_retries,
)
from backoff_ticker.testing import no_wait
from tests.stress.tools import join_all, start_threads

# What the tests call a metric: what prometheus-client and OpenTelemetry call it.
NAMES = {
    "retries": ("retries_total", "retries"),
    "waits": ("retry_wait_seconds_sum", "retry.delay"),
    "runs": ("runs_total", "runs"),
    "circuits": ("circuits", "circuits"),
    "changes": ("circuit_changes_total", "circuit.changes"),
    "cancels": ("cancels_total", "cancels"),
    "ticks": ("ticks_total", "ticks"),
    "missed": ("ticks_missed_total", "tick.missed"),
    "lateness": ("tick_lateness_seconds_sum", "tick.lateness"),
    "jobs": ("jobs_total", "jobs"),
    "jobs_missed": ("jobs_missed_total", "job.missed"),
    "job_lateness": ("job_lateness_seconds_sum", "job.lateness"),
}


class Prometheus:
    """Metrics of prometheus-client."""

    other = "other"

    def __init__(self):
        package = import_module("prometheus_client")
        self.module = import_module("backoff_ticker.integrations.prometheus")
        self.registry = package.CollectorRegistry()

    def observer(self, **options):
        return self.module.PrometheusObserver(self.registry, **options)

    def points(self):
        for family in self.registry.collect():
            for sample in family.samples:
                yield sample.name.removeprefix("backoff_ticker_"), sample.labels, sample.value


class OpenTelemetry:
    """Metrics of OpenTelemetry."""

    other = "_OTHER"

    def __init__(self):
        sdk = import_module("opentelemetry.sdk.metrics")
        self.module = import_module("backoff_ticker.integrations.opentelemetry")
        self.reader = sdk.export.InMemoryMetricReader()
        self.provider = sdk.MeterProvider([self.reader])

    def observer(self, **options):
        return self.module.OpenTelemetryObserver(self.provider, **options)

    def points(self):
        found = self.reader.get_metrics_data()  # None: nothing was counted
        for resource in found.resource_metrics if found else ():
            for metric in resource.scope_metrics[0].metrics:
                for point in metric.data.data_points:
                    value = point.sum if hasattr(point, "sum") else point.value
                    yield metric.name.removeprefix("backoff_ticker."), point.attributes, value


@pytest.fixture(params=[Prometheus, OpenTelemetry], ids=lambda kind: kind.__name__)
def face(request):
    return request.param()


@pytest.fixture
def metrics(face):
    return face.observer()


def read(face):
    """Return name -> the values of the labels that are not empty -> value."""
    found = {}
    ours = {name: ours for ours, names in NAMES.items() for name in names}
    for name, labels, value in face.points():
        values = tuple(filter(None, labels.values()))
        if name in ours:  # else it is a count or a bucket of Prometheus
            found.setdefault(ours[name], {})[values] = value
    return found


def failing(error, times, name="fetch"):
    errors = [error] * times

    def fetch():
        if errors:
            raise errors.pop()
        return "page"

    fetch.__qualname__ = name
    return fetch


def tell_everything(observer, clock):
    """Have an observer see runs that give up and recover, a circuit, a tick, a job, a cancel."""
    no_route, policy = ConnectionError("no route"), ConstantBackOff(7)
    with no_wait():
        with pytest.raises(ConnectionError):
            retry_call(failing(no_route, 9), policy, max_attempts=2, **observer.hooks)
        assert retry_call(failing(no_route, 1), policy, **observer.hooks) == "page"
    CircuitBreaker(on_change=observer.on_change("prices")).open()
    observer.record_tick(Ticker(ConstantBackOff(1)).receive(), "poll")
    schedule = Schedule(every=10)
    schedule.add("device")
    with schedule.receive() as job:
        observer.record_job(job, "fleet")
    token = CancellationToken()
    observer.watch_token(token, "shutdown")
    token.cancel(OSError("full"))
    clock.advance(0)


def test_retries_and_runs(face, metrics):
    with configure(**metrics.hooks), no_wait():
        retry_call(failing(ConnectionError(), 2), ConstantBackOff(7))
        with pytest.raises(TimeoutError):
            retry_call(failing(TimeoutError(), 9), ConstantBackOff(0), max_attempts=2)
    assert read(face) == {
        "retries": {("fetch", "ConnectionError"): 2, ("fetch", "TimeoutError"): 1},
        "waits": {("fetch",): 14},
        "runs": {("fetch", "succeeded"): 1, ("fetch", "max_attempts", "TimeoutError"): 1},
    }


def test_how_runs_end(face, metrics, clock):
    token = CancellationToken()

    def cancelled():
        token.cancel()
        raise ConnectionError

    @retry(timeout=5, name="hang")
    async def hang():
        await asyncio.sleep(60)

    with configure(**metrics.hooks):
        with pytest.raises(Cancelled):
            retry_call(cancelled, token=token, name="cancelled")
        with pytest.raises(KeyError):
            retry_call(failing(Permanent(KeyError("id")), 1, "permanent"))
        with pytest.raises(ZeroDivisionError):
            retry_call(failing(ZeroDivisionError(), 1), on=OSError)  # no run: not counted
        retry_call(int)
        with pytest.raises(DeadlineExceeded):
            clock.run_async(hang())
    assert read(face)["runs"] == {
        ("cancelled", "cancelled", "ConnectionError"): 1,
        ("permanent", "permanent", "KeyError"): 1,
        ("int", "succeeded"): 1,
        ("hang", "deadline"): 1,  # cut in its first attempt, so that there is no error
    }


def test_no_label_has_more_values_than_allowed(face):
    metrics = face.observer(max_label_values=2)
    with no_wait():
        for number in range(5):
            error = type(f"Error{number}", (Exception,), {"__module__": "app"})
            function = failing(error(f"request {number}"), 1, f"function_{number}")
            retry_call(function, **metrics.hooks)
            metrics.on_change(f"circuit {number}")
            metrics.record_tick(Ticker(ConstantBackOff(1)).receive(), f"ticker {number}")
    found, other = read(face), face.other
    assert found["retries"] == {
        ("function_0", "app.Error0"): 1,
        ("function_1", "app.Error1"): 1,
        (other, other): 3,
    }
    assert found["circuits"] == {
        ("circuit 0", "closed"): 1,
        ("circuit 1", "closed"): 1,
        (other, "closed"): 3,
    }
    assert found["ticks"] == {("ticker 0",): 1, ("ticker 1",): 1, (other,): 3}


@pytest.mark.parametrize("most, error", [(0, ValueError), (1.5, TypeError), (True, TypeError)])
def test_the_number_of_values_is_checked(face, most, error):
    with pytest.raises(error, match=f"max_label_values must be .* not {most!r}"):
        face.observer(max_label_values=most)


def test_the_state_of_a_circuit(face, metrics, clock):
    breaker = CircuitBreaker(ConstantBackOff(60), failures=1, on_change=metrics.on_change("prices"))

    def states():
        return {state: number for (_, state), number in read(face)["circuits"].items()}

    guarded = breaker(failing(ConnectionError(), 2))
    assert states() == {"closed": 1}
    with pytest.raises(ConnectionError):
        guarded()
    assert states() == {"closed": 0, "open": 1}
    clock.advance(60)
    with breaker.guard():
        assert states() == {"closed": 0, "open": 0, "half-open": 1}
    assert states() == {"closed": 1, "open": 0, "half-open": 0}
    assert read(face)["changes"] == {
        ("prices", "open"): 1,
        ("prices", "half-open"): 1,
        ("prices", "closed"): 1,
    }


def test_the_states_of_circuits_are_right_after_changes_by_many_threads(face, metrics):
    breakers = [CircuitBreaker(on_change=metrics.on_change("prices")) for _ in range(2)]
    start = threading.Barrier(4)

    def change(_):
        start.wait(10)
        for number in range(200):
            for breaker in breakers:
                breaker.open() if number % 2 else breaker.reset()

    join_all(start_threads(4, change))
    breakers[0].open()
    breakers[1].reset()
    assert read(face)["circuits"] == {("prices", "closed"): 1, ("prices", "open"): 1}


def test_cancels_by_cause(face, metrics, clock):
    """A text is never a label: texts may be as many as cancels."""
    for cause in ("SIGTERM", "SIGTERM", "user 4711 left", OSError("user 4711"), None):
        token = CancellationToken()
        metrics.watch_token(token, "shutdown")
        token.cancel(cause)
    late = CancellationToken(timeout=1)
    metrics.watch_token(late, "request")
    clock.advance(1)
    assert read(face)["cancels"] == {
        ("shutdown", "SIGTERM"): 2,
        ("shutdown", "text"): 1,
        ("shutdown", "OSError"): 1,
        ("shutdown", "none"): 1,
        ("request", "backoff_ticker.DeadlineExceeded"): 1,
    }


def test_jobs_of_a_schedule(face, metrics, clock):
    schedule = Schedule(every=10)
    schedule.add("device")
    with schedule.receive() as job:
        metrics.record_job(job, "fleet")
        clock.advance(35)
    clock.advance(7)
    with schedule.receive() as job:
        metrics.record_job(job, "fleet")
    assert read(face) == {
        "jobs": {("fleet",): 2},
        "jobs_missed": {("fleet",): 3},
        "job_lateness": {("fleet",): 2.0},
    }


def test_ticks_lateness_and_missed_ticks(face, metrics, clock):
    async def read_slowly():
        async for tick in AsyncTicker(with_max_retries(ConstantBackOff(10), 2), pace=Pace.SKIP):
            metrics.record_tick(tick, "poll")
            await asyncio.sleep(25)

    clock.run_async(read_slowly())
    ticker = Ticker(ConstantBackOff(10))
    for seconds in (25, 0):
        metrics.record_tick(ticker.receive(timeout=0), "slow")
        clock.advance(seconds)
    assert read(face) == {
        "ticks": {("poll",): 3, ("slow",): 2},
        "missed": {("poll",): 4, ("slow",): 0},
        "lateness": {("poll",): 0, ("slow",): 15},
    }
