"""The options of each policy, from the signature of its constructor, and those of wrappers."""

from __future__ import annotations

import inspect
import random
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from ..policies import (
    with_added_jitter,
    with_jitter,
    with_max_elapsed_time,
    with_max_interval,
    with_max_retries,
)
from ._param_types import NONE, Jitter, OrNone, Seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..policies import BackOff, NamedPolicy, TimeSource
    from ._param_types import ParamType

_NOT_ON_THE_COMMAND_LINE = ("rng", "clock")

KINDS: dict[str, ParamType] = {
    "bool": click.BOOL,
    "int": click.INT,
    "float": click.FLOAT,
    "float | timedelta": Seconds(),
    "float | timedelta | None": OrNone(Seconds()),
}
"""The click type by the annotation of a constructor's parameter; a bool becomes a pair of flags."""


class _Wrapper(NamedTuple):
    """The wrapper that an option adds to a policy without a parameter of that name.

    Attributes:
        wrap: Called with the policy and the value of the option.
        kind: The type of that value; the word ``none`` adds no wrapper.
    """

    wrap: Callable[..., BackOff]
    kind: ParamType


WRAPPERS = {
    "jitter": _Wrapper(with_jitter, Jitter()),
    "max_jitter": _Wrapper(with_added_jitter, Seconds()),
    "max_interval": _Wrapper(with_max_interval, Seconds()),
    "max_elapsed_time": _Wrapper(with_max_elapsed_time, Seconds()),
    "max_retries": _Wrapper(with_max_retries, click.INT),
}
"""By the name of the option, innermost wrapper first."""


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


class PolicyGroup(click.Group):
    """A group with one command per policy, in the order of ``POLICIES``."""

    def __init__(self, name: str, commands: dict[str, click.Command], **options: Any) -> None:  # noqa: ANN401 - click's
        super().__init__(name, commands, subcommand_metavar="POLICY [OPTIONS]...", **options)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of the policies."""
        return [*self.commands]


class PolicyCommand(click.Command):
    """A command whose help has the options of the policy in sections of their own.

    Args:
        name: The name of the command.
        policy_options_of: Returns the policy options that the help shows; None: all of them.
        **options: The options of ``click.Command``.
    """

    def __init__(
        self,
        name: str,
        policy_options_of: Callable[[click.Context], list[PolicyOption]] | None = None,
        **options: Any,  # noqa: ANN401 - click's
    ) -> None:
        super().__init__(name, **options)
        self._policy_options_of = policy_options_of

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by section."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        if self._policy_options_of is not None:
            own = [option for option in options if not isinstance(option, PolicyOption)]
            options = [*self._policy_options_of(ctx), *own]
        sections: dict[str, list[tuple[str, str]]] = {}
        for option in options:
            title = "Options"
            if isinstance(option, PolicyOption):
                title = "Around the policy" if option.is_wrapper else "Options of the policy"
            record = option.get_help_record(ctx)
            if record is not None:
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def policy_options(policy: NamedPolicy) -> list[PolicyOption]:
    """Return an option for each parameter of a policy, and for each wrapper it can have.

    Raises:
        KeyError: ``KINDS`` lacks the annotation of a parameter, or its help is missing.
    """
    parameters = _parameters_of(policy)
    own = [
        _own_option(parameter, _help_of(policy, parameter.name))
        for parameter in parameters.values()
    ]
    around = [
        PolicyOption(
            _flag(name), is_wrapper=True, type=OrNone(wrapper.kind), help=_HELP_AROUND[name]
        )
        for name, wrapper in WRAPPERS.items()
        if name not in parameters
    ]
    return [*own, *around]


def _parameters_of(policy: NamedPolicy) -> dict[str, inspect.Parameter]:
    return {
        name: parameter
        for name, parameter in inspect.signature(policy).parameters.items()
        if name not in _NOT_ON_THE_COMMAND_LINE
    }


def _own_option(parameter: inspect.Parameter, text: str) -> PolicyOption:
    flag, kind = _flag(parameter.name), KINDS[parameter.annotation]
    if _is_required(parameter):
        return PolicyOption(flag, type=kind, required=True, help=text)
    default = NONE if parameter.default is None else parameter.default
    if kind is click.BOOL:
        flag += f"/--no-{flag.removeprefix('--')}"
    return PolicyOption(flag, type=kind, default=default, show_default=True, help=text)


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.default is inspect.Parameter.empty


def _flag(name: str) -> str:
    """Return the flag for a parameter."""
    return f"--{name.replace('_', '-')}"


def seed_option() -> click.Option:
    """Return the option that seeds random delays."""
    text = "Draw the same delays each time. Without it, each run draws others."
    return click.Option(["--seed"], type=click.IntRange(min=0), help=text)


def build_policy(
    policy: NamedPolicy, values: Mapping[str, object], clock: TimeSource | None = None
) -> BackOff:
    """Return the policy that the options of the current command describe.

    Args:
        policy: The entry of the policy.
        values: The values of options, by parameter, among them ``seed``; those that were not
            given on the command line do not count.
        clock: For policies that measure time.

    Raises:
        click.UsageError: An option is missing, belongs to another policy, or is refused.
    """
    source = click.get_current_context().get_parameter_source
    given = {
        name: None if value == NONE else value
        for name, value in values.items()
        if source(name) is ParameterSource.COMMANDLINE
    }
    seed = given.pop("seed", None)
    parameters = _parameters_of(policy)
    own = {name: given.pop(name) for name in parameters if name in given}
    foreign = [_flag(name) for name in given if name not in WRAPPERS]
    if foreign:
        raise click.UsageError(f"{policy.name} has no option {', '.join(foreign)}")
    missing = [_flag(name) for name in parameters.keys() - own if _is_required(parameters[name])]
    if missing:
        raise click.UsageError(f"{policy.name} needs {', '.join(sorted(missing))}")
    offered: dict[str, Any] = {"clock": clock, "rng": None}
    if seed is not None:
        offered["rng"] = random.Random(seed)  # type: ignore[arg-type]  # noqa: S311 - no secret
    try:
        backoff: BackOff = policy(**own, **_accepted(policy, offered))
        if given.get("jitter") is not None or given.get("max_jitter") is not None:
            given.setdefault("max_elapsed_time", _limit_ahead(backoff))
        for name, (wrap, _) in WRAPPERS.items():
            if given.get(name) is not None:
                backoff = wrap(backoff, given[name], **_accepted(wrap, offered))
    except (TypeError, ValueError) as error:
        raise click.UsageError(_with_flags(str(error), [*parameters, *WRAPPERS])) from error
    return backoff


def _accepted(make: Callable[..., object], offered: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of ``offered`` that ``make`` has a parameter for."""
    parameters = inspect.signature(make).parameters
    return {name: value for name, value in offered.items() if name in parameters}


def _limit_ahead(policy: BackOff) -> float | None:
    """Return a policy's own limit of elapsed time that counts the delay to come, if it has one.

    Added jitter makes that delay longer, so the limit is applied outside the jitter.
    """
    limit: float | None = getattr(policy, "max_elapsed_time", None)
    return limit if getattr(policy, "look_ahead", True) else None


def _with_flags(message: str, names: list[str]) -> str:
    """Return the message of a constructor with its parameters, unless quoted, as options."""
    pattern = rf"'[^']*'|(?<![\w-])({'|'.join(names)})(?![\w-])"
    text = re.sub(pattern, lambda found: _flag(found[1]) if found[1] else found[0], message)
    return text.replace(" or a timedelta", "")


def _help_of(policy: NamedPolicy, parameter: str) -> str:
    return _HELP_OF.get(policy.name, {}).get(parameter) or _HELP[parameter]


_HELP = {
    "interval": "The delay.",
    "initial_interval": "The first interval.",
    "randomization_factor": "The fraction of its interval by which a delay may differ, 0 to < 1.",
    "multiplier": "The factor from each interval to the next, >= 1.",
    "max_interval": "The greatest interval; a delay around it can be longer.",
    "max_elapsed_time": "Stop this long after the start; 0 or none: never.",
    "look_ahead": "Whether to stop before a delay that would pass the limit of elapsed time (Go), "
    "or only once it has passed (Java).",
    "initial_backoff": "The first delay, without its random part.",
    "maximum_backoff": "The greatest delay, random part included, before --jitter.",
    "max_jitter": "The greatest random part that is added to a delay.",
    "base": "The first limit of a delay, before it grows.",
    "cap": "The greatest delay, before --jitter and --max-jitter; none: no cap.",
    "delay": "The delay after a failure.",
    "delay_on_success": "The delay after a success.",
    "initial_delay": "The first delay.",
    "initial_delay1": "The delay after the first failure in a row.",
    "initial_delay2": "The delay after the second failure in a row.",
    "exponent_base": "The factor from each delay to the next.",
    "delay_increment_on_failure": "What a failure adds to the delay.",
    "delay_increment_on_success": "What a success adds to the delay; mostly negative.",
    "delay_multiple_on_failure": "The factor that a failure applies to the delay.",
    "delay_multiple_on_success": "The factor that a success applies to the delay.",
    "consider_actual_delay": "Whether the time between two calls counts as waited.",
    "max_actual_duration": "Give up this long after the start; 0: never.",
    "max_attempts": "Give up after this many failures in a row; 0: never.",
    "jitter_factor": "The fraction by which a delay may differ from what the rule gives, 0 to < 1.",
    "min_delay": "The least delay.",
    "max_retries": "Stop after this many delays in a row.",
    "max_delay": "The greatest delay, before --jitter and --max-jitter; none: no limit.",
}
"""Help by parameter; the metavar shows the unit."""

_PLAIN = {"multiplier": "The factor from each delay, without its random part, to the next, >= 1."}
_LIMIT = {"multiplier": "The factor from each limit to the next, >= 1."}

_HELP_OF = {
    "truncated-exponential": _PLAIN,
    "cloud-storage": _PLAIN,
    "full-jitter": _LIMIT,
    "equal-jitter": _LIMIT,
    "decorrelated-jitter": {
        "base": "The least delay.",
        "multiplier": "A delay can be up to this factor times the one before, >= 1.",
    },
}
"""Help by policy, where a parameter has a meaning of its own."""

_HELP_AROUND = {
    "jitter": "Draw each delay: full, from 0 to all of it; equal, from half of it; a number F, by "
    "that fraction around it; none: leave it. The policy's own draw stays.",
    "max_jitter": "Add a random part of up to this long to each delay; none: add nothing.",
    "max_interval": "Let no delay be longer, random part included; none: no limit but the "
    "policy's own.",
    "max_elapsed_time": "Stop before a delay that would end more than this after the start; "
    "0 or none: no limit but the policy's own.",
    "max_retries": "Stop after this many delays in a row; none: no limit but the policy's own.",
}
"""Help by option, for policies without a parameter of that name."""
