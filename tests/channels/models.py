"""Models of channels and ``select`` for the explorer: who does what at once, and the outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backoff_ticker import CancellationToken
from tests.channels.explorer_waits import MiniLoop
from tests.channels.history import History, note_selected

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.channels.explorer import Model
    from tests.channels.explorer_schedule import Schedule

    Make = Callable[[float, Any], Any]


def send_items(history: History, name: str, count: int) -> None:
    for number in range(count):
        history.send(f"{name}{number}")


def receive_items(history: History, count: int) -> None:
    for _ in range(count):
        history.receive()


def send_and_receive(
    make: Make, capacity: float, senders: int, receivers: int, items: int = 1
) -> Model:
    """As many receives as sends: nobody waits for ever."""

    def model(schedule: Schedule) -> Any:
        history = History(make(capacity, schedule.clock), schedule.stamp)
        for number in range(senders):
            name = "ab"[number]
            schedule.thread(f"sender {name}", send_items, history, name, items * max(1, receivers))
        for number in range(receivers):
            schedule.thread(f"receiver {number}", receive_items, history, items * senders)
        return history.check

    return model


def send_receive_and_close(make: Make, capacity: float, senders: int, receivers: int) -> Model:
    """Somebody closes meanwhile; receivers go on to the end."""

    def model(schedule: Schedule) -> Any:
        history = History(make(capacity, schedule.clock), schedule.stamp)
        for name in "ab"[:senders]:
            schedule.thread(f"sender {name}", send_items, history, name, 3 - senders)
        schedule.thread("closer", history.close)
        for number in range(receivers):
            schedule.thread(f"receiver {number}", history.receive_all)
        return history.check

    return model


def without_waiting(make: Make, capacity: float) -> Model:
    """The methods that do not wait, all at once."""

    def model(schedule: Schedule) -> Any:
        history = History(make(capacity, schedule.clock), schedule.stamp)

        def send() -> None:
            history.send_nowait("a0")
            history.send_nowait("a1")

        def receive() -> None:
            history.receive_nowait()
            history.receive_nowait()

        schedule.thread("sender", send)
        schedule.thread("receiver", receive)
        schedule.thread("closer", history.close)
        return history.check

    return model


def impatient_sender(make: Make, capacity: int, receivers: int = 1) -> Model:
    """The channel is full, and a sender runs out of time as room is made."""

    def model(schedule: Schedule) -> Any:
        history = History(make(capacity, schedule.clock), schedule.stamp)
        for number in range(capacity):
            history.send_nowait(f"early {number}")
        schedule.thread("impatient", history.send, "late", 1.0)
        for number in range(receivers):
            schedule.thread(f"receiver {number}", history.receive, 2.0)
        return history.check

    return model


def senders_that_wait_for_room(make: Make, capacity: int, senders: int) -> Model:
    """As many items are received as senders wait; as many remain as there is room."""

    def model(schedule: Schedule) -> Any:
        history = History(make(capacity, schedule.clock), schedule.stamp)
        for number in range(capacity):
            history.send_nowait(f"early {number}")
        for name in "ab"[:senders]:
            schedule.thread(f"sender {name}", history.send, name)
        schedule.thread("receiver", receive_items, history, senders)
        return history.check

    return model


def sender_behind_an_impatient_one(make: Make, capacity: int) -> Model:
    """Room goes to the next in line if the first has left."""

    def model(schedule: Schedule) -> Any:
        history = History(make(capacity, schedule.clock), schedule.stamp)
        for number in range(capacity):
            history.send_nowait(f"early {number}")

        def receive() -> None:
            while not any(call.item == "patient" for call in history.got()):
                history.receive()

        schedule.thread("impatient", history.send, "impatient", 1.0)
        schedule.thread("patient", history.send, "patient")
        schedule.thread("receiver", receive)
        return history.check

    return model


def impatient_receiver(make: Make, capacity: float) -> Model:
    """A receiver runs out of time as an item comes; a patient one gets what it leaves."""

    def model(schedule: Schedule) -> Any:
        history = History(make(capacity, schedule.clock), schedule.stamp)

        def receive() -> None:
            if history.receive(1.0):
                history.send("another")

        schedule.thread("impatient", receive)
        schedule.thread("patient", history.receive)
        schedule.thread("sender", history.send, "a0")
        return history.check

    return model


def impatient_both(make: Make, capacity: float) -> Model:
    """A sender and a receiver, each with little time."""

    def model(schedule: Schedule) -> Any:
        history = History(make(capacity, schedule.clock), schedule.stamp)
        schedule.thread("receiver", history.receive, 1.0)
        schedule.thread("sender", history.send, "a0", 1.0)
        return history.check

    return model


def blocked_senders_and_close(make: Make, capacity: int, *, receiver: bool) -> Model:
    """Two senders wait for room as the channel is closed."""

    def model(schedule: Schedule) -> Any:
        history = History(make(capacity, schedule.clock), schedule.stamp)
        for number in range(capacity):
            history.send_nowait(f"early {number}")
        for name in "ab":
            schedule.thread(f"sender {name}", history.send, name)
        schedule.thread("closer", history.close)
        if receiver:
            schedule.thread("receiver", history.receive)
        return history.check

    return model


def cancelled_receiver(make: Make, capacity: float) -> Model:
    """A coroutine that receives is cancelled as the item comes."""

    def model(schedule: Schedule) -> Any:
        history = History(make(capacity, schedule.clock), schedule.stamp)
        loop = MiniLoop(schedule.clock)
        schedule.thread("loop", loop.run, history.receive_async())
        schedule.thread("canceller", loop.cancel_task)
        schedule.thread("sender", history.send, "a0", 5.0)
        return history.check

    return model


def receiver_behind_a_cancelled_one(make: Make, capacity: float) -> Model:
    """A thread gets what a cancelled coroutine leaves."""

    def model(schedule: Schedule) -> Any:
        history = History(make(capacity, schedule.clock), schedule.stamp)
        loop = MiniLoop(schedule.clock)

        async def receive() -> None:
            if await history.receive_async():
                history.send_nowait("another")

        schedule.thread("loop", loop.run, receive())
        schedule.thread("receiver", history.receive)
        schedule.thread("canceller", loop.cancel_task)
        schedule.thread("sender", history.send, "a0")
        return history.check

    return model


def cancelled_sender(make: Make, capacity: int) -> Model:
    """A coroutine that waits for room is cancelled as there is some."""

    def model(schedule: Schedule) -> Any:
        history = History(make(capacity, schedule.clock), schedule.stamp)
        for number in range(capacity):
            history.send_nowait(f"early {number}")
        loop = MiniLoop(schedule.clock)
        schedule.thread("loop", loop.run, history.send_async("a0"))
        schedule.thread("canceller", loop.cancel_task)
        schedule.thread("receiver", history.receive, 5.0)
        return history.check

    return model


# Select


def select_send_and_cancel(make: Make, select: Any, capacity: float) -> Model:
    """An item and a cancel come at once to whoever selects between both."""

    def model(schedule: Schedule) -> Any:
        history = History(make(capacity, schedule.clock), schedule.stamp)
        token = CancellationToken(clock=schedule.clock)
        chosen: list[Any] = []

        def choose() -> None:
            sources = history.channel, token
            chosen.append(note_selected([history], lambda: select(*sources)))

        def check() -> None:
            assert chosen in ([history.channel], [token])
            history.check()

        schedule.thread("selecting", choose)
        schedule.thread("sender", history.send, "a0", 5.0)
        schedule.thread("canceller", token.cancel)
        return check

    return model


def two_selects(make: Make, select: Any, capacity: float, *, senders: str, nowait: bool) -> Model:
    """Two selects over the same two channels; whoever gets nothing is told by a token."""

    def model(schedule: Schedule) -> Any:
        histories = [History(make(capacity, schedule.clock), schedule.stamp) for _ in "ab"]
        token = CancellationToken(clock=schedule.clock)

        def choose(order: int) -> None:
            sources = [each.channel for each in histories[::order]]
            note_selected(histories, lambda: select(*sources, token))

        def send(name: str) -> None:
            history = histories["ab".index(name)]
            if nowait:
                history.send_nowait(name)
            else:
                history.send(name, 5.0)
            token.cancel()

        schedule.thread("select ab", choose, 1)
        schedule.thread("select ba", choose, -1)
        for name in senders:
            schedule.thread(f"sender {name}", send, name)
        return lambda: [history.check() for history in histories]

    return model


def select_and_close(make: Make, select: Any, capacity: float) -> Model:
    """An item, then the end, come to whoever selects until it hears of the end."""

    def model(schedule: Schedule) -> Any:
        history = History(make(capacity, schedule.clock), schedule.stamp)
        silent = make(0, schedule.clock)

        def choose() -> None:
            while not history.receives or history.receives[-1].error is None:
                note_selected([history], lambda: select(history.channel, silent))

        schedule.thread("selecting", choose)
        schedule.thread("sender", history.send, "a0")
        schedule.thread("closer", history.close)
        return history.check

    return model
