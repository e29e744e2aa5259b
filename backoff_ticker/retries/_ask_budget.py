"""The question to a budget whose answer has to be awaited."""

from __future__ import annotations

from .._errors import Cancelled
from ._attempt_scope import token_of_attempts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._run import Run


async def ask_budget(run: Run) -> None:
    """Ask the budget to pay for the next attempt; ``Run.after_budget()`` decides then.

    A cancel of the run's token, or ``timeout``, ends the question: nothing is paid then.
    """
    budget = run.options.budget
    if run.token is None and run.deadline is None:
        run.is_paid = await budget.try_acquire_async()
        return
    token = token_of_attempts(run)
    try:
        async with token.scope():
            run.is_paid = await budget.try_acquire_async()
    except Cancelled:
        if not token.cancelled:
            raise  # an error of the budget
    finally:
        token.cancel()
