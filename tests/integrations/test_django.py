"""The tokens of Django, through its own test clients and ASGI application."""

import asyncio

import pytest
from django.http import HttpResponse
from django.test import AsyncClient, Client, override_settings
from django.urls import path

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    DeadlineExceeded,
    retry_call,
)
from backoff_ticker.integrations.django import get_asgi_application, request_token
from tests.helpers import configure_django
from tests.integrations.test_asgi import GONE, PATIENCE, Server, body

configure_django()

MIDDLEWARE = ["backoff_ticker.integrations.django.CancelledMiddleware"]
tokens = []


def sync_view(request):
    tokens.append(request_token(request))
    retry_call(lambda: 1 / 0, ConstantBackOff(60), token=tokens[-1])


async def async_view(request):
    tokens.append(request_token(request))
    await tokens[-1].wait_async(PATIENCE)
    tokens[-1].raise_if_cancelled()


def cancelled(request):
    raise Cancelled("SIGTERM")


async def cancelled_async(request):
    raise Cancelled("SIGTERM")


async def cancelled_group(request):
    raise ExceptionGroup("tasks", [Cancelled("SIGTERM"), Cancelled("SIGTERM")])


def late(request):
    raise DeadlineExceeded


def fine(request):
    return HttpResponse(str(request_token(request).cancelled))


urlpatterns = [
    path(f"{view.__name__}", view)
    for view in (sync_view, async_view, cancelled, cancelled_async, cancelled_group, late, fine)
]


@pytest.fixture(autouse=True)
def of_this_module():
    tokens.clear()
    with override_settings(ROOT_URLCONF=__name__, MIDDLEWARE=MIDDLEWARE):
        yield


@pytest.mark.parametrize("view", ["cancelled", "cancelled_async", "cancelled_group"])
def test_a_cancelled_view_is_answered_with_503(view):
    answer = Client().get(f"/{view}")
    assert (answer.status_code, answer.content) == (503, b"Service Unavailable")
    answer = asyncio.run(AsyncClient().get(f"/{view}"))
    assert answer.status_code == 503


def test_other_errors_and_answers_pass():
    with pytest.raises(DeadlineExceeded):
        Client().get("/late")
    assert Client().get("/fine").content == b"False"
    assert asyncio.run(AsyncClient().get("/fine")).content == b"False"


@pytest.mark.parametrize("view", ["sync_view", "async_view"])
@pytest.mark.parametrize("leaves", [False, True])
def test_a_cancel_or_a_client_that_leaves_ends_a_view(view, leaves):
    async def main():
        shutdown = CancellationToken()
        server = Server(get_asgi_application(shutdown))
        server.scope |= {"method": "GET", "path": f"/{view}", "query_string": b"", "headers": []}
        server.client_sends(body())
        serving = asyncio.create_task(server.serve())
        while not tokens:
            await asyncio.sleep(0.001)
        if leaves:
            server.client_sends(GONE)
        else:
            shutdown.cancel("SIGTERM")
        await serving
        return [message.get("status") for message in server.sent]

    answers = [[503, None]]
    if leaves:  # Django ends the view at the same time, and may be first
        answers.append([])
    assert asyncio.run(main()) in answers
    assert tokens[0].cause == ("the client has disconnected" if leaves else "SIGTERM")


def test_the_lifespan_is_answered():
    async def main():
        server = Server(get_asgi_application(), "lifespan")
        server.client_sends({"type": "lifespan.startup"}, {"type": "lifespan.shutdown"})
        await server.serve()
        return [message["type"] for message in server.sent]

    assert asyncio.run(main()) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_what_is_no_token_is_refused():
    with pytest.raises(TypeError, match="token must be a CancellationToken, not 1"):
        get_asgi_application(1)
