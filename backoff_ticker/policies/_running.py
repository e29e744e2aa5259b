"""Whoever runs a policy runs its own copy: how that copy is made, and its answers checked."""

from __future__ import annotations

from collections import deque

from .._clock import resolve_clock
from .._numbers import as_seconds, shown
from .._stop import STOP
from ._base import Policy
from ._copying import attributes, is_ours, plain_copy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from .._protocols import BackOff, Clock
    from .._stop import Stop

__all__ = [
    "checked_delay",
    "copy_policy",
    "delays",
    "is_feedback",
    "require_policy",
    "start_policy",
    "tell",
]


def _is_policy(value: object) -> bool:
    return (
        callable(getattr(value, "next_backoff", None))
        and callable(getattr(value, "reset", None))
        and not isinstance(value, type)
    )


def require_policy(name: str, value: object) -> None:
    """Raise a TypeError that names the parameter unless ``value`` is a ``BackOff``."""
    if not _is_policy(value):
        raise TypeError(
            f"{name} must be a BackOff, an object with next_backoff() and reset(), "
            f"not {shown(value)}"
        )


def is_feedback(policy: object) -> bool:
    """Whether ``policy`` wants to hear how the work went: it has ``success`` and ``failure``."""
    return callable(getattr(policy, "success", None)) and callable(getattr(policy, "failure", None))


def tell(policy: BackOff, outcome: str, timestamp: float | None) -> float | Stop:
    """Return what a feedback policy answers to ``"success"`` or ``"failure"``.

    It is given a timestamp only where there is one: a class of a user's own may take none.
    """
    answer: Callable[..., float | Stop] = getattr(policy, outcome)
    return answer() if timestamp is None else answer(timestamp)


def checked_delay(policy: object, value: object) -> float:
    """Return what ``policy`` gave as seconds.

    Raises:
        TypeError, ValueError: It is no finite duration of at least 0; the policy is named.
    """
    expected = "a finite number of seconds >= 0, a timedelta or STOP"
    return as_seconds(f"what {shown(policy)} returns", value, expected)  # type: ignore[arg-type]


class _CannotBeCopied(TypeError):
    """Says which policy it was, however deep; to users a TypeError."""


class _Copier:
    """Copies a policy and the policies it holds, at any depth, each of them once."""

    def __init__(self, name: str, clock: Clock | None) -> None:
        self._name = name
        self._clock = clock
        self._copies: dict[int, BackOff] = {}
        self._visited: dict[int, Any] = {}

    def policy(self, original: BackOff) -> BackOff:
        known = self._copies.get(id(original))
        if known is not None:
            return known
        try:
            own_copy = getattr(type(original), "__copy__", None)
            twin: BackOff
            if isinstance(original, Policy) and is_ours(own_copy):
                twin = original._twin()
            else:
                twin = plain_copy(original)
            self._copies[id(original)] = twin
            if twin is not original and (own_copy is None or is_ours(own_copy)):
                for name, value in list(attributes(twin)):
                    copied = self._held(value)
                    if copied is not value:
                        object.__setattr__(twin, name, copied)
        except _CannotBeCopied:
            raise
        except Exception as error:
            raise _CannotBeCopied(
                f"{self._name} must be a BackOff that can be copied, not {shown(original)}"
            ) from error
        bind_clock = getattr(twin, "_bind_clock", None)
        if bind_clock is not None and self._clock is not None and twin is not original:
            bind_clock(self._clock)
        return twin

    def _held(self, value: Any) -> Any:  # noqa: ANN401 - anything a policy may hold
        """Return ``value`` with the policies in it copied: itself if there are none."""
        if _is_policy(value):
            return self.policy(value)
        if not isinstance(value, (dict, tuple, list, deque, set, frozenset)):
            return value
        if id(value) in self._visited:
            return self._visited[id(value)]
        self._visited[id(value)] = value  # while it is looked through: it may hold itself
        items = list(value.values() if isinstance(value, dict) else value)
        copied = [self._held(item) for item in items]
        if any(new is not old for new, old in zip(copied, items, strict=True)):
            self._visited[id(value)] = self._refilled(value, copied)
        return self._visited[id(value)]

    def _refilled(self, value: Any, items: list[Any]) -> Any:  # noqa: ANN401
        """Return a copy of the container with other items."""
        if isinstance(value, (tuple, frozenset)):
            base: Any = tuple if isinstance(value, tuple) else frozenset
            return base.__new__(type(value), items)
        twin = plain_copy(value)
        if isinstance(value, dict):
            twin.update(zip(value, items, strict=True))
        else:
            twin.clear()
            (twin.update if isinstance(value, set) else twin.extend)(items)
        return twin


def copy_policy(name: str, policy: BackOff, clock: Clock | None = None) -> BackOff:
    """Return a copy of ``policy`` and of the policies it holds.

    A class that defines ``__copy__`` is taken at its word. Any other is copied attribute by
    attribute; policies in its attributes, and in the containers there, are copied too.

    Args:
        name: What to call the policy in an error.
        policy: The policy.
        clock: What copies measure elapsed time on, if no clock was chosen for them.

    Raises:
        TypeError: It is no policy, or cannot be copied.
    """
    require_policy(name, policy)
    return _Copier(name, clock).policy(policy)


def start_policy(name: str, policy: BackOff, clock: Clock) -> BackOff:
    """Return a fresh run of ``policy``: its copy, on ``clock``, reset.

    Raises:
        TypeError: It is no policy, or cannot be copied.
        Exception: What its ``reset()`` raised.
    """
    run = copy_policy(name, policy, clock)
    try:
        run.reset()
    except Exception as error:
        error.add_note(f"This came from reset() of the policy given as {name}: {shown(policy)}")
        raise
    return run


def delays(backoff: BackOff) -> Iterator[float]:
    """Return an iterator over the delays of a fresh run of ``backoff``, in seconds.

    It ends where the policy returns ``STOP``, runs on a copy and waits for nothing.

    Raises:
        TypeError: ``backoff`` is no policy, or (from the iterator) returns what is no number.
        ValueError: From the iterator: the policy returns NaN, an infinity or a negative number.
    """
    run = start_policy("backoff", backoff, resolve_clock(None))
    return _delays(run)


def _delays(run: BackOff) -> Iterator[float]:
    while (delay := run.next_backoff()) is not STOP:
        yield checked_delay(run, delay)
