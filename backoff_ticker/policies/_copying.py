"""Copies of policies, attribute by attribute: for subclasses that add state of their own."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeVar

    Thing = TypeVar("Thing")

__all__ = ["attributes", "copied", "is_ours", "plain_copy"]

_PACKAGE = __name__.partition(".")[0]


def is_ours(thing: object) -> bool:
    """Whether a class or function is of this package, so that it is known what it does."""
    return getattr(thing, "__module__", "").partition(".")[0] == _PACKAGE


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


def copied(thing: Thing) -> Thing:
    """Return a new object of the same class with the same attributes."""
    twin = type(thing).__new__(type(thing))
    for name, value in attributes(thing):
        object.__setattr__(twin, name, value)
    return twin


def plain_copy(thing: Thing) -> Thing:
    """Return ``copy.copy(thing)``; without that module where a class copies itself."""
    own = getattr(type(thing), "__copy__", None)
    if own is None:
        from copy import copy

        return copy(thing)
    twin: Thing = own(thing)
    return twin
