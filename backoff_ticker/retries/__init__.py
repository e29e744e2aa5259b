"""Retries: calls repeated at the times that a policy says."""

from __future__ import annotations

from ._attempts import Attempt as Attempt, Attempts as Attempts, attempts as attempts
from ._budget import RetryBudget as RetryBudget
from ._call import retry_call as retry_call, retry_call_async as retry_call_async
from ._decorator import retry as retry
from ._hedge import hedge_call_async as hedge_call_async
from ._no_wait import active_no_wait as active_no_wait
from ._outcome import Outcome as Outcome, StopReason as StopReason
from ._retry_after import parse_retry_after as parse_retry_after

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._option_types import HedgeOptions as HedgeOptions, RetryOptions as RetryOptions
