"""What integrations of every kind share: errors of imports, checks, started policies."""

from __future__ import annotations

from contextlib import contextmanager
from copy import copy
from datetime import timedelta
from math import isfinite

from .. import BackOffWrapper, CancellationToken, Stop, delays

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .. import BackOff


@contextmanager
def imports_of_extra(name: str) -> Iterator[None]:
    """Let an ImportError in this block say which extra to install."""
    try:
        yield
    except ImportError as error:
        error.msg = f"{error}: pip install 'backoff-ticker[{name}]'"
        raise


# Checks: errors name the parameter and the value


def check_policy(policy: BackOff, name: str = "policy") -> None:
    """Raise a TypeError unless ``policy`` is a policy that can be copied."""
    try:
        delays(policy)
    except TypeError as error:
        raise TypeError(str(error).replace("backoff", name, 1)) from None


def check_token(token: object, name: str = "token") -> None:
    """Raise a TypeError unless ``token`` is a token."""
    if not isinstance(token, CancellationToken):
        raise TypeError(f"{name} must be a CancellationToken, not {token!r}")


def check_name(name: object, *, empty: bool = False) -> None:
    """Raise a TypeError or ValueError unless ``name`` is a str, which may be empty only if told."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, not {name!r}")
    if not name and not empty:
        raise ValueError("name must not be empty")


def as_seconds(name: str, value: object, *, zero: bool = False) -> float:
    """Return a duration, seconds or a timedelta, as finite seconds > 0, or >= 0 with ``zero``."""
    least = ">= 0" if zero else "> 0"
    error = f"{name} must be a finite number of seconds {least} or a timedelta, not {value!r}"
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(error)
    try:
        seconds = float(seconds)
    except OverflowError:
        raise ValueError(error) from None
    if not isfinite(seconds) or seconds < 0.0 or (seconds == 0.0 and not zero):
        raise ValueError(error)
    return seconds


# The delays of a policy, for packages that ask for one after the other


def started(backoff: BackOff) -> BackOffWrapper:
    """Return a copy of a policy that was reset, and that checks the delays of the policy."""
    run = copy(BackOffWrapper(backoff))
    run.reset()
    return run


def next_delay(run: BackOff) -> float | None:
    """Return the next delay of a started policy, in seconds, or None for ``STOP``."""
    delay = run.next_backoff()
    return None if isinstance(delay, Stop) else delay
