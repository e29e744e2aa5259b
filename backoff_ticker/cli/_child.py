"""The process of one attempt, and the process group that it leads."""

from __future__ import annotations

import os
import signal
import subprocess
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..cancellation import CancellationToken, any_of
from ..policies import ExponentialBackOff
from ..tickers import AsyncTicker
from ._exit_codes import of_signal
from ._signals import ALL, blocked, forget_handlers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import IO

_LOOKS = ExponentialBackOff(
    0.001, randomization_factor=0.0, max_interval=0.1, max_elapsed_time=None
)
"""How often to look whether others of the group are gone: no event tells of others' children."""


class Child:
    """A running command.

    Its descriptors, the standard ones and any others, are those of this process. It belongs to
    the event loop; ``collect`` must be called there at each SIGCHLD.

    Args:
        command: The program and its arguments; no shell reads them.
        piped: Whether its stdout goes into a pipe instead.
        on_stop: Called with the number of the signal that stopped it.

    Attributes:
        exited: Cancelled once it has ended.
        group: The number of its process group, and its own.

    Raises:
        OSError: It cannot be executed.
    """

    def __init__(
        self, command: Sequence[str], *, piped: bool, on_stop: Callable[[int], object]
    ) -> None:
        # Nothing of ours is inheritable, so close_fds would only close what the caller opened.
        with blocked(ALL) as mask:
            self._process = subprocess.Popen(  # noqa: S603 - an argument list is not read by a shell
                list(command),
                bufsize=0,
                stdout=subprocess.PIPE if piped else None,
                close_fds=False,
                process_group=0,
                preexec_fn=partial(_hear_signals, mask),  # noqa: PLW1509 - there are no threads
            )
        self._on_stop = on_stop
        self.group = self._process.pid
        self.exited = CancellationToken()

    @property
    def killed_by(self) -> int:
        """The signal that ended it; 0: none did."""
        return max(0, -(self._process.returncode or 0))

    @property
    def code(self) -> int:
        """Its exit code as shells say it, once it has ended."""
        return of_signal(self.killed_by) if self.killed_by else self._process.returncode or 0

    @property
    def stdout(self) -> IO[bytes] | None:
        """The end of the pipe to read from, unbuffered."""
        return self._process.stdout

    def collect(self) -> None:
        """Find out what has become of it."""
        while not self.exited.cancelled:
            pid, status = os.waitpid(self.group, os.WNOHANG | os.WUNTRACED)
            if not pid:
                return
            if os.WIFSTOPPED(status):
                self._on_stop(os.WSTOPSIG(status))
            else:
                self._process.returncode = os.waitstatus_to_exitcode(status)
                self.exited.cancel()

    def send(self, number: int) -> None:
        """Send a signal to the whole group, unless the command has ended."""
        if not self.exited.cancelled:
            self._send(number)

    def _send(self, number: int) -> None:
        """Send a signal to the whole group; whoever is stopped is continued to hear it."""
        self._kill(number)
        if number not in (signal.SIGKILL, signal.SIGTSTP, signal.SIGCONT):
            self._kill(signal.SIGCONT)

    def _kill(self, number: int) -> None:
        try:
            os.killpg(self.group, number)
        except (ProcessLookupError, PermissionError):
            pass  # nobody is left, or nobody whom we may signal

    def _anybody_left(self) -> bool:
        """Whether a process of the group is still there."""
        if not self.exited.cancelled:
            return True
        try:
            while os.waitpid(-self.group, os.WNOHANG)[0]:
                pass  # as the first process of a container we inherit orphans
        except ChildProcessError:
            pass
        try:
            os.killpg(self.group, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # such as one that runs as another user
        return not _all_zombies(self.group)

    async def end(self, passed_on: int | None, grace: float) -> None:
        """Wait until the whole group has ended, and see to it.

        First SIGTERM, then SIGKILL, each followed by a wait of at most ``grace`` seconds.

        Args:
            passed_on: A signal that the group has got before; it too is given that time.
            grace: Seconds.
        """
        if passed_on is not None:
            await self._wait(grace, others=passed_on == signal.SIGTERM)
        for number in (signal.SIGTERM, signal.SIGKILL):
            if number != passed_on and self._anybody_left():
                self._send(number)
                await self._wait(grace, others=True)

    async def _wait(self, grace: float, *, others: bool) -> None:
        limit = CancellationToken().child(timeout=grace)
        await any_of(self.exited, limit).wait_async()
        if others and self.exited.cancelled:
            async for _ in AsyncTicker(_LOOKS, token=limit):
                if not self._anybody_left():
                    return


def _hear_signals(mask: set[int]) -> None:
    """Let signals through in a new process that has left our group, just before it executes.

    What came to our group until then is dropped: we have got it too, and pass it on. Ctrl-Z above
    all would stop the process before it has executed anything, and us, as we wait for that.
    """
    forget_handlers()
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _all_zombies(group: int) -> bool:
    """Whether all of a group are dead and only wait for somebody to notice; False if unknown.

    That can last for ever where the first process of a container does not care for orphans.
    """
    states = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = path.read_bytes().rpartition(b")")[2].split()[:3]
        except OSError:
            continue  # it is gone
        if int(its_group) == group:
            states.append(state)
    return bool(states) and set(states) <= {b"Z", b"X"}
