"""Locks that were made before the body, and that watched code can reach."""

from __future__ import annotations

import _thread
import logging
import sys
from collections import deque
from contextlib import contextmanager
from functools import partial
from gc import get_referents
from threading import Thread
from types import BuiltinMethodType, CellType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from ._standard_library import lock_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_WRAPPERS = (tuple, set, frozenset, deque, staticmethod, classmethod, property, MethodType, partial)
# Where objects with locks in them have their classes, beside watched modules.
_OF_THE_LIBRARY = {"threading", "queue", "functools"}


def _items(holder: Any) -> list[tuple[Any, Any]]:
    """Return what an object holds, each with the key to replace it, or None."""
    kind = type(holder)  # not isinstance(): that would make an object which is made when it is used
    if issubclass(kind, dict):
        return [*dict.items(holder)]
    if issubclass(kind, list):
        return [*enumerate(holder)]
    if issubclass(kind, type):
        return [*vars(holder).items()]
    if kind is CellType:
        return [("cell_contents", content) for content in get_referents(holder)]
    if kind is FunctionType:
        parts = (*(holder.__closure__ or ()), holder.__dict__, holder.__kwdefaults__)
        return [(None, part) for part in parts]
    try:
        own = kind.__dictoffset__ and object.__getattribute__(holder, "__dict__")
    except AttributeError:
        own = None  # a class in C may not show it
    return [(None, thing) for thing in (*get_referents(holder), own)]


def _put(holder: Any, key: Any, value: object) -> None:
    if issubclass(type(holder), (type, CellType)):
        setattr(holder, key, value)
    else:
        holder[key] = value


def _is_entered(thing: Any, watched: Callable[[str], bool]) -> bool:
    kind = type(thing)
    if issubclass(kind, (dict, list, CellType, *_WRAPPERS)):
        return True
    if issubclass(kind, (type, FunctionType)):
        return _is_watched(sys.modules.get(thing.__module__), watched)
    home = kind.__module__
    return not issubclass(kind, Thread) and (
        home in _OF_THE_LIBRARY or _is_watched(sys.modules.get(home), watched)
    )


def _is_watched(module: Any, watched: Callable[[str], bool]) -> bool:
    file: str = getattr(module, "__file__", None) or ""
    return file != "" and watched(file)


@contextmanager
def locks_replaced(watched: Callable[[str], bool], body: object) -> Iterator[list[Any]]:
    """Have locks of a schedule inside the block, in the place of those that watched code can reach.

    That is from watched modules and ``body``, by way of variables, attributes, containers,
    closures, and objects of watched classes, ``threading`` and ``queue``.
    """
    made: dict[int, Any] = {}
    replaced: list[tuple[Any, Any, Any, Any]] = []
    todo: list[Any] = [
        vars(module)
        for module in [*sys.modules.values()]
        if issubclass(type(module), ModuleType)  # packages put other objects there, too
        and (module is logging or _is_watched(module, watched))
    ]
    handlers: Any = logging._handlerList  # type: ignore[attr-defined]
    todo += [body, *(vars(handler) for reference in handlers if (handler := reference()))]
    seen = {id(holder): holder for holder in todo}
    while todo:
        holder = todo.pop()
        for key, value in _items(holder):
            method = type(value) is BuiltinMethodType
            original = value.__self__ if method else value
            if issubclass(type(original), (_thread.LockType, _thread.RLock)):
                if key is None:
                    continue  # as in a tuple
                new = made.setdefault(id(original), lock_for(original))
                new = getattr(new, value.__name__, value) if method else new
                replaced.append((holder, key, value, new))
            elif id(value) not in seen and _is_entered(value, watched):
                seen[id(value)] = value
                todo.append(value)
    try:
        for holder, key, _, new in replaced:
            _put(holder, key, new)
        yield [*made.values()]
    finally:
        for holder, key, old, new in replaced:
            if dict(_items(holder)).get(key) is new:  # else somebody else has put something there
                _put(holder, key, old)
