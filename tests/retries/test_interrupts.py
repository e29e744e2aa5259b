"""A signal handler at any place of the package: it raises, or changes what is shared."""

import itertools
from contextlib import suppress
from functools import partial

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    RetryBudget,
    ZeroBackOff,
    attempts,
    is_active,
    retry_call,
    set_active,
    set_default_hooks,
    set_default_token,
)
from tests.helpers import collect_garbage
from tests.interleaving import each_interleaving
from tests.retries.made_policies import cancelled_token
from tests.retries.made_settings import NOTHING, obeyed, told
from tests.retries.scripts import Recorded, Script
from tests.stress.places import Interrupted, each_place


def called(operation, **options):
    retry_call(operation, ZeroBackOff(), **options)


def called_with_a_hook(operation, **options):
    retry_call(operation, ZeroBackOff(), on_attempt=bool, **options)


def nested(operation, **options):
    retry_call(lambda: called(operation, **options), ZeroBackOff(), on=LookupError)


def looped(operation, **options):
    for attempt in attempts(ZeroBackOff(), **options):
        with attempt:
            operation()


def ways(*functions):
    return pytest.mark.parametrize("way", functions, ids=lambda way: way.__name__)


@ways(called, called_with_a_hook, nested)
def test_no_attempt_is_left(way):
    from backoff_ticker import current_attempt  # here: `test_untracked` runs without it

    left = set()

    def run(interrupt):
        tokens = []

        def flaky():
            attempt = current_attempt()
            tokens.append(attempt.token)
            if attempt.number < 3:
                raise OSError

        with suppress(Interrupted), interrupt:
            way(flaky)
        if current_attempt() is not None or not all(token.cancelled for token in tokens):
            left.add(interrupt.where)

    assert each_place(run, all_of_them=way is called) > 5
    assert left == set()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of loops
@ways(called, looped)
def test_a_retry_that_was_not_made_is_not_paid(way):
    lost = set()

    def run(interrupt):
        budget, token = RetryBudget(5), CancellationToken()
        with suppress(Interrupted, Cancelled), interrupt:
            way(Script(OSError), budget=budget, token=token, on_retry=lambda _: token.cancel())
        interrupt.forget()
        if way is looped:
            collect_garbage()  # it was left
        if budget.tokens < 5:
            lost.add(interrupt.where)

    assert each_place(run) > 5
    # As a block is left, an interrupt can come before the first instruction that could heed it.
    assert len(lost) <= (way is looped)


ACTIONS = {
    "take": lambda budget: budget.try_acquire(2),
    "put back": lambda budget: budget.release(2),
    "succeed": RetryBudget.success,
}


@pytest.mark.parametrize("second", ACTIONS)
@pytest.mark.parametrize("first", ACTIONS)
def test_no_change_of_a_budget_is_lost_if_another_thread_comes(monkeypatch, first, second):
    budgets = []

    def begin():
        budgets.append(RetryBudget(10, 0.5))
        assert budgets[-1].try_acquire(7)
        return tuple(partial(ACTIONS[name], budgets[-1]) for name in (first, second))

    worth = {"take": -2, "put back": 2, "succeed": 0.5}
    is_short = first == second == "take"  # there are tokens for one of them
    for answers in each_interleaving(begin, monkeypatch):
        assert answers.count(False) == is_short
        left = 3 - 2 if is_short else 3 + worth[first] + worth[second]
        assert budgets.pop().tokens == left


def test_a_signal_handler_may_use_a_budget():
    def run(interrupt):
        budget = RetryBudget(100)
        assert budget.try_acquire(50)

        def handler():
            assert budget.try_acquire(20)
            budget.release(3)
            budget.success()

        interrupt.handler = handler
        with interrupt:
            taken = [budget.try_acquire(10), budget.release(5), budget.success()]
        assert taken == [True, None, None]
        assert budget.tokens == (50 - 5 + 0.1 if interrupt.where is None else 50 - 22 + 0.2)

    assert each_place(run) > 5


CHANGES = [
    (lambda: set_active(False), lambda: set_active(True), (False, [], None)),
    (lambda: set_default_hooks(on_retry=told("hook")), set_default_hooks, (True, ["hook"], None)),
    (
        lambda: set_default_token(cancelled_token("token")),
        lambda: set_default_token(None),
        (True, [], "token"),
    ),
]


@pytest.mark.parametrize(("first", "second"), [*itertools.permutations(CHANGES, 2)])
def test_a_setting_is_not_lost_if_another_changes(first, second):
    change, back, _ = first
    other, back_from_other, expected = second

    def run(interrupt):
        change()
        with interrupt:
            back()
        assert obeyed() == (expected if interrupt.where else NOTHING), interrupt.where
        back_from_other()

    try:
        assert each_place(run, other) > 5
    finally:
        back()
        back_from_other()


def test_blocks_that_overlap_leave_what_was_before():
    def other():
        with set_active(False), set_active(True):
            set_default_token(cancelled_token("token"))

    def run(interrupt):
        with interrupt, set_active(False):
            pass
        assert is_active(), interrupt.where
        assert obeyed() == (True, [], "token" if interrupt.where else None), interrupt.where
        set_default_token(None)

    assert each_place(run, other) > 5


def test_a_call_uses_hooks_and_token_of_one_time():
    token = cancelled_token("token")

    def other():
        set_default_hooks()
        set_default_token(None)

    def run(interrupt):
        hook = Recorded()
        with set_default_token(token), set_default_hooks(on_attempt=hook):
            try:
                with interrupt:
                    called(Script(OSError, 7))
            except Cancelled:
                assert len(hook.calls) == 1, interrupt.where
            else:
                assert hook.calls == [], interrupt.where

    assert each_place(run, other, all_of_them=True) > 5
