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
from ._commands import PolicyOption
from ._param_types import NONE, Jitter, OrNone, Seconds, exact
from ._policy_texts import HELP, HELP_AROUND, HELP_OF, SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
            _flag(name), is_wrapper=True, type=OrNone(wrapper.kind), help=HELP_AROUND[name]
        )
        for name, wrapper in WRAPPERS.items()
        if name not in parameters
    ]
    return [*own, *around]


def policy_parameters(policy: NamedPolicy) -> list[click.Parameter]:
    """Return the options of a policy, and ``values``, arguments for those that it requires."""
    own = policy_options(policy)
    for option in own:
        if option.required:  # it may be an argument instead
            option.required = False
            option.help = f"{option.help}  [required]"
    names = " ".join(f"[{name.upper()}]" for name in required_of(policy))
    values = [click.Argument(["values"], nargs=-1, metavar=names)] if names else []
    return [*values, *own]


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
    text = "Draw the same delays in each run. Without it, each run draws its own."
    return click.Option(["--seed"], type=click.IntRange(min=0), metavar="N", help=text)


def sample_options(policy: NamedPolicy) -> str:
    """Return the options that a policy requires, with values, for an example."""
    sample = SAMPLES.get(policy.name, {})
    return "".join(f" {_flag(name)} {value}" for name, value in sample.items())


def required_of(policy: NamedPolicy) -> list[str]:
    """Return the parameters that a policy requires."""
    return [name for name, one in _parameters_of(policy).items() if _is_required(one)]


def with_arguments(
    policy: NamedPolicy, values: Mapping[str, object], arguments: Sequence[str]
) -> dict[str, object]:
    """Return the values of options, with arguments for those that are required and were not given.

    Raises:
        click.UsageError: An argument is of another type, or there are too many.
    """
    context = click.get_current_context()
    options = {option.name: option for option in context.command.params}
    missing = [name for name in required_of(policy) if values[name] is None]
    if len(arguments) > len(missing):
        raise click.UsageError(f"Got unexpected extra argument ({arguments[len(missing)]})")
    taken = dict(values)
    for name, argument in zip(missing, arguments, strict=False):
        taken[name] = options[name].type.convert(argument, options[name], context)
        context.set_parameter_source(name, ParameterSource.COMMANDLINE)
    return taken


def summary_of(policy: NamedPolicy, values: Mapping[str, object]) -> str:
    """Return the options that matter, with their values: ``base 1, cap 20, seed 7``."""
    words = []
    for name in [*_parameters_of(policy), *WRAPPERS, "seed"]:
        value, flag = values.get(name), _flag(name).removeprefix("--")
        if isinstance(value, bool):
            words.append(flag if value else f"no-{flag}")
        elif value is not None:
            words.append(f"{flag} {exact(value) if isinstance(value, float) else value}")
    return ", ".join(dict.fromkeys(words))


def build_policy(
    policy: NamedPolicy,
    values: Mapping[str, object],
    clock: TimeSource | None = None,
    rng: random.Random | None = None,
) -> BackOff:
    """Return the policy that the options of the current command describe.

    Args:
        policy: The entry of the policy.
        values: The values of options, by parameter, among them ``seed``; those that were not
            given on the command line do not count.
        clock: For policies that measure time.
        rng: What they draw from, unless there is a ``seed``.

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
    missing = [name for name in required_of(policy) if name not in own]
    if missing:
        flags = " and ".join(map(_flag, missing))
        raise click.UsageError(f"{policy.name} needs {flags}, as in:{sample_options(policy)}")
    offered: dict[str, Any] = {"clock": clock, "rng": rng}
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
    return text.replace(" or a timedelta", "").replace("None or math.inf", "none or inf")


def _help_of(policy: NamedPolicy, parameter: str) -> str:
    return HELP_OF.get(policy.name, {}).get(parameter) or HELP[parameter]
