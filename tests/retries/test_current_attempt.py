"""``current_attempt()``: what runs inside an attempt knows which it is."""

import asyncio
import contextvars
import types
import weakref

import pytest
from hypothesis import given, strategies as st

from backoff_ticker import (
    CancellationToken,
    ConstantBackOff,
    ZeroBackOff,
    attempts,
    current_attempt,
    hedge_call_async,
    retry,
    retry_call,
    retry_call_async,
    set_active,
)
from tests.helpers import collect_garbage
from tests.integrations.processes import run
from tests.interleaving import each_interleaving
from tests.retries.faces import (
    ALL_ASYNC,
    FOUR,
    LOOPS,
    in_loop,
    left_after_a_failure,
    on_faces,
)
from tests.retries.made_hooks import HOOKS
from tests.retries.scripts import Script, Takes


@pytest.fixture(autouse=True)
def _no_attempt_is_left():
    yield
    assert current_attempt() is None


def here():
    """Return the current attempt, which is there."""
    attempt = current_attempt()
    assert attempt is not None
    return attempt


def seen_by(script_ends, seen, look):
    """Return an operation that looks each time it is called, and fails but for the last time."""

    answers = [OSError] * (script_ends - 1) + [7]
    return Script(*[lambda answer=answer: seen.append(look()) or answer for answer in answers])


def test_an_operation_knows_its_attempt_which_stays_what_it_was(face):
    seen = []
    script = seen_by(3, seen, lambda: (here(), here().number, here().waited))
    assert face.run(script, ConstantBackOff(5)) == 7
    expected = [(1, 0), (2, 5), (3, 10)]
    assert [tuple(told) for _, *told in seen] == expected
    assert [(attempt.number, attempt.waited) for attempt, *_ in seen] == expected
    assert len({attempt.name for attempt, *_ in seen}) == 1
    assert repr(seen[1][0]) == f"<CurrentAttempt 2 of {seen[0][0].name}>"
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


@on_faces("call", "async call")
def test_a_fallback_sees_the_last_attempt(face):
    options = {"max_attempts": 2, "fallback": lambda _: here().number}
    assert face.run(Script(OSError), ConstantBackOff(5), **options) == 2


def test_nothing_is_seen_between_the_blocks_of_a_loop(clock):
    seen = []
    for attempt in attempts(ConstantBackOff(5), on_attempt=lambda _: seen.append(here().number)):
        seen.append(current_attempt())
        with attempt:
            assert here().number == attempt.number
            assert here().token is attempt.token
            if attempt.number < 2:
                raise OSError
        seen.append(current_attempt())
    assert seen == [1, None, None, 2, None, None]


@FOUR
def test_the_innermost_attempt_is_seen(face):
    seen = []

    def outer():
        seen.append(("outer", here().number))
        inner = Script(OSError, lambda: seen.append(("inner", here().number)) or 7)
        retry_call(inner, ZeroBackOff())
        seen.append(("outer", here().number))
        return 7

    face.run(Script(OSError, OSError, outer), ConstantBackOff(5))
    assert seen == [("outer", 3), ("inner", 2), ("outer", 3)]


# Threads, tasks, contexts


def test_tasks_and_threads_of_a_coroutine_see_it(clock):
    async def look():
        await asyncio.sleep(1)
        return current_attempt()

    async def operation():
        task = asyncio.ensure_future(look())
        return here(), await task, await asyncio.to_thread(current_attempt)

    first, *others = in_loop(retry_call_async(operation))
    assert others == [first, first]


def test_a_generator_sees_it_until_its_first_item(clock):
    seen = []

    @retry(ConstantBackOff(5))
    def generator():
        seen.append(here().number)
        if here().number < 2:
            raise OSError
        yield 1
        seen.append(current_attempt())
        yield 2

    for _ in generator():
        seen.append(current_attempt())
    assert seen == [1, 2, None, None, None]


# The time that is left


@FOUR
def test_the_time_left_is_that_of_the_nearest_limit(face):
    def timed(seconds):
        return CancellationToken(timeout=seconds)

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
        face.run(script, ConstantBackOff(5), **make())
        assert seen == left


@ALL_ASYNC
def test_the_limit_of_the_attempt_counts_too(face):
    seen = []
    look = lambda *_: seen.append(here().time_left) or OSError
    limits = {"attempt_timeout": 10, "timeout": 15, "max_attempts": 2}
    with pytest.raises(OSError):
        face.run(Script(Takes(3, look)), ConstantBackOff(5), on_retry=look, **limits)
    assert seen == [7, 12, 4]


# The token


def test_the_token_is_one_for_all_attempts_and_cancelled_at_the_end(face):
    seen = []
    face.run(seen_by(2, seen, lambda: (here().token, here().token.cancelled)), ConstantBackOff(5))
    (first, early), (second, late) = seen
    assert first is second
    assert (early, late) == (False, False)
    assert first.cancelled


@pytest.mark.parametrize("asks", [False, True])
@on_faces("call", "decorator", "async call")
def test_what_an_attempt_has_started_sees_its_end_and_keeps_nothing_alive(face, asks):
    contexts = []

    def operation():
        contexts.append(contextvars.copy_context())
        if asks:
            assert not here().token.cancelled
        return 7

    script = Script(operation)
    known = weakref.ref(script)
    face.run(script)
    del script
    collect_garbage()
    assert known() is None
    attempt = contexts[0].run(here)
    assert (attempt.number, attempt.token.cancelled) == (1, True)
    assert attempt.name.endswith(".operation")
    assert contexts[0].run(here) is attempt


@pytest.mark.parametrize("pair", [("end", "ask"), ("ask", "end"), ("ask", "ask")])
def test_threads_that_ask_for_its_token_at_once_and_as_it_ends_get_the_same(monkeypatch, pair):
    contexts = []
    running = []

    @types.coroutine
    def operation():
        contexts.append(contextvars.copy_context())
        yield

    def begin():
        context, called = contextvars.Context(), retry_call_async(operation)
        context.run(called.send, None)

        def ask():
            return contexts[-1].copy().run(here).token

        def end():
            with pytest.raises(StopIteration):
                context.run(called.send, None)

        running.append(called)
        return tuple({"ask": ask, "end": end}[name] for name in pair)

    number = 0
    for outcomes in each_interleaving(begin, monkeypatch):
        number += 1
        token = contexts.pop().run(here).token
        assert {*outcomes} - {None} == {token}
        assert token.cancelled == ("end" in pair)
    assert number > 5


@LOOPS
def test_the_token_of_a_loop_that_is_left_between_attempts_is_cancelled(face):
    seen = []
    hook = lambda _: seen.append(here().token)
    left_after_a_failure(face, ZeroBackOff(), on_attempt=hook)
    assert seen[0].cancelled


def failing_rows(failures):
    for attempt in attempts(ZeroBackOff(), on=OSError):
        with attempt:
            yield attempt.number
            if attempt.number <= failures:
                raise OSError


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=4).flatmap(
        lambda failures: st.tuples(
            st.just(failures), st.lists(st.integers(0, len(failures) - 1), max_size=14)
        )
    )
)
def test_generators_whose_attempts_fail_may_take_turns_in_any_order(case):
    """None hangs, and none leaves an attempt behind."""
    failures, order = case

    def run():
        generators = [failing_rows(each) for each in failures]
        for place in order:
            next(generators[place], None)
        for generator in generators:
            for _ in generator:
                pass
        return current_attempt()

    assert contextvars.Context().run(run) is None


@pytest.mark.parametrize("options", [{}, {"on_attempt": bool}], ids=["first try", "run"])
def test_a_generator_may_be_left_in_another_attempt(options):
    entered = failing_rows(0)
    next(entered)
    retry_call(entered.close, **options)
    assert current_attempt() is None


# Hedges


def test_each_hedged_attempt_has_a_number_and_a_token_of_its_own(clock):
    seen = []

    async def operation():
        attempt = here()
        seen.append(attempt)
        await asyncio.sleep(10 if attempt.number == 1 else 1)
        assert here() is attempt
        assert not attempt.token.cancelled
        return attempt.number

    assert in_loop(hedge_call_async(operation, ConstantBackOff(2))) == 2
    assert [attempt.number for attempt in seen] == [1, 2]
    assert seen[0].token is not seen[1].token
    assert all(attempt.token.cancelled for attempt in seen)


# Who does not ask


def test_while_retries_are_off_there_is_no_attempt(clock):
    with set_active(False):
        assert retry_call(current_attempt) is None


# Nothing has to be imported first


FIRST_USE = """
import asyncio
import backoff_ticker
from backoff_ticker import attempts, hedge_call, retry
from backoff_ticker.testing import no_wait
seen = []
def operation():
    from backoff_ticker import current_attempt
    current = backoff_ticker.current_attempt()
    assert current_attempt() is current
    assert not current.token.cancelled
    seen.append(current.number)
    if current.number < 3:
        raise OSError
async def coroutine():
    await asyncio.sleep(0)
    operation()
async def async_loop():
    async for attempt in attempts():
        with attempt:
            await coroutine()
with no_wait():
    {call}
seen.append(backoff_ticker.current_attempt())
print(*seen)
"""


@pytest.mark.parametrize(
    "call",
    [
        "retry(operation)()",
        "asyncio.run(async_loop())",
        "hedge_call(operation)",
    ],
)
def test_who_first_asks_inside_of_an_attempt_is_told(call):
    assert run(FIRST_USE.replace("{call}", call)) == ["1 2 3 None"]
