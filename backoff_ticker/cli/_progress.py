"""What goes to stderr: a line for each event of ``run``, a bar for work that takes a while."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from .. import StopReason
from ._param_types import rounded

if TYPE_CHECKING:
    from typing import Self

    from ..cancellation import CancellationToken
    from ..retries import Outcome

_ERASE_LINE = "\r\x1b[2K"
_ALL = 100
_WIDTH = 40  # columns of a bar


class CommandFailed(Exception):
    """An attempt failed; the message says how and follows "attempt 1".

    ``status`` is the exit status of the run if no attempt follows; ``final`` says why none does, or
    None: the policy and the limits decide.
    """

    def __init__(self, status: int, how: str, final: str | None = None) -> None:
        super().__init__(how)
        self.status = status
        self.final = final


class Progress:
    """The hooks of a retry that report its progress; a signal cancels the token."""

    def __init__(self, token: CancellationToken, max_attempts: int | None, *, quiet: bool) -> None:
        self.token = token
        self._of = "" if max_attempts is None else f" of {max_attempts}"
        self._quiet = quiet
        # As click takes it; None: where there is a terminal.
        self._color = False if is_dumb() or os.environ.get("NO_COLOR") else None
        self._reported: BaseException | None = None

    def on_attempt(self, outcome: Outcome) -> None:
        """Report that an attempt begins, except the first."""
        if outcome.attempts > 1:
            self._line(f"attempt {outcome.attempts}{self._of}", "bright_white")

    def on_stdin_used_up(self) -> None:
        self._line("stdin is used up; --keep-stdin keeps it for each attempt", "yellow")

    def on_success(self, outcome: Outcome) -> None:
        self._line(f"attempt {outcome.attempts} succeeded", "green")

    def on_retry(self, outcome: Outcome) -> None:
        self._reported = outcome.last_error
        text = f"attempt {outcome.attempts} {outcome.last_error}"
        self._line(f"{text}; next attempt in {rounded(outcome.delay or 0.0)} s", "yellow")

    def on_give_up(self, outcome: Outcome) -> None:
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

    def _line(self, text: str, colour: str) -> None:
        if not self._quiet:
            name = click.style("backoff-ticker:", dim=True)
            say(f"{name} {click.style(text, fg=colour)}", color=self._color)


class ShareDone:
    """A bar on stderr, if that is a terminal: called with the share that is done, 0 to 1."""

    def __init__(self) -> None:
        self._percent = -1 if has_progress() else _ALL

    def __call__(self, share: float) -> None:
        percent = int(share * _ALL)
        if percent > self._percent:
            self._percent = percent
            filled = "#" * (percent * _WIDTH // _ALL)
            say(f"\r[{filled:<{_WIDTH}}] {percent} %", color=True, nl=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if has_progress():
            say(_ERASE_LINE, color=True, nl=False)


def is_dumb() -> bool:
    """Whether the terminal can neither go back in a line nor show colours."""
    return os.environ.get("TERM") == "dumb"


def has_progress() -> bool:
    """Whether stderr is a terminal on which a line can be written again."""
    return sys.stderr is not None and sys.stderr.isatty() and not is_dumb()


def say(text: str, *, color: bool | None = None, nl: bool = True) -> None:
    """Write to stderr if anything reads it; control characters stay if ``color`` is true."""
    with suppress(OSError):  # nothing does any more
        click.echo(text, nl=nl, err=True, color=color)
