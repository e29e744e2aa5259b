"""The command as a whole: its version, and the commands that it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ._command_delays import delays_group
from ._command_feedback import feedback_group
from ._command_retry_after import retry_after_command
from ._command_run import run_command
from ._commands import Group
from ._errors import run_guarded
from ._program import PACKAGE, PROGRAM

if TYPE_CHECKING:
    from collections.abc import Sequence


def run_app(args: Sequence[str]) -> int:
    """Run the command with these arguments; return the exit status."""
    return run_guarded(lambda: _invoked([*args]))


def _invoked(args: list[str]) -> int:
    try:
        with _app().make_context(PROGRAM, args) as context:
            status: int = context.command.invoke(context)
            return status
    except click.exceptions.Exit as left:
        return left.exit_code


def _app() -> click.Group:
    app = Group(
        PROGRAM,
        params=[_version_option()],
        help="See and use policies that say how long to wait before the next attempt.",
        subcommand_metavar="COMMAND [OPTIONS]...",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.add_command(delays_group())
    app.add_command(feedback_group())
    app.add_command(run_command())
    app.add_command(retry_after_command())
    return app


def _version_option() -> click.Option:
    def show(context: click.Context, _option: click.Parameter, wanted: bool) -> None:  # noqa: FBT001
        if wanted:
            from importlib.metadata import PackageNotFoundError, version

            try:
                found = version(PACKAGE)
            except PackageNotFoundError:
                found = "(not installed)"
            click.echo(f"{PROGRAM} {found}")
            context.exit()

    return click.Option(
        ["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Show the version and exit.",
    )
