"""What `run` says on stderr while it works: a line an event, and on a terminal a countdown."""

from __future__ import annotations

import math
import os
import select
from typing import TYPE_CHECKING

from ._program import PROGRAM
from ._text import rounded

if TYPE_CHECKING:
    from rich.console import Console

_STDERR = 2
_ERASE_LINE = "\r\x1b[2K"


class Progress:
    """Tells how far a run is; on a terminal in colours. Never blocks: what finds no room is lost.

    Args:
        max_attempts: How many there may be; None: any number.
        quiet: Whether to say nothing.
    """

    def __init__(self, max_attempts: int | None, *, quiet: bool) -> None:
        self._of = "" if max_attempts is None else f" of {max_attempts}"
        self._quiet = quiet
        self._console: Console | None = None
        if not quiet and os.isatty(_STDERR):
            from rich.console import Console

            console = Console(stderr=True, highlight=False)
            if console.is_terminal and not console.is_dumb_terminal:
                self._console = console
        self._counting = False

    def started(self, number: int) -> None:
        """Attempt ``number`` begins; of the first there is nothing to say."""
        if number > 1:
            self._line(f"attempt {number}{self._of}", "bold")

    def succeeded(self, number: int) -> None:
        """It was the last one that was needed."""
        self._line(f"attempt {number} succeeded", "green")

    def failed(self, number: int, how: str, delay: float) -> None:
        """It failed in the way that ``how`` says; the next one comes after ``delay`` seconds."""
        text = f"attempt {number} {how}"
        if self._console is None:
            text += f"; next attempt in {rounded(delay)} s"
        self._line(text, "yellow")

    def gave_up(self, number: int, how: str, why: str) -> None:
        """It failed, and it was the last one."""
        self._line(f"attempt {number} {how}; {why}", "red")

    def ended(self, why: str) -> None:
        """The run ends in a wait, or in an attempt that was cut short for it."""
        self._line(why, "red")

    def waiting(self, left: float) -> float | None:
        """Show that ``left`` seconds of a wait are left.

        Returns:
            The seconds after which to show it again; None: it need not be shown.
        """
        if self._console is None:
            return None
        seconds = math.ceil(left)
        self._show(f"next attempt in {seconds} s", "dim", end="")
        self._counting = True
        return max(0.0, left - (seconds - 1)) if seconds > 1 else None

    def _line(self, text: str, style: str) -> None:
        self._show(text, style, end="\n")

    def _show(self, text: str, style: str, *, end: str) -> None:
        if self._quiet:
            return
        try:
            line = f"{self._erased()}{self._styled(text, style)}{end}"
            if select.select([], [_STDERR], [], 0)[1]:
                os.write(_STDERR, line.encode())
        except OSError:
            pass  # nobody reads it, or it is a terminal that was closed: rich notices that, too

    def _erased(self) -> str:
        """Return what takes away the countdown, if it is shown."""
        counting, self._counting = self._counting, False
        return _ERASE_LINE if counting else ""

    def _styled(self, text: str, style: str) -> str:
        if self._console is None:
            return f"{PROGRAM}: {text}"
        from rich.text import Text

        with self._console.capture() as captured:
            self._console.print(
                Text.assemble((f"{PROGRAM}: ", "dim"), (text, style)), end="", soft_wrap=True
            )
        return captured.get()
