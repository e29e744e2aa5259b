"""One token and very many who wait for it: all wake, and while they wait nothing runs."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from backoff_ticker import AsyncTicker, CancellationToken, ConstantBackOff, Ticker
from tests.helpers import PATIENCE, LoopThread, eventually
from tests.stress.tools import join_all, start_threads

HOUR = 3600.0


def _waiters(token: CancellationToken) -> int:
    return len(token.wait_set().waiters)


def _wait_in_loop(loop: LoopThread, token: CancellationToken, woken: list[int], count: int) -> Any:
    async def wait(index: int) -> None:
        if index % 2:
            await token.wait_async()
        else:
            async for _ in AsyncTicker(ConstantBackOff(HOUR), token=token):
                pass
        woken.append(index)

    async def main() -> None:
        await asyncio.gather(*(wait(index) for index in range(count)))

    return loop.submit(main())


def test_a_cancel_wakes_100_threads_and_100_coroutines_though_a_loop_was_closed() -> None:
    token = CancellationToken()
    woken: list[int] = []
    in_loops: list[int] = []

    def wait(index: int) -> None:
        if index % 2:
            token.wait()
        else:
            list(Ticker(ConstantBackOff(HOUR), token=token))
        woken.append(index)

    gone = asyncio.new_event_loop()

    def wait_in_a_loop_that_closes() -> None:
        for _ in range(34):
            gone.create_task(token.wait_async())
        gone.call_later(0.1, gone.stop)
        gone.run_forever()
        for task in asyncio.all_tasks(gone):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        gone.close()

    loops = [LoopThread(), LoopThread()]
    closer = threading.Thread(target=wait_in_a_loop_that_closes)
    closer.start()
    threads = start_threads(100, wait)
    futures = [_wait_in_loop(loop, token, in_loops, 33) for loop in loops]
    closer.join(PATIENCE)
    eventually(lambda: _waiters(token) == 200, "all wait")
    begun = time.monotonic()
    assert token.cancel()
    took = time.monotonic() - begun
    join_all(threads)
    for future in futures:
        future.result(PATIENCE)
    for loop in loops:
        loop.close()
        assert loop.errors == []
    assert sorted(woken) == list(range(100))
    assert len(in_loops) == 66
    assert took < 1.0
    eventually(lambda: _waiters(token) == 0, "all have left")


def test_a_cancel_wakes_1000_threads() -> None:
    token = CancellationToken()
    before = threading.stack_size(128 * 1024)
    try:
        threads = start_threads(1000, lambda _: token.wait())
    finally:
        threading.stack_size(before)
    eventually(lambda: _waiters(token) == 1000, "all wait")
    token.cancel()
    join_all(threads)
    assert _waiters(token) == 0


def test_a_cancel_that_meets_waiters_who_come_and_go_leaves_nobody_behind() -> None:
    """Waiters with time-outs of their own leave while the wake-ups are passed on."""
    for _ in range(20):
        token = CancellationToken()

        def wait(index: int, token: CancellationToken = token) -> None:
            if index % 3 == 0:
                token.wait()
            elif index % 3 == 1:
                while not token.wait(0.0005 * (index % 5)):
                    pass
            else:
                list(Ticker(ConstantBackOff(0.0005), token=token))

        threads = start_threads(24, wait)
        time.sleep(0.005)
        token.cancel()
        join_all(threads)
        assert _waiters(token) == 0


def test_1000_waiting_tickers_use_no_cpu() -> None:
    token = CancellationToken()
    loop = LoopThread(debug=False)
    shared = Ticker(ConstantBackOff(HOUR), token=token)
    shared.receive()

    def read(index: int) -> None:
        for _ in shared if index % 10 == 0 else Ticker(ConstantBackOff(HOUR), token=token):
            pass

    threads = start_threads(200, read)
    woken: list[int] = []
    many = _wait_in_loop(loop, token, woken, 800)
    eventually(lambda: _waiters(token) == 1000, "all wait")
    eventually(lambda: _process_is_idle(), "the start is over")
    before = time.process_time()
    time.sleep(1.0)
    used = time.process_time() - before
    token.cancel()
    join_all(threads)
    many.result(PATIENCE)
    loop.close()
    assert used < 0.02


def _process_is_idle() -> bool:
    before = time.process_time()
    time.sleep(0.05)
    return time.process_time() - before < 0.005


def test_tickers_without_a_reader_leave_no_thread_when_their_token_is_cancelled() -> None:
    before = threading.active_count()
    token = CancellationToken()
    tickers = [Ticker(ConstantBackOff(0.001), token=token) for _ in range(500)]
    for ticker in tickers[::2]:
        ticker.receive()
    token.cancel()
    assert threading.active_count() <= before
    assert _waiters(token) == 0
    assert [ticker.closed for ticker in tickers] == [True, False] * 250
    assert [len(list(ticker)) for ticker in tickers] == [0, 1] * 250
