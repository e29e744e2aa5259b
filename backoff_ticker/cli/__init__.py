"""The command ``backoff-ticker``: shows policies, and runs other commands until they succeed.

It needs click and rich, the extra ``cli``; importing this package needs neither.

* ``_app``: the command and its subcommands: ``_delays``, ``_feedback``, ``_run_options``,
  ``_simulate``.
* ``_commands``: what all of them share: examples, suggestions for mistyped names.
* ``_policy_names``: policies by name or import path. ``_policy_options``: their options.
  ``_param_types``: how values are read and written.
* ``_table``: rows of figures as a table, as CSV, as JSON. ``_plot``: diagrams.
* ``_contention``, ``_outage``: what ``simulate`` simulates.
* ``_run``: repeats a command. ``_process`` is one attempt; ``_output`` searches its output;
  ``_progress`` reports on stderr.

Only ``run`` needs POSIX: ``_run`` and the modules that it imports are imported when it is called,
and so is what only ``simulate`` needs.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO


def main() -> int:
    """Run the command; return the exit status, where click does not exit by itself."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # End at Ctrl-C. An exception may be lost: Python drops it in callbacks, such as those of
        # imports.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from ._app import app

        app().main(prog_name="backoff-ticker")
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in ("click", "rich"):
            raise
        if sys.stderr is not None:
            sys.stderr.write(
                "backoff-ticker: the command needs more packages: "
                "pip install 'backoff-ticker[cli]'\n"
            )
        return 2
    except OSError as error:  # such as a full disk
        if sys.stderr is not None:
            sys.stderr.write(f"backoff-ticker: cannot go on: {error.strerror or error}\n")
        os._exit(1)  # or Python would try again to write what is left in its buffer
    finally:
        _drop_unwritable(sys.stderr)
    return 0


def _drop_unwritable(stream: TextIO | None) -> None:
    """Write what a stream holds; if nothing reads it any more, have the rest go nowhere.

    Otherwise Python would try again as it ends, and change the exit status to 120.
    """
    if stream is None:
        return
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
