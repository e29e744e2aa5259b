"""What all our commands share: examples in their help, and suggestions for mistyped names."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_SUGGESTIONS = 4

UNITS = "A DURATION is a number of seconds, or has units, as in 500ms, 5s, 2m or 1h30m."


class PolicyOption(click.Option):
    """An option that is a policy's parameter."""

    section = "Options of the policy"


class WrapperOption(PolicyOption):
    """An option that adds a wrapper."""

    section = "Around the policy"


class PolicyCommand(click.Command):
    """A command whose help has the options of a policy in sections of their own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                sections.setdefault(getattr(param, "section", "Options"), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)
        formatter.write_paragraph()
        formatter.write_text(UNITS)


class Group(click.Group):
    """A group that suggests commands for unknown names."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        unknown = not name.startswith("-") and self.get_command(ctx, name) is None
        if unknown and not ctx.resilient_parsing:
            meant = did_you_mean(name, self.list_commands(ctx))
            ctx.fail(f"{self.name} has no {name!r}.{meant}")
        return super().resolve_command(ctx, args)


def examples(*lines: str) -> str:
    """Return the end of a help: lines for a shell, given without ``backoff-ticker``."""
    # Click does not wrap what follows \b: it can be copied.
    return "\b\nExamples:\n" + "\n".join(f"  backoff-ticker {line}" for line in lines)


def form_options(**forms: str) -> list[click.Option]:
    """Return options that set ``form``, of what is printed by the name of the option."""
    return [
        click.Option([f"--{form}", "form"], flag_value=form, help=f"Print {what} instead.")
        for form, what in forms.items()
    ]


def count_option(flag: str, default: int, most: int, text: str, unit: str = "N") -> click.Option:
    kind = click.IntRange(1, most)
    return click.Option(
        [flag], type=kind, default=default, show_default=True, metavar=unit, help=text
    )


def plot_option(example: str) -> click.Option:
    """Return the option that writes a diagram, to a file such as ``example``."""
    text = f"Write a diagram too, such as {example}. Needs the extra plot."
    return click.Option(["--plot"], type=click.Path(), metavar="FILE", help=text)


def did_you_mean(word: str, names: Sequence[str]) -> str:
    """Return ``" Did you mean 'a' or 'b'?"``, or nothing if no name resembles a mistyped word."""
    word = word.lower()
    begun = [name for name in names if word and (name.startswith(word) or word in name.split("-"))]
    found = begun or get_close_matches(word, names)
    if not found:
        return ""
    *some, last = map(repr, found[:_MOST_SUGGESTIONS])
    return f" Did you mean {', '.join(some)}{' or ' if some else ''}{last}?"
