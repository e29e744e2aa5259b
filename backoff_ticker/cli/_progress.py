"""What goes to stderr: a line for each event of ``run``; on a terminal a countdown, or a bar."""

from __future__ import annotations

import asyncio
import math
import os
import sys
from typing import TYPE_CHECKING, NoReturn

import click

from .. import StopReason
from ._param_types import rounded

if TYPE_CHECKING:
    from ..cancellation import CancellationToken
    from ..retries import Outcome

_ERASE_LINE = "\r\x1b[2K"
_ALL = 100
_WIDTH = 40
"""Columns of a bar."""


class CommandFailed(Exception):
    """An attempt failed; the message says how and follows "attempt 1".

    Attributes:
        status: The exit status of the run if no attempt follows.
        final: Why no attempt follows; None: the policy and the limits decide.
    """

    def __init__(self, status: int, how: str, final: str | None = None) -> None:
        super().__init__(how)
        self.status = status
        self.final = final


class Progress:
    """The hooks of a retry that report its progress.

    Attributes:
        token: Cancelled by a signal.
    """

    def __init__(self, token: CancellationToken, max_attempts: int | None, *, quiet: bool) -> None:
        self.token = token
        self._of = "" if max_attempts is None else f" of {max_attempts}"
        self._quiet = quiet
        self._counts_down = not quiet and has_progress()
        self._color = False if is_dumb() or os.environ.get("NO_COLOR") else None
        """As click takes it; None: where there is a terminal."""
        self._countdown: asyncio.Task[None] | None = None
        self._reported: BaseException | None = None

    def on_attempt(self, outcome: Outcome) -> None:
        """Report that an attempt begins, except the first."""
        self._end_countdown()
        if outcome.attempts > 1:
            self._line(f"attempt {outcome.attempts}{self._of}", "bright_white")

    def on_stdin_used_up(self) -> None:
        """Report that an attempt has read all of stdin, so the others find nothing there."""
        self._line("stdin is used up; --keep-stdin keeps it for each attempt", "yellow")

    def on_success(self, outcome: Outcome) -> None:
        """Report that an attempt has succeeded."""
        self._line(f"attempt {outcome.attempts} succeeded", "green")

    def on_retry(self, outcome: Outcome) -> None:
        """Report that an attempt has failed, and when the next one begins."""
        delay = outcome.delay or 0.0
        self._reported = outcome.last_error
        text = f"attempt {outcome.attempts} {outcome.last_error}"
        self._line(f"{text}; next attempt in {rounded(delay)} s", "yellow")
        if self._counts_down:
            self._countdown = asyncio.create_task(self._count_down(delay))

    def on_give_up(self, outcome: Outcome) -> None:
        """Report why no further attempt is made."""
        self._end_countdown()
        error = outcome.last_error
        if self.token.cancelled:
            why = f"ended by {self.token.cause}"
        elif outcome.reason is StopReason.DEADLINE and error is self._reported:
            why = "timed out"  # in an attempt, not before a wait
        elif isinstance(error, CommandFailed):
            ran_out = outcome.reason is StopReason.DEADLINE
            limit = "no time for another attempt" if ran_out else "giving up"
            why = f"attempt {outcome.attempts} {error}; {error.final or limit}"
        else:
            return  # it is reported elsewhere
        self._line(why, "red")

    async def _count_down(self, delay: float) -> NoReturn:
        loop = asyncio.get_running_loop()
        end = loop.time() + delay
        while True:
            left = end - loop.time()
            seconds = max(1, math.ceil(left))
            self._write(f"{_ERASE_LINE}next attempt in {seconds} s", color=True, nl=False)
            await asyncio.sleep(max(left - (seconds - 1), 0.01))

    def _end_countdown(self) -> None:
        if self._countdown is not None:
            self._countdown.cancel()
            self._countdown = None
            self._write(_ERASE_LINE, color=True, nl=False)

    def _line(self, text: str, colour: str) -> None:
        name = click.style("backoff-ticker:", dim=True)
        self._write(f"{name} {click.style(text, fg=colour)}", color=self._color)

    def _write(self, text: str, *, color: bool | None, nl: bool = True) -> None:
        if not self._quiet:
            say(text, color=color, nl=nl)


class ShareDone:
    """A bar on stderr, if that is a terminal, for work that takes a while.

    It is called with the share that is done, 0 to 1.
    """

    def __init__(self) -> None:
        self._percent = -1 if has_progress() else _ALL

    def __call__(self, share: float) -> None:
        percent = int(share * _ALL)
        if percent > self._percent:
            self._percent = percent
            filled = "#" * (percent * _WIDTH // _ALL)
            say(f"\r[{filled:<{_WIDTH}}] {percent} %", color=True, nl=False)

    def end(self) -> None:
        """Remove the bar."""
        if has_progress():
            say(_ERASE_LINE, color=True, nl=False)


def is_dumb() -> bool:
    """Whether the terminal cannot go back in a line."""
    return os.environ.get("TERM") == "dumb"


def has_progress() -> bool:
    """Whether stderr is a terminal on which a line can be written again."""
    return sys.stderr is not None and sys.stderr.isatty() and not is_dumb()


def say(text: str, *, color: bool | None = None, nl: bool = True) -> None:
    """Write to stderr if anything reads it; control characters stay if ``color`` is true."""
    try:
        click.echo(text, nl=nl, err=True, color=color)
    except OSError:
        pass  # nothing does any more
