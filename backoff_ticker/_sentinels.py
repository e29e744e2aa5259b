"""Singletons that stand for "no value": STOP and CLOSED are public, EMPTY and ENDED internal.

As members of enums they survive copy and pickle, and type checkers understand ``value is CLOSED``.
"""

from __future__ import annotations

import enum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final


class _Sentinel(enum.Enum):
    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__


class Stop(_Sentinel):
    """The type of ``STOP``, which a policy answers instead of a delay if it gives up.

    It is not equal to any number, so it cannot be mistaken for a delay.

    Example:
        >>> from backoff_ticker import STOP, Stop
        >>> isinstance(STOP, Stop), STOP == -1
        (True, False)
    """

    STOP = "STOP"


class Closed(_Sentinel):
    """The type of ``CLOSED``, which ``select`` returns for a source that has ended.

    Example:
        >>> from backoff_ticker import CLOSED, Channel, select
        >>> channel = Channel(1)
        >>> channel.close()
        >>> select(channel)[1] is CLOSED
        True
    """

    CLOSED = "CLOSED"


class _Internal(_Sentinel):
    EMPTY = "EMPTY"
    ENDED = "ENDED"


STOP: Final = Stop.STOP
"""The answer of a policy that gives up, instead of the seconds to wait."""

CLOSED: Final = Closed.CLOSED
"""The value that ``select`` gives for a ticker or channel that has ended."""

EMPTY: Any = _Internal.EMPTY
"""What an attempt to take a value returns if there is none yet."""

ENDED: Any = _Internal.ENDED
"""What an attempt to take a value returns if none will come; unlike ``CLOSED``, never an item."""
