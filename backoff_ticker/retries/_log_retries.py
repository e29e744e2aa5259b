"""``log_retries``: a hook that writes to the log of the standard library."""

from __future__ import annotations

from .._shown import shown_error
from .._validation import counted, safe_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from collections.abc import Callable
    from typing import Any

    from ._outcome import Outcome

    Logger = logging.Logger | logging.LoggerAdapter[Any]

_WARNING = 30  # as `logging` has it, which takes long to import


def log_retries(logger: Logger | None = None, level: int = _WARNING) -> Callable[[Outcome], None]:
    """Return a hook that logs each failure, for ``on_retry`` and ``on_give_up``.

    The message has the name of the operation, the number of attempts, the error, and the wait that
    follows or the reason why none does. What may be secret is left out: the arguments, and of the
    error passwords and queries of URLs, and what is no text, number or error, such as a request.

    Example:
        >>> import logging, sys
        >>> from backoff_ticker import log_retries, retry_call
        >>> logger = logging.Logger("fetching")
        >>> logger.addHandler(logging.StreamHandler(sys.stdout))
        >>> retry_call(lambda: 7, name="fetch", on_success=log_retries(logger))
        fetch succeeded after 1 attempt
        7

    Thread safety: any number of retries, threads and event loops may share the hook.

    Args:
        logger: The logger. None means the logger named ``backoff_ticker``.
        level: The level of the messages, such as ``logging.INFO``.

    Raises:
        TypeError: ``logger`` has no method ``log()``, or ``level`` is not an int.
    """
    if logger is None:
        import logging

        logger = logging.getLogger("backoff_ticker")
    if not callable(getattr(logger, "log", None)):
        raise TypeError(f"logger must be a logging.Logger or None, not {safe_repr(logger)}")
    if isinstance(level, bool) or not isinstance(level, int):
        raise TypeError(f"level must be an int, such as logging.INFO, not {safe_repr(level)}")
    log = logger.log

    def log_retry(outcome: Outcome) -> None:
        name, number, failure = outcome.name, outcome.attempts, outcome.last_error
        if outcome.delay is not None:
            error = "" if failure is None else f": {shown_error(failure)}"
            message = "%s failed in attempt %d, again in %g s%s"
            log(level, message, name, number, round(outcome.delay, 3), error)
        elif outcome.reason is None:
            log(level, "%s: attempt %d", name, number)
        elif outcome.succeeded:
            log(level, "%s succeeded after %s", name, counted(number, "attempt"))
        else:
            made = counted(number, "attempt")
            # The error of an earlier attempt, if a limit has cut the last one.
            error = "" if failure is None else f"; last error: {shown_error(failure)}"
            log(level, "%s gave up after %s, %s%s", name, made, outcome.reason, error)

    return log_retry
