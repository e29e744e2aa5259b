"""``CircuitBreaker``: keeps calls away from a service that fails."""

from __future__ import annotations

from contextvars import ContextVar
from functools import wraps
from math import inf, ulp
from types import CoroutineType, SimpleNamespace

from .. import _process
from .._errors import CircuitOpen, CircuitState
from .._operation import coroutine_returned, is_awaitable, kind_of, name_of, raise_async
from .._process import ProcessBound
from .._unraisable import report
from .._validation import as_count, as_hooks, as_seconds, safe_repr
from ..clock import later, resolve_clock
from ..policies import End, ExponentialBackOff, PolicyRun, start_policy
from ..waiting import FREE, acquire, claim_of, complete
from ._circuit import CLOSED, HALF_OPEN, Circuit, CircuitTicket, rules_of
from ._error_rule import as_error_rule, judged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextvars import Token
    from datetime import timedelta
    from types import UnionType
    from typing import Any, Self, TypeVar

    from ..clock import Clock
    from ..policies import BackOff

    F = TypeVar("F", bound=Callable[..., object])

    Hook = Callable[[CircuitState, CircuitState, "CircuitBreaker"], object]

_ABOVE_ZERO = "a finite number of seconds > 0 or a timedelta"
_CURRENT_TIME: Any = SimpleNamespace(
    monotonic=lambda: resolve_clock(None).monotonic(), time=lambda: resolve_clock(None).time()
)
_DEFAULT_BACKOFF = ExponentialBackOff(5, multiplier=2, max_interval=60, max_elapsed_time=None)


class CircuitBreaker(ProcessBound):
    """Stops calls to a service that keeps failing, until a few probes show that it works again.

    A circuit starts *closed*: all calls are let through. Too many failures *open* it: each call
    raises ``CircuitOpen`` at once. After the delay of a back-off policy it is *half-open*: a few
    calls are let through as *probes*. Enough successful probes close the circuit. One that fails
    opens it again, for the next delay.

    Use it as ``with breaker:``, ``async with breaker:``, ``@breaker``, or in a retry: ``breaker=``.

    Example:
        >>> from backoff_ticker import CircuitBreaker, CircuitOpen, ConstantBackOff
        >>> breaker = CircuitBreaker(ConstantBackOff(60), failures=1)
        >>> for _ in range(2):
        ...     try:
        ...         with breaker:
        ...             raise ConnectionError("no route")
        ...     except (ConnectionError, CircuitOpen) as error:
        ...         print(type(error).__name__, breaker.state)
        ConnectionError open
        CircuitOpen open

    An error that ``on`` covers is a failure. Any other error is a success, like a normal end: the
    service has answered. A cancel or an interrupt is neither, and its probe frees its place. So is
    the end of a call that began before the circuit last changed.

    Thread safety: every method may be called in any thread, event loop, signal handler or
    finalizer (but on Python 3.11 a finalizer must not enter a block). No method waits. A block that
    is left in another thread or task than it was entered in may be ignored; ``allow()`` and
    ``record()`` are exact everywhere. After a fork, parent and child each have a circuit.

    Source: Michael Nygard, "Release It!"; rates and ``on`` as in resilience4j; control as in Polly.

    Args:
        backoff: How long the circuit stays open. The breaker asks its own copy each time the
            circuit opens, and resets the copy first if the circuit was closed. If the policy
            returns ``STOP``, the circuit stays open until ``reset()``. None means 5 s at first,
            doubled each time up to 60 s, with 50 % jitter, and without end.
        on: Which errors are failures, as in ``retry``: a subclass of ``Exception``, a tuple of
            them, ``A | B``, or a mapping from them or a function from an error to a bool. Seconds,
            and the policies of a mapping, mean True.
        failures: How many failures in a row open the circuit: an int >= 1. None means 5.
        failure_rate: The share of failures that opens it instead, > 0 and <= 1. It counts once
            ``minimum_calls`` have ended.
        window_calls: How many of the last calls the rate covers: 1 to 10,000. None means 100.
        window: The rate covers the calls that ended in this time instead: seconds >= 0.001 or a
            timedelta. The window moves in steps of a tenth.
        minimum_calls: An int >= 1. None means 20, or ``window_calls`` if that is less.
        probes: How many probes may run at once: an int >= 1.
        successes: How many probes have to succeed to close the circuit: an int >= 1.
        probe_timeout: How long a probe keeps its place: seconds > 0 or a timedelta. Then another
            call may take it, and the result of the late probe is ignored.
        may_probe: A function without arguments that is asked before each probe; if it returns
            False, the call is refused. It must not wait, and threads may call it at once.
        on_change: A function, or a list or tuple of functions, called as ``f(old, new, breaker)``
            with two ``CircuitState`` after each change, in the thread that made it. Their errors
            go to ``sys.unraisablehook``.
        clock: Measures all times. None means the clock that is current when the breaker is used.

    Raises:
        TypeError, ValueError: An argument is invalid, or does not go with another.
    """

    _kind = "a CircuitBreaker"

    def __init__(  # noqa: PLR0913 - the options
        self,
        backoff: BackOff | None = None,
        *,
        on: type[Exception]
        | tuple[type[Exception], ...]
        | UnionType
        | Mapping[type[Exception], float | timedelta | BackOff]
        | Callable[[Exception], float | timedelta] = Exception,
        failures: int | None = None,
        failure_rate: float | None = None,
        window_calls: int | None = None,
        window: float | timedelta | None = None,
        minimum_calls: int | None = None,
        probes: int = 1,
        successes: int = 1,
        probe_timeout: float | timedelta = 60.0,
        may_probe: Callable[[], bool] | None = None,
        on_change: Hook | list[Hook] | tuple[Hook, ...] | None = None,
        clock: Clock | None = None,
    ) -> None:
        rules = rules_of(failures, failure_rate, window_calls, window, minimum_calls)
        rules.probes = as_count("probes", probes, 1)
        rules.successes = as_count("successes", successes, 1)
        self._probe_timeout = as_seconds("probe_timeout", probe_timeout, _ABOVE_ZERO, ulp(0.0))
        if may_probe is not None and not callable(may_probe):
            raise TypeError(f"may_probe must be callable or None, not {safe_repr(may_probe)}")
        self._may_probe = may_probe
        self._hooks: Any = (on_change is not None and as_hooks("on_change", on_change)) or ()
        self._on: Any = as_error_rule("on", on)
        # A breaker may be made where a module is imported, and used in tests on a virtual clock.
        time = _CURRENT_TIME if clock is None else resolve_clock(clock)
        self._monotonic: Callable[[], float] = time.monotonic
        policy = start_policy("backoff", _DEFAULT_BACKOFF if backoff is None else backoff, time)
        self._policy = PolicyRun(policy, resolve_clock(clock), ())
        # Changed by the holder of the claim.
        self._claim = claim_of(self)
        self._circuit: Circuit = Circuit(rules, CLOSED).closed()
        self._asker: CircuitTicket | None = None  # of the thread that asks the policy now
        # The open `with` blocks, and the innermost of them in the context of a thread or task.
        self._blocks: dict[_Block, None] = {}
        self._innermost: ContextVar[Any] = ContextVar("innermost block", default=None)

    # State

    @property
    def state(self) -> CircuitState:
        """The state that a call would meet now: after its delay, an open circuit is half-open."""
        return self._circuit.state_at(self._monotonic())

    def remaining(self) -> float | None:
        """Return the seconds until a call is let through; 0.0 if a call would be let through now.

        It is also 0.0 while the policy is being asked. None means that the circuit is open until
        ``reset()``, or that it is half-open and all its probes are running.
        """
        return self._circuit.seconds_left(self._monotonic())

    def reset(self) -> None:
        """Close the circuit, whatever its state, and forget all earlier calls."""
        while not self._replace(self._circuit, self._circuit.closed()):
            pass

    def open(self, seconds: float | timedelta | None = None) -> None:
        """Open the circuit, for example while the service is being maintained.

        Args:
            seconds: How long, from now: seconds > 0 or a timedelta. The policy is asked, too (once,
                if it is being asked already), but its answer is not used: if a probe fails later,
                the circuit opens for the policy's next delay. None means until ``reset()``; the
                policy is not asked.

        Raises:
            TypeError, ValueError: ``seconds`` is invalid.
            Exception: The policy failed when it was asked; the circuit is open all the same.
        """
        since, until = None, inf
        if seconds is not None:
            since = self._monotonic()
            until = later(since, as_seconds("seconds", seconds, _ABOVE_ZERO, ulp(0.0)))
        while True:
            last = self._circuit
            # Asked once more, a policy that calls this would never end.
            asker = self._asker
            is_asked = asker is not None and asker.process == _process.generation
            is_first = last.is_first and not is_asked
            after = last.opened(until, None if is_asked else since, is_first=is_first)
            if self._replace(last, after):
                return

    # Calls

    def allow(self) -> CircuitTicket:
        """Let a call through and return its ticket, or raise ``CircuitOpen``.

        Use it for a call that no ``with`` block can span, such as one that ends in a callback. Pass
        the ticket to ``record()`` or ``release()`` when the call has ended.

        Raises:
            CircuitOpen: The circuit is open, or half-open and lets no further probe through.
            Exception: The policy raised it when it was asked, or ``may_probe`` did.
        """
        return self._circuit.ticket or self._probe()

    def record(self, ticket: CircuitTicket, error: BaseException | None = None) -> None:
        """Record how a call ended that ``allow()`` has let through.

        Args:
            ticket: The ticket that ``allow()`` returned.
            error: The exception that the call raised; None if it ended normally.

        Raises:
            TypeError: ``error`` is neither an exception nor None; the call does not count.
            Exception: ``on`` raised it, and the call does not count; or the policy did when it was
                asked, and the next call asks it again.
        """
        if error is None and ticket is self._circuit.steady:
            return
        try:
            self._end(ticket, error is not None and judged(self._on, error))
        except BaseException:
            complete(self.release, ticket)  # no effect if the result was counted
            raise

    def release(self, ticket: CircuitTicket) -> None:
        """End a call that was not made, or whose result is unknown: a probe frees its place."""
        self._end(ticket, None)

    def __enter__(self) -> Self:
        block = _Block()
        block.ticket = self._circuit.ticket or self._probe()
        try:
            self._blocks[block] = None
            block.token = self._innermost.set(block)
        except BaseException:  # of a signal handler
            complete(self._drop, block)
            raise
        return self

    def __exit__(self, _: object, exc: BaseException | None, __: object) -> None:
        block: Any = None
        try:
            block = self._innermost.get()
            try:
                ticket = block.ticket
                self._innermost.reset(block.token)
            except (AttributeError, RuntimeError, TypeError, ValueError):
                # There is none; it was left elsewhere; it is of the task that has started this one.
                block = None
                ticket = self._left_elsewhere()
            else:
                block.token = None
                try:
                    del self._blocks[block]
                except KeyError:
                    self._forget_newest()
            if exc is not None or ticket is not self._circuit.steady:
                self.record(ticket, exc)
        except BaseException:
            if block is not None:
                complete(self._drop, block)
            raise

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, _: object, exc: BaseException | None, __: object) -> None:
        self.__exit__(None, exc, None)

    def __call__(self, function: F, /) -> F:
        """Decorate a function, a method or a coroutine function: each call is a ``with`` block.

        Raises:
            TypeError: ``function`` is something else; in a generator, use a ``with`` block.
        """
        target: Any = function
        if isinstance(target, (staticmethod, classmethod)):
            return type(target)(self(target.__func__))  # type: ignore[return-value]
        kind = kind_of(target)
        if not callable(target) or isinstance(target, type) or "generator" in kind:
            raise TypeError(
                "a CircuitBreaker decorates functions, methods and coroutine functions, "
                f"not {safe_repr(target)}: use `with breaker:`"
            )
        guard = _guarded if kind == "function" else _guarded_coroutine
        return guard(self, target)  # type: ignore[no-any-return]

    # Inside

    def _replace(self, seen: Circuit, after: Circuit) -> bool:
        """Replace the state that was seen, and do what follows; False: another was faster."""
        claim = self._claim
        try:
            del claim[FREE]
        except KeyError:
            acquire(claim)
        try:
            is_seen = self._circuit is seen
            if is_seen:
                self._circuit = after
        finally:
            claim[FREE] = True
        if is_seen and (after.since is not None or after.state is not seen.state):
            try:
                self._settle()
            finally:
                self._announce(seen, after)
        return is_seen

    def _end(self, ticket: CircuitTicket, failed: bool | None) -> None:
        """Count the result of a call; ``failed=None``: it says nothing about the service."""
        while True:
            last = self._circuit
            now = 0.0 if failed is None else self._monotonic()
            after = last.ended(ticket, failed, now)
            if after is last or self._replace(last, after):
                return

    def _probe(self) -> CircuitTicket:
        """Return the ticket of a probe, or of a closed circuit if it has closed meanwhile."""
        ticket = CircuitTicket()
        while True:
            self._settle()
            last = self._circuit
            if last.ticket is not None:
                return last.ticket
            now = self._monotonic()  # after the look: no time in a state is in the future
            ticket.expires = later(now, self._probe_timeout)
            after = last.admitted(ticket, now)
            if after is None:
                raise CircuitOpen(last.seconds_left(now), self, last.state)
            if not self._may_begin_probe():
                raise CircuitOpen(None, self, HALF_OPEN)
            try:
                if self._replace(last, after):
                    return ticket
            except BaseException:
                complete(self.release, ticket)
                raise

    def _may_begin_probe(self) -> bool:
        answer: object = self._may_probe is None or self._may_probe()
        if is_awaitable(answer):
            raise_async("may_probe", answer)
        if not isinstance(answer, bool):
            raise TypeError(f"may_probe must return a bool, not {safe_repr(answer)}")
        return answer

    def _settle(self) -> None:
        """If nobody knows how long the circuit stays open, ask, unless another thread does."""
        claim = self._claim
        while self._circuit.since is not None:
            mine = CircuitTicket()
            try:
                acquire(claim)
                try:
                    opening = self._circuit  # under the claim: open() relies on its being asked
                    # A thread of the process from which this one was forked does not ask here.
                    if self._asker is None or self._asker.process != mine.process:
                        self._asker = mine
                finally:
                    claim[FREE] = True
                if self._asker is not mine:
                    return  # the other thread looks at the state again when it has asked
                self._ask(opening)
            finally:
                # ATOMIC: no call before this: an exception out of a signal handler would leave the
                # policy as one that is being asked, and the circuit would never close again.
                if self._asker is mine:
                    self._asker = None

    def _ask(self, opening: Circuit) -> None:
        """Ask the policy how long the circuit stays open; one thread at a time does."""
        if opening.since is None:
            return  # another thread was faster
        answer: Any = self._policy.begin() if opening.is_first else self._policy.ask()
        try:
            until, is_end = opening.until, isinstance(answer, End)
            has_failed = is_end and answer.error is not None
            if until is None and not has_failed:
                until = inf if is_end else later(opening.since, answer)
            if until is not None:
                self._replace(opening, opening.opened(until, None, is_first=False))
            if has_failed:
                raise answer.error
        finally:
            del answer  # the traceback of its error refers to this frame: a reference cycle

    def _announce(self, before: Circuit, after: Circuit, first: int = 0) -> None:
        """Call the hooks, from the first one on, if the state has changed for users."""
        if after.state is before.state:
            return
        for number, hook in enumerate(self._hooks[first:], first + 1):
            try:
                result: object = hook(before.state, after.state, self)
                if is_awaitable(result):
                    raise_async("on_change", result)
            except Exception as error:  # noqa: BLE001 - no hook stops the others
                report(error, "Exception in on_change of a circuit breaker", hook)
            except BaseException:
                self._announce(before, after, number)
                raise

    def _drop(self, block: _Block) -> None:
        """Forget a block that an interrupt has hit; its call does not count if it did not yet.

        A block left behind would keep those from counting that are left elsewhere.
        """
        token = getattr(block, "token", None)
        if token is not None:
            block.token = None
            if self._innermost.get() is block:
                self._innermost.reset(token)
        self._blocks.pop(block, None)
        self.release(block.ticket)

    def _left_elsewhere(self) -> CircuitTicket:
        """Return the ticket of the block that is left where it was not entered.

        It may be any open block. If not all of them have the same ticket, it counts for nothing,
        and the newest is forgotten: so no call of the past counts as one of the present.
        """
        blocks = [*self._blocks]
        if not blocks:
            raise RuntimeError(f"{self!r} was left, but not entered") from None
        self._forget_newest()
        newest = blocks[-1]
        if any(each.ticket is not newest.ticket for each in blocks):
            return CircuitTicket()
        newest.token = None
        return newest.ticket

    def _forget_newest(self) -> None:
        """Forget a block in place of the one that is left, which was forgotten in its place."""
        try:
            self._blocks.popitem()
        except KeyError:
            pass  # another thread was faster

    def __repr__(self) -> str:
        try:
            shown = self._circuit.shown(self._monotonic())
        except Exception:  # noqa: BLE001 - of the clock
            shown = self._circuit.state
        return f"<{type(self).__name__} {shown}>"


class _Block:
    """A ``with`` block that is open.

    The token of the context variable puts back the block around it, and only in the context in
    which the variable was set. So a task, which begins with a copy of a context, leaves no block of
    the task that has started it.
    """

    __slots__ = ("ticket", "token")

    ticket: CircuitTicket
    token: Token[Any] | None  # absent: it was not entered; None: it was left


def _guarded(breaker: CircuitBreaker, function: Any) -> Any:
    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        ticket = breaker._circuit.ticket or breaker._probe()
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            breaker.record(ticket, error)
            raise
        if result.__class__ is CoroutineType:
            breaker.release(ticket)
            instead = "decorate an `async def` function, or use `with breaker:`"
            missed = "a circuit breaker would not see"
            raise coroutine_returned(name_of(function), result, instead, missed)
        if ticket is not breaker._circuit.steady:
            breaker.record(ticket)
        return result

    return guarded


def _guarded_coroutine(breaker: CircuitBreaker, function: Any) -> Any:
    @wraps(function)
    async def guarded(*args: Any, **kwargs: Any) -> Any:
        ticket = breaker._circuit.ticket or breaker._probe()
        try:
            result = await function(*args, **kwargs)
        except BaseException as error:
            breaker.record(ticket, error)
            raise
        breaker.record(ticket)
        return result

    return guarded
