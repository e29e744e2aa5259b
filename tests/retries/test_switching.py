"""What people meet who come from other retries: whole uses, each as its user writes it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from backoff_ticker import CancellationToken, ConstantBackOff, StopReason, retry, set_active
from backoff_ticker.testing import no_wait
from tests.retries.faces import ALL_ASYNC, SYNC
from tests.retries.scripts import Recorded, Script, Takes, now

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock
    from tests.retries.faces import Face


class HTTPError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@ALL_ASYNC
def test_with_the_options_of_the_readme_a_call_that_hangs_is_made_again(face: Face) -> None:
    script, notified = Script(Takes(3600, None), ConnectionError, "page"), Recorded()
    shutdown = CancellationToken()
    result = face.run(
        script,
        ConstantBackOff(1),
        on=ConnectionError,
        timeout=60,
        attempt_timeout=10,
        token=shutdown,
        notify=notified,
    )
    assert (result, script.times) == ("page", [0, 11, 12])
    assert [type(error) for _, error, _ in notified.calls] == [TimeoutError, ConnectionError]


def test_an_error_that_is_not_to_be_retried_leaves_no_trace(face: Face) -> None:
    gave_up, not_found = Recorded(), HTTPError(404)
    cause = not_found.__cause__ = LookupError("the page")
    for on in (lambda error: error.status >= 500, ConnectionError, {HTTPError: False}):
        with pytest.raises(HTTPError) as caught:
            face.run(Script(not_found), ConstantBackOff(1), on=on, on_give_up=gave_up)
        assert caught.value is not_found
        assert not_found.__cause__ is cause
        assert not hasattr(not_found, "__notes__")
    assert gave_up.calls == []


@SYNC
def test_a_first_call_that_hangs_counts_for_the_limit_of_time(face: Face) -> None:
    last, gave_up = ConnectionError("slow"), Recorded()
    script = Script(Takes(30, last), Takes(1, last))
    with pytest.raises(ConnectionError) as caught:
        face.run(script, ConstantBackOff(5), max_elapsed_time=40, on_give_up=gave_up)
    assert caught.value is last
    assert (script.times, now()) == ([0, 35], 36)
    assert gave_up.last.reason is StopReason.MAX_ELAPSED_TIME


def test_a_function_decorated_before_is_called_once_while_retries_are_off(
    clock: VirtualClock,
) -> None:
    calls = Recorded(ConnectionError("no route"))

    @retry(ConstantBackOff(1), max_attempts=5, fallback=7)
    def fetch() -> int:
        calls()
        return 1

    @retry(ConstantBackOff(1), max_attempts=5)
    async def fetch_async() -> int:
        await asyncio.sleep(0)
        return fetch()

    with set_active(False):
        for call in (fetch, lambda: clock.run_async(fetch_async())):
            with pytest.raises(ConnectionError) as caught:
                call()
            assert not hasattr(caught.value, "__notes__")
    assert (len(calls.calls), now()) == (2, 0)
    assert fetch() == 7
    assert len(calls.calls) == 2 + 5


def test_a_test_sets_the_attempts_to_one(face: Face) -> None:
    with no_wait(max_attempts=1):
        script = Script(ConnectionError, "page")
        with pytest.raises(ConnectionError):
            face.run(script, ConstantBackOff(60), max_attempts=5)
        assert face.run(Script("page"), ConstantBackOff(60)) == "page"
    assert (script.count, now()) == (1, 0)
