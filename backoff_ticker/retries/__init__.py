"""Retries: operations called again, at the times of a back-off policy, until they succeed.

Files, each of which imports only from those above it:

- ``_settings``: what holds for all retries of the process; the hooks among the options.
- ``_log_retries``: a hook that is ready to use.
- ``_outcome``, ``_budget_protocol``, ``_budget``, ``_retry_after``, ``_no_wait``,
  ``_error_chain``, ``_operation``: parts that do not depend on a run.
- ``_option_types``, ``_options``: the options as types, and checked; whether an error is retried.
- ``_signatures``: how functions that take ``**options`` show each of them.
- ``_circuit``, ``_circuit_breaker``: the states of a circuit; the breaker that keeps one of them.
- ``_run``: the state of one run, and the one place that decides what follows a failure.
- ``_final_error``, ``_attempt_scope``, ``_ask_budget``, ``_wait``: the error at the end, the scope
  that cuts an attempt of a coroutine, a budget to be awaited, the wait between two attempts.
- ``_attempt_context``, ``_current_attempt``: which attempt runs here; runs keep track of it once
  the latter is imported.
- ``_steps``: the order of attempts, hooks and waits, for runs with hooks and for loops.
- ``_drivers``: what brings a run to its end, in a thread and in a coroutine.
- ``_call``, ``_generators``, ``_decorator``, ``_retry_with``, ``_attempts``: the public functions.

Hedged calls, in a folder of their own, use the options, runs and final errors of this one.

What always holds: the operation is called at least once, and not again after a cancel that came
before the last check of the token, right before the call. Options are checked before the first
call. ``Options.classify()`` alone decides whether an error may be retried, and ``Run._decide()``
whether another attempt follows. A limit that is reached later, in a hook or in the wait, ends the
run, too. Each hook's context manager is left exactly once. After a
run nothing refers to its frames, so no reference cycle keeps an error alive.
"""

from __future__ import annotations

from ._attempt_context import CurrentAttempt as CurrentAttempt, show_attempt as show_attempt
from ._attempt_scope import token_of_attempts as token_of_attempts
from ._attempts import Attempt as Attempt, Attempts as Attempts, attempts as attempts
from ._budget import RetryBudget as RetryBudget
from ._call import retry_call as retry_call, retry_call_async as retry_call_async
from ._circuit import CircuitTicket as CircuitTicket
from ._circuit_breaker import CircuitBreaker as CircuitBreaker
from ._decorator import retry as retry
from ._final_error import concluded as concluded, raised as raised
from ._log_retries import log_retries as log_retries
from ._no_wait import active_no_wait as active_no_wait
from ._operation import (
    coroutine_returned as coroutine_returned,
    is_awaitable as is_awaitable,
    name_of as name_of,
    not_awaitable as not_awaitable,
    require_operation as require_operation,
)
from ._options import (
    HEDGE_OPTIONS as HEDGE_OPTIONS,
    NO_FALLBACK as NO_FALLBACK,
    Awaiting as Awaiting,
    Options as Options,
)
from ._outcome import Outcome as Outcome, StopReason as StopReason
from ._retry_after import parse_retry_after as parse_retry_after
from ._retry_with import retry_options as retry_options, retry_with as retry_with
from ._run import SHORTEST_REFUSAL as SHORTEST_REFUSAL, Run as Run
from ._settings import (
    is_active as is_active,
    set_active as set_active,
    set_default_hooks as set_default_hooks,
    set_default_token as set_default_token,
    settings as settings,
)
from ._signatures import shows as shows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._budget_protocol import BudgetLike as BudgetLike
    from ._current_attempt import current_attempt as current_attempt
    from ._option_types import (
        AsyncHedgeOptions as AsyncHedgeOptions,
        AsyncResultCheck as AsyncResultCheck,
        AsyncRetryOn as AsyncRetryOn,
        AsyncRetryOptions as AsyncRetryOptions,
        HedgeOptions as HedgeOptions,
        ResultCheck as ResultCheck,
        RetryOn as RetryOn,
        RetryOptions as RetryOptions,
        Seconds as Seconds,
    )
    from ._options import NoFallback as NoFallback
    from ._signatures import Untyped as Untyped, UseHedgeCallAsync as UseHedgeCallAsync
else:
    from ._signatures import overload as overload

    def __getattr__(name: str) -> object:
        if name != "current_attempt":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from ._current_attempt import current_attempt  # from now on runs show their attempts

        return current_attempt
