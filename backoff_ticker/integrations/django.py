"""Tokens for Django: under ASGI for each request and the shutdown; an answer to a cancel."""

from __future__ import annotations

from .. import CancellationToken, DeadlineExceeded
from ._asgi import REQUEST, TokenMiddleware, is_cancel
from ._shared import imports_of_extra

with imports_of_extra("django"):
    from asgiref.sync import iscoroutinefunction, markcoroutinefunction
    from django.core import asgi
    from django.http import HttpResponse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._asgi import Application, Receive, Scope, Send

__all__ = ["CancelledMiddleware", "get_asgi_application", "request_token"]


def get_asgi_application(token: CancellationToken | None = None) -> TokenMiddleware:
    """Return Django's ASGI application, with tokens: for ``asgi.py``.

    Use it in place of ``django.core.asgi.get_asgi_application``. It also answers the lifespan
    protocol, which Django does not know, so that the server tells it of the shutdown.
    ``request_token()`` says what a view gets. On which servers signals are noticed is told at
    ``backoff_ticker.integrations.starlette.TokenMiddleware``, which it returns.

    Args:
        token: Cancels all tokens as well.
    """
    django: Application = asgi.get_asgi_application()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await django(scope, receive, send)
            return
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    return TokenMiddleware(application, token)


def request_token(request: Any) -> CancellationToken:
    """Return the token of a request.

    Under ASGI it is cancelled when the client goes away, as soon as the server gets SIGTERM or
    SIGINT, and when the request has ended. Views with and without ``async`` may use it. Under WSGI,
    and in Django's test client, nobody cancels it.

    Args:
        request: What a view gets.

    Example:
        >>> from backoff_ticker import retry_call
        >>> from backoff_ticker.integrations.django import request_token
        >>> def price(request):  # a view
        ...     return retry_call(fetch_price, token=request_token(request))
    """
    token = getattr(request, "scope", {}).get("state", {}).get(REQUEST)
    return token if isinstance(token, CancellationToken) else CancellationToken()


class CancelledMiddleware:
    """A middleware that answers a view's ``Cancelled`` with 503, in place of an error page.

    Add ``"backoff_ticker.integrations.django.CancelledMiddleware"`` to ``MIDDLEWARE``. It serves
    under WSGI and ASGI. A ``DeadlineExceeded`` remains an error: nobody cancelled the view.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[Any], Any]) -> None:
        self._get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: Any) -> Any:
        """Pass a request on; called by Django."""
        return self._get_response(request)

    def process_exception(self, request: Any, exception: Exception) -> Any:
        """Return the answer to a ``Cancelled``; called by Django."""
        is_late = ExceptionGroup("", [exception]).subgroup(DeadlineExceeded) is not None
        if is_cancel(exception) and not is_late:
            return HttpResponse("Service Unavailable", status=503, content_type="text/plain")
        return None
