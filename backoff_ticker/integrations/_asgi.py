"""Tokens for ASGI applications: one for the server's shutdown, and one for each request."""

from __future__ import annotations

import asyncio
import threading
from contextlib import nullcontext, suppress
from signal import SIGINT, SIGTERM, getsignal

from .. import CancellationToken, Cancelled, any_of, cancel_on_signals
from ._shared import require_token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping
    from contextlib import AbstractContextManager
    from typing import Any

    Scope = MutableMapping[str, Any]
    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    Application = Callable[[Scope, Receive, Send], Awaitable[None]]

SHUTDOWN = "shutdown_token"
REQUEST = "request_token"
_UNAVAILABLE = b"Service Unavailable"
_HEADERS = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(_UNAVAILABLE))]


class TokenMiddleware:
    """ASGI middleware that gives each request a token, and cancels all of them on shutdown.

    * ``request.state.shutdown_token`` is cancelled as soon as SIGTERM or SIGINT comes, and not
      only when the server has waited for all requests. The server's own handlers run next.
      Functions that have no request, such as the application's lifespan, find it as
      ``app.state.shutdown_token``; it is cancelled before that lifespan ends.
    * ``request.state.request_token`` is its child. It is also cancelled when the client goes away,
      and when the request has ended, background tasks included.

    Functions with and without ``async`` may use both. A request that raises ``Cancelled`` after a
    cancel is answered with 503, if no answer has begun, and a WebSocket is closed with 1001, unless
    the server is faster (uvicorn closes with 1012). If the client has gone away, the error is
    dropped, and middleware outside sees the status 499; it is dropped, too, after the whole answer,
    where a shutdown ends a background task.

    A disconnect is noticed while the application still has to answer, and as soon as the server
    tells. If the request has a body that the application does not read, the server tells nothing:
    at most one message of it is read ahead. The same holds for a WebSocket with unread messages.

    Needs asyncio. Signals are noticed only where the server runs in the main thread, serves the
    lifespan protocol, and has handlers for them in the process of the application: uvicorn, granian
    and gunicorn do; the worker processes of Hypercorn and daphne do not.

    Args:
        app: The application; ``app.add_middleware(TokenMiddleware)`` fills it in.
        token: Cancels ``shutdown_token`` as well.

    Example:
        >>> from backoff_ticker import retry_call
        >>> from backoff_ticker.integrations.starlette import TokenMiddleware
        >>> from starlette.applications import Starlette
        >>> from starlette.responses import PlainTextResponse
        >>> def price(request):  # an endpoint
        ...     found = retry_call(fetch_price, token=request.state.request_token)
        ...     return PlainTextResponse(found)
        >>> app = Starlette()
        >>> app.add_route("/price", price)
        >>> app.add_middleware(TokenMiddleware)
    """

    def __init__(self, app: Application, token: CancellationToken | None = None) -> None:
        if token is not None:
            require_token("token", token)
        self.app = app
        self._parent = token
        self._shutdown = self._new_token()

    def _new_token(self) -> CancellationToken:
        return CancellationToken() if self._parent is None else self._parent.child()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection, or the lifespan; called by the server."""
        if scope["type"] == "lifespan":
            await self._serve_lifespan(scope, receive, send)
        elif scope["type"] in {"http", "websocket"}:
            await self._serve_request(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _serve_lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        shutdown = self._shutdown = self._new_token()
        if (state := getattr(scope.get("app"), "state", None)) is not None:
            setattr(state, SHUTDOWN, shutdown)

        async def receive_watched() -> Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                shutdown.cancel("the server shuts down")
            return message

        try:
            with _cancelled_by_signals(shutdown):
                await self.app(scope, receive_watched, send)
        finally:
            self._shutdown = self._new_token()  # requests may come without a lifespan, or after it
            shutdown.cancel("the lifespan has ended")

    async def _serve_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Changed in place, as middleware outside may have it; servers make one for each request.
        state = scope.setdefault("state", {})
        shutdown = self._shutdown
        if SHUTDOWN in state:  # of an application in which this one is mounted
            shutdown = any_of(shutdown, state[SHUTDOWN])
        with shutdown.child() as token:
            state.update({SHUTDOWN: shutdown, REQUEST: token})
            connection = _Connection(scope, receive, send, token)
            try:
                await self.app(scope, connection.receive, connection.send)
            except (Cancelled, ExceptionGroup) as error:
                if not token.cancelled or not is_cancel(error):
                    raise
                if not connection.has_begun:
                    await connection.refuse()
                elif not (connection.has_left or connection.has_answered):
                    raise
            finally:
                connection.close()


def is_cancel(error: Exception) -> bool:
    """Return whether an error is a ``Cancelled``, or all errors of a task group are."""
    return ExceptionGroup("", [error]).split(Cancelled)[1] is None


def _cancelled_by_signals(token: CancellationToken) -> AbstractContextManager[object]:
    """Cancel a token in front of the server's handlers; without any, signals end the process."""
    handled = [number for number in (SIGTERM, SIGINT) if callable(getsignal(number))]
    if not handled or threading.current_thread() is not threading.main_thread():
        return nullcontext()
    return cancel_on_signals(*handled, token=token, chain=True)


class _Connection:
    """A connection that is read one message ahead, so that a disconnect is noticed."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, token: CancellationToken
    ) -> None:
        self.has_begun = False  # the answer; a WebSocket: it is closed
        self.has_left = False  # the client, before the end of the answer
        self.has_answered = False  # with all of the answer
        self._type = scope["type"]
        self._receive = receive
        self._send = send
        self._token = token
        self._messages: asyncio.Queue[Message | Exception] = asyncio.Queue()
        self._taken = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        # To read is to tell a client with "Expect: 100-continue" that its body is wanted.
        if all(name != b"expect" for name, _ in scope.get("headers", ())):
            self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            while True:
                message = await self._receive()
                kind = message["type"]
                has_ended = kind in {"http.disconnect", "websocket.disconnect"}
                if has_ended and not self.has_answered:
                    self.has_left = True
                    self._token.cancel("the client has disconnected")
                self._messages.put_nowait(message)
                if has_ended:
                    return
                if kind != "http.request" or message.get("more_body", False):
                    self._taken.clear()
                    await self._taken.wait()
        except Exception as error:  # raised to whoever receives next
            self._messages.put_nowait(error)

    async def receive(self) -> Message:
        if self._reader is None:
            self._reader = asyncio.create_task(self._read())
        message = await self._messages.get()
        self._taken.set()
        if isinstance(message, Exception) or message["type"].endswith(".disconnect"):
            self._messages.put_nowait(message)  # it stays the last one
        if isinstance(message, Exception):
            raise message
        return message

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if kind in {"http.response.start", "websocket.close"}:
            self.has_begun = True
        is_last_part = kind == "http.response.body" and not message.get("more_body", False)
        if is_last_part or kind == "http.response.pathsend":
            self.has_answered = True  # from now on the server calls it a disconnect
        if kind == "websocket.close":  # so does it here, and granian sends none while one receives
            self.close(message.get("code", 1000))
            await asyncio.sleep(0)
        await self._send(message)

    async def refuse(self) -> None:
        """Answer a request that was cut short."""
        if self._type == "http":
            # Nobody gets the 499, but middleware outside may insist on an answer, or log it.
            start = {"status": 499 if self.has_left else 503, "headers": _HEADERS}
            with suppress(OSError):  # servers may refuse to send to a client that has left
                await self.send({"type": "http.response.start", **start})
                await self.send({"type": "http.response.body", "body": _UNAVAILABLE})
        elif not self.has_left:
            await self.send({"type": "websocket.close", "code": 1001})

    def close(self, code: int = 1006) -> None:
        """Read no more, and tell those who receive, such as tasks that outlive the request."""
        if self._reader is not None:
            self._reader.cancel()
        self._messages.put_nowait({"type": f"{self._type}.disconnect", "code": code})
