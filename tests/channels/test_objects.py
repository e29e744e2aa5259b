"""Channels and the timers of clocks as objects: how they are shown, copies, the protocol."""

from __future__ import annotations

import copy
import math
import pickle
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import Channel, SystemClock, Timer
from tests.channels.ends import error
from tests.tickers.made_timers import Fake

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock


@pytest.fixture(params=["system", "virtual"])
def timer(request: pytest.FixtureRequest, clock: VirtualClock) -> Any:
    return Timer(clock=SystemClock()) if request.param == "system" else Timer(clock=clock)


def test_a_copy_is_the_timer_itself_and_none_is_pickled(timer: Any) -> None:
    assert copy.copy(timer) is timer
    assert copy.deepcopy([timer]) == [timer]
    assert copy.deepcopy(timer.c) is timer.c
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="a timer .* cannot be pickled"):
            pickle.dumps(timer, protocol)


def test_its_channel_is_always_the_same_and_none_can_be_given_to_it(timer: Any) -> None:
    assert timer.c is timer.c
    with pytest.raises(AttributeError):
        timer.c = Channel()


def test_a_channel_is_shown_whatever_its_capacity(clock: VirtualClock) -> None:
    for capacity, shown in [(0, "0"), (math.inf, "inf"), (10**5000, "one of type int")]:
        channel: Channel[int] = Channel(capacity)
        assert repr(channel) == f"<Channel open, capacity={shown}, 0 items>"
        channel.close()
        assert repr(channel) == f"<Channel closed, capacity={shown}, 0 items>"


def test_the_class_of_a_timer_is_none(receivers: Any, clock: VirtualClock) -> None:
    class Shared(Fake):
        c = Channel(1)

    Shared.c.send_nowait(1)
    assert type(error(receivers.select(Shared))) is TypeError
    assert len(Shared.c) == 1
