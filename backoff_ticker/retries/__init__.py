"""Retries: operations called again, at the times of a back-off policy, until they succeed.

Files, each of which imports only from those above it:

- ``_settings``: what holds for all retries of the process.
- ``_log_retries``: a hook that is ready to use.
- ``_outcome``, ``_budget``, ``_retry_after``: parts that do not depend on a run.
- ``_option_table``, ``_option_types``: each option declared; its types.
- ``_options``: the options of one retry; whether an error is retried.
- ``_signatures``: how functions that take ``**options`` show each of them.
- ``_run``: the state of one run, its limits and its policy.
- ``_attempt_scope``, ``_attempt_context``: what cuts an attempt of a coroutine; which attempt runs
  here.
- ``_decisions``: the one place that decides what follows an attempt.
- ``_wait``, ``_final_error``: the wait between two attempts; the error at the end.
- ``_engine``: the single path through attempts, hooks, decisions and waits, in their order.
- ``_tries``: the cheap first try of a function.
- ``_call``, ``_generators``, ``_decorator``, ``_attempts``: the public functions.
- ``_current_attempt``: public, too; importing it makes runs keep track of their attempts.

Hedged calls, in a folder of their own, use the options, runs and final errors of this one.

What always holds: the operation is called at least once, and not again after a cancel that came
before the last check of the token, right before the call. Options are checked before the first
call. ``Options.classify()`` alone decides whether an error may be retried, and ``decide()`` whether
another attempt follows. Each hook's context manager is left exactly once. After a run
nothing refers to its frames, so no reference cycle keeps an error alive.
"""

from __future__ import annotations

from ._attempt_context import CurrentAttempt as CurrentAttempt, show_attempt as show_attempt
from ._attempt_scope import token_of_attempts as token_of_attempts
from ._decisions import accepts_result as accepts_result, note_failure as note_failure
from ._final_error import conclude as conclude, raise_final as raise_final
from ._option_table import HEDGE_OPTIONS as HEDGE_OPTIONS, NO_FALLBACK as NO_FALLBACK
from ._options import Options as Options, require_operation as require_operation
from ._outcome import Outcome as Outcome, StopReason as StopReason
from ._run import SHORTEST_REFUSAL as SHORTEST_REFUSAL, Run as Run
from ._settings import (
    active_no_wait as active_no_wait,
    is_active as is_active,
    set_active as set_active,
    set_default_hooks as set_default_hooks,
    set_default_token as set_default_token,
)
from ._signatures import overload as overload, shows as shows
from ._wait import warn_if_loop_runs as warn_if_loop_runs

TYPE_CHECKING = False
if TYPE_CHECKING:  # the facade loads these when they are first used
    from ._attempts import Attempt as Attempt, Attempts as Attempts, attempts as attempts
    from ._budget import RetryBudget as RetryBudget
    from ._call import retry_call as retry_call, retry_call_async as retry_call_async
    from ._current_attempt import current_attempt as current_attempt
    from ._decorator import retry as retry, retry_options as retry_options, retry_with as retry_with
    from ._log_retries import log_retries as log_retries
    from ._option_types import (
        AsyncHedgeOptions as AsyncHedgeOptions,
        AsyncRetryOptions as AsyncRetryOptions,
        BudgetLike as BudgetLike,
        HedgeOptions as HedgeOptions,
        RetryOptions as RetryOptions,
    )
    from ._retry_after import parse_retry_after as parse_retry_after
    from ._signatures import (
        D as D,
        T as T,
        Untyped as Untyped,
        UseHedgeCallAsync as UseHedgeCallAsync,
    )
