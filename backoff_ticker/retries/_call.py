"""One operation, called until it succeeds: ``retry_call`` and ``retry_call_async``."""

from __future__ import annotations

from functools import partial
from types import CoroutineType

from .._validation import safe_repr
from ._awaitables import is_awaitable, refuse_coroutine, refuse_plain
from ._drive import drive, drive_async
from ._go_on import go_on, go_on_async
from ._rules import Rules
from ._run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeVar, Unpack

    from ..policies import BackOff
    from ._options import RetryOptions

    T = TypeVar("T")


def retry_call(
    operation: Callable[[], T],
    backoff: BackOff | None = None,
    **options: Unpack[RetryOptions],
) -> T:
    """Call ``operation()`` until it succeeds; return what it returns.

    The wait between two attempts blocks this thread; a cancel of a token ends it at once. See
    ``retry`` for the options and for what is raised at the end. Where the same call is made often,
    ``retry`` checks the options once, this function each time.

    Thread safety: each call is a run of its own, on a copy of the policy.

    Args:
        operation: What to call; it takes no argument (``functools.partial`` binds some).
        backoff: The policy; None: ``ExponentialBackOff()``.
        **options: Those of ``retry``, without ``attempt_timeout``.

    Raises:
        TypeError, ValueError: An argument is not what it should be, or the operation returned a
            coroutine; it was not run.
        Exception: As ``retry``.
    """
    require_operation(operation)
    rules = _rules("retry_call()", backoff, options)
    if options:
        rules.refuse_attempt_timeout()
    return call(rules, operation)


async def retry_call_async(
    operation: Callable[[], Awaitable[T]],
    backoff: BackOff | None = None,
    **options: Unpack[RetryOptions],
) -> T:
    """Await ``operation()`` until it succeeds; return what that returns.

    As ``retry_call()``, in a coroutine. A cancel of a token, and the limits of time, also cut an
    attempt that is running, as ``asyncio.timeout()`` would. A cancel of the task itself ends
    everything and passes as ``asyncio.CancelledError``.

    Args:
        operation: Called for each attempt; returns an awaitable, as coroutine functions do.
        backoff: The policy; None: ``ExponentialBackOff()``.
        **options: Those of ``retry``.

    Raises:
        TypeError, ValueError: An argument is not what it should be, or the operation returned what
            cannot be awaited.
        Exception: As ``retry``.
    """
    require_operation(operation)
    rules = _rules("retry_call_async()", backoff, options)
    return await call_async(rules, operation)


def call(rules: Rules, operation: Callable[[], T], name: str = "") -> T:
    """Call ``operation()`` as ``rules`` say; straight, and no more, while it succeeds."""
    if rules.early:
        result: T = drive(Run(rules, name or name_of(operation)), operation)
        return result
    began = rules.begin()
    try:
        result = operation()
    except Exception as caught:  # noqa: BLE001 - the run judges it
        error = caught
    else:
        if result.__class__ is CoroutineType:
            refuse_coroutine(name or name_of(operation), result)
        if rules.budget is not None:
            rules.budget.success()
        return result
    try:
        result = go_on(rules.settle(), name or name_of(operation), error, began, operation)
    finally:
        del error
    return result


async def call_async(rules: Rules, operation: Callable[[], Awaitable[T]], name: str = "") -> T:
    """Await ``operation()`` as ``rules`` say; straight, and no more, while it succeeds."""
    if rules.early_async:
        result: T = await drive_async(Run(rules, name or name_of(operation)), operation)
        return result
    plain = False
    try:
        awaitable = operation()
        plain = not is_awaitable(awaitable)
        if not plain:
            result = await awaitable
    except Exception as caught:  # noqa: BLE001 - the run judges it
        error = caught
    else:
        if plain:
            refuse_plain(name or name_of(operation), awaitable)
        if rules.budget is not None:
            rules.budget.success()
        return result
    try:
        result = await go_on_async(
            rules.settle(), name or name_of(operation), error, None, operation
        )
    finally:
        del error
    return result


_DEFAULT = Rules("", None, {})


def _rules(what: str, backoff: BackOff | None, options: RetryOptions) -> Rules:
    if backoff is None and not options:
        return _DEFAULT
    return Rules(what, backoff, options)


def require_operation(operation: object) -> None:
    """Raise a TypeError unless ``operation`` can be called."""
    if not callable(operation):
        raise TypeError(f"operation must be callable, not {safe_repr(operation)}")


def name_of(operation: object) -> str:
    """Return what to call an operation in notes and outcomes."""
    while isinstance(operation, partial):
        operation = operation.func
    name = getattr(operation, "__qualname__", None)
    return name if isinstance(name, str) else type(operation).__qualname__
