"""``RedisRetryBudget``: a budget of retries that processes share."""

from __future__ import annotations

import asyncio
import weakref
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

from redis.exceptions import RedisError

from ... import CircuitBreaker, CircuitOpen, CircuitState, ExponentialBackOff, RetryBudget
from .._shared import after_fork, as_positive_seconds, check_name
from .client import CLOCK, LONGEST, Outage, as_whole, check_client, make_connection

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any, Literal

    from redis import Redis

    from ...retries import BudgetLike

    Asked = SimpleQueue[Future[bool | None] | None]

_UNITS = 10**9  # in a token, as in RetryBudget

# Lua counts in doubles, which hold three times this number of units exactly: a full bucket, and
# twice what a process may add to it at once.
_MOST_TOKENS = 10**6

_PAUSES = ExponentialBackOff(1, multiplier=2, max_interval=30, max_elapsed_time=None)
_MOST_IDLE = 8  # connections; more threads that decide at the same moment make new ones
_HELD_RETRIES = 10  # for which the successes of a process pay that Redis has not heard of yet

# KEYS: the bucket. ARGV: the size of the bucket, the cost of a retry, and what this process has to
# add, all in units; milliseconds until an unused bucket is forgotten; how many retries ask.
_SCRIPT = """\
local most, cost = tonumber(ARGV[1]), tonumber(ARGV[2])
local units = tonumber(redis.call('GET', KEYS[1]) or most)
if not (units >= 0) then return redis.error_reply('ERR a budget out of range') end
units = math.min(units + tonumber(ARGV[3]), most)
local paid = math.min(math.floor(units / cost), tonumber(ARGV[5]))
redis.call('SET', KEYS[1], string.format('%.0f', units - paid * cost), 'PX', ARGV[4])
return paid
"""


class RedisRetryBudget:
    """Limits the retries of many processes together: a ``RetryBudget`` that is kept in Redis.

    All budgets of one name, in one database of Redis, share one bucket of tokens, full at first.
    Over all processes together::

        retries * retry_cost <= max_tokens + token_ratio * successes

    Only a retry asks Redis. Successes are counted in the process, up to what ten retries cost, and
    its next retry tells Redis of them. What a killed process has counted is lost: there are fewer
    retries, never more. The bucket is full again after ``keep_for`` without a retry, or if Redis
    loses its data. Each process cuts the bucket to its own ``max_tokens``.

    **If Redis fails**, or does not answer within the client's timeouts, ``fallback`` decides, and
    the process leaves Redis alone for a while. A warning is logged; no error is raised.

    Example:
        >>> from redis import Redis
        >>> from backoff_ticker.integrations.redis import RedisRetryBudget
        >>> # There is no Redis on this port.
        >>> client = Redis(port=1, socket_timeout=1, socket_connect_timeout=1)
        >>> budget = RedisRetryBudget(client, "search", max_tokens=2)  # `budget=` of a retry
        >>> [budget.try_acquire() for _ in range(3)]  # the fallback decides
        [True, True, False]

    Thread safety: every method may be called in any thread, and in a forked child. ``success()``
    and ``release()`` never wait, and may be called in signal handlers and finalizers as well.
    ``try_acquire()`` waits for Redis; retries of coroutines await ``try_acquire_async()`` instead.

    Attributes are the name, the numbers, and ``breaker``, which is closed while Redis decides.

    Args:
        client: As in ``RedisCancellationToken``.
        name: The name of the budget: a str that is not empty. The key in Redis is
            ``backoff_ticker:budget:NAME``; its value is the tokens left, in billionths.
        max_tokens, token_ratio, retry_cost: As in ``RetryBudget``; at most 1,000,000 tokens.
        fallback: The budget that decides while Redis fails. ``"local"`` means a ``RetryBudget`` of
            the same size for this process; None means that there are no retries meanwhile.
        keep_for: How long Redis remembers a budget that no retry asks for: seconds > 0 or a
            timedelta.
        breaker: The circuit breaker around Redis, to be used for nothing else. None means one that
            a failure opens, for 1 s at first, then twice as long each time, up to 30 s, with a
            jitter of 50 %.
    """

    def __init__(
        self,
        client: Redis,
        name: str,
        max_tokens: float = 500,
        token_ratio: float = 0.1,
        retry_cost: float = 1,
        *,
        fallback: BudgetLike | Literal["local"] | None = "local",
        keep_for: float | timedelta = 3600,
        breaker: CircuitBreaker | None = None,
    ) -> None:
        check_client(client)
        check_name(name)
        local = RetryBudget(max_tokens, token_ratio, retry_cost)
        if local.max_tokens > _MOST_TOKENS:
            raise ValueError(f"max_tokens must be <= {_MOST_TOKENS:,}, not {max_tokens!r}")
        self._keep_for = min(round(as_positive_seconds("keep_for", keep_for) * 1000) or 1, LONGEST)
        self._numbers = local._most, local._cost
        if fallback == "local":
            fallback = local
        elif fallback is not None and not hasattr(fallback, "try_acquire"):
            raise TypeError(f"fallback must be a RetryBudget, 'local' or None, not {fallback!r}")
        if not isinstance(breaker, CircuitBreaker | None):
            raise TypeError(f"breaker must be a CircuitBreaker or None, not {breaker!r}")
        self.name: str = name
        self.max_tokens: float = local.max_tokens
        self.token_ratio: float = local.token_ratio
        self.retry_cost: float = local.retry_cost
        self.breaker: CircuitBreaker = breaker or CircuitBreaker(_PAUSES, failures=1, clock=CLOCK)
        self._fallback: BudgetLike | None = fallback
        self._client = client
        self._outage = Outage(f"Retry budget {name}")
        self._start()
        _budgets.add(self)

    def _start(self) -> None:
        """Begin with nothing to tell and no connection; also in a forked child."""
        held = max(_HELD_RETRIES * self.retry_cost, self.token_ratio)
        self._successes = self._empty_bucket(min(held, self.max_tokens))
        self._released = self._empty_bucket(self.max_tokens)
        # Connections that no thread uses, each with the ``_trusted`` of the time it was opened.
        self._trusted = object()  # another one after each failure
        self._idle: list[tuple[object, Any]] = []
        self._asked: Asked = SimpleQueue()  # by coroutines that wait
        self._has_thread = False
        weakref.finalize(self, _let_go, self._asked, self._idle).atexit = False

    def _empty_bucket(self, size: float) -> RetryBudget:
        """Return what counts, without a lock, the tokens to be told to Redis."""
        bucket = RetryBudget(size, self.token_ratio, self.retry_cost)
        bucket.try_acquire(size)
        return bucket

    def __repr__(self) -> str:
        where = "Redis" if self.breaker.state is CircuitState.CLOSED else "this process"
        return (
            f"<RedisRetryBudget {self.name!r} of {self.max_tokens!r} tokens in {where}, "
            f"token_ratio={self.token_ratio!r}, retry_cost={self.retry_cost!r}>"
        )

    def success(self) -> None:
        """Count a success, which puts ``token_ratio`` back."""
        self._fallback_or(self._successes).success()

    def release(self) -> None:
        """Put back the tokens of a retry that was not made."""
        self._fallback_or(self._released).release()

    def _fallback_or(self, bucket: RetryBudget) -> BudgetLike:
        """Return the fallback while it decides, else ``bucket``."""
        if self._fallback is None or self.breaker.state is CircuitState.CLOSED:
            return bucket
        return self._fallback

    def try_acquire(self) -> bool:
        """Take ``retry_cost`` tokens; return whether there were enough, as Redis answers."""
        paid = self._ask(1)
        return self._acquire_locally() if paid is None else bool(paid)

    async def try_acquire_async(self) -> bool:
        """Do the same in a coroutine.

        A thread asks Redis, once for all coroutines that wait for it: each waits for two answers at
        most, however many they are.

        If cancelled: the tokens that Redis takes nevertheless are given back.
        """
        is_paid = None
        if self.breaker.state is not CircuitState.OPEN and self._starts_thread():
            future: Future[bool | None] = Future()
            self._asked.put(future)
            try:
                is_paid = await asyncio.wrap_future(future)
            except BaseException:  # cancelled, or closed
                future.cancel()
                future.add_done_callback(self._give_back)
                raise
        if is_paid is None:
            waits = getattr(self._fallback, "try_acquire_async", None)
            return self._acquire_locally() if waits is None else await waits()
        return is_paid

    def _starts_thread(self) -> bool:
        """Return whether there is a thread to answer coroutines, after starting it if needed.

        It is a daemon: a Redis that hangs must not keep the program from ending.
        """
        if not self._has_thread:
            name = f"RedisRetryBudget {self.name}"
            arguments = weakref.ref(self), self._asked
            try:
                Thread(None, _answer_coroutines, name, arguments, daemon=True).start()
            except RuntimeError:  # the interpreter shuts down, or there are too many
                return False
            self._has_thread = True  # two loops may have started two: any number may answer
        return True

    def _answer(self, waiting: list[Future[bool | None]]) -> None:
        """Ask Redis for all at once; None is the answer if it fails."""
        try:
            paid = self._ask(len(waiting))
        except BaseException:  # a provider of passwords exits: the thread goes on
            paid = None
        for number, future in enumerate(waiting):
            future.set_result(None if paid is None else number < paid)

    def _give_back(self, future: Future[bool | None]) -> None:
        if not future.cancelled() and future.result():
            self.release()

    def _acquire_locally(self) -> bool:
        return self._fallback is not None and self._fallback.try_acquire()

    def _ask(self, count: int) -> int | None:
        """Return for how many of ``count`` retries Redis pays; None if it fails."""
        try:
            with self.breaker.guard():
                paid = self._ask_redis(count)
        except CircuitOpen:
            return None
        except Exception as error:  # a provider of passwords has errors of its own
            self._outage.begin(error)
            return None
        self._outage.end()
        return paid

    def _ask_redis(self, count: int) -> int:
        """Run the script once.

        The client's pool is not used: its connections send a command again if the answer does not
        come, although Redis may have executed it.
        """
        connection: Any = None
        trusted = self._trusted
        try:
            opened, connection = self._idle.pop()
            is_stale = opened is not trusted or connection.can_read(0)
        except (IndexError, RedisError, OSError):
            connection, is_stale = connection or make_connection(self._client), True
        try:
            if is_stale:
                connection.disconnect()
                connection.connect()
            # Counted here no more; so not before Redis is there to be told.
            added = _drained(self._successes) + _drained(self._released)
            key = f"backoff_ticker:budget:{self.name}"
            arguments = *self._numbers, added, self._keep_for, count
            connection.send_command("EVAL", _SCRIPT, 1, key, *arguments)
            paid = as_whole(connection.read_response(), count)
        except BaseException:
            self._trusted = object()  # what was opened before may lead to a server that is gone
            self._idle.clear()
            connection.disconnect()
            raise
        if len(self._idle) < _MOST_IDLE:
            self._idle.append((trusted, connection))
        else:
            connection.disconnect()
        return paid


def _answer_coroutines(reference: weakref.ref[RedisRetryBudget], asked: Asked) -> None:
    """Answer the coroutines that wait for a budget until it is collected, which ``None`` says."""
    while True:
        found = [asked.get()]
        try:
            while True:
                found.append(asked.get_nowait())
        except Empty:
            pass
        if (budget := reference()) is None:
            asked.put(None)  # for another thread that does the same
            return
        waiting = [each for each in found if each and each.set_running_or_notify_cancel()]
        if waiting:
            budget._answer(waiting)
        del budget, found, waiting


def _let_go(asked: Asked, idle: list[tuple[object, Any]]) -> None:
    """End the thread of a budget that is collected, and close its connections."""
    asked.put(None)
    while idle:
        idle.pop()[1].disconnect()


def _drained(bucket: RetryBudget) -> int:
    """Empty a bucket; return how many units were in it, 0 if another thread has taken them."""
    tokens = bucket.tokens
    return round(tokens * _UNITS) if bucket.try_acquire(tokens) else 0


_budgets: weakref.WeakSet[RedisRetryBudget] = weakref.WeakSet()


def _start_in_child() -> None:
    for budget in list(_budgets):
        budget._start()  # what the parent has to tell, it tells itself


after_fork(_start_in_child)
