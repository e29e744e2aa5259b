"""``backoff-ticker run``: its options, and those of the policy that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..policies import POLICIES
from ._commands import PolicyCommand, unknown
from ._exit_codes import BAD_INPUT, INTERRUPTED, NOT_EXECUTABLE, NOT_FOUND, SIGNAL_BASE, TIMED_OUT
from ._policy_options import PolicyOption, build_policy, policy_options, seed_option
from ._readers import Kind, exit_codes, regex, seconds, whole_number

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

_DEFAULT = "exponential"
_TAKEN = frozenset({"max_attempts"})
"""Options of ``run`` that a policy has too: here they are those of ``run``."""

_ATTEMPTS = Kind(whole_number(1), "N", optional=True)
_LIMIT = Kind(seconds, "SECONDS", optional=True)


def _policy(name: str) -> str:
    if name not in POLICIES:
        raise unknown("policy", name, POLICIES)
    return name


class _RunCommand(PolicyCommand):
    """Takes the options of every policy; its help shows those of the one that is chosen."""

    def shown_policy(self, ctx: click.Context) -> list[PolicyOption]:
        """Return the options of the policy that ``--policy`` names."""
        return policy_options([POLICIES[ctx.params.get("policy") or _DEFAULT]], _TAKEN)


def _run(  # noqa: PLR0913 - the options of the command
    command: Sequence[str],
    *,
    policy: str,
    seed: int | None,
    max_attempts: int | None,
    timeout: float | None,
    attempt_timeout: float | None,
    on_exit_code: frozenset[int] | None,
    until_output: re.Pattern[str] | None,
    quiet: bool,
    **given: object,
) -> int:
    backoff = build_policy(policy, given, seed)
    from ._run import run

    return run(
        command,
        backoff,
        max_attempts=max_attempts,
        timeout=timeout,
        attempt_timeout=attempt_timeout,
        on_exit_code=on_exit_code,
        until_output=until_output,
        quiet=quiet,
    )


def _all_of(
    _context: click.Context, _option: click.Parameter, given: tuple[frozenset[int], ...]
) -> frozenset[int] | None:
    return frozenset().union(*given) if given else None


def run_command() -> click.Command:
    """Return the command ``run``."""
    params: list[click.Parameter] = [
        click.Argument(["command"], nargs=-1, required=True, metavar="COMMAND [ARGUMENTS]..."),
        click.Option(
            ["--policy"],
            type=_policy,
            default=_DEFAULT,
            is_eager=True,
            metavar="NAME",
            help=f"What says how long to wait, one of {', '.join(POLICIES)}; --policy NAME --help "
            f"shows its options. [default: {_DEFAULT}]",
        ),
        *policy_options(POLICIES.values(), _TAKEN),
        seed_option(),
        click.Option(
            ["--max-attempts"],
            type=_ATTEMPTS.value,
            metavar=_ATTEMPTS.metavar,
            help="Give up after so many attempts; none: never. [default: none]",
        ),
        click.Option(
            ["--timeout"],
            type=_LIMIT.value,
            metavar=_LIMIT.metavar,
            help=f"End everything after so long, with exit code {TIMED_OUT}; none: never. "
            "[default: none]",
        ),
        click.Option(
            ["--attempt-timeout"],
            type=_LIMIT.value,
            metavar=_LIMIT.metavar,
            help="End an attempt after so long; it has failed then; none: never. [default: none]",
        ),
        click.Option(
            ["--on-exit-code"],
            type=exit_codes,
            multiple=True,
            callback=_all_of,
            metavar="CODES",
            help="Retry after these exit codes only, as in 1,75; may be repeated. Without it, "
            "after all but 0.",
        ),
        click.Option(
            ["--until-output"],
            type=regex,
            metavar="REGEX",
            help="An attempt succeeds only if a line of its stdout matches.",
        ),
        click.Option(["-q", "--quiet"], is_flag=True, help="Show no progress."),
    ]
    return _RunCommand(
        "run",
        context_settings={"allow_interspersed_args": False},
        callback=_run,
        params=params,
        short_help="Run a command until it succeeds.",
        help="Run COMMAND until it succeeds, waiting between attempts as the policy says.\n\n"
        "Put -- before COMMAND. It is run as it stands, without a shell; its exit code is passed "
        f"on, or {TIMED_OUT} time-out, {NOT_EXECUTABLE} not executable, {NOT_FOUND} not found, "
        f"{SIGNAL_BASE}+N ended by signal N, {INTERRUPTED} interrupted, {BAD_INPUT} bad options.",
    )
