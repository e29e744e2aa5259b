"""The middleware for aiohttp: what is its alone; the rest is in ``test_http_clients``."""

import asyncio
from contextlib import asynccontextmanager

import aiohttp
import pytest

from backoff_ticker import ConstantBackOff, ZeroBackOff
from backoff_ticker.integrations.aiohttp import RetryMiddleware
from backoff_ticker.testing import no_wait
from tests.integrations.http_faces import Aiohttp
from tests.integrations.misbehaving_server import MisbehavingServer, answer, disconnect, hang, reset


@asynccontextmanager
async def session_with(*middlewares, **options):
    connector = aiohttp.TCPConnector(limit=1)
    async with aiohttp.ClientSession(
        connector=connector, middlewares=middlewares, **options
    ) as session:
        yield session


def send(method, url, *middlewares, session=(), **options):
    """Send one request; return the status and the text."""

    async def main():
        async with (
            session_with(*middlewares, **dict(session)) as opened,
            opened.request(method, url, **options) as response,
        ):
            return response.status, await response.text()

    return asyncio.run(main())


def test_the_total_time_of_aiohttp_is_for_all_attempts():
    total, told = aiohttp.ClientTimeout(total=0.3), []
    retries = RetryMiddleware(ZeroBackOff(), on_retry=told.append)
    with MisbehavingServer(*[hang] * 9) as server, pytest.raises(TimeoutError):
        send("GET", server.url, retries, timeout=total)
    assert told == []  # no retry
    with MisbehavingServer(answer(503)) as server, pytest.raises(TimeoutError):
        send("GET", server.url, RetryMiddleware(ConstantBackOff(3600)), timeout=total)
    assert len(server.received) <= 1  # on a busy machine it does not get there in time


def test_a_cancelled_task_gives_the_connection_back():
    async def main():
        waits = asyncio.Event()

        async def hook(outcome):
            waits.set()

        retries = RetryMiddleware(ConstantBackOff(3600), on_retry=hook)
        async with session_with(retries) as session:
            task = asyncio.create_task(session.get(server.url).__aenter__())
            await waits.wait()
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            async with session.get(server.url) as response:
                return response.status

    with MisbehavingServer(answer(503)) as server:
        assert asyncio.run(main()) == 200


def test_a_short_answer_keeps_its_connection():
    with MisbehavingServer(answer(503, b"x" * 1000), answer(503)) as server, no_wait():
        assert send("GET", server.url, RetryMiddleware(ConstantBackOff(1))) == (200, "fine")
    assert server.connections == 1


def test_errors_of_other_middlewares_pass():
    """They are inside if they come later; what they ask for themselves is left alone."""
    raised = []

    async def strict(request, handler):
        response = await handler(request)
        raised.append(response.status)
        response.raise_for_status()
        return response

    with MisbehavingServer(answer(404), answer(503)) as server:
        for status in (404, 503):
            with pytest.raises(aiohttp.ClientResponseError, match=str(status)):
                send("GET", server.url, RetryMiddleware(ZeroBackOff()), strict)
        assert send("GET", server.url, strict, RetryMiddleware(ZeroBackOff()))[0] == 200
    assert raised == [404, 503, 200]


@pytest.mark.parametrize("failures", [{"early_first": 2}, {"reset_first": 1}])
def test_a_body_that_waits_for_100_continue_is_sent_again(failures):
    options = {"expect100": True, "timeout": aiohttp.ClientTimeout(total=20)}
    with MisbehavingServer(answer(503), **failures) as server:
        got = send("PUT", server.url, RetryMiddleware(ZeroBackOff()), data=b"data", **options)
    assert got == (200, "fine")
    assert server.bodies == [b"data", b"data"]


def test_a_file_is_sent_once(tmp_path):
    file = tmp_path / "prices"
    file.write_bytes(b"gold 42")
    for form in (False, True):
        with MisbehavingServer(answer(503)) as server, file.open("rb") as opened:
            data = {"f": opened} if form else opened
            assert send("PUT", server.url, RetryMiddleware(ZeroBackOff()), data=data)[0] == 503
        assert len(server.bodies) == 1
        assert b"gold 42" in server.bodies[0]


@pytest.mark.parametrize("failure", [reset, disconnect])
def test_aiohttp_does_not_double_the_attempts(failure):
    """It sends an idempotent request once more after a lost connection, through middlewares."""
    with (
        MisbehavingServer(*[failure] * 9) as server,
        pytest.raises(aiohttp.ClientConnectionError) as caught,
    ):
        send("GET", server.url, RetryMiddleware(ZeroBackOff(), max_attempts=3))
    assert server.methods == "GET GET GET"
    lost = aiohttp.ClientOSError, aiohttp.ServerDisconnectedError
    assert isinstance(caught.value.__cause__, lost)
    assert "max_attempts is 3" in caught.value.__cause__.__notes__[0]


def test_the_error_of_no_connection_is_raised_as_it_is():
    with pytest.raises(aiohttp.ClientConnectorError):
        Aiohttp().request("GET", "http://127.0.0.1:9/", ZeroBackOff(), max_attempts=2)
