"""Transports of httpx that send a request again where that is safe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ._http import AsyncHTTPRetryOptions, Exchange, HTTPRetryOptions, Rules
from ._shared import imports_of_extra

with imports_of_extra("httpx"):
    import httpx

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from typing import Self, Unpack

    from .. import BackOff, Outcome
    from ._http import Kind

__all__ = ["AsyncRetryTransport", "RetryTransport"]

_MISTAKES: Final = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)
# Before anything of the request is sent, so that any request may be repeated:
_UNSENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
_SHORTEST: Final = 0.001  # as a timeout of 0 would make sockets non-blocking


class RetryTransport(httpx.BaseTransport):
    """A transport for ``httpx.Client`` that sends a request again after a failure that may pass.

    Sent again are requests

    - whose method is in ``methods``, after a transport error or an answer in ``statuses``;
    - of any method, if no connection was made, so that the server cannot have seen them;
    - with a body in memory (``content=`` of bytes, ``data=``, ``json=``). A body that is read as
      it is sent (an iterator, a file, ``files=``) is never sent twice: once its first byte was
      asked for, the first failure is the last.

    When no attempt follows, the last response is returned, or the last transport error raised.
    Before a wait the response is closed. A wait that the server asks for (``Retry-After`` in
    seconds or as a date, ``Retry-After-Ms``, ``X-Ms-Retry-After-Ms``) takes the place of the
    policy's delay. The timeouts of each attempt are cut to what is left of ``timeout`` and of the
    token's deadline. What the caller reads of a response is not retried: if the body breaks off
    there, that error is the caller's.

    Besides the errors of httpx, a request raises ``Cancelled``, ``DeadlineExceeded`` (``timeout``
    was reached, or a wait would reach it; or the token's deadline has come) and ``CircuitOpen``
    (for longer than the limits allow).

    Example:
        >>> import httpx
        >>> from backoff_ticker import ConstantBackOff
        >>> from backoff_ticker.integrations.httpx import RetryTransport
        >>> answers = iter([503, 200])
        >>> server = httpx.MockTransport(lambda request: httpx.Response(next(answers)))
        >>> transport = RetryTransport(server, ConstantBackOff(0.001))
        >>> with httpx.Client(transport=transport) as client:
        ...     client.get("http://prices.example")
        <Response [200 OK]>

    Each request is a run of its own, on a copy of the policy. One that is under way in a thread
    cannot be cut; its timeouts end it.
    Thread safety: that of the transport inside; ``httpx.HTTPTransport`` serves all threads.
    If interrupted: the response is closed, and the exception is raised.

    Args:
        transport: What sends each attempt; None means ``httpx.HTTPTransport()``. Options such as
            ``verify``, ``http2`` and ``proxy`` belong there: a client does not apply its own to a
            transport that it is given.
        policy: The back-off policy; None means ``ExponentialBackOff()``.
        methods: The methods that may be repeated: by default DELETE, GET, HEAD, OPTIONS, PUT and
            TRACE. Add ``"POST"`` only for a server that recognises a repeated request, for example
            by an idempotency key.
        statuses: The statuses that are retried: by default 408, 429, 500, 502, 503 and 504.
        max_attempts: The greatest number of attempts, the first included: by default 5. None: no
            limit.
        max_retry_after: The longest wait that a server can ask for, in seconds or as a timedelta;
            after an answer that asks for a longer one the request is not sent again. By default
            60 s; None: no bound.
        **options: The options ``timeout``, ``max_elapsed_time``, ``token``, ``budget``,
            ``breaker``, ``notify``, ``around``, ``on_attempt``, ``on_retry``, ``on_success``,
            ``on_give_up`` and ``clock`` of ``retry``. For hooks, the error of an answer in
            ``statuses`` is an ``httpx.HTTPStatusError``.
    """

    def __init__(
        self,
        transport: httpx.BaseTransport | None = None,
        policy: BackOff | None = None,
        **options: Unpack[HTTPRetryOptions],
    ) -> None:
        if transport is not None and not isinstance(transport, httpx.BaseTransport):
            raise TypeError(f"transport must be an httpx.BaseTransport or None, not {transport!r}")
        self._rules = Rules("RetryTransport", HTTPRetryOptions, policy, options)
        self._transport = httpx.HTTPTransport() if transport is None else transport

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, as often as needed and allowed."""
        exchange = _Exchange(self._rules, request)
        send = self._transport.handle_request
        return exchange.run(lambda: send(exchange.next_request()), httpx.Response.close)

    def __enter__(self) -> Self:
        self._transport.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._transport.__exit__(*error)  # type: ignore[arg-type]

    def close(self) -> None:
        """Close the transport inside."""
        self._transport.close()


class AsyncRetryTransport(httpx.AsyncBaseTransport):
    """A transport for ``httpx.AsyncClient`` that does what ``RetryTransport`` does.

    A cancel of the token and ``timeout`` also cut the attempt that is under way, up to the headers
    of its response. If ``attempt_timeout`` cut the last attempt, a ``TimeoutError`` is raised.

    Thread safety: that of the transport inside; ``httpx.AsyncHTTPTransport`` belongs to one loop.
    If cancelled: the response is closed, and the ``Cancelled`` of trio, or
    ``asyncio.CancelledError``, is raised.

    Args:
        transport: What sends each attempt; None means ``httpx.AsyncHTTPTransport()``.
        policy: As in ``RetryTransport``.
        **options: Those of ``RetryTransport``, ``methods`` and the like included; also
            ``attempt_timeout``, the seconds that an attempt may take up to the headers of the
            response. Hooks may be coroutine functions.
    """

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport | None = None,
        policy: BackOff | None = None,
        **options: Unpack[AsyncHTTPRetryOptions],
    ) -> None:
        if transport is not None and not isinstance(transport, httpx.AsyncBaseTransport):
            kind = "httpx.AsyncBaseTransport"
            raise TypeError(f"transport must be an {kind} or None, not {transport!r}")
        self._rules = Rules("AsyncRetryTransport", AsyncHTTPRetryOptions, policy, options)
        self._transport = httpx.AsyncHTTPTransport() if transport is None else transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, as often as needed and allowed."""
        exchange = _Exchange(self._rules, request)
        send = self._transport.handle_async_request
        return await exchange.run_async(
            lambda: send(exchange.next_request()), httpx.Response.aclose
        )

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._transport.__aexit__(*error)  # type: ignore[arg-type]

    async def aclose(self) -> None:
        """Close the transport inside."""
        await self._transport.aclose()


class _Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that is read as it is sent; it remembers whether that has begun."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.has_begun = False

    def __iter__(self) -> Iterator[bytes]:
        self.has_begun = True
        return iter(self._stream)

    def __aiter__(self) -> AsyncIterator[bytes]:
        self.has_begun = True
        return aiter(self._stream)


class _Exchange(Exchange[httpx.Response]):
    status_name = "status_code"

    def __init__(self, rules: Rules, request: httpx.Request) -> None:
        super().__init__(rules, request.method, request.url)
        self._request = request
        stream = request.stream
        self._body = None if isinstance(stream, httpx.ByteStream) else _Body(stream)
        self._left: float | None = None

    def begin(self, outcome: Outcome) -> None:
        """Note how long the next attempt may take."""
        super().begin(outcome)
        left = self._rules.time_left(outcome.elapsed)
        self._left = None if left is None else max(left, _SHORTEST)

    def next_request(self) -> httpx.Request:
        """Return the request of the next attempt, with timeouts of no more than what is left."""
        request, left = self._request, self._left
        extensions = request.extensions
        if left is not None:
            shorter = dict.fromkeys(("connect", "read", "write", "pool"), left)
            for phase, limit in extensions.get("timeout", {}).items():
                if limit is not None:
                    shorter[phase] = min(limit, left)
            extensions = {**extensions, "timeout": shorter}
        return httpx.Request(
            request.method,
            request.url,
            headers=request.headers,
            stream=self._body or request.stream,
            extensions=extensions,
        )

    def error_of(self, response: httpx.Response) -> Exception:
        what = f"{response.status_code} {response.reason_phrase}".rstrip()
        return httpx.HTTPStatusError(what, request=self._request, response=response)

    def kind_of(self, error: Exception) -> Kind:
        has_no_body = self._body is not None and self._body.has_begun
        if has_no_body or isinstance(error, _MISTAKES) or self._is_refused_tunnel(error):
            return "final"
        if isinstance(error, _UNSENT):
            return "unsent"
        return "broken" if isinstance(error, httpx.TransportError) else "other"

    def _is_refused_tunnel(self, error: Exception) -> bool:
        """Return whether a proxy refused a tunnel with a status that is not retried, as 407."""
        status = str(error)[:3]  # no field of the error tells it
        is_known = isinstance(error, httpx.ProxyError) and status.isdecimal()
        return is_known and int(status) not in self._rules.statuses
