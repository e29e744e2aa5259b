"""Faults that reviews found, each forced: see the names."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import pickle
import threading
import weakref
from contextlib import asynccontextmanager, contextmanager
from unittest.mock import Mock

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    Channel,
    ConstantBackOff,
    DeadlineExceeded,
    Permanent,
    RetryAfter,
    RetryBudget,
    StopBackOff,
    ZeroBackOff,
    attempts,
    hedge_call_async,
    retry,
    retry_call,
    retry_call_async,
)
from backoff_ticker.testing import VirtualClock, no_wait
from tests.retries.faces import BOTH, in_loop, on_faces
from tests.retries.scripts import Script, now

# What is retried


def test_a_mock_can_be_retried():
    """Each of its attributes is another mock, for ever."""
    operation = Mock(side_effect=[OSError, 7])
    assert retry_call(operation, ZeroBackOff()) == 7
    assert retry(ZeroBackOff())(Mock(side_effect=[OSError, 7]))() == 7


def test_bare_it_decorates_class_and_static_methods():
    class Client:
        tries = 0

        @retry
        @classmethod
        def fetch(cls):
            cls.tries += 1
            if cls.tries < 3:
                raise OSError
            return cls

        @retry
        @staticmethod
        def parse(text):
            return int(text)

    with no_wait():
        assert Client.fetch() is Client
    assert Client().parse("7") == 7


@pytest.mark.parametrize("wrong", [OSError, (OSError, ValueError), (OSError,)])
def test_what_is_retried_is_not_taken_for_a_policy(wrong):
    with pytest.raises(TypeError, match=r"retry\(on=...\)"):
        retry(wrong)


def test_a_property_is_told_to_go_above():
    with pytest.raises(TypeError, match="goes above it"):
        retry(property(lambda _: 1))


# Errors


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    code: int


@BOTH
def test_a_frozen_error_has_its_note_its_cause_and_its_place(face):
    def fail():
        try:
            raise KeyError("cause")
        except KeyError as cause:
            raise Permanent(Frozen(1)) from cause

    with pytest.raises(Frozen) as caught:
        face.run(Script(fail))
    assert isinstance(caught.value.__cause__, KeyError)
    assert "permanent" in caught.value.__notes__[0]
    assert any(entry.name == "fail" for entry in caught.traceback)


@BOTH
def test_an_error_inside_a_retry_after_keeps_its_cause_and_its_place(face):
    def fail():
        try:
            raise KeyError("header")
        except KeyError as cause:
            raise RetryAfter(1, OSError("busy")) from cause

    with pytest.raises(OSError, match="busy") as caught:
        face.run(Script(fail), StopBackOff())
    assert isinstance(caught.value.__cause__, KeyError)
    assert any(entry.name == "fail" for entry in caught.traceback)


@BOTH
def test_an_error_inside_a_permanent_keeps_its_context(face):
    def fail():
        try:
            raise KeyError("context")
        except KeyError:
            raise Permanent(OSError())  # noqa: B904 - the point

    with pytest.raises(OSError) as caught:
        face.run(Script(fail))
    assert isinstance(caught.value.__context__, KeyError)


@BOTH
def test_the_error_of_a_hook_that_has_a_cause_leads_to_the_operations_error_too(face):
    def hook(_):
        raise LookupError("hook") from KeyError("its cause")

    with pytest.raises(LookupError) as caught:
        face.run(Script(OSError("work")), ConstantBackOff(1), on_retry=hook)
    assert isinstance(caught.value.__cause__, KeyError)
    assert str(caught.value.__cause__.__context__) == "work"


@BOTH
def test_an_error_that_two_hooks_raise_is_not_its_own_cause(face):
    own = LookupError("same")

    def hook(_):
        raise own

    with pytest.raises(LookupError) as caught:
        face.run(Script(OSError("work")), ConstantBackOff(1), on_retry=hook, on_give_up=hook)
    assert caught.value is own
    assert isinstance(own.__cause__, OSError)


@on_faces("call", "async call", "loop")
def test_the_hook_that_failed_first_is_blamed(face):
    def hook(_):
        raise LookupError

    with pytest.raises(LookupError) as caught:
        face.run(Script(OSError), ConstantBackOff(1), on_retry=hook, on_give_up=lambda _: None)
    assert caught.value.__notes__[0].endswith("on_retry failed")


def test_a_users_note_that_begins_alike_stays(clock):
    error = OSError()
    error.add_note("gave up after lunch")
    with pytest.raises(OSError):
        retry_call(Script(error), StopBackOff())
    assert error.__notes__[0] == "gave up after lunch"
    assert len(error.__notes__) == 2


def test_markers_are_not_put_inside_each_other():
    for wrong in (Permanent(OSError()), RetryAfter(1)):
        with pytest.raises(TypeError, match="neither Permanent nor RetryAfter"):
            RetryAfter(1, wrong)


def test_errors_survive_pickling():
    for error in (Permanent(OSError(1)), RetryAfter(2, OSError(1))):
        twin = pickle.loads(pickle.dumps(error))
        assert (type(twin), str(twin)) == (type(error), str(error))


# Loops


def test_a_failure_that_looks_like_the_end_of_a_loop_does_not_end_it(clock):
    async def give_up(_):
        await asyncio.sleep(0)

    async def nothing():
        return
        yield

    async def main():
        async for attempt in attempts(StopBackOff(), on_give_up=give_up):
            with attempt:
                await anext(nothing())

    with pytest.raises(RuntimeError, match="StopAsyncIteration") as caught:
        in_loop(main())
    assert isinstance(caught.value.__cause__, StopAsyncIteration)


@on_faces("loop", "async loop", "async loop, async with")
def test_without_a_delay_too_an_attempt_begins_with_the_step_of_the_loop(face):
    seen = []

    class Told(Script):
        def __call__(self):
            seen.append("block")
            return super().__call__()

        async def in_loop(self):
            return self()

    told = Told(OSError, 7)
    assert face.run(told, ZeroBackOff(), on_attempt=lambda outcome: seen.append(outcome.attempts))
    assert seen == [1, "block", 2, "block"]

    run = attempts(ZeroBackOff())
    for attempt in run:
        with attempt:
            raise OSError
        assert run.outcome.attempts == 1
        break


@on_faces("async loop", "async loop, async with")
def test_a_cancel_between_the_step_and_the_block_is_not_lost(face, clock):
    token = CancellationToken(clock)

    async def main():
        made = 0
        async for attempt in attempts(ConstantBackOff(1), token=token):
            if attempt.number == 2:
                token.cancel()
            if face.name == "async loop":
                with attempt:
                    made += 1
                    raise OSError
            else:
                async with attempt:
                    made += 1
                    raise OSError
        return made

    with pytest.raises(Cancelled) as caught:
        in_loop(main())
    assert isinstance(caught.value.__cause__, OSError)


def test_a_cancel_while_a_manager_is_entered_is_not_lost(clock):
    token = CancellationToken(clock)
    made, log = [], []

    @asynccontextmanager
    async def span(outcome):
        if outcome.attempts == 2:
            token.cancel()
        log.append("in")
        try:
            yield
        finally:
            log.append("out")

    async def main():
        async for attempt in attempts(ConstantBackOff(1), token=token, on_attempt=span):
            async with attempt:
                made.append(attempt.number)
                raise OSError

    with pytest.raises(Cancelled):
        in_loop(main())
    assert made == [1]
    assert log == ["in", "out"] * 2


def test_the_token_of_an_attempt_hears_of_an_interrupt(clock):
    for attempt in attempts(ZeroBackOff()):
        token = attempt.token
        with pytest.raises(KeyboardInterrupt), attempt:
            raise KeyboardInterrupt
        break
    assert token.cancelled


# Limits of time


@on_faces("async call", "async decorator", "async loop", "async loop, async with")
def test_a_manager_is_left_with_what_cut_its_attempt(face, clock):
    left = []

    @contextmanager
    def span(_):
        try:
            yield
        except Exception as error:
            left.append(type(error))
            raise

    async def hang():
        await asyncio.sleep(100)

    class Hangs(Script):
        async def in_loop(self):
            await asyncio.sleep(100)

    token = CancellationToken(clock).child(timeout=30)
    for options, kind in [
        ({"attempt_timeout": 2}, TimeoutError),
        ({"timeout": 3}, DeadlineExceeded),
        ({"token": token}, DeadlineExceeded),
    ]:
        with pytest.raises(kind):
            face.run(Hangs(), ConstantBackOff(1), max_attempts=1, on_attempt=span, **options)
        assert left.pop() is kind


@BOTH
def test_no_attempt_begins_after_the_timeout_has_passed_in_its_hook(face, clock):
    script = Script(OSError, 7)

    def hook(outcome):
        if outcome.attempts == 2:
            clock.sleep(10) if not face.asynchronous else None
        return slow() if face.asynchronous and outcome.attempts == 2 else None

    async def slow():
        await asyncio.sleep(10)

    with pytest.raises(DeadlineExceeded) as caught:
        face.run(script, ConstantBackOff(1), timeout=5, on_attempt=hook)
    assert script.count == 1
    assert isinstance(caught.value.__cause__, OSError)


def test_a_wait_that_would_reach_the_timeout_is_told(clock):
    with pytest.raises(DeadlineExceeded) as caught:
        retry_call(Script(OSError), ConstantBackOff(3), timeout=4)
    assert caught.value.__notes__[0].endswith(
        "in 3.0 s since the first failed: a wait of 3.0 s would reach the timeout of 4.0 s"
    ) or caught.value.__notes__[0].endswith(
        "in 3.0 s: a wait of 3.0 s would reach the timeout of 4.0 s"
    )
    assert now() == 3.0


@pytest.mark.parametrize("start", [0.3, 0.1, 1000.7])
def test_attempts_are_cut_where_waits_are_skipped(start):
    async def hang():
        await asyncio.sleep(1e6)

    with VirtualClock(start, auto=True) as clock, no_wait():
        for delay in (0.2, 0.7, 1.1):
            for limit in (0.3, 0.1, 0.7):
                with pytest.raises(TimeoutError):
                    clock.run_async(
                        retry_call_async(
                            hang, ConstantBackOff(delay), attempt_timeout=limit, max_attempts=4
                        )
                    )
        assert clock.monotonic() < start + 20


def test_skipped_waits_of_any_length_add_up(clock):
    with no_wait(), pytest.raises(OSError) as caught:
        retry_call(Script(OSError), ConstantBackOff(1e308), max_attempts=5)
    assert "inf" not in caught.value.__notes__[0]


# Coroutines


def test_an_operation_is_not_called_where_a_cancel_of_the_task_comes_first(clock):
    called = []

    async def operation():
        called.append(1)
        raise OSError

    def cancel(outcome):
        if outcome.attempts == 2:
            asyncio.current_task().cancel()

    async def main():
        token = CancellationToken(clock)
        await retry_call_async(operation, ConstantBackOff(1), token=token, on_attempt=cancel)

    with pytest.raises(asyncio.CancelledError):
        in_loop(main())
    assert called == [1]


def frames_left(main):
    """Return how many objects that ``main`` marks live on without the collector."""
    gc.collect()
    gc.disable()
    try:
        marks = asyncio.run(main())
        return sum(mark() is not None for mark in marks)
    finally:
        gc.enable()


class Mark:
    pass


def test_a_cut_attempt_leaves_no_cycle(clock):
    async def main():
        marks = []

        async def hang():
            mark = Mark()
            marks.append(weakref.ref(mark))
            await asyncio.sleep(100)

        for _ in range(3):
            try:
                await retry_call_async(hang, ZeroBackOff(), attempt_timeout=1, max_attempts=2)
            except TimeoutError:
                pass
        return marks

    assert frames_left(main) == 0


def test_a_scope_leaves_no_cycle(clock):
    async def main():
        marks = []

        async def hang():
            mark = Mark()
            marks.append(weakref.ref(mark))
            await asyncio.sleep(100)

        try:
            async with CancellationToken(clock).child(timeout=1).scope():
                await hang()
        except DeadlineExceeded:
            pass
        return marks

    assert frames_left(main) == 0


@pytest.mark.parametrize("options", [{}, {"notify": lambda *_: None}])
def test_an_interrupted_run_leaves_no_cycle(clock, options):
    async def main():
        marks = []

        class Failure(Exception):
            def __init__(self):
                marks.append(weakref.ref(self))

        async def fail():
            raise Failure

        task = asyncio.ensure_future(retry_call_async(fail, ConstantBackOff(10), **options))
        await asyncio.sleep(1)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass
        del task
        return marks

    assert frames_left(main) == 0


def test_a_hedge_returns_what_comes_in_spite_of_the_cut(clock):
    async def stubborn():
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            return 7

    async def at_once():
        return 8

    assert clock.run_async(hedge_call_async(stubborn, StopBackOff(), timeout=5)) == 7
    assert clock.run_async(hedge_call_async(at_once, StopBackOff(), timeout=0)) == 8


# Budgets and timers


def test_the_smallest_cost_counts():
    budget = RetryBudget(1e-9, 0, 4e-10)
    assert [budget.try_acquire() for _ in range(3)].count(True) <= 2


def test_a_timer_that_measures_a_wait_refuses_another(clock):
    class Never:
        def __init__(self):
            self.c = Channel(1)

        def start(self, delay):
            pass

        def stop(self):
            pass

    timer, token = Never(), CancellationToken(clock)
    ended = []

    def first():
        try:
            retry_call(Script(OSError), ConstantBackOff(1), timer=timer, token=token)
        except Cancelled as error:
            ended.append(error)

    thread = threading.Thread(target=first)
    thread.start()
    clock.sleep(1)
    with pytest.raises(RuntimeError, match="another run"):
        retry_call(Script(OSError), ConstantBackOff(1), timer=timer)
    token.cancel()
    thread.join()
    assert len(ended) == 1


@no_wait()
async def decorated():
    return await retry_call_async(Script(OSError, 7).in_loop, ConstantBackOff(5))


@no_wait()
def decorated_plain():
    return retry_call(Script(OSError, 7), ConstantBackOff(5))


def test_no_wait_decorates_functions_of_both_kinds(clock):
    assert (clock.run_async(decorated()), decorated_plain()) == (7, 7)
    assert now() == 0
