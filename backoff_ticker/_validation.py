"""Checks of what users give: durations, times, counts, factors, fractions; hooks, error types.

A bad number is refused where it enters, with a message that names parameter and value. All checks
raise ``TypeError`` for a value of another type (a bool is not a number) and ``ValueError`` for a
number out of range; NaN, infinities and ints too big for a float are always out of range.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from types import UnionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import timedelta
    from typing import Any

LARGEST = 1.7976931348623157e308
"""The largest finite float: a delay without a cap grows no further."""

LONGEST_WAIT = 86_400.0
"""The longest wait in seconds that is passed to the system; a longer one is split."""

_LONGEST_REPR = 200


def whole_repr(value: object) -> str:
    """Return the ``repr`` of ``value``; if it fails, the type instead."""
    try:
        return repr(value)
    except Exception:  # such as an int of more digits than the interpreter converts
        return f"one of type {type(value).__name__}"


def safe_repr(value: object) -> str:
    """Return what ``whole_repr()`` returns, cut if it is long."""
    text = whole_repr(value)
    return text if len(text) <= _LONGEST_REPR else f"{text[:_LONGEST_REPR]}..."


def counted(number: int, noun: str) -> str:
    """Return a number and what it counts: ``"1 tick"``, ``"2 ticks"``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def names_like(name: str, names: Iterable[str]) -> str:
    """Return those of ``names`` that may be meant by ``name``, or an empty text."""
    from difflib import get_close_matches

    return " or ".join(get_close_matches(name, list(names), 2))


def unknown_option(
    what: str, name: str, options: Iterable[str], meant: Iterable[str] = ()
) -> TypeError:
    """Return the error for an option, which names those ``meant``, or else those most like it."""
    names = list(options)
    alike = " or ".join(option for option in meant if option in names) or names_like(name, names)
    hint = f": did you mean {alike}? It" if alike else "; it"
    return TypeError(f"{what} has no option {name!r}{hint} has {', '.join(names) or 'none'}")


def as_number(name: str, value: object, expected: str = "a finite number") -> float:
    """Return ``value`` as a finite float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(
            f"{name} must be {expected}, not {safe_repr(value)} of type {type(value).__name__}"
        )
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{name} must be {expected}, not an int too big for a float") from None
    if not isfinite(number):
        raise ValueError(f"{name} must be {expected}, not {safe_repr(value)}")
    return number


def as_fraction(name: str, value: float) -> float:
    """Return ``value`` as a float >= 0 and < 1."""
    number = as_number(name, value)
    if not 0.0 <= number < 1.0:
        raise ValueError(f"{name} must be >= 0 and < 1, not {safe_repr(value)}")
    return number


def as_factor(name: str, value: float, least: int) -> float:
    """Return ``value`` as a finite float of at least ``least``."""
    number = as_number(name, value)
    if number < least:
        raise ValueError(f"{name} must be >= {least}, not {safe_repr(value)}")
    return number


def as_flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be a bool, not {safe_repr(value)}")
    return value


def is_duration(value: object) -> bool:
    """Whether ``value`` is of a type that ``as_seconds()`` takes."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number or hasattr(type(value), "total_seconds")


def as_signal(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    hint = f": did you mean signal.{value}?" if isinstance(value, str) else ""
    raise TypeError(f"signals must be ints, such as signal.SIGTERM, not {safe_repr(value)}{hint}")


def as_difference(
    name: str, value: float | timedelta, expected: str = "a finite number of seconds or a timedelta"
) -> float:
    """Return a difference of times, positive or negative, as finite seconds."""
    # A timedelta is recognised by its method, so that datetime need not be imported.
    total_seconds = getattr(type(value), "total_seconds", None)
    return as_number(name, total_seconds(value) if total_seconds else value, expected)


def as_seconds(
    name: str,
    value: float | timedelta,
    expected: str = "a finite number of seconds >= 0 or a timedelta",
    least: float = 0.0,
) -> float:
    """Return a duration, seconds or a ``datetime.timedelta``, as finite seconds >= ``least``."""
    number = as_difference(name, value, expected)
    if number < least:
        raise ValueError(f"{name} must be {expected}, not {safe_repr(value)}")
    return number + 0.0


def as_count(name: str, value: object, least: int = 0, *, also: str = "") -> int:
    """Return ``value`` as an int >= ``least``; errors name ``also`` as another accepted value."""
    expected = f"an int >= {least}" + (f" or {also}" if also else "")
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(
            f"{name} must be {expected}, not {safe_repr(value)} of type {type(value).__name__}"
        )
    if value < least:
        raise ValueError(f"{name} must be {expected}, not {safe_repr(value)}")
    return value


def as_hooks(name: str, value: object) -> tuple[Callable[..., object], ...] | None:
    """Return one callable, or a list or tuple of them, as a tuple; None if there is none."""
    hooks = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    for hook in hooks:
        if not callable(hook):
            raise TypeError(
                f"{name} must be a callable, a list or tuple of them, or None, "
                f"not {safe_repr(value)}"
            )
    return hooks or None


def as_error_types(name: str, value: Any) -> object:
    """Return ``value``, checked: an exception type, a tuple or mapping of them, or a function."""
    # Before Python 3.14 a typing.Union is of another type, and callable.
    is_typing_union = str(getattr(value, "__origin__", None)) == "typing.Union"
    on = value.__args__ if is_typing_union or isinstance(value, UnionType) else value
    for kind in on if isinstance(on, (tuple, Mapping)) else (on,):
        if isinstance(kind, type) and issubclass(kind, Exception):
            continue
        if isinstance(kind, type) and issubclass(kind, BaseException):
            raise TypeError(
                f"{name} must name types of Exception, not {kind.__name__}: interrupts and cancels "
                f"of tasks are never retried; {name}=Exception means every other error"
            )
        if isinstance(kind, type) or kind is not on or not callable(on):
            raise TypeError(
                f"{name} must be an exception type, a tuple or union of them, a mapping from them "
                f"to bools, seconds or policies, or a function of an error, not {safe_repr(value)}"
            )
    return on
