"""A middleware for the client of aiohttp that sends a request again where that is safe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .._errors import Permanent
from ..retries import retry_call_async
from ._extras import imports_of_extra
from ._http import (
    MAX_ATTEMPTS,
    MAX_RETRY_AFTER,
    METHODS,
    STATUSES,
    AsyncHTTPRetryOptions,
    Rules,
)

with imports_of_extra("aiohttp"):
    import aiohttp
    from aiohttp.http import HttpProcessingError
    from aiohttp.payload import BytesPayload

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Unpack

    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse

    from ..policies import BackOff
    from ..retries import Outcome
    from ._http import Seconds

__all__ = ["RetryMiddleware"]

_NEVER: Final = (aiohttp.ClientConnectorCertificateError, aiohttp.ServerFingerprintMismatch)
_NOT_SENT: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""Raised before anything of the request was sent, so that any request may be repeated."""
_REPEATED_BY_AIOHTTP: Final = (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)
"""After these aiohttp sends an idempotent request once more, through all middlewares."""


class RetryMiddleware:
    """A middleware for ``aiohttp.ClientSession`` that sends a request again after a failure.

    Sent again are requests

    - whose method is in ``methods``, after a connection error or an answer in ``statuses``;
    - of any method, if no connection was made, so that the server cannot have seen them;
    - with a body in memory (bytes, text, JSON, a form without files). A body that is read as it is
      sent (an iterator, a file) is never sent twice: unless no connection was made, the first
      failure is the last.

    When no attempt follows, the last response is returned, or the last error raised. Before a wait
    the response is released. A wait that the server asks for (``Retry-After`` in seconds or as a
    date, ``Retry-After-Ms``, ``X-Ms-Retry-After-Ms``) takes the place of the policy's delay. What
    the caller reads of a response is not retried: if the body breaks off there, that error is the
    caller's.

    A cancel of the token and ``timeout`` also cut the attempt that is under way, up to the headers
    of its response. aiohttp's own ``ClientTimeout(total=...)`` is for all attempts and waits of a
    request together.

    Put it first, so that the other middlewares run in each attempt:
    ``middlewares=(RetryMiddleware(), other)``.

    A lost connection (``ServerDisconnectedError``, ``ClientOSError``) is in the end raised as an
    ``aiohttp.ClientConnectionError`` from that error, since aiohttp itself would send the request
    once more. Beside the errors of aiohttp a request raises ``Cancelled``, ``DeadlineExceeded``
    (``timeout`` or the token's deadline), ``CircuitOpen``, and ``TimeoutError`` if
    ``attempt_timeout`` cut the last attempt.

    Example:
        >>> import aiohttp
        >>> from backoff_ticker import ExponentialBackOff
        >>> from backoff_ticker.integrations.aiohttp import RetryMiddleware
        >>> async def get(url):
        ...     retries = RetryMiddleware(ExponentialBackOff(0.1), timeout=10)
        ...     async with aiohttp.ClientSession(middlewares=(retries,)) as session:
        ...         return await (await session.get(url)).text()

    Thread safety: one object serves any number of sessions, in any number of event loops. Each
    request, and each redirect that it follows, is a run of its own, on a copy of the policy.
    Wakes when: a wait or an attempt ends when its time is over or when the token is cancelled.
    If cancelled: the response is released, and ``asyncio.CancelledError`` is raised.

    Args:
        policy: The back-off policy; None means ``ExponentialBackOff()``.
        methods: The methods that may be repeated. Add ``"POST"`` only for a server that recognises
            a repeated request, as by an idempotency key.
        statuses: The statuses that are retried.
        max_attempts: The greatest number of attempts, the first included; None: no limit.
        max_retry_after: The longest wait that a server can ask for, in seconds or as a timedelta;
            a longer one is cut to it. None: no bound.
        **options: The options ``timeout``, ``attempt_timeout``, ``max_elapsed_time``, ``token``,
            ``budget``, ``breaker``, ``notify``, ``on_attempt``, ``on_retry``, ``on_success``,
            ``on_give_up`` and ``clock`` of ``retry``. For hooks, the error of an answer in
            ``statuses`` is an ``aiohttp.ClientResponseError``.

    Raises:
        TypeError, ValueError: An argument is invalid.
    """

    def __init__(
        self,
        policy: BackOff | None = None,
        *,
        methods: Collection[str] = METHODS,
        statuses: Collection[int] = STATUSES,
        max_attempts: int | None = MAX_ATTEMPTS,
        max_retry_after: Seconds | None = MAX_RETRY_AFTER,
        **options: Unpack[AsyncHTTPRetryOptions],
    ) -> None:
        limits = {"max_attempts": max_attempts, "max_retry_after": max_retry_after}
        what = "RetryMiddleware()"
        self._rules = Rules(what, AsyncHTTPRetryOptions, methods, statuses, policy, limits, options)

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        """Send a request, as often as needed and allowed: aiohttp calls this."""
        exchange = _Exchange(self._rules, request)

        async def attempt() -> ClientResponse:
            exchange.response, exchange.is_released = None, False
            if "Expect" in request.headers:  # else it takes up the wait of the attempt before
                request.update_expect_continue()
            try:
                response = await handler(request)
            except TimeoutError as error:
                if isinstance(error, aiohttp.ClientError):
                    raise
                raise Permanent(error) from None  # the total of aiohttp, for all attempts, is over
            return exchange.raise_if_retried(response)

        attempt.__qualname__ = "RetryMiddleware"
        options = self._rules.with_hooks(exchange.release)
        try:
            response: ClientResponse = await retry_call_async(
                attempt, self._rules.policy, on=exchange.on, **options
            )
        except _REPEATED_BY_AIOHTTP as error:
            if isinstance(error, _NOT_SENT):
                raise
            raise aiohttp.ClientConnectionError(str(error)) from error
        except BaseException as error:
            last = exchange.response_of(error)
            if last is not None and not exchange.is_released:
                return last
            exchange.release()
            raise
        return response


class _Exchange:
    """One request and what has come of it so far.

    Attributes:
        response: The response of the last attempt, if there was one.
        is_released: Whether it was released. If a limit of time nevertheless ends the run,
            because the wait took longer than it should, the error is raised in its place.
    """

    def __init__(self, rules: Rules, request: ClientRequest) -> None:
        self._rules = rules
        self._method = request.method
        self._is_in_memory = isinstance(request.body, (bytes, BytesPayload))
        self.response: ClientResponse | None = None
        self.is_released = False

    def raise_if_retried(self, response: ClientResponse) -> ClientResponse:
        """Return a response, or raise it as an error if its status is retried."""
        self.response = response
        if response.status not in self._rules.statuses:
            return response
        raise aiohttp.ClientResponseError(
            response.request_info,
            response.history,
            status=response.status,
            message=response.reason or "",
            headers=response.headers,
        )

    def on(self, error: Exception) -> float | bool:
        """Return whether a failure is retried, or the seconds that the server asks to wait."""
        if isinstance(error, _NEVER):
            return False
        response = self.response_of(error)
        not_sent = isinstance(error, _NOT_SENT) or (
            isinstance(error, aiohttp.ClientHttpProxyError) and error.status in self._rules.statuses
        )
        is_no_http = isinstance(error.__cause__, HttpProcessingError)
        return self._rules.answer(
            error,
            method=self._method,
            has_body=self._is_in_memory or not_sent,
            not_sent=not_sent,
            may_pass=isinstance(error, aiohttp.ClientConnectionError) or is_no_http,
            headers=None if response is None else response.headers,
        )

    def response_of(self, error: BaseException) -> ClientResponse | None:
        """Return the last response, if it is what an error stands for."""
        response = self.response
        if response is None or not isinstance(error, aiohttp.ClientResponseError):
            return None
        return response if error.headers is response.headers else None

    def release(self, _: Outcome | None = None) -> None:
        """Give the connection of the last response back."""
        self.is_released = True
        if self.response is not None:
            self.response.release()
