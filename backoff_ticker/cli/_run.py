"""A command again and again, until it succeeds."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from .._errors import CloseReason, TickerClosed
from .._validation import as_count, as_seconds, safe_repr
from ..cancellation import CancellationToken
from ..tickers import AsyncTicker, Pace
from ._attempt import Attempt
from ._errors import complain
from ._exit_codes import INTERRUPTED, NOT_EXECUTABLE, NOT_FOUND, TIMED_OUT, of_signal
from ._handlers import handling
from ._outcome import Rules
from ._progress import Progress
from ._terminal import Terminal, stop_ourselves

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator, Sequence

    from ..policies import BackOff
    from ..tickers import Tick
    from ._outcome import Outcome

_LAST_STANDARD = 2
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def run(  # noqa: PLR0913 - the options of the command
    command: Sequence[str],
    backoff: BackOff,
    *,
    max_attempts: int | None = None,
    timeout: float | None = None,
    attempt_timeout: float | None = None,
    on_exit_code: frozenset[int] | None = None,
    until_output: re.Pattern[str] | None = None,
    quiet: bool = False,
    grace: float = 5.0,
) -> int:
    """Run ``command`` until it succeeds, as ``backoff`` says; return the exit status.

    Each attempt is a process group of its own, with the descriptors of this process and, if this
    process has it, the terminal. A delay counts from the end of an attempt. SIGINT, SIGTERM,
    SIGHUP and SIGQUIT are passed on to the group and end the run; ``grace`` seconds later the
    group gets SIGTERM, and again so much later SIGKILL. An attempt that takes too long gets SIGTERM
    first. Processes that a command leaves behind as it ends by itself are left alone.

    No attempt follows a failed one in which SIGINT or SIGQUIT was typed or the terminal was closed,
    whatever the command made of it; nor one that SIGPIPE killed when nobody reads our stdout.

    Args:
        command: The program and its arguments; no shell reads them.
        backoff: The policy; a copy of it runs.
        max_attempts: How many attempts there are at the most: >= 1; None: no limit.
        timeout: Seconds >= 0 for everything; None: no limit. No wait is begun that would pass it.
        attempt_timeout: Seconds >= 0 for each attempt; None: no limit.
        on_exit_code: The exit codes (128 + n for signal n) after which there is another attempt;
            any other ends the run. None: all but 0. Attempts that timed out, or that exited with 0
            without a match, are always followed by another.
        until_output: Success is a line of stdout that this matches, whatever the exit code; None:
            success is an exit code of 0.
        quiet: Whether to say nothing on stderr but why a command cannot be executed.
        grace: Seconds >= 0 that processes have to end after a signal.

    Returns:
        The exit code of the last attempt, 128 + n if signal n killed it, 1 if it exited with 0
        without a match. 124: it, or everything, took too long; 126, 127: it cannot be executed,
        or not be found; 128 + n: the run was ended by signal n.

    Raises:
        TypeError, ValueError: An argument is not what it should be; nothing was run.
        RuntimeError: Not called in the main thread, or called in an event loop.
        OSError: The output that is searched has found no room, such as on a full disk.
        Exception: What the policy failed with.
    """
    if isinstance(command, str) or not command:
        raise ValueError(f"command must be a program and its arguments, not {safe_repr(command)}")
    if max_attempts is not None and as_count("max_attempts", max_attempts) == 0:
        raise ValueError("max_attempts must be an int >= 1 or None, not 0")
    grace = as_seconds("grace", grace)
    seconds = None if attempt_timeout is None else as_seconds("attempt_timeout", attempt_timeout)
    interrupt = CancellationToken()
    token = (
        interrupt if timeout is None else interrupt.child(timeout=as_seconds("timeout", timeout))
    )
    ticker = AsyncTicker(backoff, token=token, pace=Pace.RETURN)
    with _no_gaps(), closing(Terminal()) as terminal:
        attempt = partial(Attempt, command, terminal, until_output, seconds, grace)
        progress = Progress(max_attempts, quiet=quiet)
        attempts = _Attempts(attempt, ticker, token, Rules(max_attempts, on_exit_code), progress)
        try:
            with asyncio.Runner() as runner:
                return runner.run(attempts.run(interrupt))
        except KeyboardInterrupt:
            return INTERRUPTED  # it came before the loop heard of signals, or after


class _Attempts:
    """The attempts of one run."""

    def __init__(
        self,
        new_attempt: Callable[[], Attempt],
        ticker: AsyncTicker,
        token: CancellationToken,
        rules: Rules,
        progress: Progress,
    ) -> None:
        self._new_attempt = new_attempt
        self._ticker = ticker
        self._token = token
        self._rules = rules
        self._progress = progress
        self._running: Attempt | None = None

    async def run(self, interrupt: CancellationToken) -> int:
        """Make attempts; a signal cancels ``interrupt`` with its name. Return the exit status.

        Signals are handled the whole time: Ctrl-Z must not stop us as an attempt starts, nor while
        the terminal changes hands.
        """

        def end(number: signal.Signals) -> None:
            interrupt.cancel(number.name)
            if self._running is not None:
                self._running.send(number)

        def collect() -> None:
            if self._running is not None:
                self._running.collect()

        def suspend() -> None:
            if self._running is not None:
                self._running.suspend()
            else:
                stop_ourselves(signal.SIGTSTP, group=False)

        def resume() -> None:
            if self._running is not None:
                self._running.resume()

        callbacks: dict[signal.Signals, Callable[[], object]]
        callbacks = {number: partial(end, number) for number in _ENDINGS}
        callbacks |= {signal.SIGCHLD: collect, signal.SIGTSTP: suspend, signal.SIGCONT: resume}
        with handling(callbacks):
            return await self._repeat()

    async def _repeat(self) -> int:
        tick = await self._ticker.receive()
        while not self._token.cancelled:
            self._progress.started(tick.number)
            try:
                self._running = self._new_attempt()
            except OSError as error:
                return _cannot_run(error)
            try:
                outcome = await self._running.run(self._token)
            finally:
                self._running = None
            if isinstance(self._token.cause, str) or (
                self._token.cancelled and not outcome.succeeded
            ):
                break
            status = self._judge(outcome, tick.number)
            if status is not None:
                return status
            try:
                tick = await self._next()
            except TickerClosed:
                break
        return self._cut_short()

    def _judge(self, outcome: Outcome, number: int) -> int | None:
        """Tell the ticker how it went; return the exit status if it was the last attempt."""
        if outcome.succeeded:
            self._ticker.success()
            self._progress.succeeded(number)
            return outcome.code
        self._ticker.failure()
        status = outcome.code
        why = self._rules.why_last(outcome, number)
        delay, left = self._ticker.next_delay or 0.0, self._token.remaining()
        if why is None and self._ticker.close_reason is CloseReason.FAILED:
            return None  # asked for the next tick, the ticker raises what the policy raised
        if why is None and self._ticker.close_reason is CloseReason.EXHAUSTED:
            why = "giving up"
        if why is None and left is not None and delay > left:
            why, status = "no time for another attempt", TIMED_OUT
        if why is None:
            self._progress.failed(number, outcome.how, delay)
            return None
        self._progress.gave_up(number, outcome.how, why)
        return status

    async def _next(self) -> Tick:
        monotonic = self._token.clock.monotonic
        due = monotonic() + (self._ticker.next_delay or 0.0)
        while True:
            try:
                return await self._ticker.receive(self._progress.waiting(due - monotonic()))
            except TimeoutError:
                continue  # the countdown goes on

    def _cut_short(self) -> int:
        """Say that the run ends before its time; return the exit status."""
        cause = self._token.cause
        if isinstance(cause, str):
            self._progress.ended(f"ended by {cause}")
            return of_signal(signal.Signals[cause])
        self._progress.ended("timed out")
        return TIMED_OUT


def _cannot_run(error: OSError) -> int:
    """Say why nothing was run; return the exit status."""
    not_found = isinstance(error, FileNotFoundError)
    reason = "command not found" if not_found else error.strerror
    name = "a command" if error.filename is None else shlex.quote(os.fsdecode(error.filename))
    complain(f"cannot run {name}: {reason}")
    return NOT_FOUND if not_found else NOT_EXECUTABLE


@contextmanager
def _no_gaps() -> Iterator[None]:
    """Keep descriptors of ours off 0, 1 and 2 where the caller closed them.

    The command finds them closed all the same.
    """
    fillers = []
    try:
        while (filler := os.open(os.devnull, os.O_RDWR)) <= _LAST_STANDARD:
            fillers.append(filler)
        os.close(filler)
        yield
    finally:
        for filler in fillers:
            os.close(filler)
