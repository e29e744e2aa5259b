"""A view of Django that stops working when its client goes away.

Problem: Django runs a view without ``async`` in a thread, and nothing ends it: it retries a call
for a client that is gone.
Shows: ``get_asgi_application`` and ``request_token``, in one file and without a server.

    python examples/integrations/use_django.py
"""

import asyncio

import django
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import path

from backoff_ticker import Cancelled, Channel, ConstantBackOff, retry_call
from backoff_ticker.integrations.django import (
    get_asgi_application,
    request_token,
)


def ask_exchange() -> str:
    raise ConnectionError("no route")


def price(request: HttpRequest) -> HttpResponse:
    token = request_token(request)
    try:
        policy = ConstantBackOff(3600)
        answer = retry_call(ask_exchange, policy, token=token, notify=waits)
    except Cancelled as cancelled:
        print(cancelled)
        return HttpResponse(status=503)  # nobody reads it
    return HttpResponse(answer)


def waits(error: Exception, delay: float) -> None:
    print(f"{error}: again in {delay:.0f} s")
    waiting.send_nowait("price")


waiting: Channel[str] = Channel(1)
urlpatterns = [path("price", price)]
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"])
django.setup()


async def main() -> None:
    request = {
        "type": "http",
        "method": "GET",
        "path": "/price",
        "headers": [],
    }
    client = ApplicationCommunicator(get_asgi_application(), request)
    await client.send_input({"type": "http.request"})
    await waiting.receive_async()
    await client.send_input({"type": "http.disconnect"})
    await client.wait(timeout=10)


asyncio.run(main())
