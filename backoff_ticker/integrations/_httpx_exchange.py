"""One request of httpx in all its attempts, in a thread or a coroutine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import httpx

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from ..retries import Outcome
    from ._http import Rules

_NEVER: Final = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)
"""Mistakes of the caller."""
_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
"""Raised before anything of the request was sent, so that any request may be repeated."""
_PHASES: Final = ("connect", "read", "write", "pool")
_SHORTEST: Final = 0.001
"""A time-out of 0 would make sockets non-blocking."""


class _Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that is read as it is sent; it remembers whether that has begun."""

    def __init__(self, stream: Any) -> None:  # noqa: ANN401 - as a client of either kind takes it
        self._stream = stream
        self.has_begun = False

    def __iter__(self) -> Iterator[bytes]:
        self.has_begun = True
        return iter(self._stream)

    def __aiter__(self) -> AsyncIterator[bytes]:
        self.has_begun = True
        return aiter(self._stream)


class Exchange:
    """One request and what has come of it so far.

    Attributes:
        response: The response of the last attempt, if there was one.
        is_closed: Whether it was closed. If a limit of time nevertheless ends the run,
            because the wait took longer than it should, the error is raised in its place.
    """

    def __init__(self, rules: Rules, request: httpx.Request) -> None:
        self._rules = rules
        self._request = request
        stream = request.stream
        self._body = None if isinstance(stream, httpx.ByteStream) else _Body(stream)
        self._left: float | None = None
        self.response: httpx.Response | None = None
        self.is_closed = False

    def begin(self, outcome: Outcome) -> None:
        """Note how long the next attempt may take: a hook."""
        left = self._rules.time_left(outcome.elapsed)
        self._left = None if left is None else max(left, _SHORTEST)

    def next_request(self) -> httpx.Request:
        """Return the request of the next attempt, with time-outs of no more than what is left."""
        self.response = None
        self.is_closed = False
        request = self._request
        left = self._left
        extensions = request.extensions
        if left is not None:
            given = extensions.get("timeout", {})
            limits = {phase: given.get(phase) for phase in _PHASES}
            shorter = {
                phase: left if limit is None else min(limit, left)
                for phase, limit in limits.items()
            }
            extensions = {**extensions, "timeout": shorter}
        return httpx.Request(
            request.method,
            request.url,
            headers=request.headers,
            stream=self._body or request.stream,
            extensions=extensions,
        )

    def raise_if_retried(self, response: httpx.Response) -> httpx.Response:
        """Return a response, or raise it as an error if its status is retried."""
        self.response = response
        status = response.status_code
        if status not in self._rules.statuses:
            return response
        what = f"{status} {response.reason_phrase}".rstrip()
        raise httpx.HTTPStatusError(what, request=self._request, response=response)

    def on(self, error: Exception) -> float | bool:
        """Return whether a failure is retried, or the seconds that the server asks to wait."""
        if isinstance(error, _NEVER) or self._is_refused_tunnel(error):
            return False
        response = self.response_of(error)
        return self._rules.answer(
            error,
            method=self._request.method,
            has_body=self._body is None or not self._body.has_begun,
            not_sent=isinstance(error, _NOT_SENT),
            may_pass=isinstance(error, httpx.TransportError),
            headers=None if response is None else response.headers,
        )

    def _is_refused_tunnel(self, error: Exception) -> bool:
        """Whether a proxy refused a tunnel with a status that is not retried, such as 407."""
        status = str(error)[:3]  # no field of the error tells it
        is_known = isinstance(error, httpx.ProxyError) and status.isdecimal()
        return is_known and int(status) not in self._rules.statuses

    def response_of(self, error: BaseException) -> httpx.Response | None:
        """Return the last response, if it is what an error stands for."""
        if not isinstance(error, httpx.HTTPStatusError):
            return None
        return self.response if error.response is self.response else None
