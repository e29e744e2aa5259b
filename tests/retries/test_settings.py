"""``configure()``: what is set for the process."""

import contextlib
from itertools import product

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    Permanent,
    RetryAfter,
    RetryBudget,
    attempts,
    configure,
    current_attempt,
    hedge_call_async,
    is_active,
    retry,
    retry_call,
    retry_call_async,
)
from tests.helpers import PATIENCE, in_thread
from tests.retries.faces import in_loop
from tests.retries.made_hooks import HOOKS, spanning
from tests.retries.scripts import FIVE, ZERO, Recorded, Script, Takes, at, cancelled_token, now

TOLD = []

NOTHING = (True, [], None)
"""What a retry obeys where nothing is set."""


def told(name):
    """Return a hook that says its name as it is called."""
    return lambda *_: TOLD.append(name)


def obeyed():
    """Return what a retry obeys: whether it is active, hooks called, the default token's cause."""
    TOLD.clear()
    cause, script = None, Script(OSError, 7)
    try:
        retry_call(script, ZERO)
    except OSError:
        assert not is_active()
    except Cancelled as error:
        cause = error.cause
    return script.count == 2 or cause is not None, TOLD[:], cause


def everything(called):
    """Return options that all must be idle."""
    hooks = dict.fromkeys(("notify", "around", *HOOKS, "until", "on"), called)
    limits = {"token": cancelled_token(), "timeout": 0, "max_attempts": 3}
    return {**hooks, **limits, "budget": RetryBudget(1)}


def test_while_retries_are_off_a_result_passes_and_nothing_else_is_called(face):
    called, result = Recorded(), object()
    script = Script(result)
    with configure(active=False):
        assert face.run(script, FIVE, **everything(called)) is result
        assert face.run(script, FIVE) is result
    assert (script.times, called.calls) == ([0, 0], [])


def test_while_retries_are_off_an_error_passes_as_it_is(face):
    for error in (OSError(1), Permanent(OSError(2)), RetryAfter(5, OSError(3)), Cancelled()):
        context, cause = error.__context__, error.__cause__
        for options in ({}, everything(Recorded())):
            script = Script(error)
            with configure(active=False), pytest.raises(type(error)) as caught:
                face.run(script, FIVE, **options)
            assert caught.value is error
            assert (script.count, now()) == (1, 0)
            assert not hasattr(error, "__notes__")
            assert (error.__context__, error.__cause__) == (context, cause)


def test_a_loop_knows_its_outcome_while_retries_are_off(clock):
    for error, reason in [(None, "succeeded"), (OSError(), "not_retried")]:
        run = attempts(FIVE, until=bool)
        with configure(active=False), pytest.raises(OSError) if error else contextlib.nullcontext():
            for attempt in run:
                with attempt:
                    assert (attempt.number, attempt.token.cancelled) == (1, False)
                    if error:
                        raise error
        assert run.outcome.reason == reason
        assert attempt.token.cancelled


def test_while_retries_are_off_there_is_the_first_attempt(face):
    def inside():
        with configure(active=False):
            return face.run(Script(lambda: current_attempt().number))

    assert inside() == 1
    assert retry_call(Script(OSError, inside), ZERO) == 1


def test_while_retries_are_off_a_function_may_return_a_coroutine(clock):
    for options in ({}, {"timeout": 60}):
        with configure(active=False):
            assert in_loop(retry(**options)(lambda: Script(7).in_loop())()) == 7


def test_options_are_checked_all_the_same(face):
    with configure(active=False), pytest.raises(TypeError, match="max_tries"):
        face.run(Script(7), max_tries=3)


def test_what_changes_in_the_first_attempt_is_for_the_runs_that_begin_later(face):
    with contextlib.ExitStack() as changes:
        called = Recorded()

        def first():
            hooks = dict.fromkeys(("notify", "around", *HOOKS), called)
            changes.enter_context(configure(active=False, token=cancelled_token(), **hooks))
            return OSError

        script = Script(first, 7)
        assert face.run(script, FIVE) == 7
        assert (script.times, called.calls) == ([0, 5], [])


def test_the_switch_works_without_a_block_for_all_threads_and_both_ways(clock):
    script = Script(OSError)
    function = retry(FIVE, max_attempts=3)(script)

    def calls_made():
        before = script.count
        with pytest.raises(OSError):
            in_thread(function).result(PATIENCE)
        return script.count - before

    try:
        configure(active=False)
        assert calls_made() == 1
        with configure(active=True):
            assert calls_made() == 3
        assert not is_active()
    finally:
        configure(active=True)
    assert calls_made() == 3


def test_default_hooks_are_called_after_a_retrys_own(face):
    log = []

    def hooks(owner):
        return {
            name: lambda *_, name=name: log.append(f"{owner} {name}") for name in ("notify", *HOOKS)
        }

    called = ["on_attempt", "notify", "on_retry", "on_attempt", "on_success"]
    with configure(**hooks("default")):
        face.run(Script(OSError, 7), FIVE, **hooks("own"))
        assert log == [f"{owner} {name}" for name in called for owner in ("own", "default")]
    log.clear()
    face.run(Script(OSError, 7), FIVE, **hooks("own"))
    assert log == [f"own {name}" for name in called]


def test_managers_of_the_process_are_inside_those_of_the_retry(face):
    log = []
    with configure(around=spanning(log, "default")):
        face.run(Script(7), around=spanning(log, "own"))
    assert [entry[1:3] for entry in log] == [
        *[("in", "own 1"), ("in", "default 1"), ("out", "default 1"), ("out", "own 1")]
    ]


def test_a_decorated_function_sees_each_change():
    function = retry(lambda: 7)
    told = [Recorded(), Recorded()]
    for one in (*told, *told):
        with configure(on_success=one):
            function()
            function()
    function()
    assert [len(one.calls) for one in told] == [4, 4]


def test_a_bad_default_hook_is_refused_by_name_and_nothing_is_changed():
    for name, wrong in product(("notify", "around", *HOOKS), (3, [print, None], {"on": print})):
        with pytest.raises(TypeError, match=f"{name} must be a callable, a list or tuple of"):
            configure(active=False, **{name: wrong})
    assert is_active()


def test_either_token_ends_the_run(face, clock):
    for which in (0, 1):
        began = now()
        tokens = CancellationToken(), CancellationToken()
        at(clock, began + 7, tokens[which].cancel)
        with configure(token=tokens[0]), pytest.raises(Cancelled):
            face.run(Script(OSError), FIVE, token=tokens[1])
        assert now() == began + 7
        assert not tokens[1 - which].cancelled


@pytest.mark.parametrize("call", [retry_call_async, hedge_call_async])
def test_a_default_token_cuts_a_coroutine(clock, call):
    token = CancellationToken()
    at(clock, 7, token.cancel)
    with configure(token=token), pytest.raises(Cancelled):
        in_loop(call(Script(Takes(50, 7)).in_loop, ConstantBackOff(100)))
    assert now() == 7


def test_a_block_puts_back_all_that_it_has_changed_and_nothing_else():
    with configure(active=False, on_retry=told("outer")) as nothing:
        assert nothing is None
        with configure(active=True, token=cancelled_token("inner")):
            assert obeyed() == (True, [], "inner")
            configure(token=None, notify=told("notify"))
            configure()
            assert obeyed() == (True, ["notify", "outer"], None)
        assert obeyed() == (False, [], None)
        configure(active=True)
        assert obeyed() == (True, ["notify", "outer"], None)
        configure(notify=None)
    assert obeyed() == NOTHING


def test_of_blocks_that_overlap_each_puts_back_what_it_had_found():
    first = configure(on_retry=told("first"))
    second = configure(on_retry=told("second"), active=False)
    first.__exit__(None, None, None)
    assert obeyed() == (False, [], None)
    second.__exit__(None, None, None)
    assert obeyed() == (True, ["first"], None)
    configure(on_retry=None)


def test_hedged_calls_obey_all_of_them_but_have_no_hooks(hedge):
    script, hook, token = Script(OSError), Recorded(), cancelled_token("shutdown")
    with configure(active=False), pytest.raises(OSError) as caught:
        hedge(script, ZERO)
    assert script.count == 1
    assert not hasattr(caught.value, "__notes__")
    with configure(token=token), configure(on_give_up=hook), pytest.raises(Cancelled):
        hedge(script, ZERO)
    assert (script.count, hook.calls) == (1 + 1, [])
