"""What the command says when something is wrong: one line on stderr, and an exit status."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from ._exit_codes import BAD_INPUT, BROKEN_PIPE, FAILED, INTERRUPTED
from ._program import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 1000


class NoAnswer(click.ClickException):
    """The input is of the right kind, but there is nothing to say to it."""


def run_guarded(body: Callable[[], int]) -> int:
    """Return the exit status of ``body``, whatever it raises or its output runs into."""
    try:
        status = body()
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.ClickException as error:
        complain(_told(error))
        return FAILED if isinstance(error, NoAnswer) else BAD_INPUT
    except (KeyboardInterrupt, click.Abort):
        _drop_output()
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return BROKEN_PIPE
    except OSError as error:
        _drop_output()
        complain(f"cannot go on: {error.strerror or error}")
        return FAILED
    return status


def _told(error: click.ClickException) -> str:
    """Return what click says, in the words of this command where they differ by version."""
    if isinstance(error, click.NoSuchOption):
        near = f" (did you mean {error.possibilities[0]}?)" if error.possibilities else ""
        return f"no such option: {error.option_name}{near}"
    message = error.format_message()
    return message[:1].lower() + message[1:].rstrip(".")


def complain(message: str) -> None:
    """Write ``message`` to stderr as one line, whatever is in it, and if anybody can hear it."""
    line = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in " ".join(message.split())
    )
    if len(line) > _LONGEST:
        line = f"{line[:_LONGEST]}..."
    try:
        click.echo(f"{PROGRAM}: {line}", err=True)
    except OSError:
        pass  # stderr is closed


def _drop_output() -> None:
    """Have what is left in the buffer of stdout go nowhere, so that exiting does not fail."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (AttributeError, OSError, ValueError):
        pass  # there is no stdout, or none with a descriptor
