"""Threads that cancel, remove callbacks and leave scopes of one token at the same moment."""

from __future__ import annotations

import threading
from typing import Any

from backoff_ticker import CancellationToken
from tests.cancellation.test_scope import cancelling, run, turns
from tests.helpers import PATIENCE, in_thread


def test_of_many_threads_that_cancel_at_once_one_wins_and_its_cause_stays() -> None:
    for _ in range(50):
        token = CancellationToken()
        start = threading.Barrier(8)

        def cancel(name: str, token: Any = token, start: Any = start) -> tuple[bool, str]:
            start.wait(PATIENCE)
            return token.cancel(name), name

        outcomes = [in_thread(cancel, f"cause {number}") for number in range(8)]
        winners = [name for won, name in (each.result(PATIENCE) for each in outcomes) if won]
        assert winners == [token.cause]


def test_of_a_removal_and_a_cancel_at_once_exactly_one_gets_the_callback() -> None:
    for _ in range(300):
        token = CancellationToken()
        runs: list[str] = []
        handle = token.on_cancel(lambda runs=runs: runs.append("ran"))
        start = threading.Barrier(3)

        def remove(handle: Any = handle, start: Any = start) -> bool:
            start.wait(PATIENCE)
            return handle.remove()

        removals = [in_thread(remove) for _ in range(2)]
        start.wait(PATIENCE)
        token.cancel()
        prevented = [removal.result(PATIENCE) for removal in removals]
        assert prevented.count(True) + len(runs) == 1


def test_a_thread_that_cancels_while_the_body_is_leaving_leaves_no_cancel_behind() -> None:
    async def main() -> None:
        for _ in range(200):
            token = CancellationToken()
            start = threading.Barrier(2)

            def cancel(token: Any = token, start: Any = start) -> None:
                start.wait(PATIENCE)
                token.cancel()

            thread = threading.Thread(target=cancel)
            thread.start()
            async with token.scope():
                start.wait(PATIENCE)
            thread.join(PATIENCE)
            assert cancelling() == 0
            await turns(3)
            assert token.wait_set().waiters == {}

    run(main)
