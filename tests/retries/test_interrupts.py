"""A signal handler at any place of the package: it raises, or changes what is shared.

Nothing can be promised for an interrupt that comes in the very entry of an ``__exit__``, or in the
lines that clean up: those places, and no others, may leave something.
"""

from contextlib import suppress
from functools import partial

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    RetryBudget,
    attempts,
    configure,
    current_attempt,
    retry_call,
)
from tests.helpers import collect_garbage
from tests.interleaving import each_interleaving
from tests.retries.made_hooks import spanning
from tests.retries.scripts import ZERO, Script, cancelled_token
from tests.retries.test_settings import NOTHING, obeyed, told
from tests.stress.places import Interrupted, each_place

CLEAN_UPS = ("close", "refund")
"""The functions that clean up."""

ENTRIES = ("__exit__",)
"""Of ``Attempt`` it is one line: an interrupt at its entry comes before all that heeds it."""


def unexpected(places):
    """Return the places, as ``each_place()`` tells them, where nothing may be left."""
    return {where for where in places if where.partition(":")[0].split(".")[-1] not in ENTRIES}


def called(operation, **options):
    retry_call(operation, ZERO, **options)


def called_with_hooks(operation, **options):
    retry_call(operation, ZERO, on_attempt=bool, around=spanning([]), **options)


def nested(operation, **options):
    retry_call(lambda: called(operation, **options), ZERO, on=LookupError)


def looped(operation, **options):
    for attempt in attempts(ZERO, **options):
        with attempt:
            operation()


def ways(*functions):
    return pytest.mark.parametrize("way", functions, ids=lambda way: way.__name__)


def interrupted_loops(test):
    """Expect of an interrupt that a loop is left as it is, and a step of it before it begins."""
    test = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")(test)
    return pytest.mark.filterwarnings("ignore:coroutine .* never awaited:RuntimeWarning")(test)


@interrupted_loops
@ways(called, called_with_hooks, nested, looped)
def test_no_attempt_is_left_and_no_token_of_one_is_not_cancelled(way):
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
        interrupt.forget()
        if way is looped:
            collect_garbage()  # it was left
        if current_attempt() is not None or not all(token.cancelled for token in tokens):
            left.add(interrupt.where)

    assert each_place(run, but=CLEAN_UPS, all_of_them=way is called) > 5
    assert unexpected(left) == set()


@interrupted_loops
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

    assert each_place(run, but=CLEAN_UPS) > 5
    assert unexpected(lost) == set()


@pytest.mark.parametrize(
    "way",
    [called, *(pytest.param(way, marks=pytest.mark.slow) for way in (called_with_hooks, looped))],
)
def test_no_further_call_is_made_after_a_signal_handler_has_cancelled_the_run(way):
    def run(interrupt):
        token, seen = CancellationToken(), []

        def fail():
            seen.append(token.cancelled)
            raise OSError

        interrupt.handler = token.cancel
        with suppress(OSError, Cancelled), interrupt:
            way(fail, token=token, max_attempts=3)
        assert not any(seen[1:]), interrupt.where

    assert each_place(run, all_of_them=True) > 5


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


def test_no_setting_is_lost_if_another_thread_changes_another(monkeypatch):
    def begin():
        configure(on_retry=None, token=None)
        return (
            lambda: configure(on_retry=told("hook")),
            lambda: configure(token=cancelled_token("token")),
        )

    try:
        for _ in each_interleaving(begin, monkeypatch):
            assert obeyed() == (True, [], "token")
            configure(token=None)
            assert obeyed() == (True, ["hook"], None)
    finally:
        configure(on_retry=None, token=None)
    assert obeyed() == NOTHING


def test_a_signal_handler_may_change_settings():
    def other():
        configure(token=cancelled_token("token"))

    def run(interrupt):
        with interrupt:
            configure(active=False, on_retry=told("hook"))
        assert obeyed() == (False, [], None)
        configure(active=True)
        assert obeyed()[2] == ("token" if interrupt.where else None), interrupt.where
        configure(on_retry=None, token=None)

    assert each_place(run, other) > 5
    assert obeyed() == NOTHING


def test_a_run_obeys_the_settings_of_one_time():
    """All that one call of ``configure()`` sets, or nothing of it."""
    seen = []

    def other():
        configure(token=None, on_attempt=None)

    def run(interrupt):
        seen.clear()
        with configure(token=cancelled_token("token"), on_attempt=seen.append):
            try:
                with interrupt:
                    called(Script(OSError, 7))
            except Cancelled:
                assert len(seen) == 1, interrupt.where
            else:
                assert seen == [], interrupt.where

    assert each_place(run, other, all_of_them=True) > 5
