"""``hedge_call``: hedging with attempts in threads, which nothing can cut."""

from __future__ import annotations

from contextvars import copy_context
from sys import modules
from types import CoroutineType

from .._errors import Cancelled, ChannelClosed, Permanent
from .._validation import safe_repr
from ..channels import Channel, select
from ..clock import start_thread
from ..retries import (
    NO_FALLBACK,
    Run,
    StopReason,
    concluded,
    coroutine_returned,
    name_of,
    raised,
    settings,
    show_attempt,
    shows,
    token_of_attempts,
)
from ..waiting import FREE, acquire, claim_of, complete, raise_if_loop_runs
from ._hedging import CUT_FOR, Hedging, NotMade, checked_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Executor, Future
    from typing import Any, TypeVar, Unpack, overload

    from ..cancellation import CancellationToken
    from ..clock import Clock
    from ..policies import BackOff
    from ..retries import (
        BudgetLike,
        CircuitBreaker,
        HedgeOptions,
        NoFallback,
        Outcome,
        ResultCheck,
        RetryOn,
        Seconds,
        Untyped,
        UseHedgeCallAsync,
    )

    T = TypeVar("T")
    D = TypeVar("D")
else:
    from ..retries import overload


if TYPE_CHECKING:

    @overload
    def hedge_call(
        operation: Callable[[], T],
        backoff: BackOff | None = None,
        *,
        pool: Executor | None = None,
        fallback: Callable[[Outcome], D],
        **options: Unpack[HedgeOptions],
    ) -> T | D: ...
    @overload
    def hedge_call(
        operation: Callable[[], T],
        backoff: BackOff | None = None,
        *,
        pool: Executor | None = None,
        fallback: D,
        **options: Unpack[HedgeOptions],
    ) -> T | D: ...
    @overload
    def hedge_call(
        operation: Callable[[], Untyped],
        backoff: BackOff | None = None,
        *,
        pool: Executor | None = None,
        **options: Unpack[HedgeOptions],
    ) -> Any: ...
    @overload
    def hedge_call(
        operation: Callable[[], Coroutine[Any, Any, Any]],
        backoff: BackOff | None = None,
        *,
        pool: Executor | None = None,
        **options: Unpack[HedgeOptions],
    ) -> UseHedgeCallAsync: ...


@overload
def hedge_call(
    operation: Callable[[], T],
    backoff: BackOff | None = None,
    *,
    pool: Executor | None = None,
    on: RetryOn = Exception,
    until: ResultCheck | None = None,
    retry_if: ResultCheck | None = None,
    token: CancellationToken | None = None,
    timeout: Seconds | None = None,
    max_elapsed_time: Seconds | None = None,
    max_attempts: int | None = 5,
    max_retry_after: Seconds | None = 21_600.0,
    fallback: NoFallback = NO_FALLBACK,
    budget: BudgetLike | None = None,
    breaker: CircuitBreaker | None = None,
    clock: Clock | None = None,
) -> T: ...
@shows(hedge_call)
def hedge_call(
    operation: Any, backoff: Any = None, *, pool: Executor | None = None, **options: Any
) -> Any:
    """Call ``operation()``, call it again while it is slow, and return the first good result.

    This is a *hedged call*: it trades extra calls for a shorter wait when one server is slow. Use
    it only for operations that may safely run twice at the same time.

    Each attempt runs in a thread of its own. The next attempt starts when the next delay of the
    policy has passed since the last start, or at once when a running attempt fails. The first good
    result ends the call. An error that is permanent, or that ``on`` does not retry, ends it and is
    raised. No more attempts start once the policy has returned ``STOP``, ``max_attempts`` have
    started or the budget is spent; then the attempts that are running decide.

    The call returns or raises as soon as that is decided. Threads cannot be cut: attempts that are
    still running go on, and their results and errors are dropped, even if they end right after
    ``timeout``. Let the operation watch ``current_attempt().token``: each attempt has its own,
    which is cancelled when the call ends. An attempt that has not begun by then never begins.

    Source: hedging as in gRPC (gRFC A6).

    Example:
        >>> from backoff_ticker import ConstantBackOff, current_attempt, hedge_call
        >>> servers = iter(["slow", "fast"])
        >>> def fetch():
        ...     server = next(servers)
        ...     if server == "slow":
        ...         current_attempt().token.wait(10)
        ...     return server
        >>> hedge_call(fetch, ConstantBackOff(0.001), max_attempts=2)
        'fast'

    Thread safety: each call is a run of its own, on a copy of the policy.
    Wakes when: an attempt ends, the next is due, ``timeout`` is reached, or a token is cancelled.
    If interrupted: the tokens of all attempts are cancelled, then the exception is raised.

    Args:
        operation: A callable, called without arguments, for each attempt in a copy of the
            caller's context (``contextvars``).
        backoff: The policy of the delays between starts. None means ``ExponentialBackOff()``.
        pool: A ``concurrent.futures.Executor`` of threads in which the attempts run. An attempt
            that waits in the queue of the pool counts as slow. Do not call ``hedge_call`` in a
            worker of the same pool: if every worker does so, no attempt ever begins. None means a
            new daemon thread for each attempt; the process does not wait for it at exit.
        **options: The options of ``hedge_call_async``.

    Raises:
        Exception: The last error, if all attempts fail, with a note that says why no more started.
        Cancelled: A token was cancelled. Its ``__cause__`` is the last error, if there was one.
        DeadlineExceeded: ``timeout``, or the deadline of a token, was reached; likewise.
        RuntimeError: An event loop runs in this thread, no thread could be started, or the pool is
            shut down, broken or full; an executor may raise an error of its own.
        TypeError, ValueError: An argument is invalid.
    """
    checked = checked_options("hedge_call()", operation, backoff, options)
    if pool is not None:
        _require_thread_pool(pool)
    if settings.in_use:
        checked = checked.under_settings()
        if checked.is_off:
            return operation()
    raise_if_loop_runs("hedge_call()", "await hedge_call_async()")
    run = Run(checked, name_of(operation))
    threads = _Threads(run, operation, pool)
    try:
        result = _result(Hedging(run, threads.launch), threads)
    finally:
        # An interrupt may hit the first call of a finally clause.
        try:
            threads.dismiss()
        except BaseException:
            complete(threads.dismiss)
            raise
        run.error = None  # its traceback refers to this frame: a reference cycle
        run.result = None  # attempts that still run can refer to the run
    return result


def _require_thread_pool(pool: object) -> None:
    futures = modules.get("concurrent.futures")
    if futures is None or not isinstance(pool, futures.Executor):
        raise TypeError(
            "pool must be a concurrent.futures.Executor whose workers are threads, or None, "
            f"not {safe_repr(pool)}"
        )
    for where, name in _WITHOUT_SHARED_MEMORY.items():
        if isinstance(pool, getattr(modules.get(where), name, ())):
            raise TypeError(
                f"pool must have threads of this interpreter as its workers, not {safe_repr(pool)}"
            )


_WITHOUT_SHARED_MEMORY = {
    "concurrent.futures.process": "ProcessPoolExecutor",
    "concurrent.futures.interpreter": "InterpreterPoolExecutor",
}


def _result(hedging: Hedging, threads: _Threads) -> Any:
    """Return the first good result, or raise how the call ended."""
    run = hedging.run
    try:
        hedging.end(_decide(hedging, threads))
        if run.reason in CUT_FOR and _has_succeeded(hedging, threads):
            hedging.end(StopReason.SUCCEEDED)
    except Exception as failure:  # noqa: BLE001 - of the policy or the pool, or of what judges
        hedging.end(run.fail(failure))
    threads.dismiss()
    try:
        concluded(run).send(None)
    except StopIteration as end:
        final = end.value
    try:
        return run.result if final is None else raised(final)
    finally:
        del final


def _decide(hedging: Hedging, threads: _Threads) -> StopReason:
    hedging.start()
    reason = None
    while reason is None:
        attempt = _next_end(hedging, threads)
        reason = hedging.after_wait() if attempt is None else _handle(attempt, hedging, threads)
    return reason


def _handle(attempt: _Attempt, hedging: Hedging, threads: _Threads) -> StopReason | None:
    """Act on the end of an attempt; return why the call is over, None if it is not."""
    error = attempt.take_error()
    try:
        if attempt.was_dropped:
            hedging.run.attempts -= 1
            hedging.run.failing_component = threads.source
            raise error
        reason = None
        if attempt.ends_as_told(error):
            reason = hedging.limit_reached()  # that is no failure
        threads.forget(attempt)
        answer: Any = reason or hedging.after_end(error, attempt.result)
        return answer  # type: ignore[no-any-return]
    finally:
        del error  # its traceback refers to this frame: a reference cycle


def _next_end(hedging: Hedging, threads: _Threads) -> _Attempt | None:
    """Wait until an attempt has ended and return it; None if a limit or a start is due."""
    ended, token = threads.ended, hedging.token
    sources: tuple[Any, ...] = (ended,) if token is None else (ended, token)
    try:
        source, value = select(*sources, timeout=hedging.seconds_left())
    except TimeoutError:
        source = None
    if source is ended:
        return value  # type: ignore[no-any-return]
    return ended.receive_nowait() if len(ended) else None


def _has_succeeded(hedging: Hedging, threads: _Threads) -> bool:
    """Whether an attempt returned a good result before its end was looked at."""
    came = False
    while not came and len(threads.ended):
        attempt = threads.ended.receive_nowait()
        if attempt.take_error() is None:
            came = hedging.accepts(attempt.result) is True
    return came


class _Threads:
    """The attempts of one call.

    Attributes:
        source: What the threads come from, for notes.
        ended: Receives each attempt as it ends; closed once the call is decided.
    """

    __slots__ = ("_attempts", "_operation", "_pool", "_run", "ended", "source")

    def __init__(self, run: Run, operation: Callable[[], Any], pool: Executor | None) -> None:
        self._run = run
        self._operation = operation
        self._pool = pool
        self._attempts: dict[_Attempt, None] = {}
        self.ended: Channel[_Attempt] = Channel(float("inf"), clock=run.clock)
        self.source: str = "the start of a thread" if pool is None else "the pool"

    def launch(self) -> None:
        """Start an attempt.

        Raises:
            Exception: The pool refuses it, or no thread can be started.
        """
        run = self._run
        attempt = _Attempt(run, self._operation, self.ended)
        self._attempts[attempt] = None
        call = copy_context().run
        call(show_attempt, run, run.attempts, attempt.token)
        run.failing_component = self.source
        try:
            if self._pool is None:
                start_thread(lambda: call(attempt.make), f"{run.name}, {run.attempts}")
            else:
                attempt.follow(self._pool.submit(call, attempt.make))
        except Exception:
            run.attempts -= attempt.withdraw()
            raise

    def forget(self, attempt: _Attempt) -> None:
        """Forget an attempt that has ended; its token is cancelled."""
        attempt.token.cancel()
        self._attempts.pop(attempt, None)

    def dismiss(self) -> None:
        """Tell the attempts that the call has ended; those that have not begun never begin.

        May be repeated.
        """
        self.ended.close()
        while len(self.ended):
            attempt = self.ended.receive_nowait()
            attempt.take_error()
            self._run.attempts -= attempt.was_dropped
        for attempt in list(self._attempts):
            self._run.attempts -= attempt.withdraw()
            attempt.token.cancel("the hedged call has ended")


class _Attempt:
    """One attempt, in its thread and for the caller.

    It refers to no frame of the caller, which may return before the attempt ends.

    Attributes:
        token: Cancelled when the attempt has ended, and when the call has.
        result: What the operation returned.
        was_dropped: Whether the pool dropped it before it began; the error says why.
    """

    __slots__ = (
        "_asks_budget",
        "_breaker",
        "_budget",
        "_ended",
        "_error",
        "_future",
        "_is_first",
        "_is_paid",
        "_is_taken",
        "_name",
        "_operation",
        "result",
        "token",
        "was_dropped",
    )

    def __init__(self, run: Run, operation: Callable[[], Any], ended: Channel[_Attempt]) -> None:
        self._operation = operation
        self._name = run.name
        self._is_first = run.attempts == 1
        self._budget: Any = None if self._is_first else run.options.budget
        self._asks_budget: bool = self._budget is not None and run.options.awaits_budget
        self._is_paid: bool = self._budget is not None and not self._asks_budget
        self._breaker: CircuitBreaker | None = run.options.breaker
        self._ended = ended
        self._is_taken = False  # the thread that sets it makes the attempt, or prevents it
        self._future: Future[Any] | None = None
        self._error: Any = None
        self.token: CancellationToken = token_of_attempts(run)
        self.result: Any = None
        self.was_dropped: bool = False

    # In its thread

    def make(self) -> None:
        """Make the attempt, and tell the caller how it ended."""
        if not self._take():
            return
        made = True
        try:
            if self._asks_budget:
                self._pay()
            made = self._call() if self._breaker is None else self._call_through(self._breaker)
        except BaseException as error:  # noqa: BLE001 - the caller decides about it
            self._error = error
        if made:
            self._tell()

    def _pay(self) -> None:
        try:
            self._is_paid = self._budget.try_acquire()
        except Exception as failure:
            raise NotMade from failure
        if not self._is_paid:
            raise NotMade

    def _call(self) -> bool:
        """Call the operation; False: not called, because the token is cancelled.

        Then the caller is about to find its token cancelled, too.
        """
        token = None if self._is_first else self.token
        # Right before the call: later than that, nothing can prevent it.
        if token is not None and token.cancelled:
            self._refund()
            return False
        result = self.result = self._operation()
        if result.__class__ is CoroutineType:
            instead = "use await hedge_call_async()"
            raise Permanent(coroutine_returned(self._name, result, instead))
        return True

    def _call_through(self, breaker: CircuitBreaker) -> bool:
        try:
            ticket = breaker.allow()
        except BaseException:  # as in hedge_call_async()
            self._refund()
            raise
        try:
            made = self._call()
        except BaseException as error:
            if self.ends_as_told(error):
                breaker.release(ticket)  # it says nothing about the service
            else:
                breaker.record(ticket, error)
            raise
        if made:
            breaker.record(ticket)
        else:
            breaker.release(ticket)
        return made

    def ends_as_told(self, error: BaseException | None) -> bool:
        """Whether ``error`` says that the token of this attempt was cancelled."""
        return isinstance(error, Cancelled) and self.token.cancelled

    def _tell(self) -> None:
        try:
            self._ended.send_nowait(self)
        except ChannelClosed:
            self._error = None  # its traceback refers to this attempt: a reference cycle

    # For the caller

    def take_error(self) -> Any:
        """Return what the operation raised, and forget it; None: it returned ``result``."""
        error, self._error = self._error, None
        return error

    def withdraw(self) -> bool:
        """Prevent an attempt that has not begun; True if this is what prevented it."""
        prevented = self._take()
        if prevented:
            self._refund()
            future = self._future
            if future is not None:
                future.cancel()
        return prevented

    def follow(self, future: Future[Any]) -> None:
        """Keep the future of a pool, which may cancel it."""
        self._future = future
        future.add_done_callback(self._note_done)

    def _note_done(self, future: Future[Any]) -> None:
        self._future = None  # it refers to this method: a reference cycle
        if self._take():
            self._refund()
            self.was_dropped = True
            if future.cancelled():
                self._error = RuntimeError(
                    "the pool cancelled an attempt that had not begun: was it shut down?"
                )
            else:
                self._error = future.exception() or RuntimeError("the pool made no attempt")
            self._tell()

    def _take(self) -> bool:
        """Whether it is this call that decides whether the attempt is made: the first one."""
        claim = claim_of(self)
        acquire(claim)
        try:
            is_first = not self._is_taken
            self._is_taken = True
        finally:
            claim[FREE] = True
        return is_first

    def _refund(self) -> None:
        if self._is_paid:
            self._budget.release()
