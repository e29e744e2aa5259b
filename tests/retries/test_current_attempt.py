"""``current_attempt()``: what runs inside an attempt knows which it is."""

import asyncio
import contextvars
import sys
import types
import weakref

import pytest
from hypothesis import given, strategies as st

from backoff_ticker import attempts, current_attempt, retry_call, retry_call_async
from tests.helpers import PATIENCE, collect_garbage, in_thread
from tests.interleaving import each_interleaving
from tests.retries.faces import ALL_ASYNC, CALLS, FOUR, LOOPS, SYNC, in_loop, left_after_a_failure
from tests.retries.made_hooks import HOOKS
from tests.retries.scripts import FIVE, ZERO, Recorded, Script, Takes, now, timed
from tests.stress.tools import run_silently


@pytest.fixture(autouse=True)
def _no_attempt_is_left():
    yield
    assert current_attempt() is None


def here():
    """Return the current attempt, which is there."""
    attempt = current_attempt()
    assert attempt is not None
    return attempt


def seen_by(seen, look):
    """Return an operation that looks each time it is called, and succeeds at the third time."""
    return Script(lambda: seen.append(look()) or (OSError if len(seen) < 3 else 7))


def test_an_operation_knows_its_attempt_which_stays_what_it_was(face):
    seen = []
    script = seen_by(seen, lambda: (here(), here().number, here().waited))
    assert face.run(script, FIVE) == 7
    expected = [(1, 0), (2, 5), (3, 10)]
    assert [tuple(told) for _, *told in seen] == expected
    assert [(attempt.number, attempt.waited) for attempt, *_ in seen] == expected
    assert len({attempt.name for attempt, *_ in seen}) == 1
    assert repr(seen[1][0]) == f"<Attempt 2 of {seen[0][0].name}, ended>"
    assert current_attempt() is None


@FOUR
def test_all_functions_of_a_retry_see_the_attempt_that_they_are_about(face):
    seen = []

    def noting(name, answer=None):
        def note(*_):
            seen.append((name, here().number))
            return answer

        return note

    class Looking:
        next_backoff = noting("policy", 5.0)
        reset = noting("reset")

    with pytest.raises(OSError):
        hooks = {name: noting(name) for name in ("notify", *HOOKS)}
        face.run(Script(OSError), Looking(), on=noting("on", True), max_attempts=2, **hooks)
    assert [entry for entry in seen if entry[0] != "reset"] == [
        *[("on_attempt", 1), ("on", 1), ("policy", 1), ("notify", 1), ("on_retry", 1)],
        *[("on_attempt", 2), ("on", 2), ("on_give_up", 2)],
    ]
    seen.clear()
    face.run(Script(7), until=noting("until", True), on_success=noting("on_success"))
    assert seen == [("until", 1), ("on_success", 1)]


@FOUR
def test_the_innermost_attempt_is_seen(face):
    seen = []

    def outer():
        seen.append(("outer", here().number))
        inner = Script(OSError, lambda: seen.append(("inner", here().number)) or 7)
        retry_call(inner, ZERO)
        seen.append(("outer", here().number))
        return 7

    face.run(Script(OSError, OSError, outer), FIVE)
    assert seen == [("outer", 3), ("inner", 2), ("outer", 3)]


def test_tasks_and_threads_of_a_coroutine_see_it(clock):
    async def look():
        await asyncio.sleep(1)
        return current_attempt()

    async def operation():
        task = asyncio.ensure_future(look())
        return here(), await task, await asyncio.to_thread(current_attempt)

    first, *others = in_loop(retry_call_async(operation))
    assert others == [first, first]


@FOUR
def test_the_time_left_is_that_of_the_nearest_limit(face):
    for make, left in [
        (dict, [None, None]),
        (lambda: {"timeout": 20}, [18, 13]),
        (lambda: {"token": timed(15)}, [13, 8]),
        (lambda: {"timeout": 10, "token": timed(15)}, [8, 3]),
        (lambda: {"timeout": 20, "token": timed(15)}, [13, 8]),
        (lambda: {"max_elapsed_time": 100}, [None, None]),
    ]:
        seen = []
        look = lambda answer: seen.append(here().time_left) or answer
        script = Script(Takes(2, lambda: look(OSError)), lambda: look(7))
        face.run(script, FIVE, **make())
        assert seen == left


@SYNC
def test_once_a_limit_has_passed_no_time_is_left(face):
    for make in (lambda: {"timeout": 20}, lambda: {"token": timed(20)}):
        for seconds in (20, 30):
            look = Recorded(lambda: here().time_left)
            assert face.run(Script(Takes(seconds, look)), **make()) == 0.0
            assert len(look.calls) == 1


@ALL_ASYNC
def test_the_limit_of_the_attempt_counts_too(face):
    seen = []
    look = lambda *_: seen.append(here().time_left) or OSError
    limits = {"attempt_timeout": 10, "timeout": 15, "max_attempts": 2}
    face.fails(OSError, Script(Takes(3, look)), FIVE, **limits)
    assert seen == [7, 4]


def test_each_attempt_has_a_token_that_is_cancelled_when_it_ends(face):
    seen, told = [], []
    hooks = dict.fromkeys(HOOKS, lambda _: told.append(here().token.cancelled))
    script = seen_by(seen, lambda: (here().token, here().token.cancelled))
    face.run(script, FIVE, **hooks)
    tokens = {token for token, _ in seen}
    assert len(tokens) == 3
    assert all(token.cancelled for token in tokens)
    assert not any(early for _, early in seen)
    assert told == [False, True, False, True, False, True]


@FOUR
def test_the_token_is_cancelled_with_that_of_the_run_and_at_its_limits_of_time(face, clock):
    limits = {"timeout": float, "attempt_timeout": float, "token": timed}
    for name in [name for name in limits if face.asynchronous or name != "attempt_timeout"]:
        began, cancels, options = now(), [], {name: limits[name](5)}

        def look(began=began, cancels=cancels):
            here().token.on_cancel(lambda: cancels.append(now() - began))
            return Takes(20, OSError)

        face.fails((OSError, TimeoutError), Script(look), max_attempts=1, **options)
        assert cancels == [5]


@pytest.mark.parametrize("asks", [False, True])
@CALLS
def test_what_an_attempt_has_started_sees_none_after_the_run_which_it_does_not_keep(face, asks):
    contexts, kept = [], []

    def operation():
        contexts.append(contextvars.copy_context())
        kept.append(here())
        if asks:
            assert not here().token.cancelled
        return 7

    script = Script(operation)
    known = weakref.ref(script)
    face.run(script)
    del script
    collect_garbage()
    assert known() is None
    assert contexts[0].run(current_attempt) is None
    assert (kept[0].number, kept[0].token.cancelled) == (1, True)
    assert kept[0].name.endswith(".operation")


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, asyncio.CancelledError])
def test_an_attempt_that_was_interrupted_is_not_kept_by_its_context(interrupt):
    kept = []

    def operation():
        kept.append(weakref.ref(here()))
        raise interrupt

    async def in_coroutine():
        with pytest.raises(interrupt):
            async for attempt in attempts(ZERO):
                async with attempt:
                    operation()
        del attempt
        collect_garbage()
        assert kept.pop()() is None

    with pytest.raises(interrupt):
        retry_call(operation, ZERO)
    collect_garbage()
    assert kept.pop()() is None
    in_loop(in_coroutine())


@pytest.mark.parametrize("pair", [("end", "ask"), ("ask", "end"), ("ask", "ask")])
def test_threads_that_ask_for_its_token_at_once_and_as_it_ends_get_the_same(monkeypatch, pair):
    kept = []

    @types.coroutine
    def operation():
        kept.append(here())
        yield

    def begin():
        context, called = contextvars.Context(), retry_call_async(operation)
        context.run(called.send, None)
        attempt = kept[-1]

        def end():
            with pytest.raises(StopIteration):
                context.run(called.send, None)

        functions = {"ask": lambda called=called: attempt.token, "end": end}
        return tuple(functions[name] for name in pair)

    number = 0
    for outcomes in each_interleaving(begin, monkeypatch):
        number += 1
        token = kept.pop().token
        assert {*outcomes} - {None} == {token}
        assert token.cancelled == ("end" in pair)
    assert number > 5


@LOOPS
def test_the_token_of_a_loop_that_is_left_between_attempts_is_cancelled(face):
    seen = []
    hook = lambda _: seen.append(here().token)
    left_after_a_failure(face, ZERO, on_attempt=hook)
    assert seen[0].cancelled


def failing_rows(failures):
    for attempt in attempts(ZERO, on=OSError):
        with attempt:
            yield attempt
            if attempt.number <= failures:
                raise OSError


def taking_turns(failures, order):
    generators = [failing_rows(one) for one in failures]
    for place in order:
        next(generators[place], None)
    for generator in generators:
        for _ in generator:
            pass
    return current_attempt()


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=4).flatmap(
        lambda failures: st.tuples(
            st.just(failures), st.lists(st.integers(0, len(failures) - 1), max_size=14)
        )
    )
)
def test_generators_whose_attempts_fail_may_take_turns_in_any_order(case):
    """None hangs, and none leaves an attempt behind."""
    assert contextvars.Context().run(taking_turns, *case) is None


def test_a_suspended_generator_shows_its_attempt_to_no_other_thread_or_context():
    generator = failing_rows(0)
    attempt = contextvars.Context().run(next, generator)
    assert current_attempt() is None
    assert in_thread(current_attempt).result(PATIENCE) is None
    generator.close()
    assert attempt.outcome.reason == "interrupted"


@pytest.mark.parametrize("options", [{}, {"on_attempt": bool}], ids=["first try", "run"])
def test_a_generator_may_be_left_in_another_attempt(options):
    entered = failing_rows(0)
    next(entered)
    retry_call(entered.close, **options)
    assert current_attempt() is None


GARBAGE = """
import gc
from contextvars import ContextVar
from types import coroutine
from backoff_ticker import ZeroBackOff, attempts, retry_call_async

def left_between_two_blocks():
    loop = attempts(ZeroBackOff())
    with next(loop):
        raise OSError
    return loop

def suspended():
    for attempt in attempts(ZeroBackOff()):
        with attempt:
            yield

def generator():
    made = suspended()
    next(made)
    return made

@coroutine
def operation():
    yield

def awaited():
    made = retry_call_async(operation, ZeroBackOff())
    made.send(None)
    return made

class Cycle:
    def __init__(self, inside):
        self.inside, self.itself = inside, self

for number in range(40):  # enough that the context has nodes
    ContextVar(f"variable {number}").set(number)
gc.disable()
for threshold in [*range(1, 30)] * 20:
    garbage = [Cycle(MAKE()) for _ in range(5)]
    gc.set_threshold(threshold)
    gc.enable()
    while garbage:
        garbage.pop()
        for attempt in attempts(ZeroBackOff()):
            with attempt:
                pass
    gc.disable()
"""


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="collects garbage between two steps")
@pytest.mark.parametrize("make", ["left_between_two_blocks", "generator", "awaited"])
def test_garbage_that_is_collected_as_an_attempt_is_shown_crashes_no_interpreter(make):
    """CPython 3.11 may run a finalizer, which may set a variable, in the middle of a set()."""
    run_silently(GARBAGE.replace("MAKE", make))
