"""The command as a whole: its version and its subcommands."""

from __future__ import annotations

import click

from ._commands import Group
from ._delays_command import delays_group
from ._feedback import feedback_group
from ._retry_after import retry_after_command
from ._run_options import run_command
from ._simulate import simulate_group


def app() -> click.Group:
    """Return the command ``backoff-ticker``."""
    group = Group(
        "backoff-ticker",
        help="See and use policies that say how long to wait before the next attempt.",
        examples=[
            "run --max-attempts 5 -- curl --fail https://example.com/health",
            "delays exponential -n 10",
            "COMMAND --help",
        ],
        subcommand_metavar="COMMAND [OPTIONS]...",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for command in (
        delays_group(),
        feedback_group(),
        retry_after_command(),
        run_command(),
        simulate_group(),
    ):
        group.add_command(command)
    version = click.Option(
        ["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_show_version,
        help="Show the version and exit.",
    )
    group.params.append(version)
    return group


def _show_version(ctx: click.Context, _option: click.Parameter, asked: bool) -> None:  # noqa: FBT001 - click's
    if not asked or ctx.resilient_parsing:
        return
    from importlib.metadata import PackageNotFoundError, version  # slow

    try:
        number = version("backoff-ticker")
    except PackageNotFoundError:
        number = "(not installed)"  # such as a copy of the sources
    click.echo(f"backoff-ticker {number}")
    ctx.exit()
