"""Policies for the retries of google-api-core."""

from __future__ import annotations

import sys

from ._shared import check_policy, running_delays

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .. import BackOff

__all__ = ["SleepGenerator"]


class SleepGenerator:
    """A policy as the ``sleep_generator`` of ``retry_target`` and its three variants.

    They take ``sleep_generator=`` as an iterable of seconds that must not end. This one may be
    given to any number of calls, also at the same time: each call has its own copy of the policy,
    which starts when the call starts.

    Where the policy returns ``STOP``, the last error itself is raised from ``retry_target``.
    ``exception_factory`` is not asked then. A token in the policy
    (``with_token(policy, token)``) ends the retries at the next failure, but cuts no wait:
    google-api-core waits in ``time.sleep`` and ``asyncio.sleep``.

    Example:
        >>> from backoff_ticker import ConstantBackOff, with_max_retries
        >>> from backoff_ticker.integrations.google_api_core import SleepGenerator
        >>> from google.api_core.retry import if_exception_type, retry_target
        >>> def fetch():
        ...     raise ConnectionError("no route")
        >>> delays = SleepGenerator(with_max_retries(ConstantBackOff(0.001), 3))
        >>> try:
        ...     retry_target(fetch, if_exception_type(ConnectionError), delays)
        ... except ConnectionError as error:
        ...     print("gave up:", error)
        gave up: no route
    """

    __slots__ = ("_backoff",)

    def __init__(self, backoff: BackOff) -> None:
        check_policy(backoff, "backoff")
        self._backoff = backoff

    def __iter__(self) -> Iterator[float]:
        """Return the delays of one call, in seconds."""
        return _until_error(running_delays(self._backoff))

    def __repr__(self) -> str:
        return f"SleepGenerator({self._backoff!r})"


def _until_error(delays: Iterator[float]) -> Iterator[float]:
    yield from delays
    if sys.exception() is not None:  # the error of the attempt, as it is handled
        raise sys.exception()  # type: ignore[misc]
