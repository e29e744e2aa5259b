"""Singletons that stand for "no value": STOP and CLOSED are public, EMPTY and ENDED internal."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import enum
    from typing import Any, Final, Self


class _Singleton:
    """A class with one instance, which survives copy and pickle and is equal only to itself."""

    __slots__ = ()

    _name: str

    def __init_subclass__(cls, *, name: str = "") -> None:
        if not name:
            raise TypeError(
                f"{cls.__bases__[0].__name__} has one instance, {cls._name}, and no subclasses"
            )
        cls._name = name

    def __new__(cls) -> Self:
        return globals()[cls._name]

    def __reduce__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return self._name


if TYPE_CHECKING:
    # Type checkers understand ``value is CLOSED`` only of a member of an enum.
    class Stop(enum.Enum):
        """The type of ``STOP``, its only instance."""

        STOP = "STOP"

    class Closed(enum.Enum):
        """The type of ``CLOSED``, its only instance."""

        CLOSED = "CLOSED"

    _stop, _closed = Stop.STOP, Closed.CLOSED

else:

    class Stop(_Singleton, name="STOP"):
        """The type of ``STOP``, its only instance.

        It is not equal to any number, so it cannot be mistaken for a delay.

        Example:
            >>> from backoff_ticker import STOP, Stop
            >>> isinstance(STOP, Stop), Stop() is STOP
            (True, True)
        """

        __slots__ = ()

    class Closed(_Singleton, name="CLOSED"):
        """The type of ``CLOSED``, its only instance.

        Example:
            >>> from backoff_ticker import CLOSED, Channel, select
            >>> channel = Channel(1)
            >>> channel.close()
            >>> select(channel)[1] is CLOSED
            True
        """

        __slots__ = ()

    _stop, _closed = object.__new__(Stop), object.__new__(Closed)


class _Empty(_Singleton, name="EMPTY"):
    __slots__ = ()


class _Ended(_Singleton, name="ENDED"):
    __slots__ = ()


STOP: Final = _stop
"""The answer of a policy that gives up, instead of the seconds to wait."""

CLOSED: Final = _closed
"""The value that ``select`` gives for a ticker or channel that has ended."""

EMPTY: Any = object.__new__(_Empty)
"""What an attempt to take a value returns if there is none yet."""

ENDED: Any = object.__new__(_Ended)
"""What an attempt to take a value returns if none will come; unlike ``CLOSED``, never an item."""
