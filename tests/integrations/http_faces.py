"""Each client of HTTP that the package has an adapter for, behind one face for shared tests."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass
class Answer:
    """What a client got."""

    status: int
    text: str


class Httpx:
    """A client of httpx for threads.

    Attributes:
        guards_streams: Whether it never sends a body twice that can be read once.
        has_breakers: Whether it takes a circuit breaker.
        transport_errors: What its transport raises when a connection breaks.
        connect_errors: What it raises when there is none.
    """

    guards_streams = True
    has_breakers = True

    def __init__(self) -> None:
        self.httpx: Any = pytest.importorskip("httpx")
        self.module: Any = pytest.importorskip("backoff_ticker.integrations.httpx")
        self.transport_errors = self.httpx.TransportError
        self.connect_errors = self.httpx.ConnectError

    def request(self, method, url, policy, *, body=None, read_timeout=20, **options):
        """Send one request, and read the response."""
        inner = self.httpx.HTTPTransport(limits=self.httpx.Limits(max_connections=1))
        transport = self.module.RetryTransport(inner, policy, **options)
        with self.httpx.Client(transport=transport, timeout=read_timeout) as client:
            response = client.request(method, url, content=body)
            return Answer(response.status_code, response.text)

    def rules(self, **options):
        """Return the options that say what is retried, under the names of this client."""
        return options

    def attempts(self, number):
        """Return the option for a number of attempts."""
        return {"max_attempts": number}

    def stream(self, *chunks):
        """Return a body that can be read once."""
        return (each for each in chunks)


class AsyncHttpx(Httpx):
    """A client of httpx for event loops."""

    def request(self, method, url, policy, *, body=None, read_timeout=20, **options):
        """Send one request, and read the response."""

        async def main():
            inner = self.httpx.AsyncHTTPTransport(limits=self.httpx.Limits(max_connections=1))
            transport = self.module.AsyncRetryTransport(inner, policy, **options)
            async with self.httpx.AsyncClient(transport=transport, timeout=read_timeout) as client:
                response = await client.request(method, url, content=body)
                return Answer(response.status_code, response.text)

        return asyncio.run(main())

    async def stream(self, *chunks):
        """Return a body that can be read once."""
        for each in chunks:
            yield each


FACES = [Httpx, AsyncHttpx]
