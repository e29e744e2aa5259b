"""One attempt of ``run``: a command in a process group of its own, as shells run their jobs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from ..cancellation import CancellationToken, any_of
from ..policies import ExponentialBackOff
from ..tickers import AsyncTicker
from ._output import LineSearch, pass_on
from ._terminal import stop_our_group

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Sequence

    from ._terminal import Terminal

_NUMBER = "BACKOFF_TICKER_ATTEMPT"
"""The variable in which a command finds the number of its attempt."""

GRACE = 5.0
"""Seconds that processes get to end after a signal."""

_POLLS = ExponentialBackOff(
    0.001, randomization_factor=0.0, max_interval=0.1, max_elapsed_time=None
)
"""How often to check whether a process group is empty: the end of a process that is not our child
is no event."""


class Process:
    """A running command; it inherits all our descriptors, not just the standard ones.

    It belongs to the event loop that runs in the main thread.

    Args:
        command: The program and its arguments; no shell reads them.
        terminal: Lent to the command until it ends.
        mask: The signals that are blocked in the command.
        until_output: What to search its stdout for, which then goes through a pipe; None: it
            inherits our stdout.
        attempt: Its number, from 1, for the environment of the command.

    Raises:
        OSError: The command cannot be executed.
    """

    def __init__(
        self,
        command: Sequence[str],
        terminal: Terminal,
        mask: Iterable[int],
        until_output: re.Pattern[str] | None,
        attempt: int,
    ) -> None:
        self._terminal = terminal
        self._exited = CancellationToken()
        self._ending = False
        self._hang_up: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        # Any handler, even for SIGCHLD alone, makes every signal wake the loop.
        loop.add_signal_handler(signal.SIGCHLD, self._collect)
        if signal.getsignal(signal.SIGTSTP) is not signal.SIG_IGN:
            loop.add_signal_handler(signal.SIGTSTP, self._suspend)

        def prepare() -> None:
            """Prepare the new process, in which all signals are blocked, before ``exec``."""
            for number in signal.valid_signals():
                if callable(signal.getsignal(number)):
                    # Ignoring a signal drops a pending one, such as a Ctrl-Z for our group. We
                    # got it, too, and pass it on; here it would stop a process we wait for.
                    signal.signal(number, signal.SIG_IGN)
                    signal.signal(number, signal.SIG_DFL)
            # After that: what is typed from here on comes to this process alone.
            if terminal.lent:
                terminal.lend(os.getpid())
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

        terminal.lent = terminal.is_available()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            # Our own descriptors are not inheritable; close_fds would close only the caller's.
            self._process = subprocess.Popen(  # noqa: S603 - no shell reads the arguments
                list(command),
                bufsize=0,
                stdout=None if until_output is None else subprocess.PIPE,
                close_fds=False,
                env={**os.environ, _NUMBER: str(attempt)},
                process_group=0,
                preexec_fn=prepare,  # noqa: PLW1509 - there are no threads
            )
        except OSError:
            self._exited.cancel()
            terminal.take_back()
            loop.remove_signal_handler(signal.SIGTSTP)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        self._group = self._process.pid
        self._search: LineSearch | None = None
        self._copying: asyncio.Task[None] | None = None
        if until_output is not None and self._process.stdout is not None:
            self._search = LineSearch(until_output)
            self._copying = asyncio.create_task(
                pass_on(self._process.stdout, self._search, self._exited)
            )

    @property
    def code(self) -> int:
        """Its exit code once it has ended; -N: signal N killed it."""
        code: int = self._process.returncode
        return code

    @property
    def matched(self) -> bool | None:
        """Whether its output matched; None: it is not searched."""
        return None if self._search is None else self._search.matched

    async def wait(self, timeout: float | None) -> bool:
        """Wait until it has ended and its output is passed on.

        Returns:
            False if it has not ended after ``timeout`` seconds.

        Raises:
            OSError: Its output cannot be passed on.
        """
        if not await self._exited.wait_async(timeout):
            return False
        if self._copying is not None:
            await asyncio.wait({self._copying})
            self._copying.result()
        return True

    async def end(self, number: int) -> None:
        """Send a signal to the group and make sure that the whole group ends.

        Once the command has ended, or after ``GRACE`` seconds, remaining processes get SIGTERM, and
        SIGKILL after that. If the command had ended before, its background processes stay.
        """
        self._ending = True
        if not self._exited.cancelled:
            if number != signal.SIGTERM:
                self._send(number)
                await self._exited.wait_async(GRACE)
            self._send(signal.SIGTERM)
            if not await self._group_has_ended():
                self._send(signal.SIGKILL)
                await self._exited.wait_async()
        if self._copying is not None:
            done, _ = await asyncio.wait({self._copying}, timeout=GRACE)
            for task in done:
                task.exception()  # retrieve it, or asyncio would report it

    async def _group_has_ended(self) -> bool:
        """Wait up to ``GRACE`` seconds until no process is left in the group."""
        limit = CancellationToken().child(timeout=GRACE)
        await any_of(self._exited, limit).wait_async()
        async for _ in AsyncTicker(_POLLS, token=limit):
            if self._exited.cancelled and self._group_is_empty():
                return True
        return False

    def _group_is_empty(self) -> bool:
        """Whether only dead processes are left in the group.

        Those can stay for long if the first process of a container does not reap orphans.
        """
        try:
            while os.waitpid(-self._group, os.WNOHANG)[0]:
                pass  # we may be that process
        except ChildProcessError:
            pass
        try:
            os.killpg(self._group, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass  # a process of another user, such as one started by sudo
        states = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                # After the name, which may contain anything: state, parent, group.
                state, _, group = path.read_text(errors="replace").rpartition(")")[2].split()[:3]
            except OSError:
                continue  # it has just ended
            if int(group) == self._group:
                states.append(state)
        return bool(states) and set(states) <= {"Z", "X"}

    def close(self) -> None:
        """Kill the command if it still runs, and take the terminal back."""
        if not self._exited.cancelled:
            self._send(signal.SIGKILL)
        if self._copying is not None:
            self._copying.cancel()
        self._terminal.take_back(restore_modes=True)
        # Outside an attempt Ctrl-Z just stops us.
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTSTP)

    def _collect(self) -> None:
        """Note whether the command has ended or stopped; called at each SIGCHLD."""
        while not self._exited.cancelled:
            pid, status = os.waitpid(self._group, os.WNOHANG | os.WUNTRACED)
            if not pid:
                return
            if os.WIFSTOPPED(status):
                self._stopped(os.WSTOPSIG(status))
            else:
                self._process.returncode = os.waitstatus_to_exitcode(status)
                self._terminal.take_back(restore_modes=self._ending or self.code < 0)
                self._exited.cancel()

    def _stopped(self, number: int) -> None:
        """Handle a stop of the command as the shell that waits for us expects."""
        if self._ending or not self._terminal.exists:
            return  # another process has stopped it, and will continue it
        needs_terminal = number in (signal.SIGTTIN, signal.SIGTTOU)
        if needs_terminal and self._terminal.lend(self._group):
            self._send(signal.SIGCONT)
        elif needs_terminal or self._terminal.lent:
            stopped = self._suspend()
            if needs_terminal and not stopped:
                # No shell can ever give us the terminal. In that case, an orphaned group that is
                # stopped, the kernel sends SIGHUP; so do we.
                self._hang_up = asyncio.create_task(self.end(signal.SIGHUP))

    def _suspend(self) -> bool:
        """Stop the command and our group, as Ctrl-Z does; go on when a shell continues us."""
        if self._exited.cancelled:
            return stop_our_group()
        self._send(signal.SIGTSTP)
        self._terminal.take_back()
        stopped = stop_our_group()
        if not self._terminal.in_pipeline:
            self._terminal.lend(self._group)
        self._send(signal.SIGCONT)
        return stopped

    def _send(self, number: int) -> None:
        """Send a signal to the group; processes that are stopped are continued to get it."""
        try:
            os.killpg(self._group, number)
            if number != signal.SIGTSTP:
                os.killpg(self._group, signal.SIGCONT)
        except (ProcessLookupError, PermissionError):
            pass  # no process is left, or none that we may signal
