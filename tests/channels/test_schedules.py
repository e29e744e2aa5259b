"""Channels and ``select`` under every schedule of a few threads with few preemptions."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import Channel, select
from tests import effort
from tests.channels.explorer import explore
from tests.channels.explorer_points import PACKAGE_FILES
from tests.channels.models import (
    blocked_senders_and_close,
    cancelled_receiver,
    cancelled_sender,
    impatient_both,
    impatient_receiver,
    impatient_sender,
    receiver_behind_a_cancelled_one,
    select_and_close,
    select_send_and_cancel,
    send_and_receive,
    send_receive_and_close,
    sender_behind_an_impatient_one,
    senders_that_wait_for_room,
    two_selects,
    without_waiting,
)

if TYPE_CHECKING:
    from tests.channels.explorer import Model

CAPACITIES = [0, 1, inf]
BOUNDED = [0, 1]
CROWDS = [(1, 1), (1, 2), (2, 1), (2, 2)]

SLOW = pytest.mark.slow
LIMIT = effort.rounds(5, 150)
"""Schedules of one model and grain, and as many random ones where it has more."""


@pytest.fixture(params=["call", *(pytest.param(grain, marks=SLOW) for grain in ("line", "opcode"))])
def hunt(request: pytest.FixtureRequest) -> Any:
    def explore_model(model: Model) -> None:
        assert explore(model, PACKAGE_FILES, grain=request.param, limit=LIMIT) >= min(LIMIT, 100)

    return explore_model


def make(capacity: float, clock: Any) -> Channel[Any]:
    return Channel(capacity, clock=clock)


@pytest.mark.parametrize(("senders", "receivers"), CROWDS)
@pytest.mark.parametrize("capacity", CAPACITIES)
def test_senders_and_receivers(hunt, capacity, senders, receivers):
    hunt(send_and_receive(make, capacity, senders, receivers))


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_three_items_of_one_sender_keep_their_order(hunt, capacity):
    hunt(send_and_receive(make, capacity, 1, 1, items=3))


@pytest.mark.parametrize(("senders", "receivers"), CROWDS)
@pytest.mark.parametrize("capacity", CAPACITIES)
def test_senders_receivers_and_a_close(hunt, capacity, senders, receivers):
    hunt(send_receive_and_close(make, capacity, senders, receivers))


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_methods_that_do_not_wait(hunt, capacity):
    hunt(without_waiting(make, capacity))


@pytest.mark.parametrize("receivers", [1, 2])
@pytest.mark.parametrize("capacity", BOUNDED)
def test_a_sender_whose_time_is_up_as_room_is_made(hunt, capacity, receivers):
    hunt(impatient_sender(make, capacity, receivers))


@pytest.mark.parametrize("senders", [1, 2])
@pytest.mark.parametrize("capacity", [1, 2])
def test_room_for_senders_that_wait(hunt, capacity, senders):
    hunt(senders_that_wait_for_room(make, capacity, senders))


@pytest.mark.parametrize("capacity", BOUNDED)
def test_room_that_an_impatient_sender_leaves(hunt, capacity):
    hunt(sender_behind_an_impatient_one(make, capacity))


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_an_item_that_an_impatient_receiver_leaves(hunt, capacity):
    hunt(impatient_receiver(make, capacity))


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_both_sides_are_impatient(hunt, capacity):
    hunt(impatient_both(make, capacity))


@pytest.mark.parametrize("receiver", [False, True])
@pytest.mark.parametrize("capacity", BOUNDED)
def test_a_close_meets_senders_that_wait_for_room(hunt, capacity, receiver):
    hunt(blocked_senders_and_close(make, capacity, receiver=receiver))


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_a_coroutine_that_receives_is_cancelled(hunt, capacity):
    hunt(cancelled_receiver(make, capacity))


@pytest.mark.parametrize("capacity", [1, inf])
def test_an_item_that_a_cancelled_coroutine_leaves(hunt, capacity):
    hunt(receiver_behind_a_cancelled_one(make, capacity))


@pytest.mark.parametrize("capacity", BOUNDED)
def test_a_coroutine_that_sends_is_cancelled(hunt, capacity):
    hunt(cancelled_sender(make, capacity))


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_a_select_between_an_item_and_a_cancel(hunt, capacity):
    hunt(select_send_and_cancel(make, select, capacity))


@pytest.mark.parametrize("nowait", [False, True])
@pytest.mark.parametrize("senders", ["a", "ab"])
@pytest.mark.parametrize("capacity", CAPACITIES)
def test_two_selects_over_the_same_channels(hunt, capacity, senders, nowait):
    hunt(two_selects(make, select, capacity, senders=senders, nowait=nowait))


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_a_select_meets_an_item_and_a_close(hunt, capacity):
    hunt(select_and_close(make, select, capacity))
