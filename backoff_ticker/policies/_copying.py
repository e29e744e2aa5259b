"""Copies of policies, as ``BackOff`` describes them: each has inner policies of its own.

A policy that is reached twice on the way is copied once, so a copy shares what the original shares.
"""

from __future__ import annotations

from .._validation import is_duration, safe_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any

    from ._protocol import BackOff, TimeSource

    Memo = dict[int, Any]  # copies by the id of the original

_PACKAGE = __name__.partition(".")[0]
_SEARCHED_SIZE = 100
"""A larger container is searched only if its first item is a policy: data costs a copy nothing."""

_ATOMS = frozenset((float, int, bool, str, type(None)))

IMMUTABLE: set[type] = set()
"""The classes of policies without state; a subclass may add state, and is none of them."""


def is_builtin(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == _PACKAGE


def is_immutable(policy: object) -> bool:
    """Whether a policy has no state, and so is its own copy."""
    return type(policy) in IMMUTABLE


def is_policy(value: object) -> bool:
    """Whether ``value`` has the methods of a ``BackOff``."""
    return (
        callable(getattr(value, "next_backoff", None))
        and callable(getattr(value, "reset", None))
        and not isinstance(value, type)
    )


def makes_policies(value: object) -> bool:
    """Whether ``value`` is a class of policies, or an entry of ``POLICIES``."""
    if isinstance(value, type):
        return hasattr(value, "next_backoff")
    return getattr(type(value), "makes_policies", False) is True


def require_policy(name: str, value: object) -> None:
    """Raise a TypeError that names the parameter unless ``value`` is a ``BackOff``."""
    if not is_policy(value):
        hint = " (call what makes one)" if callable(value) else ""
        if is_duration(value):
            hint = f" (did you mean ConstantBackOff({value!r})?)"
        raise TypeError(
            f"{name} must be a BackOff, an object with next_backoff() and reset(){hint}, "
            f"not {safe_repr(value)}"
        )


def copy_policy(name: str, policy: BackOff, clock: TimeSource | None = None) -> BackOff:
    """Return a copy of a policy, checked; copies that have no clock of their own get ``clock``."""
    if is_immutable(policy):
        return policy
    require_policy(name, policy)
    try:
        return _copied(policy, {}, clock)
    except Exception as error:
        raise TypeError(
            f"{name} must be a BackOff that can be copied, not {safe_repr(policy)}"
        ) from error


def clone(policy: Any) -> Any:
    """Return ``copy.copy(policy)``: the ``__copy__`` of the policies of this package."""
    return policy if is_immutable(policy) else _copied_attributes(policy, {}, None)


def held_policies(policy: BackOff) -> Iterator[BackOff]:
    """Yield the policies that a copy of ``policy`` would copy as well."""
    for value in _attributes(policy).values():
        yield from filter(is_policy, [value] if is_policy(value) else _searched(value))


def _copied(policy: Any, memo: Memo, clock: TimeSource | None) -> Any:
    if is_immutable(policy):
        return policy
    if id(policy) in memo:
        return memo[id(policy)]
    own_copy = getattr(type(policy), "__copy__", None)
    if own_copy is clone:
        copied = _copied_attributes(policy, memo, clock)
    elif own_copy is not None:
        copied = memo[id(policy)] = own_copy(policy)
        require_policy("what its __copy__() returns", copied)
    else:
        from copy import copy

        copied = memo[id(policy)] = copy(policy)
        for name, value in _attributes(copied).items():
            inside = _copied_inside(value, memo, clock)
            if inside is not value:
                object.__setattr__(copied, name, inside)  # the class may be a frozen dataclass
    bind_clock = getattr(copied, "_bind_clock", None)
    if clock is not None and copied is not policy and bind_clock is not None:
        bind_clock(clock)
    return copied


def _copied_attributes(policy: Any, memo: Memo, clock: TimeSource | None) -> Any:
    cls: Any = type(policy)
    copied: Any = cls.__new__(cls)
    memo[id(policy)] = copied
    # A class may forbid assignment; setattr() is faster for the others.
    put = setattr if cls.__setattr__ is object.__setattr__ else object.__setattr__
    for name, value in _attributes(policy).items():
        is_atom = type(value) in _ATOMS  # as most are: this saves the call
        put(copied, name, value if is_atom else _copied_inside(value, memo, clock))
    return copied


def _copied_inside(value: Any, memo: Memo, clock: TimeSource | None) -> Any:
    """Return the copy of an attribute: ``value`` itself unless it is or holds a policy."""
    if is_policy(value):
        return _copied(value, memo, clock)
    held = _searched(value)
    if not any(map(is_policy, held)):
        return value
    if id(value) not in memo:
        items = [_copied(item, memo, clock) if is_policy(item) else item for item in held]
        memo[id(value)] = _refilled(value, items)
    return memo[id(value)]


def _refilled(container: Any, items: list[Any]) -> Any:
    """Return a container of the same type with other items, for a dict with other values."""
    if isinstance(container, tuple):
        return tuple.__new__(type(container), items)
    from copy import copy

    copied = copy(container)
    if isinstance(container, dict):
        copied.update(zip(container, items, strict=True))
    else:
        copied[:] = items
    return copied


def _searched(value: object) -> Collection[Any]:
    """Return the items of an attribute in which to look for policies."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return ()
    if len(value) > _SEARCHED_SIZE and not is_policy(next(iter(value))):
        return ()
    return value


def _attributes(thing: object) -> dict[str, Any]:
    """Return the attributes of an object by name, those in slots and those in ``__dict__``."""
    state: Any = object.__getstate__(thing)
    if type(state) is not tuple:
        return dict(state) if state else {}
    in_dict, in_slots = state
    return {**in_dict, **in_slots} if in_dict else in_slots
