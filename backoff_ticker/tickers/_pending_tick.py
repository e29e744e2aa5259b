"""A ticker between two ticks: what is known of the tick to come, and how that changes.

A turn is a tuple ``(claim, number, due, delay, origin, missed)``:

    ========  =====================================================================
    claim     see ``_claim``
    number    of the tick to come, from 1
    due       when it falls due; None: not fixed before somebody asks for it
    delay     the back-off before it; None: the policy waits to hear how the work
              went; a ``End``: there is no tick to come
    origin    the moment from which the delay counts; None: from the next ask
    missed    ticks dropped before it
    ========  =====================================================================

The functions are pure: they are given the time and the policy's answer.
"""

from __future__ import annotations

from ..policies import End
from ._tick import Pace, catch_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..waiting import Claim

    Turn = tuple[Claim, int, float | None, "float | End | None", float | None, int]


def first_turn(pace: Pace, now: float) -> Turn:
    """Return the turn of a new ticker: its first tick comes at once.

    With ``Pace.RECEIPT`` it falls due right now, else when it is first asked for.
    """
    return {}, 1, now if pace is Pace.RECEIPT else None, 0.0, None, 0


def ignores_cancel(turn: Turn) -> bool:
    """Whether the tick to come is the first, which comes in spite of any cancel.

    Once a ``reset()`` has put a delay before it, be it 0, it does not; an immediate one puts none.
    """
    return turn[1] == 1 and turn[4] is None


def with_delay(turn: Turn, delay: float | End) -> Turn:
    """Return the turn with its delay replaced, counted from the same origin."""
    _, number, _, _, origin, _ = turn
    if isinstance(delay, End):
        return {}, number, None, delay, None, 0
    return {}, number, None if origin is None else origin + delay, delay, origin, 0


def is_immediate(turn: Turn) -> bool:
    """Whether the tick to come follows no delay: the first, or one after an immediate reset."""
    _, number, due, delay, origin, _ = turn
    return origin is None and delay == 0.0 and (number == 1 or due is not None)


def with_due(turn: Turn, pace: Pace, now: float) -> Turn:
    """Return the turn once somebody has asked for its tick: its origin, the slots passed by."""
    _, number, due, delay, origin, missed = turn
    if delay.__class__ is not float:
        return turn
    if is_immediate(turn):
        return {}, number, now if due is None else due, delay, None, 0
    if origin is None:
        origin = now
    due = origin + delay
    if pace is Pace.SKIP:
        due, missed = catch_up(due, delay, now)
    return {}, number, due, delay, origin, missed


def restarted(turn: Turn, now: float, delay: float | End | None) -> Turn:
    """Return the turn of a back-off that begins anew now; without a delay its tick is due now."""
    if delay is None:
        return {}, turn[1], now, 0.0, None, 0
    return with_delay(({}, turn[1], None, None, now, 0), delay)


def rolled_back(turn: Turn, number: int) -> Turn:
    """Return the turn as if tick ``number`` had not been taken, if it was the last that was."""
    return ({}, number, *turn[2:]) if turn[1] == number + 1 else turn
