"""A middleware for the client of aiohttp that sends a request again where that is safe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .. import Permanent
from ._http import AsyncHTTPRetryOptions, Exchange, Rules
from ._shared import imports_of_extra

with imports_of_extra("aiohttp"):
    import aiohttp
    from aiohttp.http import HttpProcessingError
    from aiohttp.payload import BytesPayload

if TYPE_CHECKING:
    from typing import Unpack

    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse

    from .. import BackOff
    from ._http import Kind

__all__ = ["RetryMiddleware"]

_MISTAKES: Final = (aiohttp.ClientConnectorCertificateError, aiohttp.ServerFingerprintMismatch)
_UNSENT: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""Raised before anything of the request was sent, so that any request may be repeated."""
_REPEATED_BY_AIOHTTP: Final = (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)
"""After these aiohttp sends an idempotent request once more, through all middlewares."""


class RetryMiddleware:
    """A middleware for ``aiohttp.ClientSession`` that sends a request again after a failure.

    Which requests are sent again, after which wait, and how it ends: as with ``RetryTransport`` and
    ``AsyncRetryTransport``, for httpx. Bodies in memory are bytes, text, JSON, and forms that are
    not multipart. aiohttp's own ``ClientTimeout(total=...)`` is for all attempts and waits of a
    request together.

    Put it first, so that the other middlewares run in each attempt:
    ``middlewares=(RetryMiddleware(), other)``.

    A lost connection (``ServerDisconnectedError``, ``ClientOSError``) is in the end raised as an
    ``aiohttp.ClientConnectionError`` from that error, since aiohttp itself would send the request
    once more.

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
        **options: Those of ``AsyncRetryTransport``, with the same defaults. For hooks, the error of
            an answer in ``statuses`` is an ``aiohttp.ClientResponseError``.
    """

    def __init__(
        self, policy: BackOff | None = None, **options: Unpack[AsyncHTTPRetryOptions]
    ) -> None:
        self._rules = Rules("RetryMiddleware", AsyncHTTPRetryOptions, policy, options)

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        """Send a request, as often as needed and allowed: aiohttp calls this."""

        async def send() -> ClientResponse:
            if "Expect" in request.headers:  # else it takes up the wait of the attempt before
                request.update_expect_continue()
            try:
                return await handler(request)
            except TimeoutError as error:
                if isinstance(error, aiohttp.ClientError):
                    raise
                raise Permanent(error) from None  # the total of aiohttp, for all attempts, is over

        try:
            return await _Exchange(self._rules, request).run_async(send, _release)
        except _REPEATED_BY_AIOHTTP as error:
            if isinstance(error, _UNSENT):
                raise
            raise aiohttp.ClientConnectionError(str(error)) from error


async def _release(response: ClientResponse) -> None:
    response.release()


class _Exchange(Exchange["ClientResponse"]):
    status_name = "status"

    def __init__(self, rules: Rules, request: ClientRequest) -> None:
        super().__init__(rules, request.method, request.url)
        self._is_in_memory = isinstance(request.body, (bytes, BytesPayload))

    def error_of(self, response: ClientResponse) -> Exception:
        return aiohttp.ClientResponseError(
            response.request_info,
            response.history,
            status=response.status,
            message=response.reason or "",
            headers=response.headers,
        )

    def kind_of(self, error: Exception) -> Kind:
        if isinstance(error, _MISTAKES):
            return "final"
        if isinstance(error, aiohttp.ClientHttpProxyError):  # no tunnel was made
            return "unsent" if error.status in self._rules.statuses else "final"
        if isinstance(error, _UNSENT):
            return "unsent"
        if not self._is_in_memory:
            return "final"
        is_no_http = isinstance(error.__cause__, HttpProcessingError)
        is_broken = is_no_http or isinstance(error, aiohttp.ClientConnectionError)
        return "broken" if is_broken else "other"
