"""``RedisCancellationToken``: a cancel in one process cancels tokens in others."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from ... import CancellationToken, DeadlineExceeded
from .._shared import as_positive_seconds, escaped, require_token, shown_error
from .client import CLOCK, LONGEST, as_whole
from .link import FLUSH, Link, Linked

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from redis import Redis

    from ...clock import TimerHandle
    from ...policies import BackOff

_LONGEST_CAUSE = 1000  # characters, each of which is of 4 bytes at most

# ARGV: the channel; if this process knows of a cancel, its cause, and for how many ms to keep it.
# Returns the cause that was stored before, and its time.
_TELL_OR_LEARN = """
local cause = redis.call("GET", KEYS[1])
if cause then return {string.sub(cause, 1, 4000), redis.call("PTTL", KEYS[1])} end
if ARGV[2] then
    redis.call("PUBLISH", ARGV[1], ARGV[2])  -- first, since a Redis that is full stores nothing
    redis.call("SET", KEYS[1], ARGV[2], "PX", ARGV[3])
end
return false
"""


class RedisCancellationToken(Linked):
    """Cancels the tokens of one name on all machines, as soon as one of them is cancelled.

    ``token`` is an ordinary token. Its cancel, in any thread, event loop or signal handler, cancels
    its twins: the tokens of objects with the same name, in the same database of Redis. It waits for
    nothing: two threads do the rest. A process that starts later finds its token cancelled.

    Use it in a ``with`` block, or ``async with``. The block begins as soon as Redis has said
    whether the token is cancelled, or cannot be reached; after at most 5 s. At its end, and at that
    of the program, a cancel that is not yet told is told, for at most 5 s.

    Told is a cancel of ``token`` itself, not of ``parent``, nor a deadline that passes, with the
    first 1000 characters of its cause: a text, or the ``repr`` of an exception. After two cancels
    at the same moment, processes may have different causes.

    While Redis is gone, the token is an ordinary one. A cancel is told as soon as Redis is back,
    even without its data, by any process that knows of it and still has its object open.

    Thread safety: any thread, and forked children.

    Args:
        client: A ``redis.Redis`` with a ``socket_timeout`` and a ``socket_connect_timeout``, also
            of ``Sentinel.master_for()``. Its options are used, not its retries.
        name: What the twins have in common, such as the number of a job. A name serves for one
            cancel: a token that uses it again within ``keep_for`` is cancelled at once.
        parent: A token whose cancel cancels ``token`` as well.
        keep_for: How long a cancel is stored, for processes that start later: seconds > 0 or a
            timedelta.
        cancel_if_gone_for: Cancel ``token``, in this process only, if Redis has been out of reach
            for this time: seconds > 0 or a timedelta. None means never.
        backoff: When to connect again. None means at random times up to 5 s apart. If it stops, or
            fails, the connection is given up.

    Example:
        >>> from backoff_ticker.integrations.redis import RedisCancellationToken
        >>> def run_import(client, number):  # on many machines
        ...     with RedisCancellationToken(client, f"import-{number}") as token:
        ...         for part in parts_of(number):
        ...             token.raise_if_cancelled()
        ...             load(part)
        >>> def stop_import(client, number):  # on any machine
        ...     with RedisCancellationToken(client, f"import-{number}") as token:
        ...         token.cancel("stopped by the operator")
    """

    def __init__(
        self,
        client: Redis,
        name: str,
        *,
        parent: CancellationToken | None = None,
        keep_for: float | timedelta = 86_400.0,
        cancel_if_gone_for: float | timedelta | None = None,
        backoff: BackOff | None = None,
    ) -> None:
        if parent is not None:
            require_token("parent", parent)
        kept = as_positive_seconds("keep_for", keep_for)
        patience = None
        if cancel_if_gone_for is not None:
            patience = as_positive_seconds("cancel_if_gone_for", cancel_if_gone_for)
        self.token: CancellationToken = CancellationToken() if parent is None else parent.child()
        self._link = twin = _Twin(client, name, backoff, self.token, parent, kept, patience)
        twin.start()
        # The threads neither keep alive a token that nobody uses any more, nor outlive it.
        weakref.finalize(self.token, twin.end).atexit = False
        self.token.on_cancel(twin.on_cancel)

    def _require_open(self) -> None:
        if self._link.closed.cancelled:
            raise RuntimeError("a RedisCancellationToken that was closed cannot be used again")

    def __enter__(self) -> CancellationToken:
        self._require_open()
        self._link.tried.wait(FLUSH)
        return self.token

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> CancellationToken:
        self._require_open()
        await self._link.tried.wait_async(FLUSH)
        return self.token

    async def __aexit__(self, *_: object) -> None:
        await self.close_async()


class _Twin(Link):
    """What its threads keep: what is known of the cancel, but not the token itself."""

    def __init__(
        self,
        client: Redis,
        name: str,
        backoff: BackOff | None,
        token: CancellationToken,
        parent: CancellationToken | None,
        keep_for: float,
        patience: float | None,
    ) -> None:
        super().__init__(client, "token", name, _TELL_OR_LEARN, backoff)
        self._token: Callable[[], CancellationToken | None] = weakref.ref(token)
        self._parent = (lambda: None) if parent is None else weakref.ref(parent)
        self._keep_for = keep_for
        self._patience = patience
        self._gone = f"Redis was out of reach for {patience or 0.0:g} s"
        self._timer: TimerHandle | None = None
        self._known: tuple[bytes, float] | None = None  # a cause, and until when it is stored

    def on_cancel(self) -> None:
        """Tell a cancel of the token itself, in its thread, unless the twins have told of it."""
        token, parent = self._token(), self._parent()
        if token is None or self._known is not None:
            return  # others have told us
        cause = token.cause
        is_parents = parent is not None and parent.cancelled and parent.cause is cause
        if is_parents or cause is self._gone or isinstance(cause, DeadlineExceeded):
            return
        text = shown_error(cause) if isinstance(cause, BaseException) else cause or ""
        encoded = text[:_LONGEST_CAUSE].encode("utf-8", "replace")
        self._known = (encoded, CLOCK.monotonic() + self._keep_for)
        self.tell()

    def exchange(self) -> None:
        """Tell what is known, or learn what is stored."""
        arguments: list[bytes | int] = []
        if self._known is not None:
            text, until = self._known
            milliseconds = round((until - CLOCK.monotonic()) * 1000)
            if milliseconds > 0:
                arguments += [text, min(milliseconds, LONGEST)]
        if stored := self.ask(*arguments):
            left = as_whole(stored[1], LONGEST, -2) / 1000
            self.hear(stored[0], left if left > 0 else None)

    def hear(self, message: bytes, seconds: float | None = None) -> None:
        cause = message[: 4 * _LONGEST_CAUSE].decode("utf-8", "replace")[:_LONGEST_CAUSE]
        self._known = (cause.encode(), CLOCK.monotonic() + (seconds or self._keep_for))
        if (token := self._token()) is not None:
            token.cancel(escaped(cause) or None)

    def note_connection(self, connected: bool) -> None:
        """Let the time begin, or end, for which Redis is out of reach."""
        if self._timer is not None:
            self._timer.cancel()
        if self._patience is not None and not connected:
            self._timer = CLOCK.call_at(CLOCK.monotonic() + self._patience, self._give_up)

    def _give_up(self) -> None:
        token = self._token()
        if token is not None and not self.connected:
            token.cancel(self._gone)

    def let_go(self) -> None:
        """Leave the token alone from now on."""
        token = self._token()
        if token is not None and token.cancelled:
            self.on_cancel()  # whoever cancels it may not have come to the callback yet
        self._token = lambda: None
        if self._timer is not None:
            self._timer.cancel()
