"""Tokens for Starlette and FastAPI: cancelled on shutdown, and when a client goes away."""

from __future__ import annotations

from ..cancellation import CancellationToken  # noqa: TC001 - FastAPI looks at the annotations
from ._asgi import REQUEST, SHUTDOWN, TokenMiddleware
from ._shared import imports_of_extra

with imports_of_extra("starlette"):
    from starlette.requests import HTTPConnection  # noqa: TC002 - as above

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["TokenMiddleware", "request_token", "shutdown_token"]


async def request_token(connection: HTTPConnection) -> CancellationToken:
    """Return the token of a request, as a dependency of FastAPI.

    It is what ``request.state.request_token`` is: cancelled when the client goes away, on shutdown,
    and when the request has ended.

    Raises:
        RuntimeError: The application has no ``TokenMiddleware``.

    Example:
        >>> from typing import Annotated
        >>> from backoff_ticker import CancellationToken
        >>> from backoff_ticker.integrations.starlette import request_token
        >>> from fastapi import Depends
        >>> RequestToken = Annotated[CancellationToken, Depends(request_token)]
        >>> def price(token: RequestToken):  # an endpoint
        ...     return token.wait(30)
    """
    return _token(connection, REQUEST)


async def shutdown_token(connection: HTTPConnection) -> CancellationToken:
    """Return the token of the server, as a dependency of FastAPI, like ``request_token``.

    It is what ``request.state.shutdown_token`` is: cancelled as soon as the server is told to stop.
    """
    return _token(connection, SHUTDOWN)


def _token(connection: HTTPConnection, name: str) -> CancellationToken:
    token: Any = getattr(connection.state, name, None)
    if token is None:
        raise RuntimeError(f"there is no {name}: call app.add_middleware(TokenMiddleware)")
    return token
