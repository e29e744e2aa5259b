"""``RedisCircuitBreaker``: processes tell each other when their circuits open and close."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from ... import CircuitBreaker
from .._shared import check_name
from .circuit import SharedCircuit
from .link import CLOCK, Linked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta
    from types import UnionType
    from typing import TypedDict, Unpack

    from redis import Redis

    from ..._errors import CircuitState
    from ...policies import BackOff

    Hook = Callable[[CircuitState, CircuitState, CircuitBreaker], object]

    class CircuitOptions(TypedDict, total=False):
        """Those of ``CircuitBreaker``."""

        on: (
            type[Exception]
            | tuple[type[Exception], ...]
            | UnionType
            | Mapping[type[Exception], bool]
            | Callable[[Exception], bool]
        )
        failures: int | None
        failure_rate: float | None
        window_calls: int | None
        window: float | timedelta | None
        minimum_calls: int | None
        probes: int
        successes: int
        probe_timeout: float | timedelta
        on_change: Hook | list[Hook] | tuple[Hook, ...] | None


class RedisCircuitBreaker(Linked, CircuitBreaker):
    """A ``CircuitBreaker`` that is shared by all processes that give it the same name.

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

    The first process whose own failures reach the threshold opens it, in all processes, for the
    delay of that process's policy. The policies of the others move on with it, so the delays grow
    as if there was one policy.

    A process that wants to probe asks Redis in the background, and refuses that call; if Redis
    agrees, its next calls are the probes. If none comes within 5 s, or twice the time between its
    calls, another process may probe. A process that ends while it probes keeps the others from it
    for ``probe_timeout``, and at least 5 s. Calls that are rarer than ``probe_timeout`` are not
    coordinated.

    Of two changes at the same time, the first that Redis hears of wins. ``open()`` and ``reset()``
    always win. A circuit that is open until ``reset()`` is open for programs that start later, too,
    unless no process has used it for a day.

    Without Redis, each process goes on with its own circuit. Once Redis is back, with its data or
    without, they agree again. A program that starts while the circuit is open may make calls until
    it has connected: ``wait_until_connected()`` prevents that.

    Thread safety: any thread. ``on_change`` is also called for changes of other processes, in a
    thread of the breaker. A forked child connects by itself.

    Args:
        client: A ``redis.Redis`` with a ``socket_timeout``, or what ``Sentinel.master_for()``
            returns; it serves event loops as well. Only its options are used: the connections are
            separate, and nothing is retried by the client.
        name: What the processes call the circuit, such as the name of the service.
        backoff: As for ``CircuitBreaker``.
        **options: Those of ``CircuitBreaker`` other than ``clock`` and ``may_probe``. ``failures``
            and ``failure_rate`` count the calls of one process, and ``successes`` its probes;
            ``probes`` is for all processes together.

    Raises:
        TypeError, ValueError: An argument is invalid, or the client has no ``socket_timeout``.
    """

    __slots__ = ("_link", "_shared")

    _kind = "a RedisCircuitBreaker"

    def __init__(
        self,
        client: Redis,
        name: str,
        backoff: BackOff | None = None,
        **options: Unpack[CircuitOptions],
    ) -> None:
        check_name(name)
        self._shared = shared = SharedCircuit(self, name)
        hooks = options.get("on_change")
        if hooks is None:
            hooks = ()
        elif not isinstance(hooks, (list, tuple)):
            hooks = (hooks,)
        options["on_change"] = (shared.changed, *hooks)
        super().__init__(backoff, may_probe=shared.may_probe, clock=CLOCK, **options)
        shared.connect(client, options.get("probe_timeout", 60.0))
        self._link = shared.link
        weakref.finalize(self, shared.link.end).atexit = False  # the link sees to that

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
