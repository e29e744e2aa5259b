"""When a clock has stood still for too long: judged by looks of a made-up real time."""

from __future__ import annotations

from backoff_ticker.testing.liveness._settle_timeout import SettleTimer
from backoff_ticker.testing.participants._participant import Participant, State


def member(turn=1, state=State.RUNNING):
    made = Participant("one", ident=1)
    made.last_turn, made.state = turn, state
    return made


def over_at(patience, members, begin, now=0, held=(), progress=()):
    """Return the first of 100 whole seconds of real time at which it is over."""
    for real in range(begin, begin + 100):
        moves = sum(moment <= real for moment in progress)
        if patience.has_expired(float(real), now, moves, members, frozen=real in held):
            return real
    return None


def test_it_is_over_once_time_has_stood_still_for_the_time_out_and_again_after_as_long():
    patience, members = SettleTimer(5.0, 0), [member()]
    assert over_at(patience, members, 100) == 105
    assert over_at(patience, members, 106) == 110


def test_time_that_moves_and_a_step_that_begins_have_it_begin_anew():
    patience, members = SettleTimer(5.0, 0), [member()]
    over_at(patience, members, 100)
    assert over_at(patience, members, 109, now=7) == 114
    patience.restart()
    assert over_at(patience, members, 118, now=7) == 123


def test_time_that_is_held_does_not_count():
    assert over_at(SettleTimer(5.0, 0), [member()], 100, held=range(100, 109)) == 114


def test_time_that_is_held_for_a_minute_is_over_or_after_a_longer_time_out():
    assert over_at(SettleTimer(5.0, 0), [member()], 100, held=range(100, 300)) == 160
    assert over_at(SettleTimer(70.0, 0), [member()], 100, held=range(100, 300)) == 170


def test_while_anybody_gets_on_it_is_not_over_but_not_for_ever():
    assert over_at(SettleTimer(5.0, 0), [member()], 100, progress=[102, 106, 110]) == 115
    assert over_at(SettleTimer(5.0, 0), [member()], 100, progress=range(100, 300)) == 160


def test_those_waited_for_in_vain_are_waited_for_less_until_they_move():
    patience, one, parked = SettleTimer(5.0, 0), member(), member(state=State.PARKED)
    assert patience.patience(0, [one, parked]) == 5.0
    patience.abandon(0, [one, parked])
    assert patience.abandoned(0, [one, parked]) == {one}
    assert patience.patience(0, [one, parked]) < 1.0
    assert patience.patience(0, [one, member()]) == 5.0
    assert patience.patience(1, [one, parked]) == 5.0
    one.last_turn += 1
    assert patience.abandoned(0, [one, parked]) == set()
    assert patience.patience(0, [one, parked]) == 5.0
