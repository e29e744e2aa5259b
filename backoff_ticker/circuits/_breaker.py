"""``CircuitBreaker``: keeps calls away from a service that fails."""

from __future__ import annotations

from contextvars import ContextVar
from functools import wraps
from math import inf, isnan, nan, ulp
from types import CoroutineType, SimpleNamespace

from .. import _process
from .._errors import CircuitOpen, CircuitState
from .._operation import coroutine_returned, is_awaitable, kind_of, name_of, raise_async
from .._process import ProcessBound
from .._unraisable import report
from .._validation import as_count, as_hooks, as_seconds, safe_repr
from ..clock import resolve_clock
from ..policies import End, ExponentialBackOff, PolicyRun, start_policy
from ..waiting import FREE, acquire, claim_of, complete
from ._blocks import Block, forget_newest, left_elsewhere
from ._error_rule import as_error_rule, judged
from ._states import Circuit, CircuitTicket, Closed, HalfOpen, Open, Rules
from ._thresholds import threshold_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
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

    At first the circuit is *closed*: all calls are let through. Too many failures *open* it: each
    call raises ``CircuitOpen`` at once. After the delay of a back-off policy it is *half-open*: a
    few calls are let through as *probes*. Enough successful ones close it; one that fails opens it
    again, for the next delay.

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

    What counts: an error that ``on`` covers is a failure. A normal end is a success, and so is any
    other error, because the service has answered. For a ``RetryAfter`` the error inside counts; if
    there is none, it is a failure. Ignored are ``Cancelled`` (but not ``DeadlineExceeded``), the
    ``CircuitOpen`` of another breaker inside, and exceptions that are not an ``Exception``, such as
    ``KeyboardInterrupt`` and ``asyncio.CancelledError``; a probe that ends so frees its place. The
    result of a call that began before the circuit last changed is ignored.

    In one thread or task, the block entered last is the first that is left. A block left in another
    one than it was entered in counts if all open blocks began in the same state of the circuit;
    otherwise it is ignored. ``allow()`` and ``record()`` are exact everywhere.

    Thread safety: every method may be called in any thread, event loop, signal handler or
    finalizer (but on Python 3.11 a finalizer must not enter a block); none waits. If a signal
    handler raises just as a block is left, its result may be lost; the place of a probe is then
    free after ``probe_timeout``. After a fork, parent and child each have a circuit.

    Source: Michael Nygard, "Release It!"; rates and ``on`` as in resilience4j; control as in Polly.

    Args:
        backoff: How long the circuit stays open. The breaker asks its own copy each time the
            circuit opens, and resets the copy when the circuit was closed before. If the policy
            returns ``STOP``, the circuit stays open until ``reset()``. None means 5 s at first,
            doubled each time up to 60 s, with a jitter of 50 %, and without end.
        on: The failures, as in ``retry``: a subclass of ``Exception``, a tuple of them, ``A | B``,
            a mapping from them to True or False, or a function from an error to a bool.
        failures: How many failures in a row open the circuit: an int >= 1. None means 5.
        failure_rate: The share of failures that opens it instead, > 0 and <= 1. It counts once
            there were ``minimum_calls``.
        window_calls: Of how many last calls: an int from 1 to 10,000. None means 100.
        window: Of the calls that ended in this time instead: seconds >= 0.001 or a timedelta. It
            moves on in steps of a tenth.
        minimum_calls: An int >= 1. None means 20, or ``window_calls`` if that is less.
        probes: How many probes may run at once: an int >= 1.
        successes: How many probes have to succeed to close the circuit: an int >= 1.
        probe_timeout: How long a probe keeps its place: seconds > 0 or a timedelta. Then another
            call may be let through instead, and the result of the late probe is ignored.
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
        may_probe: Callable[[], bool] | None = None,
        on_change: Hook | list[Hook] | tuple[Hook, ...] | None = None,
        clock: Clock | None = None,
    ) -> None:
        threshold = threshold_of(failures, failure_rate, window_calls, window, minimum_calls)
        probes = as_count("probes", probes, 1)
        self._rules = Rules(threshold, probes, as_count("successes", successes, 1))
        self._probe_timeout = as_seconds("probe_timeout", probe_timeout, _ABOVE_ZERO, ulp(0.0))
        if may_probe is not None and not callable(may_probe):
            raise TypeError(f"may_probe must be callable or None, not {safe_repr(may_probe)}")
        self._may_probe = may_probe
        hooks = None if on_change is None else as_hooks("on_change", on_change)
        self._hooks: tuple[Callable[..., object], ...] = hooks or ()
        self._on: Any = as_error_rule("on", on)
        # A breaker may be made where a module is imported, and used in tests on a virtual clock.
        time = _CURRENT_TIME if clock is None else resolve_clock(clock)
        self._monotonic: Callable[[], float] = time.monotonic
        policy = start_policy("backoff", _DEFAULT_BACKOFF if backoff is None else backoff, time)
        self._policy = PolicyRun(policy, resolve_clock(clock), ())
        # Changed by the holder of the claim.
        self._claim = claim_of(self)
        self._circuit: Circuit = Closed(threshold.empty)
        self._asker: list[int] | None = None  # the process of the thread that asks the policy now
        # The open `with` blocks, and the innermost of them here: see `_blocks`.
        self._blocks: dict[Block, None] = {}
        self._innermost: ContextVar[Any] = ContextVar("innermost block", default=None)

    # State

    @property
    def state(self) -> CircuitState:
        """The state that a call would meet now: a circuit whose delay is over is half-open."""
        return self._circuit.state_at(self._monotonic())

    def remaining(self) -> float | None:
        """Return the seconds until a call is let through again; 0.0 if one would be now.

        It is 0.0, too, while the policy is being asked. None: the circuit is open until
        ``reset()``, or half-open, and all its probes are running.
        """
        return self._circuit.seconds_left(self._rules, self._monotonic())

    def reset(self) -> None:
        """Close the circuit, whatever its state, and forget all earlier calls."""
        while not self._advance(self._circuit, Closed(self._rules.threshold.empty)):
            pass

    def open(self, seconds: float | timedelta | None = None) -> None:
        """Open the circuit, for example while the service is being maintained.

        Args:
            seconds: How long, from now: seconds > 0 or a timedelta. The policy is asked as for any
                opening, but its answer is not used: if a probe fails later, the circuit opens for
                its next delay. None: until ``reset()``, without the policy.

        Raises:
            TypeError, ValueError: ``seconds`` is invalid.
            Exception: The policy failed when it was asked; the circuit is open all the same.
        """
        since, until = None, inf
        if seconds is not None:
            since = self._monotonic()
            until = since + as_seconds("seconds", seconds, _ABOVE_ZERO, ulp(0.0))
        last = self._circuit
        while not self._advance(last, Open(until, since=since, is_first=last.is_first)):
            last = self._circuit

    # Calls

    def allow(self) -> CircuitTicket:
        """Let a call through and return its ticket, or raise ``CircuitOpen``.

        It is for calls that no ``with`` block can span, such as those that end in a callback. Pass
        the ticket to ``record()`` or ``release()`` when the call has ended.

        Raises:
            CircuitOpen: The circuit is open, or half-open and lets no further probe through.
            Exception: The policy raised it when it was asked, or ``may_probe`` did.
        """
        return self._circuit.ticket or self._probe()

    def record(self, ticket: CircuitTicket, error: BaseException | None = None) -> None:
        """Tell how a call ended that ``allow()`` let through.

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
        """Tell that a call was not made, or tells nothing: a probe gives its place back."""
        self._end(ticket, None)

    def __enter__(self) -> Self:
        block = Block()
        # ATOMIC: no call between this and the `try` but what lets a probe through: an exception out
        # of a signal handler would keep its place.
        block.ticket = self._circuit.ticket or self._probe()
        try:
            self._blocks[block] = None
            block.token = self._innermost.set(block)
        except BaseException:
            complete(self._drop, block)
            raise
        return self

    def __exit__(self, _: object, exc: BaseException | None, __: object) -> None:
        block: Any = None
        try:
            block = self._innermost.get()
            try:
                self._innermost.reset(block.token)
            except (AttributeError, RuntimeError, TypeError, ValueError):
                # There is none; it was left elsewhere; it is of the task that has started this one.
                block = left_elsewhere(self, self._blocks)
            else:
                block.token = None
                try:
                    del self._blocks[block]
                except KeyError:
                    forget_newest(self._blocks)
            if exc is not None or block.ticket is not self._circuit.steady:
                self.record(block.ticket, exc)
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
        """Replace the state that was seen; False: another thread was faster."""
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
        return is_seen

    def _advance(self, seen: Circuit, after: Circuit) -> bool:
        """Do as ``_replace()``, with all that follows."""
        if not self._replace(seen, after):
            return False
        if after.since is not None or after.state is not seen.state:
            try:
                self._settle()
            finally:
                self._announce(seen, after)
        return True

    def _end(self, ticket: CircuitTicket, failed: bool | None) -> None:
        """Count the result of a call; None: it has none that counts."""
        while True:
            last = self._circuit
            now = 0.0 if failed is None else self._monotonic()
            after = last.ended(self._rules, ticket, failed, now)
            if after is last or self._advance(last, after):
                return

    def _probe(self) -> CircuitTicket:
        """Return the ticket of a probe; that of all calls if the circuit has closed meanwhile."""
        ticket = CircuitTicket()
        try:
            while True:
                self._settle()
                last = self._circuit
                if last.ticket is not None:
                    return last.ticket
                now = self._monotonic()  # after the look: no time in a state is in the future
                ticket.expires = now + self._probe_timeout
                after = last.admitted(self._rules, ticket, now)
                if after is None:
                    left, state = last.seconds_left(self._rules, now), last.state
                    break
                if self._may_probe is not None and not _answer_of(self._may_probe):
                    left, state = None, CircuitState.HALF_OPEN
                    break
                if self._replace(last, after):
                    self._announce(last, after)
                    return ticket
        except BaseException:
            complete(self.release, ticket)
            raise
        raise CircuitOpen(left, self, state)

    def _settle(self) -> None:
        """If it is not known how long the circuit stays open, ask, unless another thread does."""
        claim, mine = self._claim, [_process.generation]
        while self._circuit.since is not None:
            try:
                acquire(claim)
                try:
                    asker = self._asker
                    # One of the process from which this one was forked does not ask here.
                    if asker is None or asker[0] != mine[0]:
                        self._asker = mine
                finally:
                    claim[FREE] = True
                if self._asker is not mine:
                    return  # the other thread looks at the state again when it has asked
                self._ask()
            finally:
                # ATOMIC: no call before this: an exception out of a signal handler would leave the
                # policy as one that is being asked, and the circuit would never close again.
                if self._asker is mine:
                    self._asker = None

    def _ask(self) -> None:
        """Ask the policy how long the circuit stays open; one thread at a time does."""
        opening = self._circuit
        if not isinstance(opening, Open) or opening.since is None:
            return  # another thread was faster
        answer = self._policy.begin() if opening.is_first else self._policy.ask()
        error = answer.error if isinstance(answer, End) else None
        until = opening.until
        if until is None and error is None:
            until = inf if isinstance(answer, End) else opening.since + answer
        if until is not None:
            self._replace(opening, Open(until))
        if error is not None:
            try:
                raise error
            finally:
                del answer, error  # their traceback refers to this frame: a reference cycle

    def _announce(self, before: Circuit, after: Circuit) -> None:
        """Call the hooks if the state has changed for users."""
        if after.state is before.state:
            return
        interrupt: BaseException | None = None
        for hook in self._hooks:
            try:
                result: object = hook(before.state, after.state, self)
                if is_awaitable(result):
                    raise_async("on_change", result)
            except Exception as error:  # noqa: BLE001 - no hook stops the others
                report(error, "Exception in on_change of a circuit breaker", hook)
            except BaseException as error:  # noqa: BLE001 - raised once all were called
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def _drop(self, block: Block) -> None:
        """Forget a block, whose call tells nothing. No effect if it was left and counted."""
        token = getattr(block, "token", None)
        if token is not None:
            block.token = None
            if self._innermost.get() is block:
                self._innermost.reset(token)
        self._blocks.pop(block, None)
        self.release(block.ticket)

    def __repr__(self) -> str:
        last, rules = self._circuit, self._rules
        try:
            now = self._monotonic()
        except Exception:  # noqa: BLE001 - of the clock
            now = nan
        state, left = last.state_at(now), last.seconds_left(rules, now)
        if isinstance(last, Closed):
            shown = f", {rules.threshold.shown(last.history)}"
        elif state is CircuitState.HALF_OPEN:
            succeeded = last.succeeded if isinstance(last, HalfOpen) else 0
            shown = f", {succeeded} of {rules.successes} successes"
        elif left is None:
            shown = " until reset()"
        else:
            shown = "" if isnan(now) else f", {round(left, 3)} s left"
        return f"<{type(self).__name__} {state}{shown}>"


def _answer_of(may_probe: Callable[[], object]) -> bool:
    answer = may_probe()
    if is_awaitable(answer):
        raise_async("may_probe", answer)
    if not isinstance(answer, bool):
        raise TypeError(f"may_probe must return a bool, not {safe_repr(answer)}")
    return answer


def _guarded(breaker: CircuitBreaker, function: Any) -> Any:
    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        ticket = breaker._circuit.ticket or breaker._probe()
        try:
            try:
                result = function(*args, **kwargs)
            except BaseException as error:
                breaker.record(ticket, error)
                raise
            if result.__class__ is CoroutineType:
                instead = "decorate an `async def` function, or use `with breaker:`"
                missed = "a circuit breaker would not see"
                raise coroutine_returned(name_of(function), result, instead, missed)  # noqa: TRY301
            if ticket is not breaker._circuit.steady:
                breaker.record(ticket)
        except BaseException:
            complete(breaker.release, ticket)  # no effect if the result was counted
            raise
        return result

    return guarded


def _guarded_coroutine(breaker: CircuitBreaker, function: Any) -> Any:
    @wraps(function)
    async def guarded(*args: Any, **kwargs: Any) -> Any:
        ticket = breaker._circuit.ticket or breaker._probe()
        try:
            try:
                result = await function(*args, **kwargs)
            except BaseException as error:
                breaker.record(ticket, error)
                raise
            breaker.record(ticket)
        except BaseException:
            complete(breaker.release, ticket)
            raise
        return result

    return guarded
