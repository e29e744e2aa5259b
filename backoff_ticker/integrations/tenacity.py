"""Policies and tokens for the retries of tenacity."""

from __future__ import annotations

from ._shared import check_policy, imports_of_extra, require_token, running_delays

with imports_of_extra("tenacity"):
    from tenacity.stop import stop_base
    from tenacity.wait import wait_base

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from typing import NoReturn

    from tenacity import RetryCallState

    from .. import BackOff, CancellationToken

__all__ = ["BackOffWait", "sleep_using_token", "sleep_using_token_async", "stop_when_cancelled"]

_RUNS = "_backoff_ticker_runs"  # of a RetryCallState: the started policy of each wait, or None


class BackOffWait(wait_base):
    """A policy as the ``wait=`` of tenacity.

    Each call of the decorated function has its own copy of the policy, which starts after the first
    failure and lives in the ``retry_state`` of the call. So one ``BackOffWait`` serves any number
    of functions, threads and event loops, also together with other waits:
    ``BackOffWait(policy) + wait_random(0, 1)``.

    Where the policy returns ``STOP``, the call ends as tenacity ends it: with ``RetryError``, or
    with the last error if ``reraise=True``. Also give its ``stop``,
    ``stop=wait.stop | stop_after_attempt(5)``, if ``retry_error_callback`` is to be called then.

    Example:
        >>> import tenacity
        >>> from backoff_ticker import ConstantBackOff, with_max_retries
        >>> from backoff_ticker.integrations.tenacity import BackOffWait
        >>> wait = BackOffWait(with_max_retries(ConstantBackOff(0.001), 3))
        >>> @tenacity.retry(wait=wait, stop=wait.stop, reraise=True)
        ... def fetch():
        ...     raise ConnectionError("no route")
        >>> try:
        ...     fetch()
        ... except ConnectionError as error:
        ...     print("gave up:", error)
        gave up: no route
    """

    def __init__(self, backoff: BackOff) -> None:
        check_policy(backoff, "backoff")
        self._backoff = backoff
        self.stop: stop_base = _BackOffStop(self)

    def __call__(self, retry_state: RetryCallState) -> float:
        """Return the seconds to wait after an attempt; called by tenacity."""
        runs = self._runs(retry_state)
        delays = runs[self] if self in runs else running_delays(self._backoff)
        delay: float | None = None if delays is None else next(delays, None)
        runs[self] = None if delay is None else delays
        if delay is not None:
            return delay
        retry_state.upcoming_sleep = 0.0
        if retry_state.retry_object.stop(retry_state) is not True:  # tenacity asks it right after
            _end(retry_state)
        return 0.0

    @staticmethod
    def _runs(retry_state: RetryCallState) -> dict[BackOffWait, Iterator[float] | None]:
        runs: dict[BackOffWait, Iterator[float] | None] = vars(retry_state).setdefault(_RUNS, {})
        return runs

    def __repr__(self) -> str:
        return f"BackOffWait({self._backoff!r})"


class _BackOffStop(stop_base):
    """Stops where a policy has returned ``STOP``."""

    def __init__(self, wait: BackOffWait) -> None:
        self._wait = wait

    def __call__(self, retry_state: RetryCallState) -> bool:
        return self._wait._runs(retry_state).get(self._wait, self) is None

    def __repr__(self) -> str:
        return f"{self._wait!r}.stop"


def _end(retry_state: RetryCallState) -> NoReturn:
    """Raise what tenacity raises at the end of a call without a ``retry_error_callback``."""
    outcome = retry_state.outcome
    assert outcome is not None  # noqa: S101 - tenacity waits after an attempt only
    error = retry_state.retry_object.retry_error_cls(outcome)
    if retry_state.retry_object.reraise:
        error.reraise()
    raise error from outcome.exception()


class stop_when_cancelled(stop_base):  # noqa: N801 - as tenacity names its own
    """A token as the ``stop=`` of tenacity: no further attempt once it is cancelled.

    It is asked after each failed attempt, so a wait that has begun goes on: give
    ``sleep=sleep_using_token(token)``, too.
    """

    def __init__(self, token: CancellationToken) -> None:
        require_token("token", token)
        self._token = token

    def __call__(self, retry_state: RetryCallState) -> bool:
        """Return whether the token is cancelled; called by tenacity."""
        return self._token.cancelled

    def __repr__(self) -> str:
        return f"stop_when_cancelled({self._token!r})"


def sleep_using_token(token: CancellationToken) -> Callable[[float], None]:
    """Return a token as the ``sleep=`` of tenacity: a cancel ends the wait and the call at once.

    The call then raises ``Cancelled``, or ``DeadlineExceeded``, from the wait, and no further
    attempt is made. (After tenacity's own ``sleep_using_event`` there is one more attempt.) The
    clock of the token measures the waits. For coroutines use ``sleep_using_token_async``.

    Example:
        >>> import tenacity
        >>> from backoff_ticker import CancellationToken, Cancelled
        >>> from backoff_ticker.integrations.tenacity import sleep_using_token
        >>> token = CancellationToken(timeout=0.01)
        >>> @tenacity.retry(wait=tenacity.wait_fixed(60), sleep=sleep_using_token(token))
        ... def fetch():
        ...     raise ConnectionError("no route")
        >>> try:
        ...     fetch()
        ... except Cancelled as error:
        ...     print(error)
        the deadline has passed
    """
    require_token("token", token)

    def sleep(seconds: float) -> None:
        if token.wait(seconds):
            token.raise_if_cancelled()

    return sleep


def sleep_using_token_async(token: CancellationToken) -> Callable[[float], Awaitable[None]]:
    """Do what ``sleep_using_token`` does, for coroutines in asyncio.

    Do not give it to a function without ``async``: tenacity does not wait then, or makes a
    coroutine function of that.
    """
    require_token("token", token)

    async def sleep(seconds: float) -> None:
        if await token.wait_async(seconds):
            token.raise_if_cancelled()

    return sleep
