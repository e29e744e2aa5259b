"""What integrations of every kind share: errors of imports, and checks.

Of the integrations it alone imports names of this package that are not public.
"""

from __future__ import annotations

from contextlib import contextmanager
from math import ulp

from .._error_chain import find_permanent, unwrapped
from .._process import after_fork
from .._shown import escaped, shown_error, shown_text, type_name
from .._validation import as_count, as_seconds, unknown_option
from ..cancellation import require_token
from ..policies import start_policy
from ..waiting import loop_runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from .. import BackOff

# Of the package, for the other integrations:
__all__ = ["after_fork", "as_count", "as_seconds", "escaped", "find_permanent", "loop_runs"]
__all__ += ["require_token", "shown_error", "shown_text", "type_name", "unknown_option"]
__all__ += ["unwrapped"]


@contextmanager
def imports_of_extra(name: str) -> Iterator[None]:
    """Let an ImportError in this block say which extra to install."""
    try:
        yield
    except ImportError as error:
        error.msg = f"{error}: pip install 'backoff-ticker[{name}]'"
        raise


# Checks: errors name the parameter and the value


def check_policy(policy: BackOff) -> None:
    """Raise a TypeError unless ``policy`` is a policy that can be copied."""
    start_policy("policy", policy, None)


def check_name(name: object, *, empty: bool = False) -> None:
    """Raise a TypeError or ValueError unless ``name`` is a str, which may be empty only if told."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, not {name!r}")
    if not name and not empty:
        raise ValueError("name must not be empty")


def as_positive_seconds(name: str, value: float | timedelta) -> float:
    """Return a duration, seconds or a timedelta, as finite seconds > 0."""
    return as_seconds(name, value, "a finite number of seconds > 0 or a timedelta", ulp(0.0))


def bounded(seconds: float, most: float | timedelta | None) -> float:
    """Return the seconds that a ``RetryAfter`` asks for, but at most ``max_retry_after``."""
    return seconds if most is None else min(seconds, as_seconds("max_retry_after", most))
