"""What is set for the process: retries off, default hooks, a default token."""

import contextlib
import gc
import itertools
import weakref

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    DeadlineExceeded,
    Permanent,
    RetryAfter,
    RetryBudget,
    StopReason,
    ZeroBackOff,
    attempts,
    hedge_call_async,
    is_active,
    retry,
    retry_call_async,
    set_active,
    set_default_hooks,
    set_default_token,
)
from backoff_ticker.testing import no_wait
from tests.helpers import PATIENCE, in_thread
from tests.retries.faces import BOTH, in_loop
from tests.retries.made_client import KINDS, Client, result_of
from tests.retries.made_hooks import HOOKS
from tests.retries.made_policies import at, cancelled_token
from tests.retries.made_settings import NOTHING, obeyed, told
from tests.retries.scripts import Recorded, Script, Takes, now

# Off


def everything(called):
    """Return options that all must be idle."""
    token = CancellationToken()
    token.cancel()
    hooks = dict.fromkeys(("notify", *HOOKS, "until"), called)
    return {**hooks, "token": token, "timeout": 0, "budget": RetryBudget(1), "max_attempts": 3}


def test_while_retries_are_off_a_result_passes_and_nothing_else_is_called(face):
    called, result = Recorded(), object()
    script = Script(result)
    with set_active(False):
        assert face.run(script, ConstantBackOff(5), **everything(called)) is result
        assert face.run(script, ConstantBackOff(5)) is result
    assert (script.times, called.calls) == ([0, 0], [])


def test_while_retries_are_off_an_error_passes_as_it_is(face):
    for error in (OSError(1), Permanent(OSError(2)), RetryAfter(5, OSError(3)), Cancelled()):
        context, cause = error.__context__, error.__cause__
        for options in ({}, everything(Recorded())):
            script = Script(error)
            with set_active(False), pytest.raises(type(error)) as caught:
                face.run(script, ConstantBackOff(5), **options)
            assert caught.value is error
            assert (script.count, now()) == (1, 0)
            assert not hasattr(error, "__notes__")
            assert (error.__context__, error.__cause__) == (context, cause)


def test_a_loop_knows_its_outcome_while_retries_are_off(clock):
    for error, reason in [(None, StopReason.SUCCEEDED), (OSError(), StopReason.NOT_RETRIED)]:
        run = attempts(ConstantBackOff(5), until=bool)
        with set_active(False), pytest.raises(OSError) if error else contextlib.nullcontext():
            for attempt in run:
                with attempt:
                    assert (attempt.number, attempt.token.cancelled) == (1, False)
                    if error:
                        raise error
        assert run.outcome.reason is reason
        assert attempt.token.cancelled


@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_decorated_functions_are_as_if_undecorated(clock, kind):
    client = Client(Script(OSError))
    with set_active(False), pytest.raises(OSError) as caught:
        result_of(getattr(client, kind)())
    assert client.script.count == 1
    assert not hasattr(caught.value, "__notes__")


def test_while_retries_are_off_a_function_may_return_a_coroutine(clock):
    for options in ({}, {"timeout": 60}):
        with set_active(False):
            assert in_loop(retry(**options)(lambda: Script(7).in_loop())()) == 7


def test_options_are_checked_all_the_same(face):
    with set_active(False), pytest.raises(TypeError, match="max_tries"):
        face.run(Script(7), max_tries=3)


def test_what_changes_in_the_first_attempt_is_for_the_runs_that_begin_later(face):
    with contextlib.ExitStack() as changes:
        cancelled, called = CancellationToken(), Recorded()
        cancelled.cancel()

        def first():
            changes.enter_context(set_active(False))
            changes.enter_context(set_default_token(cancelled))
            changes.enter_context(set_default_hooks(**dict.fromkeys(HOOKS, called)))
            return OSError

        script = Script(first, 7)
        assert face.run(script, ConstantBackOff(5)) == 7
        assert (script.times, called.calls) == ([0, 5], [])


def test_the_switch_works_without_a_block_for_all_threads_and_both_ways(clock):
    script = Script(OSError)
    function = retry(ConstantBackOff(5), max_attempts=3)(script)

    def calls_made():
        before = script.count
        with pytest.raises(OSError):
            in_thread(function).result(PATIENCE)
        return script.count - before

    try:
        set_active(False)
        assert calls_made() == 1
        with set_active(True):
            assert calls_made() == 3
        assert not is_active()
    finally:
        set_active(True)
    assert calls_made() == 3


@pytest.mark.parametrize("value", [None, 1, "off"])
def test_only_a_bool_switches(value):
    with pytest.raises(TypeError, match=f"active must be a bool, not {value!r}"):
        set_active(value)
    assert is_active()


# Default hooks


def test_default_hooks_are_called_after_a_retrys_own(face):
    log = []

    def hooks(owner):
        return {name: lambda _, name=name: log.append(f"{owner} {name}") for name in HOOKS}

    called = ["on_attempt", "on_retry", "on_attempt", "on_success"]
    with set_default_hooks(**hooks("default")):
        face.run(Script(OSError, 7), ConstantBackOff(5), **hooks("own"))
        assert log == [f"{owner} {name}" for name in called for owner in ("own", "default")]
    log.clear()
    face.run(Script(OSError, 7), ConstantBackOff(5), **hooks("own"))
    assert log == [f"own {name}" for name in called]


def test_a_decorated_function_sees_each_change():
    function = retry(lambda: 7)
    told = [Recorded(), Recorded()]
    for each in (*told, *told):
        with set_default_hooks(on_success=each):
            function()
            function()
    function()
    assert [len(each.calls) for each in told] == [4, 4]


def test_a_bad_default_hook_is_refused_by_name():
    for wrong in (3, [print, None], {"on_retry": print}):
        with pytest.raises(TypeError, match="on_retry must be a callable, a list or tuple of"):
            set_default_hooks(on_retry=wrong)


# The default token


def test_either_token_ends_the_run(face, clock):
    for which in (0, 1):
        began = now()
        tokens = CancellationToken(), CancellationToken()
        at(clock, began + 7, tokens[which].cancel)
        with set_default_token(tokens[0]), pytest.raises(Cancelled):
            face.run(Script(OSError), ConstantBackOff(5), token=tokens[1])
        assert now() == began + 7
        assert not tokens[1 - which].cancelled


@pytest.mark.parametrize("call", [retry_call_async, hedge_call_async])
def test_a_default_token_cuts_a_coroutine(clock, call):
    token = CancellationToken()
    at(clock, 7, token.cancel)
    with set_default_token(token), pytest.raises(Cancelled):
        in_loop(call(Script(Takes(50, 7)).in_loop, ConstantBackOff(100)))
    assert now() == 7


@BOTH
def test_a_default_token_may_have_a_deadline(face):
    script = Script(OSError)
    with set_default_token(CancellationToken(timeout=12)), pytest.raises(DeadlineExceeded):
        face.run(script, ConstantBackOff(5))
    assert script.times == [0, 5, 10]


def test_a_default_token_that_is_not_one_is_refused():
    with pytest.raises(TypeError, match="token must be a CancellationToken, not 3"):
        set_default_token(3)


# All of them


@pytest.mark.parametrize(
    "change",
    [
        lambda name: set_active(name == "1"),
        lambda name: set_default_hooks(on_retry=told(name)),
        lambda name: set_default_token(cancelled_token(name)),
    ],
    ids=["active", "hooks", "token"],
)
def test_blocks_that_overlap_leave_what_was_before_all_of_them(change):
    for order in itertools.permutations(range(3)):
        blocks, inside = [], []
        for number in range(3):
            block = change(str(number))
            block.__enter__()
            blocks.append(block)
            inside.append(obeyed())
        left = set(range(3))
        for each in order:
            blocks[each].__exit__(None, None, None)
            left.remove(each)
            assert obeyed() == (inside[max(left)] if left else NOTHING), "the last one counts"


def test_a_change_that_is_no_block_lasts_until_a_block_around_it_ends():
    with set_default_token(None):
        set_default_token(cancelled_token("outer"))
        with set_default_token(None):
            set_default_token(cancelled_token("inner"))
        assert obeyed() == (True, [], "outer")
    assert obeyed() == NOTHING


@pytest.mark.parametrize("is_collected", [False, True])
def test_a_block_that_ends_with_a_block_inside_of_it_leaves_what_was_before(is_collected):
    def steps(held):
        with set_active(False):
            try:
                yield
            finally:
                with set_active(True):
                    assert is_active()

    held = []
    generator = steps(held)
    next(generator)
    if is_collected:  # a cycle: weak references to the block are dead before it ends
        held.append(generator)
        del held, generator
        gc.collect()
    else:
        generator.close()
    assert is_active()


def test_a_default_that_was_replaced_is_not_kept():
    def hook(_):
        """Do nothing."""

    kept = weakref.ref(hook)
    set_default_hooks(on_retry=hook)
    set_default_hooks()
    del hook
    gc.collect()
    assert kept() is None


def test_hedged_calls_obey_all_of_them_but_have_no_hooks(hedge):
    script, hook, token = Script(OSError), Recorded(), cancelled_token("shutdown")
    with set_active(False), pytest.raises(OSError) as caught:
        hedge(script, ZeroBackOff())
    assert script.count == 1
    assert not hasattr(caught.value, "__notes__")
    with no_wait(max_attempts=2), pytest.raises(OSError):
        hedge(script, ZeroBackOff())
    assert script.count == 1 + 2
    with set_default_token(token), set_default_hooks(on_give_up=hook), pytest.raises(Cancelled):
        hedge(script, ZeroBackOff())
    assert (script.count, hook.calls) == (1 + 2 + 1, [])
