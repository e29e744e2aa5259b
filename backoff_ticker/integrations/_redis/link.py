"""A link to a channel of Redis, in both directions, that is made again whenever it fails."""

from __future__ import annotations

import atexit
import socket
import threading
from typing import TYPE_CHECKING

from ... import FullJitterBackOff
from ..._errors import ChannelClosed, WouldBlock
from ...cancellation import CancellationToken, any_of
from ...channels import Channel
from ...tickers import Pace, Ticker
from .._shared import after_fork, as_seconds, check_name, loop_runs, shown_text
from .client import CLOCK, LOGGER, Outage, check_client, make_connection

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any

    from redis import Redis

    from ...policies import BackOff

RECONNECT = FullJitterBackOff(0.1, 5.0)
FLUSH = 5.0  # seconds for which a link that is closed goes on telling, unless told otherwise
_TIDY = 0.1  # seconds in which the teller ends if it can be woken; as it connects, it cannot
_SILENCE = "Redis does not answer"
_links: set[Link] = set()


class Link:
    """Hears the messages of one channel, and tells Redis what this process knows.

    It has two daemon threads, each with a connection of its own. The *listener* subscribes, calls
    ``hear()``, and reconnects at the pace of a ticker. The *teller* calls ``exchange()`` once the
    listener has subscribed, so no change is missed, after each ``tell()``, and every
    ``max(1, socket_timeout)`` seconds, in case Redis has forgotten. If one connection fails, both
    are made again. A Redis that stops answering is noticed within
    ``socket_timeout + max(1, socket_timeout)`` seconds.
    """

    def __init__(
        self, client: Redis, kind: str, name: str, script: str, backoff: BackOff | None = None
    ) -> None:
        check_name(name)
        self._socket_timeout = check_client(client)
        self._client = client
        key = f"backoff_ticker:{kind}:{name}"
        # Channels, unlike keys, know no databases.
        self._channel = f"{key}@{client.connection_pool.connection_kwargs.get('db') or 0}"
        self._command = "EVAL", script, 1, key, self._channel
        self._title = f"{kind.capitalize()} {name}"
        self._backoff = RECONNECT if backoff is None else backoff
        self._latest = self._told = object()  # marks of the news there are, and of those told

    def exchange(self) -> None:
        """Tell Redis what is known, and learn, by ``ask()``; after an error the link is down."""

    def hear(self, message: bytes) -> object:
        """Take in a message."""

    def note_connection(self, connected: bool) -> None:
        """Be told, with a lock held, that the link is up; or down, also at the start."""

    def start(self) -> None:
        self.closed = CancellationToken(clock=CLOCK)  # by a user, or as the policy has stopped
        self._pace = Ticker(self._backoff, token=self.closed, pace=Pace.RETURN, clock=CLOCK)
        self._news: Channel[None] = Channel(1, clock=CLOCK)
        self._hearing, self._asking = (make_connection(self._client) for _ in range(2))
        self._subscription: object = None  # another one for each time that the listener subscribes
        self._marking = threading.RLock()  # held to say how the connections are
        self._outage = Outage(self._title)
        self._times: tuple[float, float] | None = None  # when it was closed, and until when to tell
        self.up = CancellationToken(clock=CLOCK)  # another one after each failure
        self.tried = CancellationToken(clock=CLOCK)  # to connect for the first time; or closed
        self._ended = CancellationToken(clock=CLOCK)
        self.note_connection(False)
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
    def connected(self) -> bool:
        """Whether the listener has subscribed, and an exchange has succeeded since."""
        return self.up.cancelled and not self.closed.cancelled

    def tell(self) -> None:
        """Have ``exchange()`` called soon: in any thread, loop, signal handler or finalizer."""
        self._latest = object()
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
        self.closed.cancel()
        self.tried.cancel()
        self._news.close()
        _shut(self._hearing)
        if self._told is self._latest:
            _shut(self._asking)

    def let_go(self) -> None:
        """Leave alone what is shared from now on."""

    def close(self, timeout: float | timedelta = FLUSH) -> None:
        """Close the link, and wait until all is told: for as long as the first call has said."""
        seconds = self._end_within(timeout)
        if not loop_runs() and not self._ended.wait(seconds):
            self._report_untold(_SILENCE)

    async def close_async(self, timeout: float | timedelta = FLUSH) -> None:
        if not await self._ended.wait_async(self._end_within(timeout)):
            self._report_untold(_SILENCE)

    def _end_within(self, timeout: float | timedelta) -> float:
        """Close it, and return for how many seconds to wait at most, since the first call."""
        seconds = as_seconds("timeout", timeout)
        now = CLOCK.monotonic()
        closed_at, flush_until = self._times = self._times or (now, now + seconds)
        self.let_go()
        self.end()
        until = closed_at if self._told is self._latest else flush_until
        return max(0.0, until + _TIDY - now)

    def _run_listener(self) -> None:
        try:
            for _ in self._pace:
                try:
                    self._listen()
                except BaseException as error:  # connecting again may help
                    self._mark_down(error)
                self._hearing.disconnect()
            if not self.closed.cancelled:
                LOGGER.error("%s: not shared any more: the policy has stopped", self._title)
        except Exception:
            LOGGER.exception("%s: not shared any more: the policy has failed", self._title)
        finally:
            self.end()

    def _listen(self) -> None:
        """Hear messages until the connection fails or the link is closed."""
        connection = self._hearing
        connection.connect()
        connection.send_command("SUBSCRIBE", self._channel)
        connection.read_response()
        self._subscription = object()
        self._wake_teller()
        is_asked = False
        while not self.closed.cancelled:
            patience = self._socket_timeout if is_asked else max(1.0, self._socket_timeout)
            if connection.can_read(timeout=patience):
                kind, _, data = [*connection.read_response(), None][:3]
                is_asked = False
                if kind == b"message":
                    self.hear(data)
            elif is_asked:
                raise TimeoutError(f"no answer within {self._socket_timeout} s")
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
                    self._asking.disconnect()  # the listener may have moved to another server
                if (problem := self._tell_redis()) is None:
                    self._mark_up(subscription)
                else:
                    self._mark_down(problem)
            if self._told is not self._latest:
                self._flush()
        finally:
            self._asking.disconnect()
            _links.discard(self)
            self._ended.cancel()

    def _flush(self) -> None:
        """Tell what is untold, on a new connection, until it has succeeded or the time is over."""
        until = self._times[1] if self._times else CLOCK.monotonic() + FLUSH
        end = CancellationToken(deadline=until, clock=CLOCK)
        problem: object = _SILENCE
        self._asking.disconnect()
        # Not a retry: the program's default token may be cancelled, and its hooks need not know.
        for _ in Ticker(FullJitterBackOff(0.1, 1.0), token=end, pace=Pace.RETURN, clock=CLOCK):
            if (problem := self._tell_redis()) is None:
                return
        self._report_untold(problem)

    def _tell_redis(self) -> BaseException | None:
        """Tell what is untold; return the error if that fails, and disconnect."""
        untold = self._latest
        try:
            self.exchange()
        except BaseException as error:  # connecting again may help
            self._asking.disconnect()
            return error
        self._told = untold
        return None

    def _report_untold(self, problem: object) -> None:
        # So close() returns, and the program ends, after the teller's report. But a signal handler
        # may have called close() in the middle of what that waits for, such as logging.
        is_locked = self._marking.acquire(timeout=FLUSH)
        try:
            if self._told is not self._latest:
                self._told = self._latest  # one report is enough
                shown = shown_text(str(problem))
                LOGGER.warning("%s: closed before Redis was told: %s", self._title, shown)
        finally:
            if is_locked:
                self._marking.release()

    def ask(self, *arguments: bytes | str | float) -> Any:
        """Run the script; its first argument is the channel. Texts in the answer are bytes."""
        connection = self._asking
        connection.connect()
        connection.send_command(*self._command, *arguments)
        return connection.read_response()

    def _mark_up(self, subscription: object) -> None:
        with self._marking:
            if self.up.cancelled or subscription is None or subscription is not self._subscription:
                return
            self._pace.success()
            self._outage.end()
            self.up.cancel()
            self.note_connection(True)
            self.tried.cancel()

    def _mark_down(self, error: BaseException) -> None:
        with self._marking:
            self._subscription = None
            _shut(self._hearing)
            if self.closed.cancelled:
                return
            self._outage.begin(error)
            if self.up.cancelled:
                self.up = CancellationToken(clock=CLOCK)
                self.note_connection(False)
            self.tried.cancel()


class Linked:
    """What objects have in common that processes share over a link."""

    _link: Link

    @property
    def connected(self) -> bool:
        """Whether changes are shared now: Redis has answered, and nothing has failed since."""
        return self._link.connected

    def wait_until_connected(self, timeout: float | timedelta | None = None) -> bool:
        """Wait until ``connected``: then this process knows all that others have told.

        Wakes when: it is connected (True), or closed. The argument and errors are those of
        ``CancellationToken.wait()``.
        """
        any_of(self._link.up, self._link.closed).wait(timeout)
        return self.connected

    async def wait_until_connected_async(self, timeout: float | timedelta | None = None) -> bool:
        """Do the same in a coroutine."""
        await any_of(self._link.up, self._link.closed).wait_async(timeout)
        return self.connected

    def close(self, timeout: float | timedelta = FLUSH) -> None:
        """Share nothing from now on; what is shared goes on in this process alone.

        It waits until the latest change is told, and goes on telling for ``timeout`` at most:
        seconds >= 0 or a timedelta. In the thread of an event loop it does not wait:
        ``close_async()`` does.
        """
        self._link.close(timeout)

    async def close_async(self, timeout: float | timedelta = FLUSH) -> None:
        """Do the same in a coroutine."""
        await self._link.close_async(timeout)


def _shut(connection: Any) -> None:
    """Wake the thread that is waiting for an answer on a connection."""
    if (sock := getattr(connection, "_sock", None)) is not None:
        try:
            # Not that of a TLS socket, which takes away what the other thread is using.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
        except OSError:
            pass  # it has been disconnected meanwhile


def _restart_all() -> None:
    """Give each link of a forked child threads and connections of its own."""
    for link in _links.copy():
        for connection in (link._hearing, link._asking):
            connection.disconnect()  # the copies only: the parent goes on using its own
        if link.closed.cancelled:
            _links.discard(link)  # the parent has closed it, and tells what is untold
        else:
            link.start()


def _close_all() -> None:
    links = _links.copy()
    for link in links:
        link._end_within(FLUSH)
    for link in links:
        link.close()


after_fork(_restart_all)
atexit.register(_close_all)
