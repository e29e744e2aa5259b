"""What came of an attempt, and whether another follows: rules without a process."""

from __future__ import annotations

import signal

from ._exit_codes import BROKEN_PIPE, INTERRUPTED, NO_MATCH, QUIT, TIMED_OUT, of_signal


class Outcome:
    """What came of an attempt.

    Attributes:
        code: The exit status of the run if this is its last attempt.
        how: What happened, after "attempt 1".
        succeeded: Whether no other attempt is needed.
        incomplete: Whether it is no verdict of the command's: it was ended because it took too
            long, or it exited with 0 but did not print what was waited for.
        typed: Whether it failed after Ctrl-C or the like was typed, or the terminal was closed.
        unread: Whether it failed because nobody reads the output of the run.
    """

    typed = False
    unread = False

    def __init__(
        self, code: int, how: str, *, succeeded: bool = False, incomplete: bool = False
    ) -> None:
        self.code = code
        self.how = how
        self.succeeded = succeeded
        self.incomplete = incomplete

    @classmethod
    def ended(cls, code: int, killed_by: int, *, matched: bool | None, read: bool) -> Outcome:
        """Return that of a command that ended by itself.

        Args:
            code: Its exit code as shells say it.
            killed_by: The signal that ended it; 0: none did.
            matched: Whether its output matched; None: nobody asked.
            read: Whether somebody can still read the output of the run.
        """
        if matched is False and code == 0:
            return cls(NO_MATCH, "printed no match", incomplete=True)
        how = f"was killed by {_name_of(killed_by)}" if killed_by else f"exited with {code}"
        outcome = cls(code, how, succeeded=code == 0 if matched is None else matched)
        outcome.unread = not outcome.succeeded and not read and code == BROKEN_PIPE
        return outcome

    @classmethod
    def timed_out(cls) -> Outcome:
        """Return that of a command that was ended because it took too long."""
        return cls(TIMED_OUT, "timed out", incomplete=True)

    def after(self, typed: int) -> Outcome:
        """Return it as it is if the terminal sent a signal meanwhile; 0: it did not."""
        if not typed or self.succeeded:
            return self
        outcome = Outcome(of_signal(typed), self.how)
        outcome.typed = True
        return outcome

    @property
    def interrupted(self) -> bool:
        """Whether SIGINT or SIGQUIT ended it, as from a keyboard, or it says so as shells do.

        Also whether the terminal sent a signal, whatever the command made of it.
        """
        return self.typed or (not self.incomplete and self.code in (INTERRUPTED, QUIT))


class Rules:
    """Which failed attempt is the last one.

    Args:
        max_attempts: How many there may be; None: any number.
        on_exit_code: The exit codes after which there is another; None: all but interrupts.
    """

    def __init__(self, max_attempts: int | None, on_exit_code: frozenset[int] | None) -> None:
        self._max_attempts = max_attempts
        self._on_exit_code = on_exit_code

    def why_last(self, outcome: Outcome, number: int) -> str | None:
        """Return why no attempt follows the failed one of this number; None if one does."""
        if outcome.typed:
            return "interrupted"  # whatever is listed: the keyboard must be able to end the run
        codes = self._on_exit_code
        if not outcome.incomplete and (codes is None or outcome.code not in codes):
            if outcome.interrupted:
                return "interrupted"
            if outcome.unread:
                return "nobody reads the output"
            if codes is not None:
                return "not to be repeated"
        return "giving up" if number == self._max_attempts else None


def _name_of(number: int) -> str:
    """Return the name of a signal; real-time signals have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
