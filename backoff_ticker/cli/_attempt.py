"""One attempt of `run`: the command, its terminal and its output, from its start to its end."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from .._errors import DeadlineExceeded
from ..cancellation import CancellationToken, any_of
from ._child import Child
from ._outcome import Outcome
from ._output import Output, somebody_reads
from ._search import SearchProcess
from ._terminal import stop_ourselves

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    from ._terminal import Terminal

_ASKS = (signal.SIGTTIN, signal.SIGTTOU)
"""What stops a command that wants the terminal."""


class Attempt:
    """A command that runs once.

    Args:
        command: The program and its arguments.
        terminal: What to lend it.
        until_output: What its stdout must match; None: it must exit with 0.
        timeout: Seconds until it is ended; None: no limit.
        grace: Seconds that its processes have to end after each signal.

    Raises:
        OSError: It cannot be executed.
    """

    def __init__(
        self,
        command: Sequence[str],
        terminal: Terminal,
        until_output: re.Pattern[str] | None,
        timeout: float | None,
        grace: float,
    ) -> None:
        self._terminal = terminal
        self._timeout = timeout
        self._grace = grace
        self._hung_up = False
        self._ending = False
        self._typed = 0
        self._output: Output | None = None
        search = None if until_output is None else SearchProcess(until_output)
        try:
            self._child = Child(command, piped=search is not None, on_stop=self._stopped)
        except BaseException:
            if search is not None:
                search.close()
            raise
        if search is not None and self._child.stdout is not None:
            self._output = Output(self._child.stdout, search, terminal)
        terminal.offer(self._child.group)

    # What signals tell, called by the event loop

    def collect(self) -> None:
        """Find out what has become of the command."""
        self._child.collect()
        if self._child.exited.cancelled:
            self._let_go(repair=self._ending or self._child.killed_by != 0)

    def _let_go(self, *, repair: bool) -> None:
        """Take the terminal from the group: what is typed from now on is for us."""
        self._terminal.take_back(repair=repair)
        self._typed = self._terminal.typed() or self._typed

    def send(self, number: int) -> None:
        """Pass a signal on to the command's group."""
        self._child.send(number)

    def suspend(self) -> None:
        """Stop, the command too: Ctrl-Z was typed while the terminal was ours."""
        self._child.send(signal.SIGTSTP)
        self._stop(signal.SIGTSTP, group=False)

    def resume(self) -> None:
        """Continue the command after somebody has continued us."""
        if not self._child.exited.cancelled:
            self._terminal.offer(self._child.group)
        self._child.send(signal.SIGCONT)

    def _stopped(self, number: int) -> None:
        """Do as the shell that waits for us expects of a command that has stopped."""
        if not self._terminal.exists:
            return  # whoever stopped it will continue it
        asks = number in _ASKS
        if asks and self._terminal.lend(self._child.group):
            self._child.send(signal.SIGCONT)
        elif (asks or self._terminal.lent) and not self._ending:
            self._stop(number, group=True)

    def _stop(self, number: int, *, group: bool) -> None:
        self._terminal.take_back()
        ours = signal.SIGTSTP if number == signal.SIGSTOP else number
        if stop_ourselves(ours, group=group) or number == signal.SIGSTOP:
            return  # `resume` is called, or whoever stopped the command will continue it
        # Without a shell Ctrl-Z does nothing, and nobody will ever give us the terminal: what
        # is stopped then gets what the kernel sends to stopped groups that were orphaned.
        if number != signal.SIGTSTP:
            self._child.send(signal.SIGKILL if self._hung_up else signal.SIGHUP)
            self._hung_up = True
        self.resume()

    # From its start to its end

    async def run(self, token: CancellationToken) -> Outcome:
        """Wait until it has ended, or end it.

        Whoever is left of its group is ended with it where it took too long or was interrupted,
        and left alone where it ended by itself.

        Args:
            token: Ends it. If the cause is the name of a signal, that was passed on already.

        Raises:
            OSError: Its output has found no room, such as on a full disk.
        """
        child = self._child
        limit = token if self._timeout is None else token.child(timeout=self._timeout)
        copying = None
        if self._output is not None:
            copying = asyncio.ensure_future(self._output.pass_on(child.exited))
        try:
            await any_of(child.exited, limit).wait_async()
            in_time = child.exited.cancelled
            timed_out = not in_time and isinstance(limit.cause, DeadlineExceeded)
            self._ending = True
            signalled = isinstance(limit.cause, str)
            if self._output is not None and (signalled or not in_time):
                self._output.search.close()  # whatever it finds, it comes too late
            if timed_out:
                await child.end(None, self._grace)
            elif isinstance(limit.cause, str):
                await child.end(signal.Signals[limit.cause], self._grace)
            elif self._outcome().interrupted:
                await child.end(signal.SIGINT, self._grace)
            if self._output is not None:
                # Not for ever, should the run have to end while nobody reads.
                patience = CancellationToken().child(timeout=self._grace)
                limit = patience if token.cancelled or self._typed else token
                await any_of(self._output.done, limit).wait_async()
        finally:
            if not child.exited.cancelled:
                child.send(signal.SIGKILL)
            self._let_go(repair=True)
            if self._output is not None and copying is not None:
                self._output.search.close()
                copying.cancel()
                await asyncio.wait({copying})
        if self._output is not None and self._output.failed is not None:
            raise self._output.failed
        return Outcome.timed_out().after(self._typed) if timed_out else self._outcome()

    def _outcome(self) -> Outcome:
        matched = None if self._output is None else self._output.search.matched
        code, killed_by = self._child.code, self._child.killed_by
        outcome = Outcome.ended(code, killed_by, matched=matched, read=somebody_reads())
        return outcome.after(self._typed)
