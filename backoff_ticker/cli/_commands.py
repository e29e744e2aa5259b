"""Kinds of commands: groups that know near names, help that tells a policy's options apart."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

import click

from .._validation import safe_repr
from ._policy_options import PolicyOption
from ._text import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_HARD_HYPHEN = "\u2011"


def unknown(kind: str, name: str, known: Iterable[str]) -> click.UsageError:
    """Return the error for a name that is none of ``known``; a near one is suggested."""
    names = [*known]
    said = name.lower()
    near = get_close_matches(said, names, n=1)
    near += [known for known in names if said and known.startswith(said)]
    advice = f"did you mean {near[0]}? " if near else ""
    return click.UsageError(
        f"no such {kind}: {safe_repr(name)} ({advice}there are {listed(names)})"
    )


class Group(click.Group):
    """Commands in the order in which they were added, each with its whole line of help."""

    kind = "command"
    title = "Commands"

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of the commands."""
        return [*self.commands]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the arguments in.

        Raises:
            click.UsageError: There are none.
        """
        if not args:
            names = listed(self.list_commands(ctx))
            raise click.UsageError(f"missing {self.kind}: {names} (see {ctx.command_path} --help)")
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first argument names.

        Raises:
            click.UsageError: There is none of that name.
        """
        if self.get_command(ctx, args[0]) is None:
            raise self.no_such_command(ctx, args[0])
        return super().resolve_command(ctx, args)

    def no_such_command(self, ctx: click.Context, name: str) -> click.UsageError:
        """Return the error for a name that no command has."""
        return unknown(self.kind, name, self.list_commands(ctx))

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        formatter: click.HelpFormatter,
    ) -> None:
        """Write a list of the commands."""
        with formatter.section(self.title):
            formatter.write_dl(
                [(name, command.short_help or "") for name, command in self.commands.items()]
            )


class PolicyGroup(Group):
    """A command for each of some policies; those of the others are refused by name.

    Args:
        name: Of the group.
        help: The help of the group.
        short_help: The line of help of the group.
        elsewhere: The names of other policies, and what to say of them.
    """

    kind = "policy"
    title = "Policies"

    def __init__(
        self,
        name: str,
        *,
        help: str,  # noqa: A002 - click's name
        short_help: str,
        elsewhere: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            name,
            help=help,
            short_help=short_help,
            subcommand_metavar="POLICY [OPTIONS]...",
        )
        self._elsewhere = elsewhere or {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the arguments in.

        Raises:
            click.UsageError: There is an option before the policy.
        """
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise click.UsageError(
                f"option {error.option_name} must stand after the name of the policy"
            ) from error

    def no_such_command(self, ctx: click.Context, name: str) -> click.UsageError:
        """Return the error for a name that no policy here has."""
        if name in self._elsewhere:
            return click.UsageError(self._elsewhere[name])
        return super().no_such_command(ctx, name)


class PolicyCommand(click.Command):
    """A command whose help tells the options of the policy, and around it, apart from its own."""

    def shown_policy(self, ctx: click.Context) -> list[PolicyOption]:  # noqa: ARG002 - for subclasses
        """Return the options of the policy that the help tells of."""
        return [option for option in self.params if isinstance(option, PolicyOption)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, those of the policy first."""
        sections: dict[str, list[tuple[str, str]]] = {}
        others = [
            param
            for param in self.get_params(ctx)
            if isinstance(param, click.Option) and not isinstance(param, PolicyOption)
        ]
        for option in (*self.shown_policy(ctx), *others):
            record = option.get_help_record(ctx)
            if record is not None:
                title = option.section if isinstance(option, PolicyOption) else "Options"
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl([(first, _unbroken(text)) for first, text in records])
        formatter.buffer[:] = [line.replace(_HARD_HYPHEN, "-") for line in formatter.buffer]


def _unbroken(text: str) -> str:
    """Return a text that click breaks into lines, but not at the hyphens of an option."""
    return text.replace("-", _HARD_HYPHEN)
