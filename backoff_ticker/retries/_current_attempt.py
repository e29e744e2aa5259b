"""``current_attempt``: importing this module lets all runs that begin from then on show theirs."""

from __future__ import annotations

from ._attempt_context import attempt_here
from ._settings import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._attempt_context import CurrentAttempt


def current_attempt() -> CurrentAttempt | None:
    """Return the innermost attempt of a retry that is under way here; None outside of any.

    It is for operations and what they call, and for the hooks, predicates and policies of the
    retry, which see the attempt that has just ended or is about to begin. It is a context variable:
    coroutines, tasks that an attempt starts, and ``asyncio.to_thread()`` see it; a thread that an
    attempt starts does so only in a copy of the context. In a hedged call the operation sees it.

    Until it is imported for the first time, retries do not keep track of their attempts, which
    makes them faster; import it where your module begins.

    Example:
        >>> from backoff_ticker import ZeroBackOff, current_attempt, retry
        >>> @retry(ZeroBackOff(), max_attempts=3)
        ... def fetch():
        ...     print("attempt", current_attempt().number)
        ...     raise ConnectionError("no route")
        >>> try:
        ...     fetch()
        ... except ConnectionError:
        ...     print(current_attempt())
        attempt 1
        attempt 2
        attempt 3
        None

    Thread safety: any thread or task; it returns that of the caller.
    """
    return attempt_here()


settings.track_attempts()
