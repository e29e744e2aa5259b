"""``backoff-ticker run``: its options, and those of the policy that ``--policy`` names."""

from __future__ import annotations

from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Any, cast

import click

from .. import POLICIES
from ._commands import PolicyCommand, examples
from ._param_types import LIMIT, NONE, REGEX, OrNone, numbers
from ._policy_names import PolicyName, find_policy
from ._policy_options import build_policy, policy_options, seed_option
from ._progress import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..types import NamedPolicy
    from ._param_types import ParamType

_DEFAULT = "exponential"

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
    """Takes the options of the policy in use, and warns of those that the command gets."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = args.copy()
        ctx.meta[_POLICY] = _policy_in(words)
        rest = super().parse_args(ctx, args)
        command = ctx.params.get("command") or ()
        has_dashes = words[: len(words) - len(command)][-1:] == ["--"]
        if command and not (has_dashes or ctx.params["quiet"] or ctx.resilient_parsing):
            self._warn(ctx, command)
        return rest

    def _warn(self, ctx: click.Context, command: Sequence[str]) -> None:
        ours = {flag for param in self.get_params(ctx) for flag in param.opts if flag[:2] == "--"}
        ours -= {"--help"}  # which most commands have
        late = [word for word in takewhile("--".__ne__, command) if word.partition("=")[0] in ours]
        if late:
            say(
                f"backoff-ticker: warning: {' '.join(late)} stands after {command[0]!r}, which "
                "gets it; put it before the command, or -- before the command if that is meant"
            )

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        own = super().get_params(ctx)
        names = {param.name for param in own}
        options = policy_options(ctx.meta.get(_POLICY, POLICIES[_DEFAULT]))
        return [*(option for option in options if option.name not in names), *own]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        with formatter.section("Exit codes"):
            formatter.write_dl(_EXIT_CODES)


_POLICY = f"{__name__}.policy"  # in the ``meta`` of a context: the policy in use


def _policy_in(words: Sequence[str]) -> NamedPolicy:
    """Return the policy that ``--policy`` names: which options there are depends on it."""
    ours = [*takewhile("--".__ne__, words)]
    name = _DEFAULT
    for before, word in pairwise(["", *ours]):
        flag, equals, value = word.partition("=")
        if before == "--policy" or (flag == "--policy" and equals):
            name = word if before == "--policy" else value
    if len(ours) < len(words):
        return cast("NamedPolicy", PolicyName().convert(name, click.Option(["--policy"]), None))
    # Without "--", the name may be a word of the command, such as that of a policy of its own.
    return find_policy(name) or POLICIES[_DEFAULT]


def _run(
    *,
    command: tuple[str, ...],
    policy: NamedPolicy,
    keep_stdin: bool,
    quiet: bool,
    **options: Any,
) -> None:
    try:
        from ._run import Limits, run
    except ImportError as error:
        raise click.UsageError(f"run needs signals as POSIX has them: {error}") from error
    limits = Limits(*(options.pop(name) for name in Limits._fields))
    backoff = build_policy(policy, options)
    status = run(command, backoff, limits, keep_stdin=keep_stdin, quiet=quiet)
    click.get_current_context().exit(status)


def _limit(
    flag: str, text: str, kind: ParamType = LIMIT, metavar: str | None = None
) -> click.Option:
    """Return an option for which ``none`` means what it means not to give it."""

    def given(_context: click.Context, _option: click.Parameter, value: object) -> object:
        return None if value == NONE else value

    text += "; none: never.  [default: none]"
    return click.Option([flag], type=OrNone(kind), callback=given, metavar=metavar, help=text)


def _codes(
    _context: click.Context, _option: click.Parameter, lists: tuple[tuple[int, ...], ...]
) -> frozenset[int] | None:
    return frozenset().union(*lists) if lists else None


def run_command() -> click.Command:
    return _RunCommand(
        "run",
        context_settings={"allow_interspersed_args": False},
        callback=_run,
        params=[
            click.Argument(
                ["command"],
                nargs=-1,
                required=True,
                metavar="COMMAND [ARGUMENTS]...",
                shell_complete=click.Path().shell_complete,
            ),
            click.Option(
                ["--policy"],
                type=PolicyName(),
                default=_DEFAULT,
                show_default=True,
                is_eager=True,
                metavar="NAME",
                help=f"How long to wait, one of {', '.join(POLICIES)}, or package.module:Class; "
                "'backoff-ticker delays --help' says what they do, --policy NAME --help shows the "
                "options of one.",
            ),
            seed_option(),
            _limit("--max-attempts", "Give up after this many attempts", click.IntRange(1), "N"),
            _limit("--timeout", "End everything after this long, with exit code 124"),
            _limit("--attempt-timeout", "End an attempt after this long, as a failure"),
            click.Option(
                ["--on-exit-code"],
                type=numbers("codes", 255, "exit codes, 1 to 255, as in 1,75"),
                multiple=True,
                callback=_codes,
                help="Retry after these exit codes only, as in 1,75; may be repeated. Without it, "
                "after all but 0.",
            ),
            click.Option(
                ["--until-output"],
                type=REGEX,
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
        epilog=examples(
            "run -- curl --fail https://example.com/health",
            "run --policy constant --interval 5s --timeout 10m -- pg_isready",
            "run --attempt-timeout 30s --until-output ready -- ./status",
            "run --on-exit-code 75 -- sh -c 'fetch | import'",
        ),
        short_help="Run a command until it succeeds.",
        help=_HELP,
    )
