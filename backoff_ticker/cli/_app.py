"""The command as a whole: its version and its subcommands."""

from __future__ import annotations

import click

from ._commands import Group, examples
from ._delays import delays_group
from ._feedback import feedback_group
from ._retry_after import retry_after_command
from ._run_options import run_command
from ._simulate import simulate_group


def app() -> click.Group:
    """Return the command ``backoff-ticker``."""
    group = Group(
        "backoff-ticker",
        help="See and use policies that say how long to wait before the next attempt.",
        epilog=examples(
            "run --max-attempts 5 -- curl --fail https://example.com/health",
            "delays exponential -n 10",
            "COMMAND --help",
        ),
        subcommand_metavar="COMMAND [OPTIONS]...",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    group.add_command(delays_group())
    group.add_command(feedback_group())
    group.add_command(retry_after_command())
    group.add_command(run_command())
    group.add_command(simulate_group())
    message = "%(prog)s %(version)s"
    return click.version_option(package_name="backoff-ticker", message=message)(group)
