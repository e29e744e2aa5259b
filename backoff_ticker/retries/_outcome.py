"""How far one run of a retry has come: for hooks, and for the ``outcome`` of a loop."""

from __future__ import annotations

import enum
from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NamedTuple


class StopReason(enum.StrEnum):
    """Why a retry makes no further attempt.

    Example:
        >>> from backoff_ticker import StopReason, attempts
        >>> run = attempts()
        >>> for attempt in run:
        ...     with attempt:
        ...         pass
        >>> run.outcome.reason is StopReason.SUCCEEDED
        True
    """

    SUCCEEDED = "succeeded"
    """The operation returned a value that was accepted."""
    PERMANENT = "permanent"
    """It raised ``Permanent``."""
    NOT_RETRIED = "not_retried"
    """It raised an error that ``on`` does not retry."""
    MAX_ATTEMPTS = "max_attempts"
    """``max_attempts`` were made."""
    EXHAUSTED = "exhausted"
    """The policy returned ``STOP``."""
    DEADLINE = "deadline"
    """``timeout`` was reached, or would have been by the next wait."""
    MAX_ELAPSED_TIME = "max_elapsed_time"
    """``max_elapsed_time`` has passed, or would have before the next attempt."""
    CIRCUIT_OPEN = "circuit_open"
    """The circuit of ``breaker`` stays open until a reset, or longer than ``timeout`` allows."""
    CANCELLED = "cancelled"
    """A token was cancelled, or its deadline passed."""
    BUDGET = "budget"
    """The budget had nothing left for another attempt."""
    FAILED = "failed"
    """The policy, a hook, the timer, ``on``, ``until`` or ``retry_if`` raised an error."""
    INTERRUPTED = "interrupted"
    """An exception came that is not an ``Exception``, such as ``KeyboardInterrupt``."""


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
    """How far one run has come; a tuple with names.

    Example:
        >>> from backoff_ticker import retry_call
        >>> retry_call(lambda: "done", on_success=lambda outcome: print(outcome.attempts))
        1
        'done'

    Thread safety: immutable.

    Attributes:
        name: The ``__qualname__`` of the operation.
        attempts: The number of attempts, including the one that begins now.
        elapsed: Seconds since the first attempt began, until the run ended.
        waited: Seconds of them that were spent between attempts.
        delay: The wait that follows, in seconds; None if none does.
        reason: Why it ended; None while it goes on.
        last_error: The error of the last attempt that failed; None if none did.
    """

    # No __slots__: the arguments of the operation are in the __dict__.

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments of the operation, a method's ``self`` among them.

        Empty where there are none to see, as in ``retry_call()`` and in loops. Neither this nor
        ``kwargs`` is part of the tuple, of its ``repr``, or pickled: arguments may be secret.
        """
        return self.__dict__.get("args", ())  # type: ignore[no-any-return]

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments of the operation, as ``args``."""
        return self.__dict__.get("kwargs", {})  # type: ignore[no-any-return]

    def __getstate__(self) -> None:
        """Leave the arguments out."""

    @property
    def succeeded(self) -> bool:
        """Whether the operation returned a value that was accepted."""
        return self.reason is StopReason.SUCCEEDED
