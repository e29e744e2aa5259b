"""One attempt of ``run``: a command, and the end of all that it has started.

With a controlling terminal the command stays in our process group, as in a script: the kernel and
the shell see to Ctrl-C, Ctrl-Z, ``fg`` and who may read. Without one it has a group of its own.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

from .. import ExponentialBackOff
from ..cancellation import CancellationToken, any_of
from ..tickers import AsyncTicker
from ._output import LineSearch, pass_on

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

GRACE = 5.0  # seconds that processes get to end after a signal

# How often to look for processes that are left: only the end of a child of ours is an event.
_POLLS = ExponentialBackOff(
    0.01, randomization_factor=0.0, multiplier=2.0, max_interval=0.2, max_elapsed_time=None
)


class Process:
    """A running command, of the event loop that runs in the main thread.

    It inherits all our descriptors; but if its stdout is searched, that goes through a pipe. With
    ``on_terminal`` it stays in our process group. An OSError says that it cannot be executed.
    """

    code: int  # its exit code once it has ended; -N: signal N killed it

    def __init__(
        self,
        command: Sequence[str],
        until_output: re.Pattern[str] | None,
        attempt: int,
        *,
        on_terminal: bool,
    ) -> None:
        self._has_group = not on_terminal
        self._exited = CancellationToken()
        # As in system(3): a terminal sends these to the command, too, which may handle them and go
        # on. They are not ignored, or the command would inherit that.
        self._left_to_it = {
            number: signal.signal(number, lambda *_: None)
            for number in (signal.SIGINT, signal.SIGQUIT)
            if on_terminal and callable(signal.getsignal(number))
        }
        loop = asyncio.get_running_loop()
        # Any handler, even for SIGCHLD alone, makes every signal wake the loop.
        loop.add_signal_handler(signal.SIGCHLD, self._collect)
        try:
            # Our own descriptors are not inheritable; close_fds would close only the caller's.
            self._process = subprocess.Popen(  # noqa: S603 - no shell reads the arguments
                list(command),
                bufsize=0,
                stdout=None if until_output is None else subprocess.PIPE,
                close_fds=False,
                env={**os.environ, "BACKOFF_TICKER_ATTEMPT": str(attempt)},
                process_group=0 if self._has_group else None,
            )
        except OSError:
            self._note_exit()  # the process that failed to become the command ends with SIGCHLD
            raise
        self._known = {self._process.pid}  # the command, and what it was seen to have started
        self._search: LineSearch | None = None
        self._copying: asyncio.Task[None] | None = None
        if until_output is not None and self._process.stdout is not None:
            self._search = LineSearch(until_output)
            self._copying = asyncio.create_task(
                pass_on(self._process.stdout, self._search, self._exited)
            )

    @property
    def matched(self) -> bool | None:
        """Whether its output matched; None: it is not searched."""
        return None if self._search is None else self._search.matched

    async def wait(self, timeout: float | None) -> bool:
        """Wait until it has ended and its output is passed on; False: it has not in time."""
        if not await self._exited.wait_async(timeout):
            return False
        if self._copying is not None:
            await asyncio.wait({self._copying})
            self._copying.result()
        return True

    async def end(self, number: int) -> None:
        """Send a signal to the command and all that it has started, and make sure that they end.

        Once the command has ended, or after ``GRACE`` seconds, remaining processes get SIGTERM, and
        SIGKILL after that. If the command had ended before, its background processes stay.
        """
        if not self._exited.cancelled:
            if number != signal.SIGTERM:
                self._send(number)
                await self._exited.wait_async(GRACE)
            self._send(signal.SIGTERM)
            if not await self._all_have_ended():
                self._send(signal.SIGKILL)
                await self._exited.wait_async()
        if self._copying is not None:
            done, _ = await asyncio.wait({self._copying}, timeout=GRACE)
            for task in done:
                task.exception()  # retrieve it, or asyncio would report it

    async def _all_have_ended(self) -> bool:
        """Wait up to ``GRACE`` seconds until no process is left."""
        limit = CancellationToken().child(timeout=GRACE)
        await any_of(self._exited, limit).wait_async()
        async for _ in AsyncTicker(_POLLS, token=limit):
            if self._exited.cancelled and not self._living():
                return True
        return False

    def _living(self) -> set[int]:
        """Return what is left of the processes. Dead ones may stay listed as zombies."""
        if self._has_group and not _exists(-self._process.pid):
            return set()
        rows = _processes()
        if not rows:  # there is no ``ps``
            return {self._process.pid} if self._has_group or not self._exited.cancelled else set()
        if self._has_group:
            return {pid for pid, _, group in rows if group == self._process.pid}
        return self._known & {pid for pid, _, _ in rows}

    def close(self) -> None:
        """Kill the command if it still runs."""
        if not self._exited.cancelled:
            self._send(signal.SIGKILL)
            self._note_exit()
        if self._copying is not None:
            self._copying.cancel()

    def _collect(self) -> None:
        """Collect what has ended; called at each SIGCHLD. As PID 1 we are the parent of orphans."""
        with suppress(ChildProcessError):  # nothing is left
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                if not self._exited.cancelled and pid == self._process.pid:
                    self._process.returncode = self.code = os.waitstatus_to_exitcode(status)
                    self._known.discard(pid)  # the number may be that of another process soon
                    self._note_exit()

    def _note_exit(self) -> None:
        while self._left_to_it:
            signal.signal(*self._left_to_it.popitem())
        self._exited.cancel()

    def _send(self, number: int) -> None:
        """Send a signal to all processes; those that are stopped are continued to get it."""
        if self._has_group:
            targets = {-self._process.pid}
        else:
            rows, more = _processes(), self._known
            while more:
                more = {pid for pid, parent, _ in rows if parent in more} - self._known
                self._known |= more
            targets = self._known
        for target in targets:
            with suppress(ProcessLookupError, PermissionError):  # it ended, or became another user
                os.kill(target, number)
                os.kill(target, signal.SIGCONT)


def _exists(target: int) -> bool:
    """Whether there is a process, or a process group if the number is negative."""
    try:
        with suppress(PermissionError):  # of another user, such as one started by sudo
            os.kill(target, 0)
    except ProcessLookupError:
        return False
    return True


def _processes() -> list[tuple[int, int, int]]:
    """Return the number, the parent and the group of each process that is not dead."""
    command = ["ps", "-A", "-o", "stat=,pid=,ppid=,pgid="]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout  # noqa: S603 - no input
    except OSError:  # such as in a small container
        return []
    rows = (line.split() for line in listed.splitlines())
    return [
        (int(pid), int(parent), int(group))
        for state, pid, parent, group in rows
        if state[0] not in "ZX"
    ]
