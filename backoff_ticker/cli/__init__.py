"""The command ``backoff-ticker``; what it needs beyond the core is the extra ``cli``."""

from __future__ import annotations

import sys

from ._exit_codes import BAD_INPUT, INTERRUPTED
from ._extras import install_hint, is_missing
from ._program import PROGRAM

__all__ = ["main"]


def main() -> int:
    """Run the command with the arguments of the process; return its exit status."""
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
