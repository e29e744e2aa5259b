"""The transports for httpx: what is theirs alone; the rest is in ``test_http_clients``."""

import asyncio
import gc
import weakref
from datetime import timedelta
from unittest.mock import MagicMock

import httpx
import pytest

from backoff_ticker import CancellationToken, ConstantBackOff, ZeroBackOff
from backoff_ticker.integrations.httpx import AsyncRetryTransport, RetryTransport
from backoff_ticker.testing import VirtualClock
from tests.integrations.misbehaving_server import MisbehavingServer, answer, endless_body


class Kept(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """A transport that keeps the requests, and answers as it is told."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []
        self.closed = 0

    def handle_request(self, request):
        self.requests.append(request)
        got = self.answers.pop(0)
        if isinstance(got, Exception):
            raise got
        return httpx.Response(got, stream=Stream(self)) if isinstance(got, int) else got

    async def handle_async_request(self, request):
        return self.handle_request(request)


class Stream(httpx.ByteStream):
    """The body of a response that tells when it is closed."""

    def __init__(self, transport):
        super().__init__(b"body")
        self.transport = transport

    def close(self):
        self.transport.closed += 1

    async def aclose(self):
        self.close()


@pytest.fixture(params=["threads", "loops"])
def handle(request):
    """Send a request through a transport around the given one; the response is not read."""

    def handle(inner, policy=None, sent=None, **options):
        sent = sent or httpx.Request("GET", "http://prices.example/gold")
        if request.param == "threads":
            return RetryTransport(inner, policy, **options).handle_request(sent)
        transport = AsyncRetryTransport(inner, policy, **options)
        return asyncio.run(transport.handle_async_request(sent))

    handle.asynchronous = request.param == "loops"
    return handle


def test_the_time_outs_of_an_attempt_are_cut_to_what_is_left(handle):
    inner = Kept(503, 200)
    given = {"timeout": {"connect": 3, "read": None, "write": 50, "pool": 5}, "other": "kept"}
    sent = httpx.Request("GET", "http://prices.example", extensions=given)
    with VirtualClock(auto=True):
        handle(inner, ConstantBackOff(6), sent, timeout=10)
    assert [each.extensions["timeout"] for each in inner.requests] == [
        {"connect": 3, "read": 10, "write": 10, "pool": 5},
        {"connect": 3, "read": 4, "write": 4, "pool": 4},
    ]
    assert given["timeout"] == {"connect": 3, "read": None, "write": 50, "pool": 5}
    assert inner.requests[0].extensions["other"] == "kept"


def test_the_deadline_of_a_token_cuts_them_too(handle):
    inner = Kept(200, 200, 200)
    with VirtualClock(auto=True):
        handle(inner, token=CancellationToken(timeout=5), timeout=timedelta(minutes=1))
        handle(inner)
        handle(inner, timeout=0)
    cut, uncut, over = (each.extensions for each in inner.requests)
    assert cut["timeout"] == dict.fromkeys(["connect", "read", "write", "pool"], 5)
    assert uncut == {}
    assert set(over["timeout"].values()) == {0.001}  # 0 would mean sockets that do not block


@pytest.mark.parametrize("error", [LookupError, KeyboardInterrupt])
@pytest.mark.parametrize("hook", ["notify", "on_retry", "on_give_up", "on_success"])
def test_a_hook_that_fails_leaves_no_response_open(handle, hook, error):
    inner = Kept(200 if hook == "on_success" else 503)

    def fail(*_):
        raise error

    with pytest.raises(error):
        handle(inner, max_attempts=1 if hook == "on_give_up" else 2, **{hook: fail})
    assert inner.closed == 1


def test_own_errors_of_the_transport_inside_pass(handle):
    request = httpx.Request("GET", "http://a")
    inner_error = httpx.HTTPStatusError("own", request=request, response=httpx.Response(503))
    for error in (inner_error, LookupError("x"), httpx.UnsupportedProtocol("x")):
        inner = Kept(error)
        with pytest.raises(type(error)) as caught:
            handle(inner)
        assert caught.value is error
        assert len(inner.requests) == 1


def test_a_stream_begins_before_its_end_is_there():
    with MisbehavingServer(answer(503), endless_body(200)) as server:
        transport = RetryTransport(policy=ZeroBackOff())
        with httpx.Client(transport=transport) as client, client.stream("GET", server.url) as got:
            assert next(got.iter_bytes()) == b"x"
    assert server.methods == "GET GET"


def test_no_cycle_keeps_a_response_alive():
    inner = Kept(503, 503)
    transport = RetryTransport(inner, ZeroBackOff(), max_attempts=2)
    gc.disable()
    try:
        response = transport.handle_request(httpx.Request("GET", "http://prices.example"))
        left = weakref.ref(response)
        del response
        assert left() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", ["ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError"])
def test_a_request_that_was_not_sent_is_sent_whatever_it_is(handle, kind):
    """A ``ProxyError`` is that of a tunnel: the server has not been reached."""
    inner = Kept(getattr(httpx, kind)("no"), 200)
    body = (chunk for chunk in [b"data"])
    sent = httpx.Request("POST", "http://prices.example", content=body)
    assert handle(inner, ZeroBackOff(), sent).status_code == 200
    assert len(inner.requests) == 2


@pytest.mark.parametrize(
    "content, times",
    [
        (lambda _: {"data": {"a": "b"}}, 2),
        (lambda _: {"json": 1}, 2),
        (lambda _: {"content": "text"}, 2),
        (lambda file: {"content": file}, 1),
        (lambda file: {"files": {"f": file}}, 1),
    ],
)
def test_a_form_is_sent_again_and_a_file_is_not(content, times, tmp_path):
    file = tmp_path / "prices"
    file.write_bytes(b"gold 42")
    with (
        MisbehavingServer(answer(503)) as server,
        file.open("rb") as opened,
        httpx.Client(transport=RetryTransport(policy=ZeroBackOff())) as client,
    ):
        client.put(server.url, **content(opened))
    assert (len(server.bodies), len({*server.bodies})) == (times, 1)
    assert times == 2 or b"gold 42" in server.bodies[0]


def test_they_open_and_close_the_transport_inside():
    async def main():
        async with httpx.AsyncClient(transport=AsyncRetryTransport(async_inner)):
            async_inner.__aenter__.assert_called_once_with()
        await httpx.AsyncClient(transport=AsyncRetryTransport(async_inner)).aclose()

    inner, async_inner = MagicMock(httpx.BaseTransport), MagicMock(httpx.AsyncBaseTransport)
    with httpx.Client(transport=RetryTransport(inner)):
        inner.__enter__.assert_called_once_with()
    httpx.Client(transport=RetryTransport(inner)).close()
    asyncio.run(main())
    assert [name for name, *_ in inner.mock_calls] == ["__enter__", "__exit__", "close"]
    assert [name for name, *_ in async_inner.mock_calls] == ["__aenter__", "__aexit__", "aclose"]


def test_hooks_are_told_of_the_request_and_the_answer(handle):
    told = []
    handle(Kept(503, 200), ZeroBackOff(), on_retry=[told.append, told.append])
    outcome, _ = told
    assert outcome.name == ("AsyncRetryTransport" if handle.asynchronous else "RetryTransport")
    assert str(outcome.last_error) == "503 Service Unavailable"
    assert outcome.last_error.request.url == "http://prices.example/gold"


def test_what_is_no_transport_is_refused():
    with pytest.raises(TypeError, match="transport must be an httpx.BaseTransport or None, not 5"):
        RetryTransport(5)
    with pytest.raises(TypeError, match="httpx.AsyncBaseTransport or None, not <"):
        AsyncRetryTransport(httpx.HTTPTransport())
