"""The command ``backoff-ticker``; what it needs beyond the core is the extra ``cli``."""

from __future__ import annotations

import sys

__all__ = ["main"]

_NEEDED = ("click", "rich")
_MISSING = "backoff-ticker: the command needs more packages: pip install 'backoff-ticker[cli]'\n"
_BAD_INPUT = 2
_INTERRUPTED = 130


def main() -> int:
    """Run the command with the arguments of the process; return its exit status."""
    try:
        from ._app import run_app

        return run_app(sys.argv[1:])
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in _NEEDED:
            raise
        if sys.stderr is not None:
            sys.stderr.write(_MISSING)
        return _BAD_INPUT
    except KeyboardInterrupt:
        return _INTERRUPTED
