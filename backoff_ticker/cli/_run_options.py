"""``backoff-ticker run``: its options, and those of the policy that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..policies import POLICIES
from ._param_types import NONE, ExitCodes, OrNone, Regex, Seconds
from ._policy_options import (
    PolicyCommand,
    PolicyOption,
    build_policy,
    policy_options,
    seed_option,
)

if TYPE_CHECKING:
    import re

    from ..policies import NamedPolicy

_DEFAULT = "exponential"
_OWN = ("max_attempts",)
"""Options of ``run`` that policies have too: here they are those of ``run``."""

_HELP = """Run COMMAND until it succeeds, waiting between attempts as the policy says.

Put -- before COMMAND. It is run as it stands, without a shell; its exit code is passed on, or 124
time-out, 126 not executable, 127 not found, 128+N ended by signal N, 130 interrupted, 2 bad
options.
"""


def _policy_options_in_help(ctx: click.Context) -> list[PolicyOption]:
    return _policy_options(POLICIES[ctx.params.get("policy") or _DEFAULT])


def _policy_options(policy: NamedPolicy) -> list[PolicyOption]:
    return [option for option in policy_options(policy) if option.name not in _OWN]


def _options_of_all_policies() -> list[PolicyOption]:
    """Return one option for each name.

    An option that is a wrapper for some policies and a parameter of others has the type of the
    wrapper, which accepts more; the policy decides which are required and which may be none.
    """
    options: dict[str | None, PolicyOption] = {}
    for policy in POLICIES.values():
        for option in _policy_options(policy):
            option.required = False
            if option.name not in options or option.is_wrapper:
                options[option.name] = option
    return [*options.values()]


def _run(  # noqa: PLR0913 - the options of the command
    *,
    command: tuple[str, ...],
    policy: str,
    max_attempts: int | None,
    timeout: float | None,
    attempt_timeout: float | None,
    on_exit_code: tuple[frozenset[int], ...],
    until_output: re.Pattern[str] | None,
    quiet: bool,
    **options: object,
) -> None:
    backoff = build_policy(POLICIES[policy], options)
    try:
        from ._run import Limits, run
    except ImportError as error:
        raise click.UsageError(
            f"run needs process groups and terminals as POSIX has them: {error}"
        ) from error
    limits = Limits(
        max_attempts=max_attempts,
        timeout=timeout,
        attempt_timeout=attempt_timeout,
        on_exit_code=frozenset().union(*on_exit_code) if on_exit_code else None,
        until_output=until_output,
    )
    click.get_current_context().exit(run(command, backoff, limits, quiet=quiet))


def _none(_context: click.Context, _option: click.Parameter, value: object) -> object:
    return None if value == NONE else value


def run_command() -> click.Command:
    """Return the command ``run``."""
    seconds = OrNone(Seconds(positive=True))
    return PolicyCommand(
        "run",
        _policy_options_in_help,
        context_settings={"allow_interspersed_args": False},
        callback=_run,
        params=[
            click.Argument(["command"], nargs=-1, required=True, metavar="COMMAND [ARGUMENTS]..."),
            click.Option(
                ["--policy"],
                type=click.Choice([*POLICIES]),
                default=_DEFAULT,
                show_default=True,
                is_eager=True,
                metavar="NAME",
                help=f"How long to wait, one of {', '.join(POLICIES)}; --policy NAME --help shows "
                "its options.",
            ),
            *_options_of_all_policies(),
            seed_option(),
            click.Option(
                ["--max-attempts"],
                type=OrNone(click.IntRange(min=1)),
                callback=_none,
                help="Give up after this many attempts; none: never.  [default: none]",
            ),
            click.Option(
                ["--timeout"],
                type=seconds,
                callback=_none,
                help="End everything after this long, with exit code 124; none: never.  "
                "[default: none]",
            ),
            click.Option(
                ["--attempt-timeout"],
                type=seconds,
                callback=_none,
                help="End an attempt after this long; it has failed then; none: never.  "
                "[default: none]",
            ),
            click.Option(
                ["--on-exit-code"],
                type=ExitCodes(),
                multiple=True,
                help="Retry after these exit codes only, as in 1,75; may be repeated. Without it, "
                "after all but 0.",
            ),
            click.Option(
                ["--until-output"],
                type=Regex(),
                help="An attempt succeeds if a line of its stdout matches, whatever its exit code, "
                "and only then.",
            ),
            click.Option(["-q", "--quiet"], is_flag=True, help="Show no progress."),
        ],
        short_help="Run a command until it succeeds.",
        help=_HELP,
    )
