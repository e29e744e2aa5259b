"""The exit codes of the command, by what they tell."""

from __future__ import annotations

import signal

SIGNAL_BASE = 128
"""What shells add to the number of the signal that ended a program."""


def of_signal(number: int) -> int:
    """Return what shells report of a program that a signal ended."""
    return SIGNAL_BASE + number


FAILED = 1
"""There is no answer to what was asked, or it cannot be written."""

NO_MATCH = 1
"""An attempt exited with 0 but did not print what was waited for; as ``grep``."""

BAD_INPUT = 2
"""The arguments are wrong, or a package is missing; nothing was done."""

TIMED_OUT = 124
"""An attempt or a run took too long; as ``timeout`` of the GNU core utilities."""

NOT_EXECUTABLE = 126
"""The program to run was found but cannot be executed; as shells."""

NOT_FOUND = 127
"""The program to run was not found; as shells."""

INTERRUPTED = of_signal(signal.SIGINT)
"""Ctrl-C was typed."""

QUIT = of_signal(signal.SIGQUIT)
"""Ctrl-\\ was typed."""

BROKEN_PIPE = of_signal(signal.SIGPIPE)
"""Nobody reads the output."""
