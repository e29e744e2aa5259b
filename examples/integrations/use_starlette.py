"""A request of Starlette whose retry waits when the server shuts down.

Problem: on SIGTERM a server waits for its requests, and one of them waits for its next attempt.
Shows: ``TokenMiddleware``, whose token ends that wait: the request is answered with 503 at once.

    python examples/integrations/use_starlette.py
"""

import asyncio
from collections.abc import MutableMapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from backoff_ticker import CancellationToken, ConstantBackOff, retry_call
from backoff_ticker.integrations.starlette import TokenMiddleware

# Stands for SIGTERM, which the middleware notices by itself.
stop = CancellationToken()


def ask_exchange() -> str:
    raise ConnectionError("no route")


def waits(error: Exception, delay: float) -> None:
    print(f"{error}: again in {delay:.0f} s")
    stop.cancel("SIGTERM")


def price(request: Request) -> PlainTextResponse:  # in a thread
    token = request.state.request_token
    policy = ConstantBackOff(3600)
    answer = retry_call(ask_exchange, policy, token=token, notify=waits)
    return PlainTextResponse(answer)


app = Starlette(routes=[Route("/price", price)])
app.add_middleware(TokenMiddleware, token=stop)


async def main() -> None:  # what a server such as uvicorn does
    messages = [{"type": "http.request"}]

    async def receive() -> MutableMapping[str, Any]:
        return messages.pop() if messages else await asyncio.Future()

    async def send(message: MutableMapping[str, Any]) -> None:
        print(message.get("status") or message["body"].decode())

    request = {
        "type": "http",
        "method": "GET",
        "path": "/price",
        "headers": [],
    }
    await app(request, receive, send)


asyncio.run(main())
