"""Retries: operations called again, at the times of a back-off policy, until they succeed.

Files, each of which imports only from those above it:

- ``_outcome``, ``_budget``: parts that do not depend on a run.
- ``_option_table``, ``_option_types``, ``_signatures``: each option declared; what type checkers,
  ``inspect`` and ``help()`` see of them.
- ``_options``: the options of one retry, checked; what holds for the process.
- ``_limits``: what ends a run whatever its attempts do; the clock of runs whose waits are skipped.
- ``_failures``: which errors count, and when the next attempt is due.
- ``_attempt``: one attempt, and which one runs here.
- ``_run``: the state of one run, and the decisions that need nothing but that.
- ``_wait``, ``_cut``: the wait between two attempts; what cuts an attempt of a coroutine.
- ``_steps``: what comes before and after each call, in its order, for functions and coroutines;
  the error at the end.
- ``_drive``, ``_loop``: who makes the steps: functions, and ``retry_call``; loops, their blocks.
- ``_decorator``: ``retry``, and other options for what it has decorated.

What always holds:

1. The operation is called at least once, and not again after a cancel that came before the last
   look at the token, right before the call.
2. Options, and all policies, are checked before the first call.
3. ``classify()`` alone says whether an error may be retried, ``Run.plan()`` whether another attempt
   follows.
4. What was entered around an attempt is left once, what was paid for it is spent or given back.
5. After a run nothing refers to its frames, so no reference cycle keeps an error alive.
"""

from __future__ import annotations

from ._attempt import Attempt as Attempt, show as show
from ._failures import (
    classify as classify,
    ending_by_circuit as ending_by_circuit,
    ending_by_policy as ending_by_policy,
    reconsidered as reconsidered,
    start_policies as start_policies,
    unmarked as unmarked,
    wait_for_circuit as wait_for_circuit,
)
from ._limits import Limits as Limits, active_no_wait as active_no_wait
from ._option_table import NO_FALLBACK as NO_FALLBACK
from ._options import Options as Options, require_operation as require_operation
from ._outcome import Ending as Ending, Outcome as Outcome, StopReason as StopReason
from ._signatures import overload as overload, shows as shows
from ._steps import conclude as conclude, pay as pay, raise_final as raise_final

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._option_types import BudgetLike as BudgetLike, HedgeOptions as HedgeOptions
    from ._signatures import D as D, T as T
