"""What stands where no value is: CLOSED, for those who select; EMPTY and ENDED, inside."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

__all__ = ["CLOSED", "EMPTY", "ENDED", "Closed"]


class Closed:
    """The type of ``CLOSED``, which is its only instance and survives copying and pickling."""

    __slots__ = ()

    def __new__(cls) -> Closed:  # noqa: PYI034 - there is one
        return CLOSED

    def __init_subclass__(cls) -> None:
        raise TypeError("Closed has one instance, CLOSED, and no subclasses")

    def __reduce__(self) -> str:
        return "CLOSED"

    def __repr__(self) -> str:
        return "CLOSED"


CLOSED: Final = object.__new__(Closed)
"""In place of a value: that ticker or channel has ended, and nothing more comes from it."""

EMPTY: Any = object()
"""What is taken where there is nothing to take."""

ENDED: Any = object()
"""What is taken where nothing comes any more; not ``CLOSED``, which somebody might send."""
