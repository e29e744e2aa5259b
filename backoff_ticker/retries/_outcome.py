"""What is known of one run of a retry: for hooks, and for whoever asks ``attempts()``."""

from __future__ import annotations

import enum
from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple


class StopReason(enum.StrEnum):
    """Why a retry makes no further attempt."""

    SUCCEEDED = "succeeded"
    """The operation returned what was accepted."""
    PERMANENT = "permanent"
    """It raised ``Permanent``."""
    NOT_RETRIED = "not_retried"
    """It raised what ``on`` does not retry."""
    MAX_ATTEMPTS = "max_attempts"
    """``max_attempts`` were made."""
    EXHAUSTED = "exhausted"
    """The policy returned ``STOP``."""
    DEADLINE = "deadline"
    """``timeout`` was reached, or would have been by the next wait."""
    CANCELLED = "cancelled"
    """A token was cancelled, or its deadline passed."""
    BUDGET = "budget"
    """The budget had nothing left for another attempt."""
    FAILED = "failed"
    """The policy, a hook, the timer, or what judges errors and results raised an error."""
    INTERRUPTED = "interrupted"
    """Something that is no ``Exception`` came, such as ``KeyboardInterrupt``."""


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
    """How far one run has come; frozen.

    Attributes:
        name: What is retried: the ``__qualname__`` of the operation.
        attempts: How many attempts were made, the one that just begins included.
        elapsed: Seconds since the first attempt began, until the run ended.
        waited: How many of them were spent between attempts.
        delay: The wait that follows, in seconds; None where none does.
        reason: Why it ended; None while it goes on.
        last_error: What the last attempt that failed raised; None if none did.
    """

    __slots__ = ()

    @property
    def succeeded(self) -> bool:
        """Whether the operation returned what was accepted."""
        return self.reason is StopReason.SUCCEEDED
