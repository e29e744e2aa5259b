"""``current_attempt``: importing this module lets all runs that begin from then on show theirs."""

from __future__ import annotations

from ._attempt_context import attempt_here
from ._settings import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._attempt_context import CurrentAttempt


def current_attempt() -> CurrentAttempt | None:
    """Return the attempt that the calling code runs in; None outside of a retry.

    Call it in the operation, in functions that the operation calls, and in hooks, predicates and
    policies of the retry: there it is the attempt that has just ended or is about to begin. Of
    nested retries it is the innermost. It also works in an operation of a hedged call.

    The attempt is kept in a context variable. Coroutines, tasks that an attempt starts, and
    ``asyncio.to_thread()`` see it; a thread that an attempt starts sees it only if it runs in a
    copy of the context (``sys.flags.thread_inherit_context``: then each thread does).

    Import it at the top of your module. Runs that began before it was first imported are not
    tracked, because tracking makes each call slower.

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

    Thread safety: any thread or task; each sees its own attempt.
    """
    return attempt_here()


settings.track_attempts()
