"""Retries of dramatiq that wait as a policy says."""

from __future__ import annotations

import time
import traceback
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from .. import (
    STOP,
    CircuitOpen,
    ExponentialBackOff,
    RetryAfter,
    attempts,
    delay_after,
    retry_call,
    with_max_retries,
)
from ._shared import bounded, check_policy, find_permanent, imports_of_extra

with imports_of_extra("dramatiq"):
    from dramatiq.errors import Retry
    from dramatiq.middleware import MiddlewareError, Retries

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from dramatiq import Actor, Broker
    from dramatiq.broker import MessageProxy

    from .. import BackOff, BudgetLike

__all__ = ["BackOffRetries"]

_SIX_HOURS: Final = 21_600.0
_HALF_AN_HOUR: Final = 1800.0
_LONGEST: Final = 7 * 86_400.0  # for which a broker keeps a message
# The attribute of a message, while it is processed, that has what the circuit breaker gave:
_TICKET: Final = "backoff_ticker_circuit_ticket"
# When a worker tries again to put a message back; it gives up after 15 minutes.
_BROKER_RETURNS: Final = ExponentialBackOff(0.1, max_interval=5)


class _Refused(MiddlewareError, Retry):
    """A circuit is open, so the actor was not called. dramatiq logs no ``Retry`` as an error."""


class BackOffRetries(Retries):
    """The middleware ``Retries`` of dramatiq with the delays of a back-off policy.

    ``install(broker)`` puts it in the place of ``Retries``. The number of retries is in the message
    itself, and the policy is asked for the delay of this number. So nothing is kept in the worker:
    another worker goes on where the first one was killed. ``max_retries``, ``retry_when``,
    ``throws``, ``on_retry_exhausted`` and ``Retry(delay=...)`` work as with dramatiq's ``Retries``.
    Also

    - ``Permanent``: the message is dead-lettered at once, as for an error in ``throws``;
    - ``RetryAfter``: its seconds take the place of the policy's delay;
    - ``STOP`` of the policy: the retries are exhausted, as with ``max_retries``;
    - ``budget``: so are they where it has no token left for the retry;
    - ``breaker``: while the circuit is open, the actor is not called. The message comes back when
      the circuit lets calls through, after half an hour at most (RabbitMQ waits no longer for a
      worker), or after the policy's delay if that is longer. This is no
      retry: it counts neither for ``max_retries`` nor for the budget. A ``CircuitOpen`` that the
      actor raises means the same.

    A message that cannot be put back, because the broker is gone for 15 minutes, is dead-lettered;
    dramatiq's own class loses it.

    An actor may have options of its own: ``policy``, ``max_retry_after``, ``budget``, ``breaker``,
    and those of dramatiq. ``min_backoff`` and ``max_backoff`` are refused, since they would have no
    effect.

    A ``RetryBudget`` and a ``CircuitBreaker`` belong to one process of the worker; all processes
    share those of ``backoff_ticker.integrations.redis``.

    Args:
        policy: The back-off policy. Its limits of elapsed time count the delays, and no time for
            the attempts and the queue; dramatiq's ``max_age`` counts all of it. A delay is at most
            7 days, as dramatiq wants it.
        max_retries: The greatest number of retries of a message; None: any number.
        max_retry_after: The longest wait that a ``RetryAfter`` can ask for, in seconds or as a
            timedelta; a longer one is cut to it. None: no bound.
        budget: Each retry takes from it, and each success fills it.
        retry_when: As in dramatiq.

    Example:
        >>> import dramatiq
        >>> from dramatiq.brokers.stub import StubBroker
        >>> from backoff_ticker import ExponentialBackOff
        >>> from backoff_ticker.integrations.dramatiq import BackOffRetries
        >>> broker = StubBroker()
        >>> BackOffRetries(ExponentialBackOff(1), max_retries=5).install(broker)
        >>> @dramatiq.actor(broker=broker, policy=ExponentialBackOff(30))
        ... def send(address):
        ...     raise ConnectionError("no route")
    """

    def __init__(
        self,
        policy: BackOff,
        *,
        max_retries: int | None = 20,
        max_retry_after: float | timedelta | None = _SIX_HOURS,
        budget: BudgetLike | None = None,
        retry_when: Callable[[int, BaseException], bool] | None = None,
    ) -> None:
        super().__init__(retry_when=retry_when)
        check_policy(policy)
        attempts(max_retry_after=max_retry_after, budget=budget)  # checks them
        if max_retries is not None:
            with_max_retries(policy, max_retries)  # checks it
        self.max_retries: Any = max_retries
        self._defaults: dict[str, Any] = {"policy": policy, "max_retry_after": max_retry_after}
        self._defaults |= {"budget": budget, "breaker": None}

    @property
    def actor_options(self) -> set[str]:
        """The names of the options that an actor can have."""
        return {*super().actor_options, *self._defaults}

    def install(self, broker: Broker) -> None:
        """Take the place of the ``Retries`` of a broker; call it before actors are declared.

        Raises:
            MiddlewareError: An actor has an option of dramatiq that would have no effect.
            TypeError, ValueError: An option of an actor is invalid.

        Example:
            >>> from dramatiq.brokers.stub import StubBroker
            >>> from backoff_ticker import ConstantBackOff
            >>> from backoff_ticker.integrations.dramatiq import BackOffRetries
            >>> BackOffRetries(ConstantBackOff(10)).install(StubBroker())
        """
        theirs = next((each for each in broker.middleware if isinstance(each, Retries)), None)
        broker.add_middleware(self, before=None if theirs is None else type(theirs))
        if theirs is not None:
            broker.middleware.remove(theirs)
        for actor in broker.actors.values():
            self.before_declare_actor(broker, actor)

    def before_declare_actor(self, broker: Broker, actor: Actor[Any, Any]) -> None:
        """Check the options of an actor; called by dramatiq."""
        if any(isinstance(each, Retries) and each is not self for each in broker.middleware):
            raise MiddlewareError(
                "the broker has Retries beside BackOffRetries, so each retry would be made twice: "
                "call BackOffRetries(...).install(broker) in the place of add_middleware()"
            )
        for name in ("min_backoff", "max_backoff"):
            if name in actor.options:
                raise MiddlewareError(
                    f"actor {actor.actor_name!r} has {name}={actor.options[name]!r}, which has no "
                    "effect with BackOffRetries: give it policy="
                )
        try:
            check_policy(self._option(actor, "policy"))
            names = [name for name in self._defaults if name != "policy"]
            attempts(**{name: self._option(actor, name) for name in names})
        except (TypeError, ValueError) as error:  # others than a MiddlewareError are only logged
            raise MiddlewareError(f"actor {actor.actor_name!r}: {error}") from error

    def before_process_message(self, broker: Broker, message: MessageProxy) -> None:
        """Ask the circuit breaker of the actor; called by dramatiq."""
        breaker = self._option(broker.get_actor(message.actor_name), "breaker")
        if breaker is not None:
            try:
                vars(message)[_TICKET] = breaker.allow()
            except CircuitOpen as refused:
                raise _Refused(str(refused)) from refused

    def after_skip_message(self, broker: Broker, message: MessageProxy) -> None:
        """Give back what the circuit breaker has given; called by dramatiq."""
        if (ticket := vars(message).pop(_TICKET, None)) is not None:
            self._option(broker.get_actor(message.actor_name), "breaker").release(ticket)

    def after_process_message(
        self,
        broker: Broker,
        message: MessageProxy,
        *,
        result: object = None,
        exception: BaseException | None = None,
    ) -> None:
        """Put a message back that has failed, or dead-letter it; called by dramatiq."""
        if exception is not None:
            message.fail()  # unless it is put back: whatever fails below, it is not lost
        actor = broker.get_actor(message.actor_name)
        if (ticket := vars(message).pop(_TICKET, None)) is not None:
            self._option(actor, "breaker").record(ticket, exception)
        budget = self._option(actor, "budget")
        if exception is None:
            if budget is not None:
                budget.success()
            return
        retries = message.options.get("retries", 0)
        if (seconds := self._delay(broker, actor, message, exception)) is None:
            return
        delay = ceil(min(seconds, _LONGEST) * 1000)
        self.logger.info("Retrying message %r in %d milliseconds.", message.message_id, delay)
        as_given: Any = message  # which stands for a Message
        try:
            retry_call(partial(broker.enqueue, as_given, delay=delay), _BROKER_RETURNS)
        except BaseException:
            if budget is not None and message.options["retries"] > retries:
                budget.release()
            raise
        message.failed = False

    def _delay(
        self, broker: Broker, actor: Actor[Any, Any], message: MessageProxy, error: BaseException
    ) -> float | None:
        """Return the seconds until a message comes back; None: it does not."""
        throws = message.options.get("throws") or actor.options.get("throws")
        if find_permanent(error) is not None or (throws and isinstance(error, throws)):
            self.logger.info("Aborting message %r.", message.message_id)
            return None
        options = message.options
        retries = options.setdefault("retries", 0)
        delay = delay_after(self._option(actor, "policy"), retries + 1)
        refused = error.__cause__ if isinstance(error, _Refused) else error
        if isinstance(refused, CircuitOpen):
            return max(0.0 if delay is STOP else delay, min(refused.seconds or 0.0, _HALF_AN_HOUR))
        options["retries"] = retries + 1
        options["traceback"] = "".join(traceback.format_exception(error, limit=30))
        options["requeue_timestamp"] = int(time.time() * 1000)
        max_retries = options.get("max_retries", actor.options.get("max_retries", self.max_retries))
        retry_when = actor.options.get("retry_when", self.retry_when)
        if retry_when is not None:
            is_over = not retry_when(retries, error)
        else:
            is_over = max_retries is not None and retries >= max_retries
        budget = self._option(actor, "budget")
        if is_over or delay is STOP or not (budget is None or budget.try_acquire()):
            self.logger.warning("Retries exceeded for message %r.", message.message_id)
            name = options.get("on_retry_exhausted") or actor.options.get("on_retry_exhausted")
            if name:
                counts = {"retries": retries, "max_retries": max_retries}
                broker.get_actor(name).send(message.asdict(), counts)
            return None
        if isinstance(error, Retry) and error.delay is not None:
            return error.delay / 1000
        if isinstance(error, RetryAfter):
            return bounded(error.seconds, self._option(actor, "max_retry_after"))
        return delay

    def _option(self, actor: Actor[Any, Any], name: str) -> Any:
        return actor.options.get(name, self._defaults[name])
