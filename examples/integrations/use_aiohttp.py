"""Requests of aiohttp's client that are sent again.

Problem: aiohttp does not repeat a request that a busy server has refused.
Shows: ``RetryMiddleware`` with a policy and limits, against a server that is busy at first.

    python examples/integrations/use_aiohttp.py
"""

import asyncio

import aiohttp
from aiohttp import web

from backoff_ticker import ExponentialBackOff
from backoff_ticker.integrations.aiohttp import RetryMiddleware
from backoff_ticker.testing import no_wait

answers = [
    web.Response(status=503, headers={"Retry-After": "20"}),
    web.Response(text="42"),
]


# The server of this example.
async def gold(_request: web.Request) -> web.Response:
    return answers.pop(0)


def tell(error: Exception, delay: float) -> None:
    print(type(error).__name__, f"again in {delay:.0f} s")


async def main() -> None:
    retries = RetryMiddleware(
        ExponentialBackOff(),
        max_attempts=5,
        timeout=120,
        attempt_timeout=10,
        notify=tell,
    )
    app = web.Application()
    app.router.add_get("/gold", gold)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0]
    try:
        async with aiohttp.ClientSession(middlewares=(retries,)) as session:
            url = f"http://{host}:{port}/gold"
            async with session.get(url) as response:
                print(await response.text())
    finally:
        await runner.cleanup()


with no_wait():
    asyncio.run(main())
