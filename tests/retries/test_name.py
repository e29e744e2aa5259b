"""The option ``name``: what outcomes, logs and attempts call an operation, or a block."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from backoff_ticker import (
    ConstantBackOff,
    ZeroBackOff,
    attempts,
    current_attempt,
    log_retries,
    retry,
    retry_call,
    retry_with,
)
from tests.helpers import attempts_tracked
from tests.retries.faces import in_loop
from tests.retries.hedges import HEDGES
from tests.retries.made_hooks import HOOKS
from tests.retries.scripts import Recorded, Script


def name_here() -> str:
    attempt = current_attempt()
    assert attempt is not None
    return attempt.name


def test_hooks_and_the_attempt_have_the_name_that_is_given(face: Any) -> None:
    told = Recorded()
    options: dict[str, Any] = dict.fromkeys(HOOKS, told)
    with attempts_tracked():
        here = face.run(Script(OSError, name_here), ZeroBackOff(), name="prices", **options)
    assert here == "prices"
    assert [outcome.name for _, outcome in told.calls] == ["prices"] * 4


@pytest.mark.parametrize("hedge", HEDGES.values(), ids=HEDGES)
def test_a_hedged_call_has_the_name_that_is_given(hedge: Any, clock: Any) -> None:
    async def in_a_loop() -> str:
        return name_here()

    with attempts_tracked():
        operation = in_a_loop if hedge.waits else name_here
        assert hedge(operation, ConstantBackOff(9), name="prices") == "prices"
    told = Recorded()
    hedge(Script(OSError), ZeroBackOff(), name="prices", max_attempts=1, fallback=told)
    assert told.last.name == "prices"


def test_a_loop_has_its_name_before_it_begins(clock: Any) -> None:
    assert attempts(name="prices").outcome.name == "prices"
    assert attempts().outcome.name == attempts(name=None).outcome.name == "attempts()"


def test_the_name_can_be_changed_and_taken_away(clock: Any) -> None:
    told = Recorded()

    @retry(on_success=told, name="prices")
    def fetch() -> int:
        return 7

    retry_with(fetch, name="rates")()
    retry_with(fetch, name=None)()
    names = [outcome.name for _, outcome in told.calls]
    assert names[0] == "rates"
    assert names[1].endswith("fetch")


def test_a_generator_has_the_name_that_is_given(clock: Any) -> None:
    told = Recorded()

    @retry(on_success=told, name="prices")
    def items() -> Any:
        yield 7

    @retry(on_success=told, name="prices")
    async def items_async() -> Any:
        yield 7

    assert list(items()) == [7]
    assert in_loop(anext(items_async())) == 7
    assert [outcome.name for _, outcome in told.calls] == ["prices", "prices"]


def test_logs_and_errors_use_the_name(clock: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def fetch() -> None: ...

    for options in ({}, {"on_retry": print}):
        with pytest.raises(TypeError, match="^prices returned a coroutine"):
            retry_call(lambda: fetch(), name="prices", **options)
    with caplog.at_level(logging.INFO):
        retry_call(Script(OSError, 7), ZeroBackOff(), name="prices", on_retry=log_retries())
    assert [record.getMessage() for record in caplog.records] == [
        "prices failed in attempt 1, again in 0 s: OSError()"
    ]
