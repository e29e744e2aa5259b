"""The state of a run of a retry, as hooks see it, why the run ended, and a hook that logs it."""

from __future__ import annotations

import enum
from collections import namedtuple

from .._shown import shown_error
from .._validation import counted, safe_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from collections.abc import Callable
    from typing import Any, NamedTuple

    Logger = logging.Logger | logging.LoggerAdapter[Any]

_WARNING = 30  # as `logging` has it, which takes long to import


class StopReason(enum.StrEnum):
    """Why a run of a retry ended.

    Example:
        >>> from backoff_ticker import StopReason, retry_call
        >>> reasons = []
        >>> retry_call(str, on_success=lambda outcome: reasons.append(outcome.reason))
        ''
        >>> reasons == [StopReason.SUCCEEDED]
        True
    """

    SUCCEEDED = "succeeded"
    """A result of the operation was accepted."""
    PERMANENT = "permanent"
    """The operation raised ``Permanent``."""
    NOT_RETRIED = "not_retried"
    """The operation raised an error that ``on`` does not retry."""
    MAX_ATTEMPTS = "max_attempts"
    """The operation was called ``max_attempts`` times."""
    EXHAUSTED = "exhausted"
    """The policy returned ``STOP``."""
    DEADLINE = "deadline"
    """``timeout`` was reached, or the next wait would have reached it."""
    MAX_ELAPSED_TIME = "max_elapsed_time"
    """``max_elapsed_time`` passed, or would have passed before the next attempt."""
    CIRCUIT_OPEN = "circuit_open"
    """A circuit is open until a reset, or for longer than ``timeout`` or ``no_wait()`` allows."""
    CANCELLED = "cancelled"
    """A token was cancelled, or its deadline passed."""
    BUDGET = "budget"
    """Too little was left in the budget for another attempt."""
    FAILED = "failed"
    """A policy, hook, budget, breaker, timer or other part of the user's raised an error."""
    INTERRUPTED = "interrupted"
    """An exception was raised that is not an ``Exception``, such as ``KeyboardInterrupt``."""


if TYPE_CHECKING:

    class _OutcomeFields(NamedTuple):
        name: str
        attempts: int
        elapsed: float
        waited: float
        delay: float | None
        reason: StopReason | None
        last_error: BaseException | None

else:
    _OutcomeFields = namedtuple(  # noqa: PYI024 - typing is not imported at run time
        "_OutcomeFields", "name attempts elapsed waited delay reason last_error"
    )


class Outcome(_OutcomeFields):
    """The state of one run of a retry, as hooks and ``fallback`` receive it: a named tuple.

    Example:
        >>> from backoff_ticker import retry_call
        >>> retry_call(lambda: "done", on_success=lambda outcome: print(outcome.attempts))
        1
        'done'

    Thread safety: immutable.

    Attributes:
        name: What ``name=`` says, or else the ``__qualname__`` of the operation.
        attempts: The number of attempts, the one that is about to begin included.
        elapsed: The seconds from the start of the first attempt until now, or until the run ended.
        waited: The seconds of ``elapsed`` that were spent in waits between attempts, as measured.
        delay: The seconds of the wait that follows; None if none follows.
        reason: Why the run ended, a ``StopReason``; None while it goes on.
        last_error: The error of the last attempt that failed; None if none has failed.
    """

    # No __slots__: the arguments of the operation are in the __dict__.

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments of the decorated function, ``self`` of a method included.

        They may be secret, so the tuple, its ``repr`` and its pickle do not have them.
        """
        return self.__dict__.get("args", ())

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments of the decorated function; see ``args``."""
        return self.__dict__.get("kwargs", {})

    def __getstate__(self) -> None:
        """Leave the arguments out."""

    def __repr__(self) -> str:
        error = self.last_error
        shown = (*map(safe_repr, self[:-1]), "None" if error is None else shown_error(error))
        fields = (f"{name}={value}" for name, value in zip(self._fields, shown, strict=True))
        return f"{type(self).__name__}({', '.join(fields)})"

    @property
    def succeeded(self) -> bool:
        """Whether a result of the operation was accepted."""
        return self.reason is StopReason.SUCCEEDED


class Ending:
    """How a run ends: what a decision returns if no other attempt follows."""

    __slots__ = ("error", "reason", "why")

    def __init__(
        self, reason: StopReason, why: str = "", error: BaseException | None = None
    ) -> None:
        self.reason: StopReason = reason
        self.why: str = why  # the same in words, for the note on the error
        self.error: BaseException | None = error  # None: the last error of the operation


def log_retries(logger: Logger | None = None, level: int = _WARNING) -> Callable[[Outcome], None]:
    """Return a hook that logs each failure, for ``on_retry`` and ``on_give_up``.

    The message has the name of the operation, the number of attempts, the error, and the wait that
    follows or the reason why none does. What may be secret is left out: the arguments, and of the
    error passwords and queries of URLs, and what is no text, number, error or list of them, such
    as a request.

    Example:
        >>> import logging, sys
        >>> from backoff_ticker import log_retries, retry_call
        >>> logger = logging.Logger("fetching")
        >>> logger.addHandler(logging.StreamHandler(sys.stdout))
        >>> retry_call(lambda: 7, name="fetch", on_success=log_retries(logger))
        fetch succeeded after 1 attempt
        7

    Args:
        logger: The logger. None means the logger named ``backoff_ticker``.
        level: The level of the messages, such as ``logging.INFO``.

    Raises:
        TypeError: ``logger`` has no method ``log()``, or ``level`` is not an int.
    """
    if logger is None:
        import logging

        logger = logging.getLogger("backoff_ticker")
    if not callable(getattr(logger, "log", None)):
        raise TypeError(f"logger must be a logging.Logger or None, not {safe_repr(logger)}")
    if isinstance(level, bool) or not isinstance(level, int):
        raise TypeError(f"level must be an int, such as logging.INFO, not {safe_repr(level)}")
    log = logger.log

    def log_retry(outcome: Outcome) -> None:
        name, number, failure = outcome.name, outcome.attempts, outcome.last_error
        if outcome.delay is not None:
            error = "" if failure is None else f": {shown_error(failure)}"
            message = "%s failed in attempt %d, again in %g s%s"
            log(level, message, name, number, round(outcome.delay, 3), error)
        elif outcome.reason is None:
            log(level, "%s: attempt %d", name, number)
        elif outcome.succeeded:
            log(level, "%s succeeded after %s", name, counted(number, "attempt"))
        else:
            made = counted(number, "attempt")
            # The error of an earlier attempt, if a limit has cut the last one.
            error = "" if failure is None else f"; last error: {shown_error(failure)}"
            log(level, "%s gave up after %s, %s%s", name, made, outcome.reason, error)

    return log_retry
