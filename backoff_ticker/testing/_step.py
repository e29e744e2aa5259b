"""A step of a virtual clock: what somebody who drives it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._participant import Participant


class Step:
    """Somebody waits until everyone does and time has come as far as a target.

    Attributes:
        what: Names it in reports.
        target: How far, in nanoseconds; None: time stands still, and nothing fires.
        finish: Tells whoever waits that it is over; harmless twice, from any thread.
        participant: The one that waits for it, if it is counted otherwise; it is not meanwhile.
        fired: How many timers fired on the way.
        error: What went wrong.
    """

    __slots__ = ("error", "finish", "fired", "participant", "target", "what")

    def __init__(
        self,
        what: str,
        target: int | None,
        finish: Callable[[], object],
        participant: Participant | None = None,
    ) -> None:
        self.what: str = what
        self.target: int | None = target
        self.finish: Callable[[], object] = finish
        self.participant: Participant | None = participant
        self.fired: int = 0
        self.error: BaseException | None = None

    def outcome(self) -> int:
        """Return how many timers fired, or raise what went wrong."""
        if self.error is not None:
            raise self.error
        return self.fired
