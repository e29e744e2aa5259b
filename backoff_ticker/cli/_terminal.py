"""The controlling terminal: lent to a command while it runs, and taken back, as by a shell.

Invariants:
    * A process group gives the terminal away only while it has it: a run in the background never
      takes it from another group.
    * SIGTTOU is blocked while a ``Terminal`` is in use, or changing the terminal would stop us.
"""

from __future__ import annotations

import os
import signal
import termios


class Terminal:
    """The controlling terminal of this process, if it has one.

    In a pipeline other members of our process group may use the terminal, such as a pager. There
    it is lent only to a command that asks for it, by being stopped as it reads from it.

    Attributes:
        in_pipeline: Whether other processes may need it while a command runs.
        lent: Whether a command has it now.
    """

    def __init__(self) -> None:
        self.in_pipeline = not (os.isatty(0) and os.isatty(1))
        self._our_group = os.getpgrp()
        self.lent = False
        self._fd: int | None = None
        try:
            self._fd = os.open(os.ctermid(), os.O_RDWR | os.O_NOCTTY)
            self._modes = termios.tcgetattr(self._fd)
        except (OSError, termios.error):
            self.close()

    @property
    def exists(self) -> bool:
        """Whether there is one."""
        return self._fd is not None

    def is_available(self) -> bool:
        """Whether a command is to get it as soon as it starts."""
        try:
            return (
                self._fd is not None
                and not self.in_pipeline
                and os.tcgetpgrp(self._fd) == self._our_group
            )
        except OSError:
            return False  # the terminal was closed

    def lend(self, group: int) -> bool:
        """Make ``group`` the foreground process group if ours is; return whether it is now."""
        if self._fd is None:
            return False
        try:
            if os.tcgetpgrp(self._fd) not in (self._our_group, group):
                return False
            os.tcsetpgrp(self._fd, group)
        except OSError:
            return False  # the terminal was closed, or the group is empty
        self.lent = True
        return True

    def take_back(self, *, restore_modes: bool = False) -> None:
        """Make our group the foreground process group again, if the terminal is lent.

        Args:
            restore_modes: Whether to undo changes such as raw mode; a command that was killed had
                no chance to.
        """
        if not self.lent or self._fd is None:
            return
        self.lent = False
        try:
            os.tcsetpgrp(self._fd, self._our_group)
            if restore_modes:
                termios.tcsetattr(self._fd, termios.TCSANOW, self._modes)
        except (OSError, termios.error):
            pass  # the terminal was closed

    def close(self) -> None:
        """Close our descriptor of it."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def stop_our_group() -> bool:
    """Stop our process group, as Ctrl-Z does; return after a shell has continued it.

    Returns:
        Whether it was stopped: the kernel does not stop a group that no shell could continue.
    """
    handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCONT})
    try:
        os.killpg(0, signal.SIGTSTP)
        return signal.SIGCONT in signal.sigpending()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGTSTP, handler)
