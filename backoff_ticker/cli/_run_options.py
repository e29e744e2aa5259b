"""``backoff-ticker run``: its options, and those of the policy that it names."""

from __future__ import annotations

import os
from itertools import takewhile
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from ..policies import POLICIES
from ._commands import PolicyCommand, PolicyOption
from ._param_types import NONE, ExitCodes, OrNone, Regex, Seconds
from ._policy_argument import PolicyName
from ._policy_options import build_policy, policy_options, seed_option

if TYPE_CHECKING:
    import re

    from ..policies import NamedPolicy

_DEFAULT = "exponential"
_OWN = ("max_attempts",)
"""Options of ``run`` that policies have too: here they are those of ``run``."""

_HELP = """Run COMMAND until it succeeds, with waits between attempts as the policy says.

Put -- before COMMAND. No shell reads the command and its arguments: for a pipe, run sh -c '...'.
The environment variable BACKOFF_TICKER_ATTEMPT is the number of the attempt, from 1.
"""

_EXIT_CODES = (
    ("0", "COMMAND has succeeded."),
    ("1-255", "Else: the exit code of the last attempt; 128+N if signal N killed it."),
    ("124", "It timed out."),
    ("126, 127", "COMMAND is not executable, or was not found."),
    ("130, 143", "Ended by Ctrl-C, by SIGTERM."),
    ("2", "Bad options."),
)


class _RunCommand(PolicyCommand):
    """Notes options that stand after the command; its help explains the exit codes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words, and note options of ours that are handed to the command."""
        words = [*args]  # click takes words away
        rest = super().parse_args(ctx, args)
        command = ctx.params.get("command") or ()
        if words[: len(words) - len(command)][-1:] != ["--"]:
            ours = {flag for param in self.params for flag in param.opts if flag[:2] == "--"}
            handed_on = takewhile("--".__ne__, command)
            ctx.meta[_LATE] = [word for word in handed_on if word.partition("=")[0] in ours]
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options and the exit codes."""
        super().format_options(ctx, formatter)
        with formatter.section("Exit codes"):
            formatter.write_dl(_EXIT_CODES)


_LATE = f"{__name__}.late_options"
"""In the ``meta`` of a context: options of ours that stand after the command."""


def _complete_command(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the command with programs, its arguments with files."""
    if ctx.params.get("command") or not incomplete or "/" in incomplete:
        return [CompletionItem(incomplete, type="file")]
    found = set()
    for folder in filter(os.path.isdir, os.get_exec_path()):
        with os.scandir(folder) as entries:
            found |= {
                entry.name
                for entry in entries
                if entry.name.startswith(incomplete) and os.access(entry.path, os.X_OK)
            }
    return [CompletionItem(name) for name in sorted(found)]


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
    keep_stdin: bool,
    quiet: bool,
    **options: object,
) -> None:
    backoff = build_policy(POLICIES[policy], options)
    try:
        from ._progress import say
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
    context = click.get_current_context()
    late = context.meta.get(_LATE)
    if late and not quiet:
        say(
            f"backoff-ticker: warning: {' '.join(late)} stands after {command[0]!r}, which gets "
            "it; put it before the command, or -- before the command if that is meant"
        )
    context.exit(run(command, backoff, limits, keep_stdin=keep_stdin, quiet=quiet))


def _none(_context: click.Context, _option: click.Parameter, value: object) -> object:
    return None if value == NONE else value


def run_command() -> click.Command:
    """Return the command ``run``."""
    seconds = OrNone(Seconds(positive=True))
    return _RunCommand(
        "run",
        _policy_options_in_help,
        context_settings={"allow_interspersed_args": False},
        callback=_run,
        params=[
            click.Argument(
                ["command"],
                nargs=-1,
                required=True,
                metavar="COMMAND [ARGUMENTS]...",
                shell_complete=_complete_command,
            ),
            click.Option(
                ["--policy"],
                type=PolicyName(),
                default=_DEFAULT,
                show_default=True,
                is_eager=True,
                metavar="NAME",
                help=f"How long to wait, one of {', '.join(POLICIES)}; 'backoff-ticker delays "
                "--help' says what they do, --policy NAME --help shows the options of one.",
            ),
            *_options_of_all_policies(),
            seed_option(),
            click.Option(
                ["--max-attempts"],
                type=OrNone(click.IntRange(min=1)),
                metavar="N",
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
                help="End an attempt after this long, as a failure; none: never.  [default: none]",
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
            click.Option(
                ["--keep-stdin"],
                is_flag=True,
                help="Read stdin to its end first, and give all of it to each attempt. Without it, "
                "only a file is read again.",
            ),
            click.Option(["-q", "--quiet"], is_flag=True, help="Show no progress."),
        ],
        examples=[
            "run -- curl --fail https://example.com/health",
            "run --policy constant --interval 5s --timeout 10m -- pg_isready",
            "run --attempt-timeout 30s --until-output ready -- ./status",
            "run --on-exit-code 75 -- sh -c 'fetch | import'",
        ],
        short_help="Run a command until it succeeds.",
        help=_HELP,
    )
