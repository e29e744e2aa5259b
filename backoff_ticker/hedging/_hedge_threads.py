"""``hedge_call``: hedging with attempts in threads, which nothing can cut."""

from __future__ import annotations

from contextvars import copy_context
from functools import partial
from sys import modules
from types import coroutine

from .._validation import safe_repr
from ..clock import start_thread
from ..retries import NO_FALLBACK, raised, shows
from ..waiting import complete, raise_if_loop_runs
from ._attempt import Attempt
from ._perform import Attempts, new_run, perform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
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
        Run,
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
    if pool is not None:
        _require_thread_pool(pool)
    run = new_run("hedge_call()", operation, backoff, options)
    if run is None:
        return operation()
    raise_if_loop_runs("hedge_call()", "await hedge_call_async()")
    threads = _Threads(run, operation, pool)
    final: BaseException | None = None
    try:
        perform(threads).send(None)  # type: ignore[attr-defined]
    except StopIteration as end:  # no other: a generator raises none
        final = end.value
        if final is None:
            return run.result
    finally:
        # An interrupt may hit the first call of a finally clause.
        try:
            threads.dismiss()
        except BaseException:
            complete(threads.dismiss)
            raise
        run.error = None  # its traceback refers to this frame: a reference cycle
        run.close()
    try:
        raised(final)  # type: ignore[arg-type]
    finally:
        final = None


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


class _Threads(Attempts):
    """The attempts of one call, in threads."""

    def __init__(self, run: Run, operation: Callable[[], Any], pool: Executor | None) -> None:
        super().__init__(run, operation)
        self._pool = pool

    def launch(self) -> None:
        run, pool = self.run, self._pool
        attempt = Attempt(run, self.operation, self.ended)
        self.running[attempt] = None
        run.failing_component = "the start of a thread" if pool is None else "the pool"
        job = _job(attempt, run.failing_component)
        next(job)
        call = partial(copy_context().run, next, job, None)
        try:
            if pool is None:
                start_thread(call, f"{run.name}, {run.attempts}")
            else:
                attempt.job = future = pool.submit(call)
                future.add_done_callback(partial(_note_end, attempt))
        except Exception:
            run.attempts -= attempt.withdraw()
            raise

    def dismiss(self) -> None:
        self.ended.close()
        while len(self.ended):
            self.drop(self.ended.receive_nowait())
        for attempt in list(self.running):
            if attempt.withdraw():
                self.run.attempts -= 1
                if attempt.job is not None:
                    attempt.job.cancel()
            attempt.token.cancel("the hedged call has ended")  # type: ignore[union-attr]


@coroutine
def _job(attempt: Attempt, component: str) -> Generator[Any, Any, None]:
    """Make an attempt in its thread, and tell the caller how it ended, whatever is raised.

    The caller takes the first step, so that in the thread no instruction is outside the ``try``. If
    the thread never takes the second one, the caller learns of that, too.
    """
    try:
        yield
        yield from attempt.make()
        attempt.tell()
    except BaseException as error:  # noqa: BLE001 - the caller decides about it
        if attempt.is_begun:
            attempt.tell(error)
        elif isinstance(error, GeneratorExit):
            attempt.tell_if_not_begun(component, RuntimeError("no thread has made the attempt"))
        else:
            attempt.tell_if_not_begun(component, error)


def _note_end(attempt: Attempt, future: Future[None]) -> None:
    """Tell the caller if a pool has not begun an attempt."""
    attempt.job = None
    if not attempt.is_begun:
        error: BaseException | None = None
        if future.cancelled():
            text = "the pool cancelled an attempt that had not begun: was it shut down?"
        else:
            error, text = future.exception(), "the pool made no attempt"
        attempt.tell_if_not_begun("the pool", error or RuntimeError(text))
