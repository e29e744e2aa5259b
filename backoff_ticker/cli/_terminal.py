"""The controlling terminal: lent to the command while it runs, taken back afterwards.

Invariants:
    * Only a group that has the terminal lends it: a run in the background takes it from nobody.
    * SIGTTOU is blocked around each change, never ignored: a command would inherit that.
"""

from __future__ import annotations

import os
import signal
import termios
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from ._sentinel import Sentinel
from ._signals import acting, blocked

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


def stop_ourselves(number: int, *, group: bool) -> bool:
    """Stop as ``number`` stops by default, and return once somebody has continued us.

    Args:
        number: SIGTSTP, SIGTTIN or SIGTTOU.
        group: Whether the others of our process group stop too, as by Ctrl-Z: what else stops
            another run leaves its command running.

    Returns:
        False if the kernel did not stop us, because no shell is there that could continue us, or
        because the signal is ignored.
    """
    with blocked({signal.SIGCONT}):
        if group:
            with acting(signal.SIGTSTP, signal.SIG_IGN):
                os.kill(0, signal.SIGTSTP)
        with acting(number, signal.SIG_DFL):
            os.kill(os.getpid(), number)
        return signal.SIGCONT in signal.sigpending()


class Terminal:
    """The controlling terminal of this process, if it has one.

    In a pipeline others of our group may use the terminal, a pager for instance. So there it is
    lent only to a command that asks for it, by being stopped as it reads it.

    Attributes:
        lent: Whether a command has it.
    """

    def __init__(self) -> None:
        try:
            self._fd: int | None = os.open(os.ctermid(), os.O_RDWR | os.O_NOCTTY)
        except OSError:
            self._fd = None
        self._alone = os.isatty(0) and os.isatty(1)
        self._modes: list[Any] | None = None
        self.lent = False
        self._sentinel: Sentinel | None = None

    @property
    def exists(self) -> bool:
        """Whether there is one."""
        return self._fd is not None

    def offer(self, group: int) -> None:
        """Lend the terminal to ``group``, unless we are part of a pipeline."""
        if self._alone:
            self.lend(group)

    def lend(self, group: int) -> bool:
        """Make ``group`` the foreground group if our group is; tell whether ``group`` is now."""
        if self._fd is None:
            return False
        try:
            foreground = os.tcgetpgrp(self._fd)
            self.lent = foreground == group
            if foreground == os.getpgrp():
                self._modes = termios.tcgetattr(self._fd)
                self._post_sentinel(group)
                self.lent = self._make_foreground(group)
        except (OSError, termios.error):
            self.lent = False  # it was hung up
        return self.lent

    def take_back(self, *, repair: bool = False) -> None:
        """Make our group the foreground group again, if the terminal was lent.

        Args:
            repair: Whether to restore its modes too: a command that was killed could not.
        """
        if not self.lent:
            return
        self.lent = False
        self._make_foreground(os.getpgrp())
        if repair and self._modes is not None and self._fd is not None:
            try:
                with blocked({signal.SIGTTOU}):
                    termios.tcsetattr(self._fd, termios.TCSANOW, self._modes)
            except termios.error:
                pass  # it was hung up

    def writing(self) -> AbstractContextManager[object]:
        """Let us write to it also while it is lent, whatever ``stty tostop`` says."""
        return blocked({signal.SIGTTOU}) if self.lent else nullcontext()

    def _post_sentinel(self, group: int) -> None:
        if self._sentinel is None:
            try:
                self._sentinel = Sentinel(group)
            except OSError:
                pass  # no process more is to be had; the command runs all the same

    def typed(self) -> int:
        """Return the first of the signals that it sent to the group that it was lent to, or 0.

        They are SIGINT, SIGQUIT, and SIGHUP as it is closed.

        To be called when the command has ended, before anybody looks who is left of its group.
        """
        if self._sentinel is None:
            return 0
        sentinel, self._sentinel = self._sentinel, None
        return sentinel.close()

    def _make_foreground(self, group: int) -> bool:
        try:
            with blocked({signal.SIGTTOU}):
                os.tcsetpgrp(self._fd, group)  # type: ignore[arg-type]
        except OSError:
            return False  # it was hung up, or nobody is left in the group
        return True

    def close(self) -> None:
        """Take it back and let go of it."""
        self.take_back()
        self.typed()
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
