"""Retries: calls repeated at the times that a policy says."""

from __future__ import annotations

from ._attempt import Attempt as Attempt
from ._budget import RetryBudget as RetryBudget
from ._call import retry_call as retry_call, retry_call_async as retry_call_async
from ._decorator import retry as retry
from ._errors import (
    Permanent as Permanent,
    RejectedResult as RejectedResult,
    RetryAfter as RetryAfter,
)
from ._hedge import hedge_call_async as hedge_call_async
from ._loop import Attempts as Attempts, attempts as attempts
from ._outcome import Outcome as Outcome, StopReason as StopReason
from ._retry_after import parse_retry_after as parse_retry_after
from ._skipping import skippers as skippers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._options import HedgeOptions as HedgeOptions, RetryOptions as RetryOptions
