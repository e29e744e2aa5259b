"""No secret of a request or of an address stands in a log, repr, span or label of the package."""

import asyncio
import base64
import threading
from contextlib import ExitStack

import pytest
import structlog

from backoff_ticker import (
    CancellationToken,
    ConstantBackOff,
    Permanent,
    RetryAfter,
    RetryBudget,
    Schedule,
    configure,
    log_retries,
    retry_call,
)
from backoff_ticker.integrations.structlog import StructlogObserver
from backoff_ticker.testing import VirtualClock, no_wait
from tests.integrations.http_faces import FACES
from tests.integrations.misbehaving_server import MisbehavingServer, answer, reset, unused_port
from tests.integrations.test_metrics import OpenTelemetry, Prometheus
from tests.integrations.test_opentelemetry import span

HEADERS = {"Authorization": "Bearer hush-header", "Cookie": "session=hush-cookie"}
LOGIN = "hush-user:hush-password"
SECRETS = ("hush", base64.b64encode(LOGIN.encode()).decode())


class Seen:
    """The texts of all that is shown while it is open: of logs, events, spans, labels and reprs."""

    def __init__(self, caplog):
        self.texts = []
        self._caplog = caplog
        self._metrics = Prometheus(), OpenTelemetry()
        self.observers = [*(each.observer() for each in self._metrics), StructlogObserver()]
        self._stack = ExitStack()

    def note(self, *shown):
        """Keep the ``repr`` of something, as a hook."""
        self.texts += map(repr, shown)

    def fail(self, error):
        """Have an error told wherever the package tells of errors."""
        logged = log_retries()
        for raised in error, Permanent(error), RetryAfter(0, error):

            def fails(raised=raised):
                raise raised

            with pytest.raises(type(error)):
                options = {"on": Exception, "max_attempts": 2}
                retry_call(fails, ConstantBackOff(0), on_retry=logged, on_give_up=logged, **options)
            self.note(raised) if raised is not error else None
        schedule = Schedule(on=Exception)
        schedule.add("key")
        with schedule.receive():
            raise error
        schedule.close()
        clock = VirtualClock()
        token = CancellationToken(clock=clock)
        for observer in self.observers:
            observer.watch_token(token, "work")
        token.cancel(error)
        clock.advance(0)
        self.note(token)

    def __enter__(self):
        self._caplog.set_level("DEBUG")
        self._events = self._stack.enter_context(structlog.testing.capture_logs())
        hooks = {
            name: [self.note, log_retries(), *(each.hooks[name] for each in self.observers)]
            for name in ("on_retry", "on_success", "on_give_up")
        }
        self._span_events = self._stack.enter_context(span())
        self._stack.enter_context(configure(**hooks))
        self._stack.enter_context(no_wait())
        return self

    def __exit__(self, *error):
        self._stack.__exit__(*error)
        for record in self._caplog.records:
            if record.name.startswith("backoff_ticker"):  # clients log what they like
                self.texts += [record.getMessage(), repr(vars(record))]
        points = [point for face in self._metrics for point in face.points()]
        self.texts += map(repr, [*self._events, *self._span_events, *points])


def found_in(texts):
    """Return what shows a secret, or has a control character."""
    return [text for text in texts if any(each in text for each in (*SECRETS, "\x1b"))]


@pytest.mark.parametrize("kind", FACES, ids=lambda kind: kind.__name__)
def test_no_secret_of_a_request_is_shown(kind, caplog):
    face = kind()
    errors = []
    busy = answer(503, Set_Cookie="session=hush-set-cookie", X_Key="hush-answer")

    def request(server_url, strict):
        url = f"{server_url}gold%1B%0Aline?key=hush-query"
        with_login = url.replace("//", f"//{LOGIN}@"), {"Cookie": HEADERS["Cookie"]}
        face.strict = strict
        for shown_url, face.headers in (with_login, (url, HEADERS)):  # aiohttp does not take both
            try:
                face.request("GET", shown_url, ConstantBackOff(0))
            except Exception as error:
                errors.append(error)

    with Seen(caplog) as seen:
        with MisbehavingServer(busy, reset, *[busy] * 30) as server:
            request(server.url, strict=False)
            request(server.url, strict=True)
        request(f"http://127.0.0.1:{unused_port()}/", strict=True)
        for error in errors:
            seen.fail(error)
    assert len(errors) >= 4
    assert found_in(seen.texts) == []
    logged = [each for each in caplog.records if each.name == "backoff_ticker.http"]
    assert {each.path for each in logged} <= {"/gold\\x1b\\nline", "/gold%1B%0Aline"}
    assert any(each.getMessage().endswith("in 0 s: 503") for each in logged)
    assert any(type(errors[0]).__name__ in text for text in seen.texts)


def test_no_secret_of_a_proxy_is_shown(caplog):
    aiohttp = pytest.importorskip("aiohttp")

    async def request(port):
        async with aiohttp.ClientSession() as session:
            proxy = f"http://{LOGIN}@127.0.0.1:{port}"
            await session.get("https://prices.example/?key=hush-query", proxy=proxy)

    refused = pytest.raises(aiohttp.ClientHttpProxyError)
    with MisbehavingServer(answer(407)) as server, refused as raised:
        asyncio.run(request(server.port))
    assert found_in([repr(raised.value)])
    with Seen(caplog) as seen:
        seen.fail(raised.value)
    assert found_in(seen.texts) == []
    assert any("ClientHttpProxyError(status=407)" in text for text in seen.texts)


def test_a_header_that_a_client_does_not_like_is_not_shown(caplog):
    httpx = pytest.importorskip("httpx")
    refused = pytest.raises(httpx.LocalProtocolError)
    with MisbehavingServer() as server, httpx.Client() as client, refused as raised:
        client.get(server.url, headers={"Key": "hush\n"})
    with Seen(caplog) as seen:
        seen.fail(raised.value)
    assert found_in(seen.texts) == []


@pytest.mark.parametrize("scheme", ["redis", "rediss", "unix"])
def test_no_address_of_redis_is_shown(caplog, scheme, no_thread_left):
    redis = pytest.importorskip("redis")
    from backoff_ticker.integrations.redis import (
        RedisCancellationToken,
        RedisCircuitBreaker,
        RedisRetryBudget,
    )

    host = "/no/such/socket" if scheme == "unix" else f"127.0.0.1:{unused_port()}"
    url = f"{scheme}://{LOGIN}@{host}"
    client = redis.Redis.from_url(url, socket_timeout=1, socket_connect_timeout=1)
    with Seen(caplog) as seen:
        budget = RedisRetryBudget(client, "job", fallback=RetryBudget(2))
        token = RedisCancellationToken(client, "job")
        circuit = RedisCircuitBreaker(client, "job")
        with token:
            token.token.cancel(ConnectionError(f"not found: {url}"))
            budget.try_acquire()
            circuit.open()
            seen.note(budget, token, circuit, token.token, *threading.enumerate())
            token.close(0)
        circuit.close(0)
    assert [each for each in caplog.records if each.name == "backoff_ticker"]
    assert found_in(seen.texts) == []
