"""``backoff-ticker run``: repeats a command until it succeeds."""

from __future__ import annotations

import asyncio
import os
import select
import shlex
import shutil
import signal
import stat
import sys
import tempfile
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import click

from .. import retry_call_async
from .._errors import Cancelled, DeadlineExceeded, Permanent
from ..cancellation import cancel_on_signals
from ._process import Process
from ._progress import CommandFailed, Progress

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Sequence

    from ..cancellation import CancellationToken
    from ..policies import BackOff

_STDIN = 0

NO_MATCH = 1
TIMED_OUT = 124  # as timeout(1) of GNU coreutils
SIGNAL_BASE = 128  # what shells add to the number of the signal that ended a program

# Signals that end a run, unless they are ignored; SIGTERM always does.
_ENDINGS = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_INTERRUPTED = tuple(SIGNAL_BASE + number for number in _ENDINGS)
_BROKEN_PIPE = SIGNAL_BASE + signal.SIGPIPE


class _NotExecutable(click.ClickException):
    exit_code = 126  # as in shells


class _NotFound(click.ClickException):
    exit_code = 127  # as in shells


class Limits(NamedTuple):
    """The options that say when an attempt succeeds, and when no other follows; None: not given."""

    max_attempts: int | None
    timeout: float | None
    attempt_timeout: float | None
    on_exit_code: frozenset[int] | None
    until_output: re.Pattern[str] | None


def run(
    command: Sequence[str], backoff: BackOff, limits: Limits, *, keep_stdin: bool, quiet: bool
) -> int:
    """Run a command until it succeeds; return the exit status.

    SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on to the command and what it has started, and
    end the run; but on a terminal the command alone decides on SIGINT and SIGQUIT in an attempt.
    Must be called in the main thread. No shell reads the command. With ``keep_stdin`` all of stdin
    is read first, for all attempts.
    """
    endings = [number for number in _ENDINGS if signal.getsignal(number) is not signal.SIG_IGN]
    mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    try:
        with cancel_on_signals(signal.SIGTERM, *endings) as token:
            if keep_stdin:
                try:
                    _spool_stdin(token)
                except OSError as error:
                    raise click.ClickException(f"cannot keep stdin: {error.strerror}") from error
            progress = Progress(token, limits.max_attempts, quiet=quiet)
            start = partial(Process, command, limits.until_output, on_terminal=_has_terminal())
            return asyncio.run(_retry(start, backoff, limits, progress))
    except OSError as error:
        raise click.ClickException(f"cannot go on: {error.strerror or error}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


async def _retry(
    start: Callable[[int], Process], backoff: BackOff, limits: Limits, progress: Progress
) -> int:
    numbers, stdin, token = count(1), _Stdin(), progress.token

    async def attempt() -> int:
        number = next(numbers)
        if number > 1 and stdin.renew():
            progress.on_stdin_used_up()
        return await _attempt(partial(start, number), limits, token)

    try:
        return await retry_call_async(
            attempt,
            backoff,
            on=CommandFailed,
            token=token,
            timeout=limits.timeout,
            max_attempts=limits.max_attempts,
            on_attempt=progress.on_attempt,
            on_retry=progress.on_retry,
            on_success=progress.on_success,
            on_give_up=progress.on_give_up,
        )
    except CommandFailed as failed:
        return failed.status
    except DeadlineExceeded:
        return TIMED_OUT
    except Cancelled:
        return SIGNAL_BASE + _signal_of(token)
    finally:
        # The loop would remove the handler that Process added only after it has closed the pipe to
        # which each signal is written: a signal in between would be an error on stderr.
        asyncio.get_running_loop().remove_signal_handler(signal.SIGCHLD)


async def _attempt(start: Callable[[], Process], limits: Limits, token: CancellationToken) -> int:
    """Run the command once; return 0 if it has succeeded.

    It raises what ``_judge()`` does, and an OSError if its output cannot be passed on.
    """
    token.raise_if_cancelled()  # a retry makes its first attempt even if the token is cancelled
    try:
        process = start()
    except OSError as error:
        raise _cannot_run(error) from error
    try:
        if not await process.wait(limits.attempt_timeout):
            await process.end(signal.SIGTERM)
            raise CommandFailed(TIMED_OUT, "timed out")
    except asyncio.CancelledError:  # by a signal, or at the timeout of the run
        await process.end(_signal_of(token) if token.cancelled else signal.SIGTERM)
        raise
    finally:
        process.close()
    _judge(process.code, process.matched, limits.on_exit_code)
    return 0


def _has_terminal() -> bool:
    with suppress(OSError):
        os.close(os.open(os.ctermid(), os.O_RDWR | os.O_NOCTTY))
        return True
    return False


def _signal_of(token: CancellationToken) -> int:
    return signal.Signals[str(token.cause)]


def _cannot_run(error: OSError) -> click.ClickException:
    name = "a command" if error.filename is None else shlex.quote(os.fsdecode(error.filename))
    if isinstance(error, FileNotFoundError) or error.filename == "":
        # A name that is quoted is no name, but a line for a shell.
        tip = "" if error.filename in ("", name) else f"; no shell reads it: is sh -c {name} meant?"
        return _NotFound(f"cannot run {name}: command not found{tip}")
    return _NotExecutable(f"cannot run {name}: {error.strerror}")


def _judge(code: int, matched: bool | None, on_exit_code: frozenset[int] | None) -> None:
    """Return if an attempt has succeeded, else raise. A ``code`` of -N: signal N killed it."""
    status = SIGNAL_BASE - code if code < 0 else code
    listed = on_exit_code is not None and status in on_exit_code
    interrupted = status in _INTERRUPTED and not listed
    if code == 0 if matched is None else matched and not interrupted:
        return
    if code == 0:
        raise CommandFailed(NO_MATCH, "printed no match")
    how = f"was killed by {_name_of(-code)}" if code < 0 else f"exited with {code}"
    if listed:
        final = None
    elif interrupted:
        final = "interrupted"
    elif status == _BROKEN_PIPE and _stdout_has_no_reader():
        final = "nobody reads the output"
    else:
        final = None if on_exit_code is None else "not to be retried"
    failed = CommandFailed(status, how, final)
    # As an error that ``on`` does not name, it would not be reported after the first attempt.
    raise failed if final is None else Permanent(failed)


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # real-time signals have no name


def _stdout_has_no_reader() -> bool:
    poll = select.poll()
    poll.register(1, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


# What the attempts find on stdin, which they all inherit


class _Stdin:
    """Our stdin before the first attempt: each reads a file from there, anything else only once."""

    def __init__(self) -> None:
        self._start = _position()
        self._had_ended = _has_ended()

    def renew(self) -> bool:
        """Prepare for another attempt; True, only once: those before have left nothing."""
        if self._start is not None:
            os.lseek(_STDIN, self._start, os.SEEK_SET)
            return False
        used_up = not self._had_ended and _has_ended()
        self._had_ended = self._had_ended or used_up
        return used_up


def _spool_stdin(token: CancellationToken) -> None:
    """Read stdin to its end into a file that takes its place, unless it is a terminal."""
    if sys.__stdin__ is None or os.isatty(_STDIN):
        return
    # After a signal Python reads on; without a handler the first process of a container ignores it.
    ending = token.on_cancel(lambda: os._exit(SIGNAL_BASE + _signal_of(token)))
    with tempfile.TemporaryFile() as file:
        with open(_STDIN, "rb", buffering=0, closefd=False) as stdin:
            shutil.copyfileobj(stdin, file)
        file.seek(0)
        os.dup2(file.fileno(), _STDIN)
    ending.remove()


def _position() -> int | None:
    """Return how far stdin has been read if it is a file."""
    with suppress(OSError):  # nothing is lost if it is not read again
        if sys.__stdin__ is not None and stat.S_ISREG(os.fstat(_STDIN).st_mode):
            return os.lseek(_STDIN, 0, os.SEEK_CUR)
    return None


def _has_ended() -> bool:
    """Whether stdin is an empty pipe that nothing writes to."""
    poll = select.poll()
    poll.register(_STDIN, select.POLLIN)
    events = dict(poll.poll(0)).get(_STDIN, 0)
    return bool(events & select.POLLHUP and not events & select.POLLIN)
