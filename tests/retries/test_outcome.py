"""What hooks and loops are told: the outcome so far, its name, and ``log_retries()``."""

import contextvars
import logging
import pickle
from contextlib import suppress

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    Outcome,
    Permanent,
    RetryAfter,
    StopBackOff,
    StopReason,
    attempts,
    configure,
    current_attempt,
    log_retries,
    retry,
    retry_call,
    retry_with,
)
from tests.helpers import SetClock, sleep
from tests.interleaving import each_interleaving
from tests.retries.faces import BOTH, LOOPS
from tests.retries.made_client import KINDS, Client, result_of
from tests.retries.made_hooks import HOOKS
from tests.retries.scripts import FIVE, TEN, ZERO, Recorded, Script, Takes, at
from tests.tickers.made_policies import Scripted
from tests.tickers.made_timers import Instant

FIELDS = ("name", "attempts", "elapsed", "waited", "delay", "reason", "last_error")


def test_the_name_is_that_of_the_operation(clock):
    told = Recorded()

    class Client:
        @retry(on_success=told)
        def fetch(self):
            return 7

    Client().fetch()
    assert told.last.name.endswith("Client.fetch")
    retry_call(Script(7), on_success=told)
    assert "Script" in told.last.name
    assert attempts().outcome.name == attempts(name=None).outcome.name == "attempts()"


def test_a_stop_reason_is_a_str():
    assert sorted(StopReason) == [
        *["budget", "cancelled", "circuit_open", "deadline", "exhausted", "failed", "interrupted"],
        *["max_attempts", "max_elapsed_time", "not_retried", "permanent", "succeeded"],
    ]
    assert str(StopReason.MAX_ATTEMPTS) == StopReason.MAX_ATTEMPTS == "max_attempts"


def test_hooks_are_told_how_the_run_stands(face):
    told = []
    hooks = {name: lambda seen, name=name: told.append((name, *seen[1:])) for name in HOOKS}
    first, second = OSError(1), OSError(2)
    script = Script(Takes(3, first), Takes(4, second), Takes(0.5, 7))
    face.run(script, Scripted(10.0, 20.0), **hooks)
    assert [entry[:-1] for entry in told[-1:]] == [("on_success", 3, 37.5, 30, None, "succeeded")]
    assert told[:-1] == [
        ("on_attempt", 1, 0, 0, None, None, None),
        ("on_retry", 1, 3, 0, 10, None, first),
        ("on_attempt", 2, 13, 10, None, None, first),
        ("on_retry", 2, 17, 10, 20, None, second),
        ("on_attempt", 3, 37, 30, None, None, second),
    ]
    told.clear()
    face.fails(OSError, Script(Takes(3, first)), StopBackOff(), **hooks)
    assert told[1:] == [("on_give_up", 1, 3, 0, None, "exhausted", first)]


@BOTH
def test_a_wait_that_is_cut_counts_as_far_as_it_went(face, clock):
    token, gave_up, error = CancellationToken(), Recorded(), OSError()
    at(clock, 14, token.cancel)
    face.fails(Cancelled, Script(error), TEN, token=token, on_give_up=gave_up)
    assert gave_up.last[1:] == (2, 14, 14, None, "cancelled", error)


@BOTH
def test_time_is_that_of_the_clock_given(face):
    """A timer measures the waits: nobody waits on that clock."""
    clock, told = SetClock(50.0), Recorded()
    script = Script(lambda: clock.advance(3) or OSError, lambda: clock.advance(4) or 7)
    assert face.run(script, ConstantBackOff(9), clock=clock, timer=Instant(), on_success=told) == 7
    assert told.last.elapsed == 7


@pytest.mark.parametrize("kind", KINDS)
def test_an_outcome_has_the_arguments_of_a_decorated_function(clock, kind):
    told, client = Recorded(), Client(Script(7))
    fetch = retry_with(getattr(Client, kind), on_attempt=told, on_success=told)
    result_of(fetch(client))
    result_of(fetch(self=client))
    outcomes = [outcome for _, outcome in told.calls]
    given, named = ((client,), {}), ((), {"self": client})
    assert [(one.args, one.kwargs) for one in outcomes] == [given, given, named, named]
    outcomes[2].kwargs["self"] = "another"
    assert outcomes[3].kwargs == {"self": client}


def test_arguments_are_shown_by_nothing():
    told = Recorded()
    retry(on_success=told)(lambda *, token: 7)(token="secret")
    plain = Outcome(*told.last)
    assert type(told.last) is Outcome
    assert Outcome._fields == FIELDS
    assert (plain.args, plain.kwargs) == ((), {})
    assert told.last == plain
    assert hash(told.last) == hash(plain)
    assert repr(told.last) == repr(plain)
    assert "secret" not in f"{told.last} {told.last._asdict()}"
    assert b"secret" not in (dumped := pickle.dumps(told.last))
    assert pickle.loads(dumped) == plain


def test_the_outcome_of_a_loop_can_be_read_at_any_time(clock):
    run = attempts(TEN)
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


ENDS = [
    *[("permanent", Permanent(OSError())), ("max_attempts", OSError), ("not_retried", KeyError)],
    *[("interrupted", KeyboardInterrupt), ("interrupted", SystemExit), ("succeeded", None)],
]


@LOOPS
@pytest.mark.parametrize(("reason", "answer"), ENDS)
def test_a_loop_knows_how_it_ended(face, reason, answer):
    run = attempts(ZERO, on=OSError, max_attempts=1)
    script = Script(lambda: reasons.append(run.outcome.reason) or answer)
    reasons = []
    with suppress(OSError, KeyError, KeyboardInterrupt, SystemExit):
        face.blocks(run, lambda _: script())
    assert [*reasons, run.outcome.reason] == [None, reason]


@pytest.mark.parametrize("error", [OSError(), KeyboardInterrupt()], ids=repr)
def test_a_thread_that_reads_the_outcome_as_a_block_fails_sees_no_success(monkeypatch, error):
    def begin():
        run = attempts(max_attempts=1, clock=SetClock())
        attempt = next(iter(run))
        contextvars.Context().run(attempt.__enter__)
        return lambda: run.outcome, lambda: attempt.__exit__(type(error), error, None)

    for outcome, swallowed in each_interleaving(begin, monkeypatch):
        assert isinstance(outcome, Outcome)
        assert (outcome.succeeded, outcome.elapsed, swallowed) == (False, 0, False)


def test_hooks_and_the_attempt_have_the_name_that_is_given(face):
    told = Recorded()
    options = dict.fromkeys(HOOKS, told)
    script = Script(OSError, lambda: current_attempt().name)
    assert face.run(script, ZERO, name="prices", **options) == "prices"
    assert [outcome.name for _, outcome in told.calls] == ["prices"] * 4
    assert attempts(name="prices").outcome.name == "prices"


# log_retries()


def test_what_hooks_are_told_is_logged(face, caplog):
    options = {"max_attempts": 3, **dict.fromkeys(HOOKS, log_retries()), "name": "fetch"}
    script = Script(OSError(1), RetryAfter(1.25, KeyError("no")), OSError(3), OSError(4), 7)
    face.fails(OSError, script, FIVE, **options)
    face.run(script, FIVE, **options)
    assert {(one.name, one.levelname) for one in caplog.records} == {("backoff_ticker", "WARNING")}
    assert caplog.messages == [
        "fetch: attempt 1",
        "fetch failed in attempt 1, again in 5 s: OSError(1)",
        "fetch: attempt 2",
        "fetch failed in attempt 2, again in 1.25 s: KeyError('no')",
        "fetch: attempt 3",
        "fetch gave up after 3 attempts, max_attempts; last error: OSError(3)",
        "fetch: attempt 1",
        "fetch failed in attempt 1, again in 5 s: OSError(4)",
        "fetch: attempt 2",
        "fetch succeeded after 2 attempts",
    ]


def test_a_cut_before_any_error_is_logged_without_one(clock, caplog):
    @retry(timeout=5, on_give_up=log_retries(), fallback=7)
    async def fetch():
        await sleep(10)
        return 8

    assert clock.run_async(fetch()) == 7
    assert caplog.records[-1].getMessage().endswith(".fetch gave up after 1 attempt, deadline")


@pytest.mark.parametrize("adapt", [lambda logger: logger, logging.LoggerAdapter])
def test_a_logger_and_a_level_of_ones_own(clock, caplog, adapt):
    hook = log_retries(adapt(logging.getLogger("mine")), logging.INFO)
    with caplog.at_level(logging.INFO, "mine"):
        retry_call(Script(OSError, 7), FIVE, on_retry=hook, on_give_up=hook)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("mine", "INFO")
    retry_call(Script(OSError, 7), FIVE, on_retry=hook)
    assert caplog.records == [record]


def test_arguments_are_not_logged(clock, caplog):
    @retry(FIVE, max_attempts=2)
    def fetch(token, *, password):
        raise OSError

    hook = log_retries()
    with configure(on_retry=hook, on_give_up=hook), pytest.raises(OSError):
        fetch("secret", password="secret")
    assert len(caplog.records) == 2
    assert "secret" not in caplog.text
    assert all("secret" not in repr(vars(record)) for record in caplog.records)


def test_bad_arguments_are_refused():
    with pytest.raises(TypeError, match=r"logger must be a logging\.Logger or None, not 'mine'"):
        log_retries("mine")
    for wrong in ("INFO", True, 1.5):
        with pytest.raises(TypeError, match="level must be an int"):
            log_retries(None, wrong)


def test_an_interrupt_in_a_hook_of_the_end_is_why_the_run_ended():
    run = attempts(on_success=Recorded(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        for attempt in run:
            with attempt:
                pass
    assert run.outcome.reason == "interrupted"
