"""STOP, what a policy returns instead of a delay when it gives up."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = ["STOP", "Stop"]


class Stop:
    """The type of ``STOP``, which is its only instance and survives copying and pickling.

    It is no number and equal to none, so that no delay can be taken for it.
    """

    __slots__ = ()

    def __new__(cls) -> Stop:  # noqa: PYI034 - there is one
        return STOP

    def __init_subclass__(cls) -> None:
        raise TypeError("Stop has one instance, STOP, and no subclasses")

    def __reduce__(self) -> str:
        return "STOP"

    def __repr__(self) -> str:
        return "STOP"


STOP: Final = object.__new__(Stop)
"""Returned by ``next_backoff()`` instead of seconds: give up, wait no more."""
