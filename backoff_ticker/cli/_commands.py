"""What all our commands share: examples in their help, and suggestions for mistyped names."""

from __future__ import annotations

from difflib import get_close_matches
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from click.shell_completion import CompletionItem

_OPTIONS = "Options"
_MOST_SUGGESTIONS = 4
_WIDEST_EXAMPLE = 72

UNITS = "A DURATION is a number of seconds, or has units, as in 500ms, 5s, 2m or 1h30m."


class Command(click.Command):
    """A command whose help ends with examples.

    Args:
        name: The name of the command.
        examples: Lines for a shell, without ``backoff-ticker``; a long one is wrapped.
        **options: The options of ``click.Command``.
    """

    def __init__(self, name: str, *, examples: Sequence[str] = (), **options: Any) -> None:  # noqa: ANN401 - click's
        super().__init__(name, **options)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, never wrapped, and the rest."""
        write_examples(self.examples, formatter)
        super().format_epilog(ctx, formatter)


class PolicyOption(click.Option):
    """An option that is a policy's parameter, or that adds a wrapper.

    Args:
        flag: The flag, such as ``--max-interval``.
        is_wrapper: Whether it adds a wrapper.
        **options: The options of ``click.Option``.
    """

    def __init__(self, flag: str, *, is_wrapper: bool = False, **options: Any) -> None:  # noqa: ANN401 - click's
        super().__init__([flag], **options)
        self.is_wrapper = is_wrapper


class PolicyCommand(Command):
    """A command whose help has the options of the policy in sections of their own.

    Args:
        name: The name of the command.
        policy_options_of: Returns the policy options that the help shows; None: all of them.
        **options: The options of ``Command``.
    """

    def __init__(
        self,
        name: str,
        policy_options_of: Callable[[click.Context], list[PolicyOption]] | None = None,
        **options: Any,  # noqa: ANN401 - click's
    ) -> None:
        super().__init__(name, **options)
        self._policy_options_of = policy_options_of

    def _options(self, ctx: click.Context) -> list[click.Option]:
        """Return the options, with those of the policy in use alone."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        if self._policy_options_of is None:
            return options
        own = [option for option in options if not isinstance(option, PolicyOption)]
        return [*self._policy_options_of(ctx), *own]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the options."""
        flags = {flag for one in self._options(ctx) for flag in one.opts + one.secondary_opts}
        return [item for item in super().shell_complete(ctx, incomplete) if item.value in flags]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by section."""
        sections: dict[str, list[tuple[str, str]]] = {_OPTIONS: []}
        for option in self._options(ctx):
            title = _OPTIONS
            if isinstance(option, PolicyOption):
                title = "Around the policy" if option.is_wrapper else "Options of the policy"
            record = option.get_help_record(ctx)
            if record is not None:
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)
        formatter.write_paragraph()
        formatter.write_text(UNITS)


class Group(click.Group):
    """A group whose help ends with examples, and that suggests commands for unknown names.

    Commands are listed in the order in which they were added.

    Args:
        name: The name of the group.
        examples: Lines for a shell, without ``backoff-ticker``.
        kind: What its commands are called in errors.
        **options: The options of ``click.Group``.
    """

    def __init__(
        self,
        name: str,
        *,
        examples: Sequence[str],
        kind: str = "command",
        **options: Any,  # noqa: ANN401 - click's
    ) -> None:
        super().__init__(name, **options)
        self.examples = examples
        self._kind = kind

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of the commands."""
        return [*self.commands]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is meant, or fail with a suggestion."""
        name = args[0]
        unknown = not name.startswith("-") and self.get_command(ctx, name) is None
        if unknown and not ctx.resilient_parsing:
            texts = {name: one.short_help or "" for name, one in self.commands.items()}
            ctx.fail(f"No such {self._kind} {name!r}.{did_you_mean(name, texts)}")
        return super().resolve_command(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, never wrapped, and the rest."""
        write_examples(self.examples, formatter)
        super().format_epilog(ctx, formatter)


def form_options(**forms: str) -> list[click.Option]:
    """Return an option for each form of output, all of which set ``form``.

    Args:
        **forms: What is printed, by the name of the option.
    """
    return [
        click.Option([f"--{form}", "form"], flag_value=form, help=f"Print {what} instead.")
        for form, what in forms.items()
    ]


def plot_option(example: str) -> click.Option:
    """Return the option that writes a diagram, to a file such as ``example``."""
    text = f"Write a diagram too, such as {example}. Needs the extra plot."
    return click.Option(["--plot"], type=click.Path(), metavar="FILE", help=text)


def write_examples(examples: Iterable[str], formatter: click.HelpFormatter) -> None:
    """Write the section ``Examples``, for copying to a shell however wide the console is."""
    with formatter.section("Examples"):
        for example in examples:
            line = f"backoff-ticker {example}"
            parts = wrap(line, _WIDEST_EXAMPLE, break_long_words=False, break_on_hyphens=False)
            formatter.write("  " + " \\\n      ".join(parts) + "\n")


def did_you_mean(word: str, texts: Mapping[str, str]) -> str:
    """Return ``" Did you mean 'a' or 'b'?"``, or nothing if no name resembles a mistyped one.

    Args:
        word: What was typed.
        texts: What is said of each name; it is searched if no name resembles the word.
    """
    word = word.lower()
    found = (
        [name for name in texts if word and (name.startswith(word) or word in name.split("-"))]
        or get_close_matches(word, texts)
        or [name for name, text in texts.items() if word in text.lower().replace(",", " ").split()]
    )
    if not found:
        return ""
    *some, last = map(repr, found[:_MOST_SUGGESTIONS])
    return f" Did you mean {', '.join(some)}{' or ' if some else ''}{last}?"
