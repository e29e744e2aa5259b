"""The explorer itself: it sees the classic faults of channels, and tells how to see them again."""

from __future__ import annotations

import re
from math import inf

import pytest

from tests.channels import toy_channels
from tests.channels.explorer import ScheduleFailure, explore, replay
from tests.channels.models import (
    cancelled_receiver,
    impatient_receiver,
    send_and_receive,
    send_receive_and_close,
)
from tests.channels.toy_channels import (
    CountsThenAppends,
    ForgetsToPassOn,
    HandsOver,
    HandsOverInFutures,
    LooksThenRegisters,
    Toy,
)

TOYS = {toy_channels.__file__}

FAULTS = {
    "close comes between check and append": (
        send_receive_and_close(Toy, inf, 1, 1),
        "refused and received|came after the end|drained, closed|accepted after close",
    ),
    "an item comes between look and wait": (
        send_and_receive(LooksThenRegisters, inf, 1, 1),
        "nobody can go on: receiver 0 waits",
    ),
    "who was woken leaves and tells nobody": (
        impatient_receiver(ForgetsToPassOn, inf),
        "nobody can go on: patient waits",
    ),
    "an item is handed to a receiver that leaves": (
        impatient_receiver(HandsOver, inf),
        "nobody can go on: patient waits|accepted and lost",
    ),
    "an item is in the result of a cancelled future": (
        cancelled_receiver(HandsOverInFutures, inf),
        "accepted and lost",
    ),
    "two senders find room for one": (
        send_and_receive(CountsThenAppends, 1, 2, 0),
        "2 items accepted where 1 could be",
    ),
}
SLOW = pytest.mark.slow
GRAINS = ["call", pytest.param("line", marks=SLOW), pytest.param("opcode", marks=SLOW)]


@pytest.mark.parametrize("grain", GRAINS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_and_found_again_by_its_choices(fault, grain):
    model, message = FAULTS[fault]
    with pytest.raises(ScheduleFailure, match=message) as raised:
        explore(model, TOYS, grain=grain)
    told = str(raised.value)
    choices, bound, seed = re.search(r"(\{.*\}), bound=(\d), seed=(\d+)", told).groups()
    again = replay(model, TOYS, eval(choices), bound=int(bound), seed=int(seed), grain=grain)
    assert again.failure == told.splitlines()[0]
    assert again.told_story() in told
    assert re.search(r"\n    sender( a)? +toy_channels\.py:\d+ +\S", told)


@SLOW
@pytest.mark.parametrize("grain", ["call", "line", "opcode"])
@pytest.mark.parametrize("model", [send_and_receive(Toy, inf, 1, 2), impatient_receiver(Toy, inf)])
def test_nothing_is_found_where_nothing_is_wrong(model, grain):
    assert explore(model, TOYS, grain=grain) > 100
