"""A link to a channel of Redis, in both directions, that is made again whenever it fails."""

from __future__ import annotations

import atexit
import logging
import os
import socket
import threading
from typing import TYPE_CHECKING

from ... import FullJitterBackOff
from ..._errors import ChannelClosed, WouldBlock
from ...cancellation import CancellationToken, any_of
from ...channels import Channel
from ...clock import SystemClock
from ...tickers import Pace, Ticker
from .._shared import as_seconds
from .client import check_client, make_connection

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from typing import Any

    from redis import Redis

    from ...policies import BackOff
    from .client import Connection

    Ask = Callable[..., Any]
    """Takes what a script finds in ``ARGV``; returns the answer, whose texts are bytes."""


CLOCK = SystemClock()  # Redis answers in real time, whatever clock a program has set
FLUSH = 5.0  # seconds for which a link that is closed goes on telling, unless told otherwise
_TIDY = 0.1  # seconds in which threads end that can be woken; one that is connecting cannot
_logger = logging.getLogger("backoff_ticker")
_links: set[Link] = set()


class Link:
    """Hears the messages of one channel, and tells Redis what this process knows.

    It has two daemon threads, each with a connection of its own. The *listener* subscribes, reads,
    and reconnects at the pace of a ticker. The *teller* calls ``exchange``, which runs one script:
    it tells Redis what this process knows and returns what is stored there. It is called

    - after each (re)connect, once the listener has subscribed, so that no change is missed between;
    - after each ``tell()``, until it has succeeded or the next one comes;
    - every ``max(1, socket_timeout)`` seconds, in case Redis has forgotten.

    If one connection fails, the link is down, and the listener connects both again. A Redis that
    stops answering is noticed within ``socket_timeout + max(1, socket_timeout)`` seconds.

    In a forked child the link starts again with threads and connections of its own.

    Args:
        client: Says how to connect; the client's own retries are not used.
        key: The key of the script. The channel is named after it and the client's database:
            channels, unlike keys, know no databases.
        script: Finds the channel in ``ARGV[1]``.
        title: What log messages call that which is shared.
        exchange: Called in the teller with a function that runs the script with more arguments.
            Any error means that the link is down.
        on_message: Called in the listener with the bytes of a message.
        on_connection: Called, with a lock held, when the link is up (True) or down (False, also at
            the start).
        backoff: When to connect again; a link whose policy stops is closed.
    """

    def __init__(  # noqa: PLR0913
        self,
        client: Redis,
        key: str,
        script: str,
        *,
        title: str,
        exchange: Callable[[Ask], None],
        on_message: Callable[[bytes], object],
        on_connection: Callable[[bool], None],
        backoff: BackOff | None = None,
    ) -> None:
        self._timeout = check_client(client)
        self._client = client
        self._channel = f"{key}@{client.connection_pool.connection_kwargs.get('db') or 0}"
        self._command = "EVAL", script, 1, key, self._channel
        self._title = title
        self._exchange = exchange
        self._on_message = on_message
        self._on_connection = on_connection
        self._backoff = FullJitterBackOff(0.1, 5.0) if backoff is None else backoff
        self._untold = self._told = object()  # marks of what was to be told, and has been told
        self._start()

    def _start(self) -> None:
        self._stop = CancellationToken(clock=CLOCK)  # of a link that was closed
        self._pace = Ticker(self._backoff, token=self._stop, pace=Pace.RETURN, clock=CLOCK)
        self._news: Channel[None] = Channel(1, clock=CLOCK)
        self._listening, self._telling = (make_connection(self._client) for _ in range(2))
        self._subscription: object = None  # another one for each time that the listener subscribes
        self._lock = threading.RLock()  # of what the two threads say about the connections
        self._is_reported = False
        # Under 0, what the first thread that closes it has said: when, and until when to tell.
        self._closed: dict[int, tuple[float, float]] = {}
        self._may_report = threading.Lock()  # taken by the first who reports what is untold
        self._up = CancellationToken(clock=CLOCK)
        self._tried = CancellationToken(clock=CLOCK)
        self._listener_ended, self._ended = (CancellationToken(clock=CLOCK) for _ in range(2))
        self._on_connection(False)  # noqa: FBT003
        _links.add(self)
        name = f"backoff_ticker {self._channel}"
        try:
            for run in (self._run_listener, self._run_teller):
                threading.Thread(target=run, name=name, daemon=True).start()
        except BaseException:
            _links.discard(self)
            self.end()
            raise

    @property
    def closed(self) -> bool:
        """Whether it was closed, or its policy has ended."""
        return self._stop.cancelled

    @property
    def connected(self) -> bool:
        """Whether the listener has subscribed, and an exchange has succeeded since."""
        return self._up.cancelled and not self._stop.cancelled

    def until_connected(self) -> CancellationToken:
        """Return a token that is cancelled once the link is up, or closed."""
        return any_of(self._up, self._stop)

    def until_tried(self) -> CancellationToken:
        """Return a token that is cancelled once the first try has ended, or the link is closed."""
        return any_of(self._tried, self._stop)

    def tell(self) -> None:
        """Have ``exchange`` called soon: in any thread, loop, signal handler or finalizer."""
        self._untold = object()
        self._wake_teller()

    def _wake_teller(self) -> None:
        try:
            self._news.send_nowait(None)
        except (WouldBlock, ChannelClosed):
            pass  # it has not yet begun what it was woken for; or the link is closed

    def end(self) -> None:
        """Close the link without waiting; what is untold is told for up to ``FLUSH`` seconds.

        It may be called in any thread, signal handler or finalizer, and more than once.
        """
        self._stop.cancel()
        self._news.close()
        _shut(self._listening)
        if self._told is self._untold:
            _shut(self._telling)

    def close(self, timeout: float = FLUSH) -> None:
        """Close the link, and wait until all is told and both threads have ended.

        It waits for ``timeout`` seconds at most, as the first call has said; if nothing is untold,
        for a moment; in the thread of an event loop, not at all.
        """
        try:
            has_ended = self._ended.wait(self._end_within(timeout))
        except RuntimeError:
            return  # an event loop runs in this thread
        if not has_ended:
            self._report_untold("Redis does not answer")

    async def close_async(self, timeout: float = FLUSH) -> None:
        """Do the same in a coroutine."""
        if not await self._ended.wait_async(self._end_within(timeout)):
            self._report_untold("Redis does not answer")

    def _end_within(self, timeout: float) -> float:
        """Close it, and return for how many seconds to wait at most, since the first call."""
        now = CLOCK.monotonic()
        closed_at, flush_until = self._closed.setdefault(0, (now, now + timeout))
        self.end()
        until = closed_at if self._told is self._untold else flush_until
        return max(0.0, until + _TIDY - now)

    def _run_listener(self) -> None:
        try:
            for _ in self._pace:
                try:
                    self._listen()
                except BaseException as error:  # noqa: BLE001 - connecting again may help
                    self._mark_down(error)
                self._listening.disconnect()
            if not self._stop.cancelled:
                _logger.error("%s: not shared any more: the policy has stopped", self._title)
        except Exception:
            _logger.exception("%s: not shared any more: the policy has failed", self._title)
        finally:
            self.end()
            self._listener_ended.cancel()

    def _listen(self) -> None:
        """Hear messages until the connection fails or the link is closed."""
        connection = self._listening
        connection.connect()
        connection.send_command("SUBSCRIBE", self._channel)
        connection.read_response()
        self._subscription = object()
        self._wake_teller()
        is_asked = False
        while not self._stop.cancelled:
            patience = self._timeout if is_asked else max(1.0, self._timeout)
            if connection.can_read(timeout=patience):
                kind, _, data = [*connection.read_response(), None][:3]
                is_asked = False
                if kind == b"message":
                    self._on_message(data)
            elif is_asked:
                raise TimeoutError(f"no answer within {self._timeout} s")
            else:
                connection.send_command("PING")
                is_asked = True
                self._wake_teller()

    def _run_teller(self) -> None:
        try:
            before: object = None
            for _ in self._news:
                subscription = self._subscription
                if subscription is not before:
                    before = subscription
                    self._telling.disconnect()  # the listener may have moved to another server
                problem = self._tell_redis()
                if problem is None:
                    self._mark_up(subscription)
                else:
                    self._mark_down(problem)
            if self._told is not self._untold:
                self._flush()
        finally:
            self._telling.disconnect()
            self._listener_ended.wait(_TIDY)
            _links.discard(self)
            self._ended.cancel()

    def _flush(self) -> None:
        """Tell what is untold, on a new connection, until it has succeeded or the time is over."""
        now = CLOCK.monotonic()
        _, until = self._closed.get(0, (now, now + FLUSH))
        end = CancellationToken(deadline=until, clock=CLOCK)
        problem: object = None
        self._telling.disconnect()
        # Not a retry: the program's default token may be cancelled, and its hooks need not know.
        for _ in Ticker(FullJitterBackOff(0.1, 1.0), token=end, pace=Pace.RETURN, clock=CLOCK):
            problem = self._tell_redis()
            if problem is None:
                return
        self._report_untold(problem)

    def _tell_redis(self) -> BaseException | None:
        """Tell what is untold; return the error if that fails, and disconnect."""
        untold = self._untold
        try:
            self._exchange(self._ask)
        except BaseException as error:  # noqa: BLE001 - connecting again may help
            self._telling.disconnect()
            return error
        self._told = untold
        return None

    def _report_untold(self, problem: object) -> None:
        if self._told is not self._untold and self._may_report.acquire(blocking=False):
            _logger.warning("%s: closed before Redis was told: %s", self._title, problem)

    def _ask(self, *arguments: bytes | str | float) -> Any:  # noqa: ANN401
        connection = self._telling
        connection.connect()
        connection.send_command(*self._command, *arguments)
        return connection.read_response()

    def _mark_up(self, subscription: object) -> None:
        with self._lock:
            if self._up.cancelled or subscription is None or subscription is not self._subscription:
                return
            self._pace.success()
            if self._is_reported:
                self._is_reported = False
                _logger.info("%s: shared again", self._title)
            self._on_connection(True)  # noqa: FBT003
            self._up.cancel()
            self._tried.cancel()

    def _mark_down(self, error: BaseException) -> None:
        with self._lock:
            self._subscription = None
            _shut(self._listening)
            if self._stop.cancelled:
                return
            if not self._is_reported:
                self._is_reported = True
                _logger.warning("%s: not shared, as Redis fails: %s", self._title, error)
            if self._up.cancelled:
                self._up = CancellationToken(clock=CLOCK)
                self._on_connection(False)  # noqa: FBT003
            self._tried.cancel()


class Linked:
    """What objects have in common that processes share over a link."""

    __slots__ = ()

    _link: Link

    @property
    def connected(self) -> bool:
        """Whether changes are shared now: Redis has answered, and nothing has failed since."""
        return self._link.connected

    def wait_until_connected(self, timeout: float | timedelta | None = None) -> bool:
        """Wait until ``connected`` is true: then this process knows all that others have told.

        Wakes when: it is connected, or closed.

        Args:
            timeout: Seconds >= 0 or a timedelta; None means no limit.

        Returns:
            Whether it is connected.

        Raises:
            TypeError, ValueError: ``timeout`` is not a finite duration >= 0.
            RuntimeError: It has to wait, and an event loop runs in this thread.
        """
        self._link.until_connected().wait(timeout)
        return self.connected

    async def wait_until_connected_async(self, timeout: float | timedelta | None = None) -> bool:
        """Do the same in a coroutine."""
        await self._link.until_connected().wait_async(timeout)
        return self.connected

    def close(self, timeout: float | timedelta = FLUSH) -> None:
        """Share nothing from now on; what is shared goes on in this process alone.

        It waits until the latest change is told. In the thread of an event loop it does not wait:
        ``close_async()`` does.

        Args:
            timeout: For how long to wait and to go on telling: seconds >= 0 or a timedelta.

        Raises:
            TypeError, ValueError: ``timeout`` is not a finite duration >= 0.
        """
        seconds = as_seconds("timeout", timeout, zero=True)
        self._let_go()
        self._link.close(seconds)

    async def close_async(self, timeout: float | timedelta = FLUSH) -> None:
        """Do the same in a coroutine."""
        seconds = as_seconds("timeout", timeout, zero=True)
        self._let_go()
        await self._link.close_async(seconds)

    def _let_go(self) -> None:
        """Prepare the end of the link."""


def _shut(connection: Connection) -> None:
    """Wake the thread that is waiting for an answer on a connection."""
    sock = getattr(connection, "_sock", None)
    if sock is not None:
        try:
            # Not that of a TLS socket, which takes away what the other thread is using.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
        except OSError:
            pass  # it has been disconnected meanwhile


def _drop(connection: Connection) -> None:
    """Close a forked child's copy of a connection that its parent goes on using."""
    sock = getattr(connection, "_sock", None)
    if sock is not None and sock.fileno() >= 0:
        os.close(sock.detach())


def _restart_all() -> None:
    """Give each link of a forked child threads and connections of its own."""
    for link in _links.copy():
        _drop(link._listening)
        _drop(link._telling)
        if link._stop.cancelled:
            _links.discard(link)  # the parent has closed it, and tells what is untold
        else:
            link._start()


def _close_all() -> None:
    links = _links.copy()
    for link in links:
        link._end_within(FLUSH)
    for link in links:
        link.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restart_all)
atexit.register(_close_all)
