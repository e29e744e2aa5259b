"""Models of ``select`` for the explorer: who does what at once, and what must come of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backoff_ticker import CancellationToken
from tests.stress.channel_history import History, note_selected

if TYPE_CHECKING:
    from tests.stress.channel_models import Make
    from tests.stress.explorer import Model
    from tests.stress.explorer_schedule import Schedule


def select_send_and_cancel(make: Make, select: Any, capacity: float) -> Model:
    """An item and a cancel come at once to whoever selects between both."""

    def model(schedule: Schedule) -> Any:
        history = History(make(capacity, schedule.clock), schedule.stamp)
        token = CancellationToken(schedule.clock)
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
        token = CancellationToken(schedule.clock)

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
