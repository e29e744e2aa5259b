"""Copies of policies, each together with the policies that it holds, at any depth."""

from __future__ import annotations

from collections import deque

from .._numbers import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .._protocols import BackOff, Clock

__all__ = [
    "TOO_DEEP",
    "Copier",
    "attributes",
    "copy_policy",
    "is_immutable",
    "is_ours",
    "is_policy",
    "policies_in",
    "require_policy",
]

_PACKAGE = __name__.partition(".")[0]
TOO_DEEP = "it holds too many policies inside each other"
_CONTAINERS = (dict, tuple, list, deque, set, frozenset)


def is_ours(thing: object) -> bool:
    """Whether a class or function is of this package, so that it is known what it does."""
    return getattr(thing, "__module__", "").partition(".")[0] == _PACKAGE


def is_immutable(policy: object) -> bool:
    """Whether a policy of the package has no state, and so is its own copy."""
    return "_immutable" in type(policy).__dict__


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
            f"not {shown(value)}"
        )


def attributes(thing: object) -> Iterator[tuple[str, object]]:
    """Yield the name and value of each instance attribute, in ``__dict__`` or in slots."""
    yield from getattr(thing, "__dict__", {}).items()
    for cls in type(thing).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            private = slot.startswith("__") and not slot.endswith("__")
            name = f"_{cls.__name__.lstrip('_')}{slot}" if private else slot
            if name not in ("__dict__", "__weakref__") and hasattr(thing, name):
                yield name, getattr(thing, name)


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
            left += [held for _, held in attributes(value)]
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

    A policy of the package says by a class attribute ``_immutable`` that one of exactly that class
    is its own copy, and by a method ``_begin_copy()`` what a copy must forget.

    Args:
        name: What to call the policy in an error; None: errors pass as they are.
        clock: What copies measure elapsed time on, if no clock was chosen for them.
    """

    def __init__(self, name: str | None = None, clock: Clock | None = None) -> None:
        self._name = name
        self._clock = clock
        self._copies: dict[int, BackOff] = {}
        self._visited: dict[int, Any] = {}

    def policy(self, original: BackOff) -> BackOff:
        """Return the copy of a policy; always the same."""
        known = self._copies.get(id(original))
        if known is not None:
            return known
        own_copy = getattr(type(original), "__copy__", None)
        try:
            if is_ours(own_copy):
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
                f"{self._name} must be a BackOff that can be copied, not {shown(original)}"
            ) from error
        bind_clock = getattr(twin, "_bind_clock", None)
        if bind_clock is not None and self._clock is not None and twin is not original:
            bind_clock(self._clock)
        return twin

    def by_attributes(self, original: Any) -> Any:  # noqa: ANN401 - of the same type
        """Return the copy of a policy of the package, or of a subclass of one."""
        cls: Any = type(original)
        if is_immutable(original):
            return original
        twin = cls.__new__(cls)
        self._copies[id(original)] = twin
        for name, value in list(attributes(original)):
            object.__setattr__(twin, name, self._held(value))
        twin._begin_copy()
        return twin

    def _replace_held(self, twin: BackOff) -> None:
        for name, value in list(attributes(twin)):
            copied = self._held(value)
            if copied is not value:
                object.__setattr__(twin, name, copied)

    def _held(self, value: Any) -> Any:  # noqa: ANN401 - anything a policy may hold
        """Return ``value`` with the policies in it copied: itself if there are none."""
        if is_policy(value):
            return self.policy(value)
        if not isinstance(value, _CONTAINERS):
            return value
        if id(value) in self._visited:
            return self._visited[id(value)]
        self._visited[id(value)] = value  # while it is looked through: it may hold itself
        items = list(value.values() if isinstance(value, dict) else value)
        copied = [self._held(item) for item in items]
        if any(new is not old for new, old in zip(copied, items, strict=True)):
            self._visited[id(value)] = _refilled(value, copied)
        return self._visited[id(value)]


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


def copy_policy(name: str, policy: BackOff, clock: Clock | None = None) -> BackOff:
    """Return a copy of ``policy`` and of the policies it holds, as ``Copier`` makes it.

    Raises:
        TypeError: It is no policy, or cannot be copied.
    """
    require_policy(name, policy)
    try:
        return Copier(name, clock).policy(policy)
    except RecursionError as error:
        raise _CannotBeCopied(
            f"{name} must be a BackOff that can be copied, not {shown(policy)}: {TOO_DEEP}"
        ) from error
