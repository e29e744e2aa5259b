"""``cancel_on_signals``: which signals, the handlers before and after, and loops that run."""

import asyncio
import contextlib
import errno
import os
import signal
import socket
import sys
import threading
from pathlib import Path

import pytest

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    SystemClock,
    cancel_on_signals,
)
from backoff_ticker.cancellation import _signals
from tests.helpers import PATIENCE, SetClock, collect_garbage, eventually, in_thread
from tests.stress.places import Interrupted, each_place


@pytest.fixture(autouse=True)
def handlers():
    """Each test must leave the handlers, and the descriptors, as they were."""
    collect_garbage()  # with the files that other tests have left open in it
    mine = signal.valid_signals() - {signal.SIGALRM}  # the limit of each test has that one
    before, descriptors = {number: signal.getsignal(number) for number in mine}, used()
    try:
        yield
        after = {number: signal.getsignal(number) for number in before}
        assert (after, used()) == (before, descriptors)
    finally:
        for number, handler in before.items():
            if handler is not None and signal.getsignal(number) != handler:
                signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_sigint_and_sigterm_cancel_by_default(number):
    with cancel_on_signals() as token:
        assert token.cancelled is False
        signal.raise_signal(number)
        signal.raise_signal(signal.SIGINT)  # is taken too, and changes nothing
        assert (token.cancelled, token.cause) == (True, number.name)
        with pytest.raises(Cancelled, match=number.name):
            token.raise_if_cancelled()


# The previous handlers as well


@pytest.fixture
def calls():
    """What a handler of SIGUSR1 was called with, which is there before the test."""
    made = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: made.append((number, frame)))
    yield made
    signal.signal(signal.SIGUSR1, before)


def test_in_a_chain_the_previous_handler_runs_after_the_cancel(calls):
    before = signal.getsignal(signal.SIGUSR1)
    token = CancellationToken()
    token.on_cancel(lambda: calls.append("cancelled"))
    with cancel_on_signals(signal.SIGUSR1, token=token, chain=True):
        for _ in range(2):
            signal.raise_signal(signal.SIGUSR1)
    assert [call if call == "cancelled" else call[0] for call in calls] == [
        "cancelled",
        signal.SIGUSR1,
        signal.SIGUSR1,
    ]
    assert calls[1][1].f_code is sys._getframe().f_code
    assert signal.getsignal(signal.SIGUSR1) == before


def test_in_a_chain_ctrl_c_cancels_and_interrupts():
    with pytest.raises(KeyboardInterrupt), cancel_on_signals(chain=True) as token:
        signal.raise_signal(signal.SIGINT)
    assert token.cause == "SIGINT"


def test_the_previous_handler_runs_also_if_a_callback_is_interrupted(calls):
    def interrupt():
        raise KeyboardInterrupt

    with cancel_on_signals(signal.SIGUSR1, chain=True) as token:
        token.on_cancel(interrupt)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGUSR1)
    assert len(calls) == 1


def test_the_end_of_a_chain_leaves_a_handler_that_was_set_meanwhile(calls):
    with cancel_on_signals(signal.SIGUSR1, chain=True) as token:
        theirs = cancel_on_signals(signal.SIGUSR1, chain=True)
        later = theirs.__enter__()
    signal.raise_signal(signal.SIGUSR1)
    assert (token.cause, later.cause, len(calls)) == ("SIGUSR1", "SIGUSR1", 1)
    theirs.__exit__()


def test_without_a_chain_the_previous_handler_comes_back_whoever_came_meanwhile(calls):
    before = signal.getsignal(signal.SIGUSR1)
    with cancel_on_signals(signal.SIGUSR1):
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGUSR1) == before
    assert calls == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"token": "stop"}, "token must be a CancellationToken, not 'stop'"),
        ({"chain": 1}, "chain must be a bool, not 1"),
        (
            {"token": CancellationToken(), "clock": SystemClock()},
            "cancel_on_signals() takes a token, which has its clock, or a clock",
        ),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(TypeError) as caught:
        cancel_on_signals(**options)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("chain", [False, True])
@pytest.mark.parametrize("how", ["a with statement", "two of one block", "a loop"])
def test_the_handlers_come_back_wherever_a_signal_handler_raises(how, chain):
    """But not where ``__exit__()``, or the first call in it, is just entered."""
    numbers = signal.SIGUSR1, signal.SIGUSR2
    before = [signal.getsignal(number) for number in numbers]
    descriptors = used()
    left = []

    def enter():
        block = cancel_on_signals(*numbers, chain=chain)
        if how == "a with statement":
            with block:
                assert [signal.getsignal(number) for number in numbers] != before
        elif how == "two of one block":
            with block, block:
                pass
        else:
            with block, asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                runner.get_loop().set_task_factory(None)
                runner.run(CancellationToken().wait_async(0))

    def run(interrupt):
        with contextlib.suppress(Interrupted), interrupt:
            enter()
        interrupt.forget()
        found = [signal.getsignal(number) for number in numbers]
        if (found, used()) != (before, descriptors):
            left.append(interrupt.where.partition(":")[0])
            _signals._entered.clear()
            _signals._loop_wakeup.detach()
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)

    assert each_place(run, all_of_them=True) > 10
    assert left == ["SignalBlock.__exit__", "complete"] * (2 if how == "two of one block" else 1)


def test_blocks_may_be_nested_and_the_inner_one_takes_the_signal():
    with cancel_on_signals(signal.SIGUSR1) as outer:
        with cancel_on_signals(signal.SIGUSR1) as inner:
            signal.raise_signal(signal.SIGUSR1)
            assert (outer.cancelled, inner.cancelled) == (False, True)
        signal.raise_signal(signal.SIGUSR1)
        assert outer.cancelled is True


def test_outside_of_the_main_thread_it_is_a_runtime_error_and_no_handler_changes():
    def enter():
        with cancel_on_signals():
            raise AssertionError("entered")

    with pytest.raises(RuntimeError, match="main thread"):
        in_thread(enter).result(PATIENCE)


@pytest.mark.parametrize("number", [-1, 0, 9999, signal.SIGKILL, signal.SIGSTOP])
def test_what_cannot_be_handled_is_refused_and_no_handler_stays(number):
    with pytest.raises((ValueError, OSError)), cancel_on_signals(signal.SIGUSR1, number):
        raise AssertionError("entered")
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL


def test_the_token_has_the_clock_that_was_given():
    clock = SetClock()
    with cancel_on_signals(clock=clock) as token:
        assert token.clock is clock
        assert isinstance(token, CancellationToken)
    with cancel_on_signals() as token:
        assert token.clock is SystemClock()


@contextlib.contextmanager
def sent_once_asleep(number):
    """Another thread gets a signal once the main thread has slept in its selector for a while."""
    seen = 0

    def slept():
        nonlocal seen
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        asleep = frame is not None and frame.f_code.co_name == "select"
        seen = seen + 1 if asleep else 0
        return seen == 20

    def send():
        eventually(slept, "the sleep in select()")
        signal.pthread_kill(threading.get_ident(), number)

    sender = in_thread(send)
    yield
    sender.result(PATIENCE)


# A signal that does not interrupt what the main thread waits for: it came just before, or the
# system gave it to another thread.


def wakeup_fd():
    current = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(current)
    return current


def used():
    """Return the wake-up descriptor, and how many descriptors there are."""
    return wakeup_fd(), len(list(Path("/dev/fd").iterdir()))


async def wait_in_scope(token):
    with contextlib.suppress(Cancelled):
        async with token.scope():
            await asyncio.get_running_loop().create_future()


async def wait_for_tick(token):
    async for _ in AsyncTicker(ConstantBackOff(3600), token=token):
        pass


async def wait_for_token(token):
    await token.wait_async()


async def wait_once():
    token = CancellationToken()
    asyncio.get_running_loop().call_soon(token.cancel)  # a time-out may have come before the wait
    await token.wait_async()


WAITS = [wait_in_scope, wait_for_tick, wait_for_token]


@pytest.mark.parametrize("wait", WAITS)
def test_a_loop_notices_a_signal_that_another_thread_gets(wait):
    for _ in range(2):  # so a second loop has it too
        with cancel_on_signals(signal.SIGUSR1) as token:
            with sent_once_asleep(signal.SIGUSR1):
                asyncio.run(wait(token.child()))
            assert token.cause == "SIGUSR1"


def test_a_loop_that_is_closed_leaves_the_wake_up_descriptor_to_others():
    before = used()
    with cancel_on_signals(signal.SIGUSR1):
        for _ in range(2):
            with asyncio.Runner() as runner:
                runner.run(wait_once())
                assert wakeup_fd() != -1
            assert used() == before


def test_each_loop_of_a_block_notices_signals_and_so_does_the_outer_block():
    with cancel_on_signals(signal.SIGUSR1) as outer:
        for _ in range(2):
            with cancel_on_signals(signal.SIGUSR2) as token, sent_once_asleep(signal.SIGUSR2):
                asyncio.run(wait_in_scope(token))
        with sent_once_asleep(signal.SIGUSR1):
            asyncio.run(wait_in_scope(outer))


def test_a_block_inside_of_a_running_loop_leaves_nothing_in_it():
    async def main():
        loop = asyncio.get_running_loop()
        for _ in range(2):
            before = used()
            with cancel_on_signals(signal.SIGUSR1) as token, sent_once_asleep(signal.SIGUSR1):
                await wait_in_scope(token)
            assert used() == before
        loop.add_signal_handler(signal.SIGUSR2, print)
        theirs = wakeup_fd()
        with cancel_on_signals(signal.SIGUSR1) as token:
            with sent_once_asleep(signal.SIGUSR1):
                await wait_in_scope(token)
            assert wakeup_fd() == theirs
        assert wakeup_fd() == theirs
        loop.remove_signal_handler(signal.SIGUSR2)

    asyncio.run(main())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_wake_the_loop_of_its_parent():
    async def main(token):
        task = asyncio.create_task(wait_in_scope(token))
        await asyncio.sleep(0)
        assert wakeup_fd() != -1
        child = os.fork()
        if not child:
            os._exit(wakeup_fd() + 1)
        _, status = os.waitpid(child, 0)  # noqa: ASYNC222 - it exits at once
        assert wakeup_fd() != -1
        token.cancel()
        await task
        return os.waitstatus_to_exitcode(status)

    with cancel_on_signals(signal.SIGUSR1) as token:
        assert asyncio.run(main(token)) == 0


def test_a_loop_that_cannot_watch_a_socket_waits_all_the_same():
    class WithoutReaders(asyncio.SelectorEventLoop):
        """As the default one on Windows."""

        def add_reader(self, fd, callback, *args):
            raise NotImplementedError

        def remove_reader(self, fd):
            raise NotImplementedError

        _add_reader = asyncio.SelectorEventLoop._add_reader
        _remove_reader = asyncio.SelectorEventLoop._remove_reader

    async def main(token):
        asyncio.get_running_loop().call_later(0.01, token.cancel)
        await wait_in_scope(token)

    with (
        cancel_on_signals(signal.SIGUSR1) as token,
        asyncio.Runner(loop_factory=WithoutReaders) as runner,
    ):
        runner.run(main(token))


@pytest.mark.parametrize("missing", ["socketpair", "add_reader"])
def test_a_loop_waits_all_the_same_where_no_file_descriptors_are_free(monkeypatch, missing):
    """The first wait after that, with the same loop, gets the sockets."""

    def fail(*_):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def main(token):
        loop = asyncio.get_running_loop()
        with monkeypatch.context() as patched:
            patched.setattr(socket if missing == "socketpair" else loop, missing, fail)
            assert await token.child().wait_async(0.001) is False
            assert used() == before
        with sent_once_asleep(signal.SIGUSR1):
            await wait_in_scope(token)

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.get_loop()
        before = used()
        with cancel_on_signals(signal.SIGUSR1) as token:
            runner.run(main(token))
        assert token.cause == "SIGUSR1"
        assert used() == before


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_in_a_chain_a_signal_without_a_handler_only_cancels(handler):
    before = signal.signal(signal.SIGUSR2, handler)
    try:
        with cancel_on_signals(signal.SIGUSR2, chain=True) as token:
            signal.raise_signal(signal.SIGUSR2)
        assert (token.cause, signal.getsignal(signal.SIGUSR2)) == ("SIGUSR2", handler)
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_a_real_time_signal_without_a_name_cancels_too():
    number = signal.SIGRTMIN + 1
    with cancel_on_signals(number) as token:
        signal.raise_signal(number)
        assert token.cancelled is True
