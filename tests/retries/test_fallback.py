"""``fallback``: what is returned instead of the error of a run that gave up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    CircuitBreaker,
    ConstantBackOff,
    Outcome,
    Permanent,
    RejectedResult,
    StopBackOff,
    StopReason,
    attempts,
    hedge_call,
    retry,
    set_active,
)
from tests.retries.faces import on_faces
from tests.retries.hedges import InTurn, takes
from tests.retries.made_policies import cancelled_token, spent_budget
from tests.retries.scripts import Recorded, Script, Takes

CALLS = on_faces("call", "decorator", "async call", "async decorator")
ASYNC_CALLS = on_faces("async call", "async decorator")

GAVE_UP: dict[str, tuple[Any, dict[str, Any]]] = {
    "permanent": (Permanent(OSError()), {}),
    "max_attempts": (OSError, {"max_attempts": 2}),
    "max_elapsed_time": (OSError, {"max_elapsed_time": 5}),
    "exhausted": (OSError, {"backoff": StopBackOff()}),
    "deadline": (OSError, {"timeout": 5}),
    "budget": (OSError, {"budget": spent_budget()}),
}


@CALLS
@pytest.mark.parametrize("reason", GAVE_UP)
def test_it_stands_for_the_error_whatever_the_reason(face: Any, reason: str) -> None:
    step, options = GAVE_UP[reason]
    options = {"backoff": ConstantBackOff(10), **options}
    for value in (7, None, "", [1]):
        assert face.run(Script(step), fallback=value, **options) is value
    fallback = Recorded(7)
    assert face.run(Script(step), fallback=fallback, **options) == 7
    assert fallback.last.reason == StopReason(reason)
    assert isinstance(fallback.last.last_error, OSError)
    assert face.run(Script(8), fallback=fallback, **options) == 8


@CALLS
def test_an_error_that_on_does_not_retry_has_none_whichever_attempt_it_comes_at(face: Any) -> None:
    fallback = Recorded(7)
    for on in (OSError, {OSError: True}, lambda error: type(error) is OSError):
        for errors in ([], [OSError], [OSError, OSError]):
            with pytest.raises(KeyError) as caught:
                face.run(Script(*errors, KeyError), ConstantBackOff(1), on=on, fallback=fallback)
            assert len(getattr(caught.value, "__notes__", [])) == bool(errors)
    with pytest.raises(TypeError):
        face.run(Script(OSError, TypeError), ConstantBackOff(1), fallback=fallback)
    assert fallback.calls == []


@CALLS
def test_an_open_circuit_has_one(face: Any) -> None:
    breaker = CircuitBreaker(ConstantBackOff(60), failures=1)
    breaker.open()
    assert face.run(Script(1), ConstantBackOff(1), breaker=breaker, fallback=7) == 7


@CALLS
def test_where_retries_are_switched_off_there_is_none(face: Any) -> None:
    with set_active(False), pytest.raises(OSError):
        face.run(Script(OSError), fallback=7)


@CALLS
def test_a_result_that_was_rejected_to_the_end_has_a_fallback(face: Any) -> None:
    fallback = Recorded(7)
    options = {"max_attempts": 2, "until": lambda result: result > 1}
    assert face.run(Script(1), ConstantBackOff(1), fallback=fallback, **options) == 7
    assert isinstance(fallback.last.last_error, RejectedResult)


@CALLS
def test_a_cancel_an_interrupt_and_an_error_of_a_hook_have_none(face: Any) -> None:
    fallback = Recorded(7)
    with pytest.raises(Cancelled):
        face.run(Script(OSError), ConstantBackOff(1), fallback=fallback, token=cancelled_token())
    with pytest.raises(KeyboardInterrupt):
        face.run(Script(KeyboardInterrupt), ConstantBackOff(1), fallback=fallback)
    with pytest.raises(LookupError):
        face.run(
            Script(OSError), ConstantBackOff(1), fallback=fallback, notify=Recorded(LookupError)
        )
    assert fallback.calls == []


@CALLS
def test_a_cancel_of_another_token_has_none_at_any_attempt(face: Any) -> None:
    for script in (Script(Cancelled("others")), Script(OSError, Cancelled("others"))):
        with pytest.raises(Cancelled, match="others"):
            face.run(script, ConstantBackOff(1), max_attempts=3, fallback=7)
    options: dict[str, Any] = {"on": (OSError, Cancelled), "max_attempts": 2}
    assert face.run(Script(Cancelled), ConstantBackOff(1), fallback=7, **options) == 7


@CALLS
def test_it_comes_after_the_hooks(face: Any) -> None:
    log: list[str] = []
    options: dict[str, Any] = {
        "on_give_up": lambda _: log.append("hook"),
        "fallback": lambda _: log.append("fallback"),
    }
    assert face.run(Script(OSError), max_attempts=1, **options) is None
    assert log == ["hook", "fallback"]


@CALLS
def test_what_it_raises_passes_with_the_last_error_as_its_cause(face: Any) -> None:
    own, last = LookupError("of the fallback"), OSError("last")
    with pytest.raises(LookupError) as caught:
        face.run(Script(last), max_attempts=1, fallback=Recorded(own))
    assert caught.value is own
    assert own.__cause__ is last


@on_faces("call", "decorator")
def test_in_a_thread_it_cannot_await(face: Any) -> None:
    async def fallback(outcome: Outcome) -> int:
        return outcome.attempts

    last = OSError("last")
    for run in (face.run, hedge_call):
        with pytest.raises(TypeError, match="fallback returned a coroutine") as caught:
            run(Script(last), max_attempts=1, fallback=fallback)
        assert caught.value.__cause__ is last


@CALLS
def test_it_may_raise_the_last_error_itself(face: Any) -> None:
    last = OSError("last")

    def fallback(outcome: Outcome) -> Any:
        raise outcome.last_error or AssertionError

    for options in ({"timeout": 5}, {"max_attempts": 1}):
        with pytest.raises(OSError, match="last") as caught:
            face.run(Script(last), ConstantBackOff(10), fallback=fallback, **options)
        assert caught.value is last
        assert (last.__cause__, last.__context__) == (None, None)


@ASYNC_CALLS
def test_in_a_coroutine_it_may_await(face: Any) -> None:
    async def fallback(outcome: Outcome) -> int:
        await asyncio.sleep(1)
        return outcome.attempts

    for hooks in ({}, {"notify": Recorded()}):
        assert (
            face.run(
                Script(OSError), ConstantBackOff(1), max_attempts=3, fallback=fallback, **hooks
            )
            == 3
        )

    own, last = LookupError("of the fallback"), OSError("last")

    async def fails(outcome: Outcome) -> int:
        await asyncio.sleep(1)
        raise own

    with pytest.raises(LookupError) as caught:
        face.run(Script(last), max_attempts=1, fallback=fails)
    assert own is caught.value
    assert own.__cause__ is last


@ASYNC_CALLS
def test_a_cut_by_the_token_has_none_and_a_timeout_has_one(face: Any) -> None:
    assert face.run(Script(Takes(50, 1)), timeout=5, fallback=7) == 7
    with pytest.raises(Cancelled):
        face.run(Script(Takes(50, 1)), token=CancellationToken(timeout=5), fallback=7)


def test_hedges_have_one(hedge: Any) -> None:
    operation = InTurn(takes(1, OSError()))
    assert hedge(operation, ConstantBackOff(5), max_attempts=2, fallback=7) == 7
    assert hedge(operation, ConstantBackOff(5), max_attempts=2, fallback=None) is None
    assert hedge(InTurn(takes(1, 3)), ConstantBackOff(5), fallback=7) == 3


def test_where_there_is_no_result_it_is_refused() -> None:
    with pytest.raises(TypeError, match="fallback"):
        attempts(fallback=7)  # type: ignore[call-arg]

    def generator() -> Any:
        yield

    async def async_generator() -> Any:
        yield

    for function in (generator, async_generator):
        with pytest.raises(TypeError, match="fallback with a generator"):
            retry(fallback=None)(function)
