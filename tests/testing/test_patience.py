"""When a clock has stood still for too long: judged by looks of a made-up real time."""

from __future__ import annotations

from backoff_ticker.testing._participant import Participant, State
from backoff_ticker.testing._patience import Patience


def member(turn=1, state=State.RUNNING):
    made = Participant("one", ident=1)
    made.last_turn, made.state = turn, state
    return made


def over_at(patience, members, begin, now=0, held=()):
    """Return the first of 20 whole seconds of real time at which it is over."""
    for real in range(begin, begin + 20):
        if patience.is_over(float(real), now, members, held=real in held):
            return real
    return None


def test_it_is_over_once_time_has_stood_still_for_the_time_out_and_again_after_as_long():
    patience, members = Patience(5.0, 0), [member()]
    assert over_at(patience, members, 100) == 105
    assert over_at(patience, members, 106) == 110


def test_time_that_moves_and_a_step_that_begins_have_it_begin_anew():
    patience, members = Patience(5.0, 0), [member()]
    over_at(patience, members, 100)
    assert over_at(patience, members, 109, now=7) == 114
    patience.begin_anew()
    assert over_at(patience, members, 118, now=7) == 123


def test_time_that_is_held_does_not_count():
    assert over_at(Patience(5.0, 0), [member()], 100, held=range(100, 109)) == 113


def test_those_waited_for_in_vain_are_waited_for_less_until_they_move():
    patience, one, parked = Patience(5.0, 0), member(), member(state=State.PARKED)
    assert patience.seconds(0, [one, parked]) == 5.0
    patience.note_in_vain(0, [one, parked])
    assert patience.hopeless(0, [one, parked]) == {one}
    assert patience.seconds(0, [one, parked]) < 1.0
    assert patience.seconds(0, [one, member()]) == 5.0
    assert patience.seconds(1, [one, parked]) == 5.0
    one.last_turn += 1
    assert patience.hopeless(0, [one, parked]) == set()
    assert patience.seconds(0, [one, parked]) == 5.0
