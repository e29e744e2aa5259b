"""What the attempts of ``run`` find on stdin, which they all inherit."""

from __future__ import annotations

import os
import select
import shutil
import stat
import sys
import tempfile

_STDIN = 0


class Stdin:
    """Our stdin: each attempt reads a file from the start, anything else only once.

    Made before the first attempt.
    """

    def __init__(self) -> None:
        self._start = _position()
        self._had_ended = _has_ended()

    def renew(self) -> bool:
        """Prepare for another attempt.

        Returns:
            Whether nothing is left that attempts before have read; True only once.
        """
        if self._start is not None:
            os.lseek(_STDIN, self._start, os.SEEK_SET)
            return False
        used_up = not self._had_ended and _has_ended()
        self._had_ended = self._had_ended or used_up
        return used_up


def keep_stdin() -> None:
    """Read stdin to its end into a file that takes its place, unless it is a terminal.

    Raises:
        OSError: The file cannot be written.
    """
    if sys.__stdin__ is None or os.isatty(_STDIN):
        return
    with tempfile.TemporaryFile() as file:
        with open(_STDIN, "rb", buffering=0, closefd=False) as stdin:
            shutil.copyfileobj(stdin, file)
        file.seek(0)
        os.dup2(file.fileno(), _STDIN)


def _position() -> int | None:
    """Return how far stdin has been read if it is a file."""
    try:
        if sys.__stdin__ is not None and stat.S_ISREG(os.fstat(_STDIN).st_mode):
            return os.lseek(_STDIN, 0, os.SEEK_CUR)
    except OSError:
        pass  # nothing is lost if it is not read again
    return None


def _has_ended() -> bool:
    """Whether stdin is an empty pipe that nothing writes to."""
    poll = select.poll()
    poll.register(_STDIN, select.POLLIN)
    events = dict(poll.poll(0)).get(_STDIN, 0)
    return bool(events & select.POLLHUP and not events & select.POLLIN)
