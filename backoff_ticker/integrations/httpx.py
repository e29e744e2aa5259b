"""Transports of httpx that send a request again where that is safe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..retries import retry_call, retry_call_async
from ._extras import imports_of_extra
from ._http import (
    MAX_ATTEMPTS,
    MAX_RETRY_AFTER,
    METHODS,
    STATUSES,
    AsyncHTTPRetryOptions,
    HTTPRetryOptions,
    Rules,
)

with imports_of_extra("httpx"):
    import httpx

    from ._httpx_exchange import Exchange

if TYPE_CHECKING:
    from collections.abc import Collection
    from types import TracebackType
    from typing import Self, Unpack

    from ..policies import BackOff
    from ..retries import Outcome
    from ._http import Seconds

__all__ = ["AsyncRetryTransport", "RetryTransport"]


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
    policy's delay. The time-outs of each attempt are cut to what is left of ``timeout`` and of the
    token's deadline. What the caller reads of a response is not retried: if the body breaks off
    there, that error is the caller's.

    Beside the errors of httpx a request raises ``Cancelled`` (the token was cancelled),
    ``DeadlineExceeded`` (``timeout`` or the token's deadline was reached, or a wait would reach
    ``timeout``), ``CircuitOpen`` (for longer than the limits allow), and ``RuntimeError`` if a wait
    is needed where an event loop runs in the thread.

    Example:
        >>> import httpx
        >>> from backoff_ticker import ConstantBackOff
        >>> from backoff_ticker.integrations.httpx import RetryTransport
        >>> answers = iter([503, 200])
        >>> server = httpx.MockTransport(lambda request: httpx.Response(next(answers)))
        >>> with httpx.Client(transport=RetryTransport(server, ConstantBackOff(0.001))) as client:
        ...     client.get("http://prices.example")
        <Response [200 OK]>

    Thread safety: as that of the transport inside; ``httpx.HTTPTransport`` serves any number of
    threads. Each request is a run of its own, on a copy of the policy.
    Wakes when: a wait ends when its time is over or when the token is cancelled. A request that is
    under way in a thread cannot be cut; its time-outs end it.
    If interrupted: the response is closed, and the exception is raised.

    Args:
        transport: What sends each attempt; None means ``httpx.HTTPTransport()``. Options such as
            ``verify``, ``http2`` and ``proxy`` belong there: a client does not apply its own to a
            transport that it is given.
        policy: The back-off policy; None means ``ExponentialBackOff()``.
        methods: The methods that may be repeated. Add ``"POST"`` only for a server that recognises
            a repeated request, as by an idempotency key.
        statuses: The statuses that are retried.
        max_attempts: The greatest number of attempts, the first included; None: no limit.
        max_retry_after: The longest wait that a server can ask for, in seconds or as a timedelta;
            a longer one is cut to it. None: no bound.
        **options: The options ``timeout``, ``max_elapsed_time``, ``token``, ``budget``,
            ``breaker``, ``notify``, ``on_attempt``, ``on_retry``, ``on_success``, ``on_give_up``
            and ``clock`` of ``retry``. For hooks, the error of an answer in ``statuses`` is an
            ``httpx.HTTPStatusError``.

    Raises:
        TypeError, ValueError: An argument is invalid.
    """

    def __init__(  # noqa: PLR0913 - options
        self,
        transport: httpx.BaseTransport | None = None,
        policy: BackOff | None = None,
        *,
        methods: Collection[str] = METHODS,
        statuses: Collection[int] = STATUSES,
        max_attempts: int | None = MAX_ATTEMPTS,
        max_retry_after: Seconds | None = MAX_RETRY_AFTER,
        **options: Unpack[HTTPRetryOptions],
    ) -> None:
        if transport is not None and not isinstance(transport, httpx.BaseTransport):
            raise TypeError(f"transport must be an httpx.BaseTransport or None, not {transport!r}")
        limits = {"max_attempts": max_attempts, "max_retry_after": max_retry_after}
        self._rules = Rules(
            "RetryTransport()", HTTPRetryOptions, methods, statuses, policy, limits, options
        )
        self._transport = httpx.HTTPTransport() if transport is None else transport

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, as often as needed and allowed."""
        exchange = Exchange(self._rules, request)

        def attempt() -> httpx.Response:
            sent = exchange.next_request()
            return exchange.raise_if_retried(self._transport.handle_request(sent))

        def close(_: Outcome | None = None) -> None:
            exchange.is_closed = True
            if exchange.response is not None:
                exchange.response.close()

        attempt.__qualname__ = "RetryTransport"
        options = self._rules.with_hooks(close, exchange.begin)
        try:
            response: httpx.Response = retry_call(
                attempt, self._rules.policy, on=exchange.on, **options
            )
        except BaseException as error:
            last = exchange.response_of(error)
            if last is not None and not exchange.is_closed:
                return last
            close()
            raise
        return response

    def __enter__(self) -> Self:
        self._transport.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self._transport.__exit__(exc_type, exc_value, traceback)

    def close(self) -> None:
        """Close the transport inside."""
        self._transport.close()


class AsyncRetryTransport(httpx.AsyncBaseTransport):
    """A transport for ``httpx.AsyncClient`` that does what ``RetryTransport`` does.

    A cancel of the token and ``timeout`` also cut the attempt that is under way, up to the headers
    of its response. If ``attempt_timeout`` cut the last attempt, a ``TimeoutError`` is raised.

    It needs asyncio: under trio, a wait or a limit of time raises a ``RuntimeError``.

    Example:
        >>> import asyncio, httpx
        >>> from backoff_ticker import ConstantBackOff
        >>> from backoff_ticker.integrations.httpx import AsyncRetryTransport
        >>> answers = iter([503, 200])
        >>> server = httpx.MockTransport(lambda request: httpx.Response(next(answers)))
        >>> async def main():
        ...     transport = AsyncRetryTransport(server, ConstantBackOff(0.001))
        ...     async with httpx.AsyncClient(transport=transport) as client:
        ...         return await client.get("http://prices.example")
        >>> asyncio.run(main())
        <Response [200 OK]>

    Thread safety: as that of the transport inside: ``httpx.AsyncHTTPTransport`` belongs to one
    event loop. Each request is a run of its own, on a copy of the policy.
    Wakes when: a wait or an attempt ends when its time is over or when the token is cancelled.
    If cancelled: the response is closed, and ``asyncio.CancelledError`` is raised.

    Args:
        transport: What sends each attempt; None means ``httpx.AsyncHTTPTransport()``.
        policy: As in ``RetryTransport``, and so are those that follow.
        methods: The methods that may be repeated.
        statuses: The statuses that are retried.
        max_attempts: The greatest number of attempts.
        max_retry_after: The longest wait that a server can ask for.
        **options: As in ``RetryTransport``; also ``attempt_timeout``, the seconds that an attempt
            may take up to the headers of the response, and hooks may be coroutine functions.

    Raises:
        TypeError, ValueError: An argument is invalid.
    """

    def __init__(  # noqa: PLR0913 - options
        self,
        transport: httpx.AsyncBaseTransport | None = None,
        policy: BackOff | None = None,
        *,
        methods: Collection[str] = METHODS,
        statuses: Collection[int] = STATUSES,
        max_attempts: int | None = MAX_ATTEMPTS,
        max_retry_after: Seconds | None = MAX_RETRY_AFTER,
        **options: Unpack[AsyncHTTPRetryOptions],
    ) -> None:
        if transport is not None and not isinstance(transport, httpx.AsyncBaseTransport):
            raise TypeError(
                f"transport must be an httpx.AsyncBaseTransport or None, not {transport!r}"
            )
        limits = {"max_attempts": max_attempts, "max_retry_after": max_retry_after}
        what = "AsyncRetryTransport()"
        self._rules = Rules(what, AsyncHTTPRetryOptions, methods, statuses, policy, limits, options)
        self._transport = httpx.AsyncHTTPTransport() if transport is None else transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, as often as needed and allowed."""
        exchange = Exchange(self._rules, request)

        async def attempt() -> httpx.Response:
            sent = exchange.next_request()
            return exchange.raise_if_retried(await self._transport.handle_async_request(sent))

        async def close(_: Outcome | None = None) -> None:
            exchange.is_closed = True
            if exchange.response is not None:
                await exchange.response.aclose()

        attempt.__qualname__ = "AsyncRetryTransport"
        options = self._rules.with_hooks(close, exchange.begin)
        try:
            return await retry_call_async(attempt, self._rules.policy, on=exchange.on, **options)
        except BaseException as error:
            last = exchange.response_of(error)
            if last is not None and not exchange.is_closed:
                return last
            await close()
            raise

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self._transport.__aexit__(exc_type, exc_value, traceback)

    async def aclose(self) -> None:
        """Close the transport inside."""
        await self._transport.aclose()
