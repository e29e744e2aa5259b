"""The command ``backoff-ticker``; what it needs beyond the core is the extra ``cli``."""

from __future__ import annotations

import os
import signal
import sys

from ._exit_codes import BAD_INPUT, INTERRUPTED
from ._extras import install_hint, is_missing
from ._program import PROGRAM

__all__ = ["main"]


def main() -> int:
    """Run the command with the arguments of the process; return its exit status."""
    ending = _end_at_ctrl_c()
    try:
        from ._app import run_app

        return run_app(sys.argv[1:])
    except ModuleNotFoundError as error:
        if not is_missing(error, "click", "rich"):
            raise
        if sys.stderr is not None:
            sys.stderr.write(f"{PROGRAM}: {install_hint('the command', 'cli')}\n")
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        if ending:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _end_at_ctrl_c() -> bool:
    """Have SIGINT end the process at once where Python would raise an exception; tell if it does.

    The exception may be lost: Python drops it in callbacks, such as those of imports.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return False
    try:
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    except ValueError:
        return False  # we are in another thread, which Python never interrupts
    return True
