"""Values that stand where no value is: STOP and CLOSED for users, EMPTY and ENDED inside."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final, Self


class _Singleton:
    """A class with one instance, which survives copying and pickling and equals only itself."""

    __slots__ = ()

    _name: str

    def __init_subclass__(cls, *, name: str = "") -> None:
        if not name:
            raise TypeError(
                f"{cls.__bases__[0].__name__} has one instance, {cls._name}, and no subclasses"
            )
        cls._name = name

    def __new__(cls) -> Self:
        return globals()[cls._name]  # type: ignore[no-any-return]

    def __reduce__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return self._name


class Stop(_Singleton, name="STOP"):
    """The type of ``STOP``, its only instance.

    It is not a number and not equal to one, so it cannot be mistaken for a delay.
    """

    __slots__ = ()


class Closed(_Singleton, name="CLOSED"):
    """The type of ``CLOSED``, its only instance."""

    __slots__ = ()


class _Empty(_Singleton, name="EMPTY"):
    __slots__ = ()


class _Ended(_Singleton, name="ENDED"):
    __slots__ = ()


STOP: Final = object.__new__(Stop)
"""Returned by ``next_backoff()`` instead of seconds: give up, do not wait again."""

CLOSED: Final = object.__new__(Closed)
"""Given by ``select`` instead of a value: the ticker or channel has ended."""

EMPTY: Any = object.__new__(_Empty)
"""Returned by an attempt to take a value where there is none yet."""

ENDED: Any = object.__new__(_Ended)
"""Returned by an attempt to take a value where none will come; unlike ``CLOSED``, never sent."""
