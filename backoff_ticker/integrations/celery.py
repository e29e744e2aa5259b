"""Policies for the retries of Celery's tasks, and a token that ends with a worker."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial, wraps
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from .. import (
    CancellationToken,
    CircuitOpen,
    ExponentialBackOff,
    StopReason,
    attempts,
    configure,
    delay_after,
)
from ._shared import check_policy, imports_of_extra

with imports_of_extra("celery"):
    import celery
    from celery.exceptions import Reject, Retry, SoftTimeLimitExceeded, TaskPredicate
    from celery.local import Proxy
    from celery.signals import worker_init, worker_process_init, worker_shutting_down

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from typing import NoReturn

    from .. import BackOff, BudgetLike, CircuitBreaker, Outcome, Stop
    from ..types import CircuitTicket

    Seconds = float | timedelta
    RetryOn = (
        type[Exception]
        | tuple[type[Exception], ...]
        | UnionType
        | Mapping[type[Exception], bool | Seconds | BackOff]
        | Callable[[Exception], bool | Seconds]
    )

__all__ = ["retry_task", "shutdown_token"]

P = ParamSpec("P")
T = TypeVar("T")

_WRONG_PROGRAM: Final = (  # what ``retry`` does not retry, either, without ``on``
    *(AssertionError, AttributeError, ImportError, NameError, NotImplementedError),
    *(SyntaxError, TypeError),
)
_HALF_AN_HOUR: Final = 1800.0
_SENT_BACK_FOR: Final = 10.0  # seconds, if a task did not fail and nobody says how long


def retry_task(
    policy: BackOff | None = None,
    *,
    on: RetryOn | None = None,
    max_retry_after: Seconds | None = _HALF_AN_HOUR,
    token: CancellationToken | None = None,
    budget: BudgetLike | None = None,
    breaker: CircuitBreaker | None = None,
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate the function of a task: Celery retries it at the times of a back-off policy.

    Write it below ``@app.task`` or ``@shared_task``, or above the method ``run`` of a class. While
    a task waits for its next attempt, it is a message at the broker, and no worker is occupied. The
    policy is asked for the delay with the number ``task.request.retries``, which that message
    carries, so nothing is lost with a worker.

    In the end the task fails with the last error, which has a note that says why: when

    - ``max_retries`` of the task are over, which is 3 unless ``@app.task(max_retries=...)`` says
      otherwise. With None only the policy ends the retries;
    - the policy returns ``STOP``. Time limits in a policy count its delays only; Celery's
      ``expires`` counts all;
    - the task raises ``Permanent``, or an error that ``on`` does not name;
    - the budget has too little left.

    A task is sent back without counting a retry while the circuit of ``breaker`` is open, for as
    long as the circuit says, and for 10 s if a token stopped it; but for no longer than half of the
    broker's visibility timeout, after which it would be delivered twice:
    ``visibility_timeout`` of ``broker_transport_options``, or else half an hour, as for SQS.

    ``self.retry()``, ``Ignore``, ``Reject`` and ``Retry`` mean what they always mean, and neither
    count for the breaker nor fill the budget. In eager mode Celery retries without waiting, and an
    open circuit or a cancelled token raises its error. Default hooks see each attempt as a run of
    its own.

    Example:
        >>> from celery import Celery
        >>> from backoff_ticker import ExponentialBackOff
        >>> from backoff_ticker.integrations.celery import retry_task
        >>> app = Celery("tasks")
        >>> @app.task(bind=True)
        ... @retry_task(ExponentialBackOff(30), on=ConnectionError)
        ... def fetch_price(self):
        ...     if self.request.retries < 2:
        ...         raise ConnectionError("no route")
        ...     return "42"
        >>> fetch_price.apply().get()
        '42'

    ``autoretry_for`` would retry what has ended here: a task that has it, too, raises ``TypeError``
    whenever it is called. (Where it is made, Celery does not tell.)

    Args:
        policy: The back-off policy; None means ``ExponentialBackOff()``. For retry n it gives its
            n-th delay, that of ``delay_after(policy, n)``: delays that are drawn at random, and
            count for a time limit, are drawn again for each retry.
        on: The errors that are retried, as in ``retry``, with the same default. Types and a mapping
            do not cover ``SoftTimeLimitExceeded`` unless they name it. A policy in a mapping gives
            the delay for all retries of the task, whatever the errors before.
        max_retry_after: As in ``retry``; by default 30 minutes. Keep it below the visibility
            timeout of Redis or SQS (one hour, unless you change it).
        token: Ends retries inside the task as well, if you pass it to them. If it is cancelled when
            the task fails, the task is sent back. The default token has the same effect.
        budget: Each retry takes from it, and each success fills it.
        breaker: The task runs only if its circuit lets it through.
    """
    options: dict[str, Any] = {"max_retry_after": max_retry_after, "token": token}
    attempts(on=on, budget=budget, breaker=breaker, **options)  # checks them
    policy = ExponentialBackOff() if policy is None else policy
    check_policy(policy)
    retries = _Retries(policy, on, budget, breaker, options)

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        if issubclass(type(function), (celery.Task, Proxy)):
            raise TypeError("retry_task() decorates a function: write @app.task above it")
        if inspect.iscoroutinefunction(function) or not callable(function):
            raise TypeError(f"retry_task() decorates a function without async, not {function!r}")

        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            task: Any = celery.current_task  # has no types
            _refuse_autoretry(task)
            if not task or task.request.called_directly:
                return function(*args, **kwargs)
            return retries.run(task, partial(function, *args, **kwargs))

        # By it Celery checks the arguments of a task; it does not look for what is wrapped.
        vars(run)["__signature__"] = inspect.signature(function)
        return run

    return decorate


@dataclass(frozen=True, slots=True)
class _Retries:
    """The options of one decorated function, and what follows an attempt."""

    policy: BackOff
    on: RetryOn | None
    budget: BudgetLike | None
    breaker: Any  # a CircuitBreaker or None
    options: Mapping[str, Any]

    def run(self, task: Any, call: Callable[[], T]) -> T:
        """Make one attempt; if it fails, send the task back or raise its error."""
        request, limit = task.request, task.max_retries
        ticket = self._ticket(task)
        loop = attempts(
            _DelayAfter(self.policy, request.retries + 1),
            on=_on_after(self.on, request.retries + 1),
            max_attempts=None if limit is None else max(limit - request.retries, 0) + 1,
            **self.options,
        )
        try:
            for attempt in loop:
                with attempt:
                    return self._attempt(ticket, call)
                break  # Celery makes the next one
        except Exception as error:
            if loop.outcome.reason is StopReason.CANCELLED and not request.is_eager:
                raise _send_back_uncounted(task, error, _SENT_BACK_FOR) from error
            _count_in_note(error, loop.outcome, request.retries, limit)
            raise
        finally:
            if ticket is not None:
                self.breaker.release(ticket)  # no effect if the result was recorded
        return self._retry(task, loop.outcome)

    def _ticket(self, task: Any) -> CircuitTicket | None:
        try:
            return None if self.breaker is None else self.breaker.allow()
        except CircuitOpen as error:
            if task.request.is_eager:
                raise
            raise _send_back_uncounted(task, error, error.seconds or _SENT_BACK_FOR) from error

    def _attempt(self, ticket: CircuitTicket | None, call: Callable[[], T]) -> T:
        try:
            result = call()
        except BaseException as error:
            if ticket is not None and not isinstance(error, TaskPredicate):
                self.breaker.record(ticket, error)
            raise
        if ticket is not None:
            self.breaker.record(ticket)
        if self.budget is not None:
            self.budget.success()
        return result

    def _retry(self, task: Any, outcome: Outcome) -> NoReturn:
        """Send a task back that has failed, if the budget lets it."""
        retries, budget = task.request.retries, self.budget
        error: Any = outcome.last_error
        delay: Any = outcome.delay
        if budget is not None and not budget.try_acquire():
            error.add_note(_note(retries, f"nothing left in {budget!r}"))
            raise error
        try:
            retry = _send_back(task, error, delay, retries + 1)
        except BaseException:
            if budget is not None:
                budget.release()
            raise
        raise retry from error


class _DelayAfter:
    """A policy that answers as another one does after a number of failures."""

    def __init__(self, backoff: BackOff, failures: int) -> None:
        self.token = getattr(backoff, "token", None)
        self._backoff = backoff
        self._failures = failures

    def reset(self) -> None:
        """Do nothing: it has no state."""

    def next_backoff(self) -> float | Stop:
        return delay_after(self._backoff, self._failures)

    def __repr__(self) -> str:
        return repr(self._backoff)


def _on_after(on: Any, failures: int) -> Any:
    """Return ``on`` for one retry, without the errors that mean something to Celery."""
    if on is None:
        on = {Exception: True, **dict.fromkeys(_WRONG_PROGRAM, False)}
    elif isinstance(on, UnionType):
        on = on.__args__
    if isinstance(on, (type, tuple)):
        on = dict.fromkeys(on if isinstance(on, tuple) else (on,), True)
    if isinstance(on, Mapping):
        rules = {
            kind: _DelayAfter(rule, failures) if hasattr(rule, "next_backoff") else rule
            for kind, rule in on.items()
        }
        return {SoftTimeLimitExceeded: False, **rules, TaskPredicate: False}
    return lambda error: not isinstance(error, TaskPredicate) and on(error)


def _refuse_autoretry(task: Any) -> None:
    if task and getattr(task, "autoretry_for", None):
        task.request.called_directly = True  # else Celery retries this error as well
        raise TypeError(
            f"task {task.name} has autoretry_for and @retry_task: Celery would retry what the "
            "policy, the budget or Permanent has ended; leave autoretry_for out, and name the "
            "errors in on="
        )


def _send_back_uncounted(task: Any, error: BaseException, seconds: float) -> Retry:
    """Send a task back that was not tried, and that the broker is to deliver once."""
    options = task.app.conf.broker_transport_options or {}
    visible = options.get("visibility_timeout") or _HALF_AN_HOUR
    return _send_back(task, error, min(seconds, visible / 2), task.request.retries)


def _send_back(task: Any, error: BaseException, countdown: float, retries: int) -> Retry:
    """Send a task back, and return what tells Celery so.

    ``task.retry()`` always counts a retry. And if it does not reach the broker, it rejects the
    message for good; here that goes back to the queue, if it is not acknowledged yet.
    """
    request = task.request
    signature = task.signature_from_request(request, countdown=countdown, retries=retries)
    if not request.is_eager:
        try:
            signature.apply_async()
        except task.OperationalError as failure:
            raise Reject(failure, requeue=True) from error
    return Retry(exc=error, when=countdown, is_eager=request.is_eager, sig=signature)


def _count_in_note(error: Exception, outcome: Outcome, retries: int, limit: int | None) -> None:
    """Correct the note of a run that knows of one attempt only."""
    notes = getattr(error, "__notes__", None)
    if notes and notes[-1].startswith("gave up after 1 attempt in "):
        why = notes[-1].partition(": ")[2]
        if outcome.reason is StopReason.MAX_ATTEMPTS:
            why = f"max_retries is {limit}"
        notes[-1] = _note(retries, why)


def _note(retries: int, why: str) -> str:
    return f"gave up after {retries + 1} attempt{'s' if retries else ''}: {why}"


# The token of a worker

_token = CancellationToken()
_main_process: list[int] = []
_ends: list[int] = []  # of a pipe: the main process closes its own, to tell the others


def shutdown_token() -> CancellationToken:
    """Return the token of this worker, which is cancelled when the worker is told to stop.

    Every call returns the same one. Call it where the tasks are defined, as the first call connects
    it with Celery's signals. In workers, it is then the default token of all retries:
    ``configure(token=shutdown_token())``. It is cancelled as soon as the warm, soft or cold
    shutdown begins, in the main process and in those of the pool ``prefork``; the cause is the name
    of the signal, such as ``"SIGTERM"``, or a text. In other programs nothing cancels it.

    Thread safety: any thread.
    """
    worker_init.connect(_start, weak=False)  # a second time it has no effect
    worker_shutting_down.connect(_stop, weak=False)
    worker_process_init.connect(_listen, weak=False)
    return _token


def _start(**_: object) -> None:
    _main_process[:] = [os.getpid()]
    _ends[:] = os.pipe()
    configure(token=_token)


def _stop(sig: str, **_: object) -> None:
    _token.cancel(sig)
    if len(_ends) > 1:
        os.close(_ends.pop())


def _listen(**_: object) -> None:
    # A process of the pool; one that begins during the shutdown has a cancelled token.
    if len(_ends) > 1 and os.getpid() not in _main_process:
        os.close(_ends.pop())
        threading.Thread(target=_wait, daemon=True).start()


def _wait() -> None:
    os.read(_ends[0], 1)
    _token.cancel("the worker shuts down")
