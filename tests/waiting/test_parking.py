"""Parking a thread and a coroutine: register, check, park, and always leave."""

from __future__ import annotations

import asyncio
import sys
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import AsyncTicker, CancellationToken, ConstantBackOff, select_async
from backoff_ticker.waiting import (
    NO_DEADLINE,
    LoopWaiter,
    Place,
    ThreadWaiter,
    Waiter,
    WaitLine,
    WaitQueue,
    WaitSet,
    checkpoint,
    current_loop,
    current_task,
    on_loop_wait,
    park_coroutine,
    park_thread,
)
from tests.helpers import PATIENCE, LoopThread, in_thread, wait_until_collected, waiters_of
from tests.interleaving import each_interleaving

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from backoff_ticker.testing import VirtualClock


@pytest.fixture
def loop(clock: VirtualClock) -> Iterator[LoopThread]:
    """A loop in a thread, in which nothing may go wrong."""
    made = LoopThread()
    yield made
    made.close()
    assert made.errors == []


# Threads


def test_a_thread_registers_everywhere_before_it_checks_and_then_leaves(
    clock: VirtualClock,
) -> None:
    sources = WaitSet(), WaitLine()
    seen: list[list[bool]] = []

    def look(waiter: Waiter) -> None:
        seen.append([waiter in waiters_of(source) for source in sources])

    park_thread(clock, "test", "a coroutine", sources, look)
    assert seen == [[True, True]]
    assert [len(waiters_of(source)) for source in sources] == [0, 0]


def test_a_wake_up_between_the_last_check_and_the_park_is_not_lost(clock: VirtualClock) -> None:
    source = WaitSet()

    def look(_: Waiter) -> float | None:
        if source.closed:
            return None
        source.close()
        return NO_DEADLINE

    in_thread(park_thread, clock, "test", "a coroutine", (source,), look).result(PATIENCE)


def test_a_parked_thread_wakes_at_its_deadline(clock: VirtualClock) -> None:
    source = WaitSet()
    done = in_thread(
        park_thread, clock, "test", "a coroutine", (source,), lambda _: clock.monotonic() + 5
    )
    clock.settle()
    clock.advance(4.999)
    assert not done.done()
    clock.advance(0.001)
    done.result(PATIENCE)
    assert (len(waiters_of(source)), len(clock.pending())) == (0, 0)


def test_a_thread_that_is_woken_checks_again_and_keeps_its_place_in_line(
    clock: VirtualClock,
) -> None:
    line = WaitLine()
    looks: list[Waiter] = []

    def look(waiter: Waiter) -> float | None:
        looks.append(waiter)
        return NO_DEADLINE if len(looks) < 4 else None

    done = in_thread(park_thread, clock, "test", "a coroutine", (line,), look)
    for count in (1, 3):  # once woken, it looks before it registers and after that
        clock.settle()
        assert (len(looks), list(waiters_of(line))) == (count, looks[:1])
        line.wake_firsts()
    done.result(PATIENCE)
    assert looks == looks[:1] * 4
    assert waiters_of(line) == []


@pytest.mark.parametrize("wake", [WaitSet.close, WaitLine.wake_firsts, WaitQueue.wake_next])
def test_the_next_thread_is_woken_if_the_clock_fails_to_wake_the_first(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, wake: Callable[[Any], None]
) -> None:
    errors: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: errors.append(args.exc_value))
    source = {WaitSet.close: WaitSet, WaitLine.wake_firsts: WaitLine}.get(wake, WaitQueue)()
    woken: list[Waiter] = []

    class Broken:
        def park(self, deadline: float | None) -> bool:
            return real.park(clock.monotonic() + 5)

        def unpark(self) -> None:
            raise OSError("unpark")

    class BrokenClock:
        def parker(self, what: str) -> Broken:
            nonlocal real
            real = clock.parker(what)
            return Broken()

    real: Any = None

    def look(waiter: Waiter) -> float | None:
        if source.closed or waiter in looked:
            woken.append(waiter)
            return None
        looked.append(waiter)
        return NO_DEADLINE

    looked: list[Waiter] = []
    threads = []
    for each in (BrokenClock(), clock):
        threads.append(in_thread(park_thread, each, "test", "a coroutine", (source,), look))
        clock.settle()
    wake(source)
    threads[1].result(PATIENCE)
    assert woken == looked[1:]
    assert [str(error) for error in errors] == ["unpark"]
    clock.advance(5)
    threads[0].result(PATIENCE)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupted_thread_leaves_everything(
    clock: VirtualClock, error: type[BaseException]
) -> None:
    sources = WaitSet(), WaitSet()

    def look(_: Waiter) -> float:
        raise error

    with pytest.raises(error):
        park_thread(clock, "test", "a coroutine", sources, look)
    assert [len(waiters_of(source)) for source in sources] == [0, 0]


def test_an_interrupt_while_leaving_is_raised_once_all_is_left(clock: VirtualClock) -> None:
    class Interrupted(WaitSet):
        interrupts = 1

        def leave(self, place: Place, domain: int) -> None:
            if self.interrupts:
                self.interrupts -= 1
                raise KeyboardInterrupt
            super().leave(place, domain)

    sources = WaitSet(), Interrupted(), WaitSet()
    with pytest.raises(KeyboardInterrupt):
        park_thread(clock, "test", "a coroutine", sources, lambda _: None)
    assert [len(waiters_of(source)) for source in sources] == [0, 0, 0]


def test_a_thread_waiter_may_be_woken_any_number_of_times(clock: VirtualClock) -> None:
    waiter = ThreadWaiter(clock, "test", (), NO_DEADLINE)
    waiter.wake()
    waiter.wake()
    in_thread(waiter.parker.park, None).result(PATIENCE)


# Coroutines


def test_a_coroutine_registers_everywhere_before_it_checks_and_then_leaves(
    loop: LoopThread, clock: VirtualClock
) -> None:
    sources = WaitSet(), WaitLine()
    seen: list[list[bool]] = []

    def look(waiter: Waiter) -> None:
        seen.append([waiter in waiters_of(source) for source in sources])

    loop.run(park_coroutine(clock, sources, look))
    assert seen == [[True, True]]
    assert [len(waiters_of(source)) for source in sources] == [0, 0]


def test_a_parked_coroutine_is_woken_from_another_thread(
    loop: LoopThread, clock: VirtualClock
) -> None:
    source = WaitSet()
    done = loop.submit(
        park_coroutine(clock, (source,), lambda _: None if source.closed else NO_DEADLINE)
    )
    clock.settle()
    assert len(waiters_of(source)) == 1
    source.close()
    done.result(PATIENCE)
    assert waiters_of(source) == []


def test_a_parked_coroutine_wakes_at_its_deadline_and_leaves_no_timer(
    loop: LoopThread, clock: VirtualClock
) -> None:
    source = WaitSet()
    done = loop.submit(park_coroutine(clock, (source,), lambda _: clock.monotonic() + 5))
    clock.advance(4.999)
    assert not done.done()
    clock.advance(0.001)
    done.result(PATIENCE)
    clock.settle()
    assert (len(waiters_of(source)), len(clock.pending())) == (0, 0)


def test_a_cancelled_coroutine_leaves_sources_and_timer(
    loop: LoopThread, clock: VirtualClock
) -> None:
    sources = WaitSet(), WaitLine()

    async def main() -> tuple[list[int], int]:
        task = asyncio.create_task(park_coroutine(clock, sources, lambda _: clock.monotonic() + 5))
        await asyncio.sleep(0)
        assert [len(waiters_of(source)) for source in sources] == [1, 1]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return [len(waiters_of(source)) for source in sources], await clock.advance_async(5)

    assert loop.run(main()) == ([0, 0], 0)


def test_a_coroutine_cancelled_in_the_moment_it_is_woken_is_cancelled(
    loop: LoopThread, clock: VirtualClock
) -> None:
    source = WaitSet()

    async def main() -> None:
        task = asyncio.create_task(park_coroutine(clock, (source,), lambda _: NO_DEADLINE))
        await asyncio.sleep(0)
        (waiter,) = waiters_of(source)
        waiter.fire()
        task.cancel()
        waiter.fire()
        with pytest.raises(asyncio.CancelledError):
            await task

    loop.run(main())
    assert waiters_of(source) == []


def test_firing_a_waiter_whose_coroutine_was_cancelled_does_nothing(
    loop: LoopThread, clock: VirtualClock
) -> None:
    source = WaitSet()

    async def main() -> None:
        task = asyncio.create_task(park_coroutine(clock, (source,), lambda _: NO_DEADLINE))
        await asyncio.sleep(0)
        task.cancel()
        source.close()
        with pytest.raises(asyncio.CancelledError):
            await task

    loop.run(main())


def test_an_error_of_the_check_leaves_everything(loop: LoopThread, clock: VirtualClock) -> None:
    source = WaitSet()

    def look(_: Waiter) -> float:
        raise ValueError("look")

    with pytest.raises(ValueError, match="look"):
        loop.run(park_coroutine(clock, (source,), look))
    assert waiters_of(source) == []


def test_a_virtual_clock_says_whose_timer_it_has(loop: LoopThread, clock: VirtualClock) -> None:
    async def main() -> list[str]:
        task = asyncio.create_task(
            park_coroutine(clock, (WaitSet(),), lambda _: clock.monotonic() + 5)
        )
        await asyncio.sleep(0)
        named = [timer.what for timer in clock.pending()]
        task.cancel()
        return named

    assert "call of <waiting coroutine>" in loop.run(main())


def test_waking_a_waiter_of_a_closed_loop_raises_nothing() -> None:
    async def make() -> LoopWaiter:
        return LoopWaiter()

    asyncio.run(make()).wake()


def test_a_waiter_belongs_to_the_loop_in_which_it_was_made(loop: LoopThread) -> None:
    async def make() -> tuple[object, object]:
        waiter = LoopWaiter()
        return waiter.loop, waiter.domain

    assert loop.run(make()) == (loop.loop, id(loop.loop))


def test_outside_of_a_loop_there_is_no_loop_and_no_task() -> None:
    with pytest.raises(RuntimeError):
        current_loop()
    with pytest.raises(RuntimeError):
        current_task()


def test_in_a_callback_of_a_loop_there_is_a_loop_but_no_task() -> None:
    async def main() -> tuple[object, object]:
        loop = asyncio.get_running_loop()
        seen: asyncio.Future[tuple[object, object]] = loop.create_future()

        def callback() -> None:
            try:
                current_task()
            except RuntimeError as error:
                seen.set_result((current_loop(), str(error)))

        loop.call_soon(callback)
        return await seen

    made, text = asyncio.run(main())
    assert isinstance(made, asyncio.AbstractEventLoop)
    assert text == "no task is running"


def test_whoever_asks_to_be_told_of_waits_is_told_whatever_another_thread_does_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[object] = []

    async def wait() -> None:
        await checkpoint()

    def begin() -> tuple[Callable[[], object], Callable[[], object]]:
        on_loop_wait(None)
        told.clear()
        return lambda: asyncio.run(wait()), lambda: on_loop_wait(told.append)

    try:
        for outcomes in each_interleaving(begin, monkeypatch):
            assert outcomes == (None, None)
            told.clear()
            asyncio.run(wait())
            assert len(told) == 1
    finally:
        on_loop_wait(None)


def test_a_checkpoint_lets_everything_else_that_is_ready_run_once() -> None:
    async def main() -> list[str]:
        log: list[str] = []

        async def other() -> None:
            log.append("first")
            await asyncio.sleep(0)
            log.append("second")

        task = asyncio.create_task(other())
        await checkpoint()
        log.append("main")
        await task
        return log

    assert asyncio.run(main()) == ["first", "main", "second"]


WAITS: dict[str, Callable[[CancellationToken, AsyncTicker], Coroutine[Any, Any, object]]] = {
    "token": lambda token, _: token.wait_async(),
    "ticker": lambda _, ticker: ticker.receive(),
    "ticker, timeout": lambda _, ticker: ticker.receive(600),
    "select": lambda token, ticker: select_async(token, ticker),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("wait", WAITS)
def test_a_dropped_loop_is_collected_whatever_its_coroutines_wait_for(wait: str) -> None:
    token, ticker = CancellationToken(), AsyncTicker(ConstantBackOff(3600))
    ticker.receive_nowait()
    loop: Any = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)
    loop.create_task(WAITS[wait](token, ticker))
    for _ in range(3):
        loop.run_until_complete(asyncio.sleep(0))
    link = weakref.ref(loop)
    del loop
    wait_until_collected(link)
    assert (waiters_of(token._wait_set()), waiters_of(ticker._readers)) == ([], [])
