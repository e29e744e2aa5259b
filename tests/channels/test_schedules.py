"""Channels and ``select`` under schedules of a few threads with few switches."""

import re
from collections import Counter
from contextlib import suppress
from math import inf
from typing import Any

import pytest

from backoff_ticker import CLOSED, CancellationToken, Channel, ChannelClosed, merge, select
from backoff_ticker.channels._buffer import Bounded, Unbounded
from backoff_ticker.testing import ScheduleFailure
from tests import effort
from tests.channels.history import History, note_selected
from tests.channels.schedules import WATCHED, explore_model

SCHEDULES = effort.rounds(5, 200)
CAPACITY = pytest.mark.parametrize("capacity", [0, 1, inf])


def race(capacity, threads, *, full=False):
    """Return a model of threads that each do something with the history of one channel.

    Args:
        full: Whether the channel is, unless it takes any number of items.
    """

    def model(plan):
        history = History(Channel(capacity), plan.stamp)
        for number in range(int(capacity) if full and capacity != inf else 0):
            history.send_nowait(f"early {number}")
        for name, act in threads.items():
            if name == "cancelled":
                plan.cancel_meanwhile(act(history))
            else:
                plan.thread(name, act, history)
        return history.check

    return model


def sends(*items, timeout=None):
    return lambda history: [history.send(item, timeout) for item in items]


def receives(count, timeout=None):
    return lambda history: [history.receive(timeout) for _ in range(count)]


def crowd(senders, receivers, items=1):
    """As many receives as sends: nobody waits for ever."""
    each = items * receivers
    sending = {f"sender {s}": sends(*(f"{s}{n}" for n in range(each))) for s in "ab"[:senders]}
    receiving = {f"receiver {n}": receives(items * senders) for n in range(receivers)}
    return sending | receiving


def crowd_and_close(senders, receivers):
    """Somebody closes meanwhile; receivers go on to the end."""
    sending = {f"sender {s}": sends(*f"{s}0 {s}1".split()[senders - 1 :]) for s in "ab"[:senders]}
    receiving = {f"receiver {n}": History.receive_all for n in range(receivers)}
    return {**sending, "closer": History.close, **receiving}


def receive_until_the_patient(history):
    while not any(call.item == "patient" for call in history.got()):
        history.receive()


def receive_in_time_and_send(history):
    if history.receive(1.0):
        history.send("another")


async def receive_and_send(history):
    if await history.receive_async():
        history.send_nowait("another")


LEAVES = "an item that a cancelled coroutine leaves"
ON_EMPTY = {
    **{f"{s} to {r}": crowd(s, r) for s in (1, 2) for r in (1, 2)},
    **{f"{s} to {r}, and a close": crowd_and_close(s, r) for s in (1, 2) for r in (1, 2)},
    "three items keep their order": crowd(1, 1, items=3),
    "methods that do not wait": {
        "sender": lambda history: [history.send_nowait(item) for item in "ab"],
        "receiver": lambda history: [history.receive_nowait() for _ in "ab"],
        "closer": History.close,
    },
    "an item that an impatient receiver leaves": {
        "impatient": receive_in_time_and_send,
        "patient": receives(1),
        "sender": sends("a"),
    },
    "both sides are impatient": {
        "receiver": receives(1, timeout=1.0),
        "sender": sends("a", timeout=1.0),
    },
    "a coroutine that receives is cancelled": {
        "cancelled": History.receive_async,
        "sender": sends("a", timeout=5.0),
    },
    LEAVES: {"cancelled": receive_and_send, "receiver": receives(1), "sender": sends("a")},
}
LATE = "a sender runs out of time as room is made"
ON_FULL = {
    LATE: {"impatient": sends("late", timeout=1.0), "receiver": receives(1, timeout=2.0)},
    "the same for two": {
        "impatient": sends("late", timeout=1.0),
        "receiver 0": receives(1, timeout=2.0),
        "receiver 1": receives(1, timeout=2.0),
    },
    "as much room as senders wait": {
        "sender a": sends("a"),
        "sender b": sends("b"),
        "receiver": receives(2),
    },
    "room that an impatient sender leaves": {
        "impatient": sends("impatient", timeout=1.0),
        "patient": sends("patient"),
        "receiver": receive_until_the_patient,
    },
    "a close and a receiver meet senders that wait": {
        "sender a": sends("a"),
        "sender b": sends("b"),
        "closer": History.close,
        "receiver": receives(1),
    },
    "a coroutine that sends is cancelled": {
        "cancelled": lambda history: history.send_async("a"),
        "receiver": receives(1, timeout=5.0),
    },
}


@CAPACITY
@pytest.mark.parametrize("name", ON_EMPTY)
def test_an_empty_channel_answers_as_one_may(name, capacity, monkeypatch):
    if name != LEAVES or capacity:  # nobody may be there for what it sends
        explore_model(race(capacity, ON_EMPTY[name]), SCHEDULES, monkeypatch)


@pytest.mark.parametrize("capacity", [0, 1, 2])
@pytest.mark.parametrize("name", ON_FULL)
def test_a_full_channel_answers_as_one_may(name, capacity, monkeypatch):
    explore_model(race(capacity, ON_FULL[name], full=True), SCHEDULES, monkeypatch)


def count_then_append(buffer, item, _):
    if buffer.room > 0:
        buffer.items.append(item)
        buffer.room -= 1
        return True
    return False


def refuse_what_is_accepted(_, pending):
    pending.accepted = False


def offer(history):
    history.send_nowait(object())


def merging(capacity, readers, *, leaves=False):
    def model(plan):
        first, second = Channel(capacity), Channel(capacity)
        merged = merge(first, second)
        got = []

        def send():
            for item in "ab":
                first.send(item)
            first.close()

        def receive():
            with suppress(ChannelClosed):
                got.append((first, first.receive()))

        async def leave():
            with suppress(StopAsyncIteration):
                got.append(await anext(merged))

        for number in range(readers):
            plan.thread(f"reader {number}", lambda: got.extend(merged))
        plan.thread("receiver", receive)
        plan.thread("sender", send)
        plan.thread("closer", second.close)
        if leaves:
            plan.cancel_meanwhile(leave())

        def check():
            expected = [(first, "a"), (first, "b"), (first, CLOSED), (second, CLOSED)]
            assert Counter(got) == Counter(expected), got

        return check

    return model


FAULTS = {
    (Unbounded, "take_out_late"): (
        lambda *_: False,
        race(inf, crowd_and_close(1, 1)),
        "accepted and lost|came after the end|accepted after close",
    ),
    (Channel, "_recheck"): (
        lambda _, waiter: waiter.limit,
        race(inf, crowd(1, 1)),
        "nobody can go on",
    ),
    (Bounded, "put"): (
        count_then_append,
        race(1, {"sender a": offer, "sender b": offer}),
        "2 items accepted where 1 could be",
    ),
    (Bounded, "refuse"): (
        refuse_what_is_accepted,
        race(1, ON_FULL[LATE], full=True),
        "refused and received",
    ),
}


@pytest.mark.parametrize("place", FAULTS, ids=lambda place: place[1])
def test_a_planted_fault_is_found(place, monkeypatch):
    planted, model, message = FAULTS[place]
    monkeypatch.setattr(*place, planted)
    with pytest.raises(ScheduleFailure, match=message) as raised:
        explore_model(model, 3000, monkeypatch, [*WATCHED, __file__])
    assert re.search(r"\n    _\w+\.py:\d+ +\S", str(raised.value))  # the way there


@pytest.mark.parametrize("nowait", [False, True])
@pytest.mark.parametrize("senders", ["a", "ab"])
@pytest.mark.parametrize("meanwhile", [False, True])
@CAPACITY
def test_selects_between_items_and_a_cancel(capacity, senders, nowait, meanwhile, monkeypatch):
    """Two select from the same channels; a token tells whoever gets nothing."""

    def model(plan):
        histories = [History(Channel(capacity), plan.stamp) for _ in "ab"]
        token = CancellationToken()

        def choose(order):
            sources = [each.channel for each in histories[::order]]
            assert note_selected(histories, lambda: select(*sources, token)) in (*sources, token)

        def send(name):
            history = histories["ab".index(name)]
            if nowait:
                history.send_nowait(name)
            else:
                history.send(name, 5.0)
            if not meanwhile:
                token.cancel()

        plan.thread("select ab", choose, 1)
        plan.thread("select ba", choose, -1)
        for name in senders:
            plan.thread(f"sender {name}", send, name)
        if meanwhile:
            plan.thread("canceller", token.cancel)
        return lambda: [history.check() for history in histories]

    explore_model(model, SCHEDULES, monkeypatch)


@CAPACITY
def test_a_select_meets_an_item_and_a_close(capacity, monkeypatch):
    def choose(history):
        silent = Channel[Any]()
        while not history.receives or history.receives[-1].error is None:
            note_selected([history], lambda: select(history.channel, silent))

    threads = {"selecting": choose, "sender": sends("a"), "closer": History.close}
    explore_model(race(capacity, threads), SCHEDULES, monkeypatch)


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("readers", [1, 2])
@CAPACITY
def test_a_merge_that_is_shared_gives_each_item_and_each_end_once(
    capacity, readers, leaves, monkeypatch
):
    """Beside a receiver of the first channel, which may be faster."""
    model = merging(capacity, readers, leaves=leaves)
    explore_model(model, SCHEDULES, monkeypatch)
