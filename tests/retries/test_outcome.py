"""What hooks and loops are told: the outcome so far."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    Outcome,
    Permanent,
    StopBackOff,
    StopReason,
    ZeroBackOff,
    attempts,
    retry,
    retry_call,
)
from tests.helpers import PATIENCE, SetClock, in_thread
from tests.interleaving import each_interleaving
from tests.retries.faces import BOTH, FOUR, in_loop
from tests.retries.made_hooks import HOOKS
from tests.retries.made_policies import at
from tests.retries.scripts import Recorded, Script, Takes
from tests.tickers.made_policies import Scripted
from tests.tickers.made_timers import Instant

FIELDS = ("name", "attempts", "elapsed", "waited", "delay", "reason", "last_error")


def test_an_outcome_is_a_named_tuple(clock: Any) -> None:
    told = Recorded()
    retry_call(Script(7), on_success=told)
    assert Outcome._fields == FIELDS
    assert type(told.last) is Outcome
    with pytest.raises(AttributeError):
        told.last.attempts = 5


def test_the_name_is_that_of_the_operation(clock: Any) -> None:
    told: list[str] = []

    def note(outcome: Outcome) -> None:
        told.append(outcome.name)

    class Client:
        @retry(on_success=note)
        def fetch(self) -> int:
            return 7

    Client().fetch()
    retry_call(Script(7), on_success=note)
    assert told[0].endswith("Client.fetch")
    assert "Script" in told[1]


def test_a_stop_reason_is_a_str() -> None:
    assert sorted(StopReason) == [
        "budget",
        "cancelled",
        "circuit_open",
        "deadline",
        "exhausted",
        "failed",
        "interrupted",
        "max_attempts",
        "max_elapsed_time",
        "not_retried",
        "permanent",
        "succeeded",
    ]
    assert str(StopReason.MAX_ATTEMPTS) == StopReason.MAX_ATTEMPTS == "max_attempts"


def test_hooks_are_told_how_the_run_stands(face: Any) -> None:
    told: list[tuple[Any, ...]] = []
    hooks = {
        name: lambda outcome, name=name: told.append((name, *outcome[1:6], outcome.last_error))
        for name in HOOKS
    }
    errors = [OSError(1), OSError(2)]
    script = Script(Takes(3, errors[0]), Takes(4, errors[1]), Takes(0.5, 7))
    face.run(script, Scripted(10.0, 20.0), **hooks)
    *before, (last, *end, _) = told
    assert before == [
        ("on_attempt", 1, 0, 0, None, None, None),
        ("on_retry", 1, 3, 0, 10, None, errors[0]),
        ("on_attempt", 2, 13, 10, None, None, errors[0]),
        ("on_retry", 2, 17, 10, 20, None, errors[1]),
        ("on_attempt", 3, 37, 30, None, None, errors[1]),
    ]
    assert (last, end) == ("on_success", [3, 37.5, 30, None, "succeeded"])
    told.clear()
    with pytest.raises(OSError):
        face.run(Script(Takes(3, errors[0])), StopBackOff(), **hooks)
    assert told[1:] == [("on_give_up", 1, 3, 0, None, StopReason.EXHAUSTED, errors[0])]


@BOTH
def test_a_wait_that_is_cut_counts_as_far_as_it_went(face: Any, clock: Any) -> None:
    token, gave_up, error = CancellationToken(), Recorded(), OSError()
    at(clock, 14, token.cancel)
    with pytest.raises(Cancelled):
        face.run(Script(error), ConstantBackOff(10), token=token, on_give_up=gave_up)
    assert gave_up.last[1:] == (2, 14, 14, None, StopReason.CANCELLED, error)


def test_another_thread_that_asks_as_a_run_ends_is_told_how_long_it_took() -> None:
    class Asking(SetClock):
        """A clock; each time it is asked, another thread asks for the outcome."""

        is_asking = False

        def monotonic(self) -> float:
            if not self.is_asking:
                self.is_asking = True
                elapsed.append(in_thread(lambda: run.outcome.elapsed).result(PATIENCE))
                self.is_asking = False
            return super().monotonic()

    elapsed: list[float] = []
    run = attempts(ZeroBackOff(), clock=Asking())
    for attempt in run:
        with attempt:
            pass
    assert elapsed
    assert set(elapsed) == {0.0}


@BOTH
def test_time_is_that_of_the_clock_given(face: Any) -> None:
    """A timer measures the waits: nobody waits on that clock."""
    clock, told = SetClock(50.0), Recorded()
    script = Script(lambda: clock.advance(3) or OSError, lambda: clock.advance(4) or 7)
    assert face.run(script, ConstantBackOff(9), clock=clock, timer=Instant(), on_success=told) == 7
    assert told.last.elapsed == 7


# The arguments


def decorated(kind: str, told: Any) -> Any:
    """Return a call of a decorated function of some kind, with arguments."""

    class Client:
        @retry(on_success=told, on_attempt=told)
        def method(self, url: str, *, token: str) -> int:
            return 7

        @retry(on_success=told, on_attempt=told)
        async def coroutine(self, url: str, *, token: str) -> int:
            return 7

        @retry(on_success=told, on_attempt=told)
        def generator(self, url: str, *, token: str) -> Any:
            yield 7

        @retry(on_success=told, on_attempt=told)
        async def agenerator(self, url: str, *, token: str) -> Any:
            yield 7

    client = Client()
    called = getattr(client, kind)("/", token="secret")
    if kind == "coroutine":
        in_loop(called)
    elif kind == "generator":
        list(called)
    elif kind == "agenerator":
        in_loop(anext(called))
    return client


@pytest.mark.parametrize("kind", ["method", "coroutine", "generator", "agenerator"])
def test_an_outcome_has_the_arguments_of_a_decorated_function(clock: Any, kind: str) -> None:
    told = Recorded()
    client = decorated(kind, told)
    outcomes = [outcome for _, outcome in told.calls]
    assert [(each.args, each.kwargs) for each in outcomes] == [
        ((client, "/"), {"token": "secret"})
    ] * 2
    outcomes[0].kwargs["token"] = "another"
    assert outcomes[1].kwargs == {"token": "secret"}


def test_arguments_are_shown_by_nothing(clock: Any) -> None:
    told = Recorded()
    decorated("method", told)
    plain = Outcome(*told.last)
    assert (plain.args, plain.kwargs) == ((), {})
    assert told.last == plain
    assert hash(told.last) == hash(plain)
    assert repr(told.last) == repr(plain)
    assert "secret" not in f"{told.last} {told.last._asdict()}"
    assert b"secret" not in (dumped := pickle.dumps(told.last))
    assert pickle.loads(dumped) == plain


@FOUR
def test_a_call_and_a_loop_know_no_arguments(face: Any) -> None:
    told = Recorded()
    face.run(Script(7), on_success=told)
    assert (told.last.args, told.last.kwargs) == ((), {})


# Loops


def test_the_outcome_of_a_loop_can_be_read_at_any_time(clock: Any) -> None:
    run = attempts(ConstantBackOff(10))
    errors = [OSError(1), OSError(2)]
    assert run.outcome.attempts == 0
    assert run.outcome.reason is None
    seen = []
    for attempt in run:
        with attempt:
            clock.sleep(1)
            seen.append(run.outcome[1:])
            assert attempt.outcome[1:] == run.outcome[1:]
            if attempt.number < 3:
                raise errors[attempt.number - 1]
    assert seen == [
        (1, 1, 0, None, None, None),
        (2, 12, 10, None, None, errors[0]),
        (3, 23, 20, None, None, errors[1]),
    ]
    clock.sleep(5)
    assert run.outcome[1:6] == (3, 23, 20, None, "succeeded")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Permanent(OSError()), StopReason.PERMANENT),
        (OSError(), StopReason.MAX_ATTEMPTS),
        (KeyError(), StopReason.NOT_RETRIED),
        (KeyboardInterrupt(), StopReason.INTERRUPTED),
        (SystemExit(), StopReason.INTERRUPTED),
        (None, StopReason.SUCCEEDED),
    ],
    ids=lambda value: repr(value),
)
def test_a_loop_knows_how_it_ended(clock: Any, error: Any, reason: Any) -> None:
    run = attempts(ZeroBackOff(), on=OSError, max_attempts=1)
    try:
        for attempt in run:
            with attempt:
                assert run.outcome.reason is None
                if error is not None:
                    raise error
    except (OSError, KeyError, KeyboardInterrupt, SystemExit):
        pass
    assert run.outcome.reason is reason


@pytest.mark.parametrize("error", [OSError(), KeyboardInterrupt()], ids=repr)
def test_a_thread_that_reads_the_outcome_as_a_block_fails_sees_no_success(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def begin() -> Any:
        run = attempts(max_attempts=1, clock=SetClock())
        attempt = next(iter(run))
        attempt.__enter__()
        return lambda: run.outcome, lambda: attempt.__exit__(type(error), error, None)

    for outcome, swallowed in each_interleaving(begin, monkeypatch):
        assert isinstance(outcome, Outcome)
        assert (outcome.succeeded, outcome.elapsed, swallowed) == (False, 0, False)
