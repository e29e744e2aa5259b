"""Checks of arguments that several integrations take; errors name parameter and value."""

from __future__ import annotations

from datetime import timedelta
from math import isfinite

from ..cancellation import CancellationToken
from ..policies import delays

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..policies import BackOff


def check_policy(policy: BackOff, name: str = "policy") -> None:
    """Raise a TypeError that names the parameter unless it is a policy that can be copied."""
    try:
        delays(policy)
    except TypeError as error:
        raise TypeError(str(error).replace("backoff", name, 1)) from None


def check_token(token: object, name: str = "token") -> None:
    """Raise a TypeError that names the parameter unless ``token`` is a token."""
    if not isinstance(token, CancellationToken):
        raise TypeError(f"{name} must be a CancellationToken, not {token!r}")


def check_name(name: object) -> None:
    """Raise a TypeError or ValueError unless ``name`` is a str that is not empty."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, not {name!r}")
    if not name:
        raise ValueError("name must not be empty")


def as_seconds(name: str, value: object, *, zero: bool = False) -> float:
    """Return a duration, seconds or a timedelta, as finite seconds > 0, or >= 0 with ``zero``.

    Raises:
        TypeError, ValueError: It is something else.
    """
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
