"""Policies for the decorators of the package backoff."""

from __future__ import annotations

from ._shared import check_policy, running_delays

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

    from .. import BackOff

__all__ = ["wait_gen"]


def wait_gen(backoff: BackOff) -> Callable[[], Generator[Any, Any, None]]:
    """Return a policy as the ``wait_gen`` of ``backoff.on_exception`` and ``on_predicate``.

    Each call of the decorated function has its own copy of the policy, which starts when the call
    starts. Where the policy returns ``STOP``, backoff gives up: it calls ``on_giveup`` and raises
    the last error, or returns the last result.

    Give ``jitter=None`` as well. The default, ``full_jitter``, replaces each delay by a random part
    of it. A token in the policy (``with_token(policy, token)``) ends the retries at the next
    failure, but cuts no wait: backoff waits in ``time.sleep`` and ``asyncio.sleep``.

    Example:
        >>> import backoff
        >>> from backoff_ticker import ConstantBackOff, with_max_retries
        >>> from backoff_ticker.integrations.backoff import wait_gen
        >>> delays = wait_gen(with_max_retries(ConstantBackOff(0.001), 3))
        >>> @backoff.on_exception(delays, ConnectionError, jitter=None)
        ... def fetch():
        ...     raise ConnectionError("no route")
        >>> try:
        ...     fetch()
        ... except ConnectionError as error:
        ...     print("gave up:", error)
        gave up: no route
    """
    check_policy(backoff, "backoff")

    def delays() -> Generator[Any, Any, None]:
        found = running_delays(backoff)
        yield  # backoff sends None before the first attempt
        for delay in found:  # noqa: UP028 - backoff sends values
            yield delay

    return delays
