"""``RedisCircuitBreaker``: processes tell each other when their circuits open and close."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from ..circuits import CircuitBreaker
from ._checks import as_seconds, check_name
from ._redis_circuit import SharedCircuit
from ._redis_link import CLOCK, FLUSH

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta
    from types import UnionType

    from redis import Redis

    from .._errors import CircuitState
    from ..policies import BackOff

    Hook = Callable[[CircuitState, CircuitState, CircuitBreaker], object]


class RedisCircuitBreaker(CircuitBreaker):
    """A ``CircuitBreaker`` that all processes share which give it the same name.

    A process that opens or closes the circuit tells the others through Redis; they hear it within
    about one round trip. The probes of a half-open circuit are made by one process at a time. Calls
    and failures are not shared: each process counts its own, and no call waits for Redis.

    Use it as any breaker: ``with breaker:``, ``async with breaker:``, ``@breaker``, or the option
    ``breaker=`` of a retry.

    Example:
        >>> import redis
        >>> from backoff_ticker.integrations.redis import RedisCircuitBreaker
        >>> client = redis.Redis(socket_timeout=1)
        >>> breaker = RedisCircuitBreaker(client, "payments", failures=3)
        >>> with breaker:
        ...     print("paid")
        paid
        >>> breaker.close()

    Who opens it: the first process whose own failures reach the threshold. It stays open in all
    processes for the delay of that process's policy; the policies of the others move on with it, so
    the delays grow as if there was one policy.

    Who probes: a process that wants to asks Redis in the background, and its call is refused; if
    Redis grants it, its next calls are the probes. If none comes within 5 s, or twice the time
    between its calls, another process may probe. A process that ends while it probes keeps the
    others from it for ``probe_timeout``, and at least 5 s; calls that are rarer than
    ``probe_timeout`` are not coordinated.

    Two changes at the same time: the first that Redis hears of wins. ``open()`` and ``reset()`` are
    shared as well, and win always. A circuit that is open until ``reset()`` is open for programs
    that start later, too, unless no process has used it for a day.

    Without Redis, each process goes on with its own circuit, as if the others did not exist. Once
    Redis is back, with its data or without, they agree again. A program that starts while the
    circuit is open may make calls until it has connected: ``wait_until_connected()`` prevents that.

    Thread safety: as that of ``CircuitBreaker``. ``on_change`` is called for changes of other
    processes, too, in a thread of the breaker. A forked child connects by itself.

    Args:
        client: A ``redis.Redis`` with a ``socket_timeout``, or what ``Sentinel.master_for()``
            returns; it serves event loops as well. Its options are used, but not its connections,
            nor its retries.
        name: What the processes call the circuit, such as the name of the service.
        backoff: As for ``CircuitBreaker``, like the options that follow.
        on: The failures.
        failures: How many failures in a row, in one process, open the circuit.
        failure_rate: The share of failures that opens the circuit instead.
        window_calls: The share is that of the last calls, this many.
        window: The share is that of the calls that ended in this time: seconds or a timedelta.
        minimum_calls: How many calls there have to be.
        probes: How many probes may run at once, in all processes together.
        successes: How many probes of one process have to succeed to close the circuit.
        probe_timeout: How long a probe keeps its place, in seconds or a timedelta.
        on_change: A function, or several, called as ``f(old, new, breaker)`` after each change.

    Raises:
        TypeError, ValueError: An argument is invalid, or the client has no ``socket_timeout``.
    """

    __slots__ = ("_shared",)

    _kind = "a RedisCircuitBreaker"

    def __init__(  # noqa: PLR0913 - the options
        self,
        client: Redis,
        name: str,
        backoff: BackOff | None = None,
        *,
        on: type[Exception]
        | tuple[type[Exception], ...]
        | UnionType
        | Mapping[type[Exception], bool]
        | Callable[[Exception], bool] = Exception,
        failures: int | None = None,
        failure_rate: float | None = None,
        window_calls: int | None = None,
        window: float | timedelta | None = None,
        minimum_calls: int | None = None,
        probes: int = 1,
        successes: int = 1,
        probe_timeout: float | timedelta = 60.0,
        on_change: Hook | list[Hook] | tuple[Hook, ...] | None = None,
    ) -> None:
        check_name(name)
        self._shared = shared = SharedCircuit(self, name)
        others = () if on_change is None else on_change
        super().__init__(
            backoff,
            on=on,
            failures=failures,
            failure_rate=failure_rate,
            window_calls=window_calls,
            window=window,
            minimum_calls=minimum_calls,
            probes=probes,
            successes=successes,
            probe_timeout=probe_timeout,
            may_probe=shared.may_probe,
            on_change=(
                shared.changed,
                *(others if isinstance(others, (list, tuple)) else [others]),
            ),
            clock=CLOCK,
        )
        shared.connect(client, probe_timeout)
        weakref.finalize(self, shared.link.end).atexit = False  # the link sees to that

    @property
    def connected(self) -> bool:
        """Whether changes are shared now: Redis has answered, and nothing has failed since."""
        return self._shared.link.connected

    def wait_until_connected(self, timeout: float | timedelta | None = None) -> bool:
        """Wait until ``connected`` is true: then the circuit is as it is elsewhere.

        It is for programs that make only a few calls. Others go on as they are.

        Args:
            timeout: Seconds >= 0 or a timedelta; None means no limit.

        Returns:
            Whether it is connected.

        Raises:
            TypeError, ValueError: ``timeout`` is not a finite duration >= 0.
            RuntimeError: It has to wait, and an event loop runs in this thread.
        """
        self._shared.link.until_connected().wait(timeout)
        return self.connected

    async def wait_until_connected_async(self, timeout: float | timedelta | None = None) -> bool:
        """Do the same in a coroutine."""
        await self._shared.link.until_connected().wait_async(timeout)
        return self.connected

    def open(self, seconds: float | timedelta | None = None) -> None:
        """Open the circuit in all processes: for some seconds, or until ``reset()``.

        Args:
            seconds: How long, from now: seconds > 0 or a timedelta. None: until ``reset()``.

        Raises:
            TypeError, ValueError: ``seconds`` is invalid.
            Exception: The policy failed when it was asked; the circuit is open all the same.
        """
        with self._shared.by_hand():
            super().open(seconds)

    def reset(self) -> None:
        """Close the circuit in all processes, whatever its state."""
        with self._shared.by_hand():
            super().reset()

    def close(self, timeout: float | timedelta = FLUSH) -> None:
        """Share no more changes; the circuit goes on as one of this process alone.

        It waits until the latest change is told. In the thread of an event loop it does not wait:
        ``close_async()`` does.

        Args:
            timeout: For how long to wait and to go on telling: seconds >= 0 or a timedelta.

        Raises:
            TypeError, ValueError: ``timeout`` is not a finite duration >= 0.
        """
        self._shared.link.close(as_seconds("timeout", timeout, zero=True))

    async def close_async(self, timeout: float | timedelta = FLUSH) -> None:
        """Do the same in a coroutine."""
        await self._shared.link.close_async(as_seconds("timeout", timeout, zero=True))
