"""Copies of policies, each together with the policies that it holds, at any depth."""

from __future__ import annotations

from collections import deque
from operator import is_not

from .._validation import safe_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final, TypeVar

    from ..clock import Clock
    from ._protocol import BackOff

    Copied = TypeVar("Copied")

_PACKAGE = __name__.partition(".")[0]
TOO_DEEP = "it holds too many policies inside each other"
_CONTAINERS = (dict, tuple, list, deque, set, frozenset)

IMMUTABLE: Final = object()
"""What a class of the package says by an attribute ``_immutable``: one of exactly that class has
no state, and so is its own copy."""


def is_ours(thing: object) -> bool:
    """Whether a class is of this package, so that it is known what it does."""
    return getattr(thing, "__module__", "").partition(".")[0] == _PACKAGE


def is_immutable(policy: object) -> bool:
    """Whether a policy is of a class of the package that is marked as ``IMMUTABLE``."""
    return type(policy).__dict__.get("_immutable") is IMMUTABLE


def is_policy(value: object) -> bool:
    """Whether ``value`` has the methods of a ``BackOff``."""
    return (
        callable(getattr(value, "next_backoff", None))
        and callable(getattr(value, "reset", None))
        and not isinstance(value, type)
    )


def require_policy(name: str, value: object) -> None:
    """Raise a TypeError that names the parameter unless ``value`` is a ``BackOff``."""
    if not is_policy(value):
        raise TypeError(
            f"{name} must be a BackOff, an object with next_backoff() and reset(), "
            f"not {safe_repr(value)}"
        )


def attributes(thing: object) -> dict[str, object]:
    """Return the instance attributes by name, those in ``__dict__`` and those in slots.

    Python collects the names of a class's slots once and keeps them in the class.
    """
    state: Any = object.__getstate__(thing)
    if type(state) is not tuple:
        return dict(state or ())
    in_slots: dict[str, object] = state[1]
    return {**state[0], **in_slots} if state[0] else in_slots


def policies_in(thing: object) -> dict[int, BackOff]:
    """Return the policies in ``thing``, itself included, at any depth and once each, by ``id``."""
    found: dict[int, BackOff] = {}
    seen: set[int] = set()
    left: list[Any] = [thing]
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if is_policy(value):
            found[id(value)] = value
            left += attributes(value).values()
        elif isinstance(value, _CONTAINERS):
            left += value.values() if isinstance(value, dict) else value
    return found


def _plain_copy(thing: Any) -> Any:  # noqa: ANN401 - of the same type
    """Return ``copy.copy(thing)``; without that module where a class copies itself."""
    own = getattr(type(thing), "__copy__", None)
    if own is None:
        from copy import copy

        return copy(thing)
    return own(thing)


class _CannotBeCopied(TypeError):
    """Says which policy it was, however deep; to users a TypeError."""


class Copier:
    """Copies a policy and the policies it holds, at any depth, each of them once.

    A class that defines ``__copy__`` is taken at its word. Any other is copied attribute by
    attribute; policies in its attributes, and in the containers there, are copied too.

    A policy of the package says by a method ``_begin_copy()`` what a copy must forget.

    Args:
        name: What to call the policy in an error; None: errors pass as they are.
        clock: What copies measure elapsed time on, if no clock was chosen for them.
    """

    __slots__ = ("_clock", "_copies", "_name")

    def __init__(self, name: str | None = None, clock: Clock | None = None) -> None:
        self._name = name
        self._clock = clock
        self._copies: dict[int, Any] = {}  # of policies and containers, by the id of the original

    def policy(self, original: BackOff) -> BackOff:
        """Return the copy of a policy; always the same."""
        known: BackOff | None = self._copies.get(id(original))
        if known is not None:
            return known
        own_copy = getattr(type(original), "__copy__", None)
        try:
            if own_copy is copy_of_ours:
                twin: BackOff = self.by_attributes(original)
            else:
                twin = self._copies[id(original)] = _plain_copy(original)
                if own_copy is None:
                    self._replace_held(twin)
        except (_CannotBeCopied, RecursionError):  # too deep is no matter of the policy there
            raise
        except Exception as error:
            if self._name is None:
                raise
            raise _CannotBeCopied(
                f"{self._name} must be a BackOff that can be copied, not {safe_repr(original)}"
            ) from error
        bind_clock = getattr(twin, "_bind_clock", None)
        if bind_clock is not None and self._clock is not None and twin is not original:
            bind_clock(self._clock)
        return twin

    def by_attributes(self, original: Any) -> Any:  # noqa: ANN401 - of the same type
        """Return the copy of a policy of the package, or of a subclass of one."""
        cls: Any = type(original)
        twin = cls.__new__(cls)
        self._copies[id(original)] = twin
        # the same, and faster, where a class does not define its own
        put = setattr if cls.__setattr__ is object.__setattr__ else object.__setattr__
        for name, value in attributes(original).items():
            kind = type(value)
            if kind is float or value is None or kind is int or kind is bool or kind is str:
                put(twin, name, value)
            else:
                put(twin, name, self._held(value))
        twin._begin_copy()
        return twin

    def _replace_held(self, twin: BackOff) -> None:
        for name, value in attributes(twin).items():
            copied = self._held(value)
            if copied is not value:
                object.__setattr__(twin, name, copied)

    def _held(self, value: Any) -> Any:  # noqa: ANN401 - anything a policy may hold
        """Return ``value`` with the policies in it copied: itself if there are none."""
        if is_immutable(value):
            return value
        if is_policy(value):
            return self.policy(value)
        if not isinstance(value, _CONTAINERS):
            return value
        if id(value) not in self._copies:
            self._copies[id(value)] = value  # while it is looked through: it may hold itself
            items = list(value.values() if isinstance(value, dict) else value)
            copied = [self._held(item) for item in items]
            if any(map(is_not, copied, items)):
                self._copies[id(value)] = _refilled(value, copied)
        return self._copies[id(value)]


def _refilled(value: Any, items: list[Any]) -> Any:  # noqa: ANN401 - of the same type
    """Return a copy of the container with other items."""
    if isinstance(value, (tuple, frozenset)):
        base: Any = tuple if isinstance(value, tuple) else frozenset
        return base.__new__(type(value), items)
    twin = _plain_copy(value)
    if isinstance(value, dict):
        twin.update(zip(value, items, strict=True))
    else:
        twin.clear()
        (twin.update if isinstance(value, set) else twin.extend)(items)
    return twin


def copy_of_ours(original: Copied) -> Copied:
    """Return what ``copy.copy`` gives for a policy of the package, whose ``__copy__`` this is."""
    twin: Copied = original if is_immutable(original) else Copier().by_attributes(original)
    return twin


def copy_policy(name: str, policy: BackOff, clock: Clock | None = None) -> BackOff:
    """Return a copy of ``policy`` and of the policies it holds, as ``Copier`` makes it.

    Raises:
        TypeError: It is no policy, or cannot be copied.
    """
    if is_immutable(policy):
        return policy
    require_policy(name, policy)
    try:
        return Copier(name, clock).policy(policy)
    except RecursionError as error:
        raise _CannotBeCopied(
            f"{name} must be a BackOff that can be copied, not {safe_repr(policy)}: {TOO_DEEP}"
        ) from error
