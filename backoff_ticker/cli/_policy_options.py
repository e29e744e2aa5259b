"""The options of policies, and of what can be put around any policy.

They come from signatures and docstrings alone, so a policy of the package and one that is named by
its import path are treated alike.
"""

from __future__ import annotations

import inspect
import random
import re
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from .. import (
    with_added_jitter,
    with_jitter,
    with_max_elapsed_time,
    with_max_interval,
    with_max_retries,
)
from ..policies import require_policy
from ._commands import PolicyOption, WrapperOption
from ._param_types import JITTER, NONE, SECONDS, OrNone

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..policies import BackOff, TimeSource
    from ..types import NamedPolicy
    from ._param_types import ParamType

_NOT_ON_THE_COMMAND_LINE = ("rng", "clock")  # but set by ``--seed`` and the command itself

# The click type by the annotation of a parameter; a bool becomes a pair of flags.
_KINDS: dict[str, ParamType] = {
    "bool": click.BOOL,
    "int": click.INT,
    "float": click.FLOAT,
    "str": click.STRING,
    "float | timedelta": SECONDS,
    "float | timedelta | None": OrNone(SECONDS),
    "JitterKind": JITTER,
}

# What an option puts around a policy without a parameter of that name, innermost wrapper first.
_WRAPPERS: dict[str, Callable[..., BackOff]] = {
    "jitter": with_jitter,
    "max_jitter": with_added_jitter,
    "max_interval": with_max_interval,
    "max_elapsed_time": with_max_elapsed_time,
    "max_retries": with_max_retries,
}

_ARGS = re.compile(r"^Args:\n((?:    .*\n|\n)*)", re.MULTILINE)
_ARG = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def policy_options(policy: NamedPolicy) -> list[PolicyOption]:
    """Return an option for each parameter of a policy, and for each wrapper it can have."""
    own = _parameters_of(policy)
    texts = _help_of(policy.make)
    around = [_wrapper_option(name, wrap) for name, wrap in _WRAPPERS.items() if name not in own]
    return [*(_own_option(one, texts.get(name, "")) for name, one in own.items()), *around]


def _parameters_of(policy: NamedPolicy) -> dict[str, inspect.Parameter]:
    """Return the parameters that can be options: all that are required, and all of a known type."""
    try:
        parameters = inspect.signature(policy).parameters
    except (TypeError, ValueError) as error:
        raise click.UsageError(f"{policy.name} is not a policy: {error}") from error
    return {
        name: one
        for name, one in parameters.items()
        if name not in _NOT_ON_THE_COMMAND_LINE
        and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        and (_kind_of(one) is not None or _is_required(one))
    }


def _kind_of(parameter: inspect.Parameter) -> ParamType | None:
    kind = parameter.annotation
    if kind is parameter.empty:
        kind = type(parameter.default)
    name = kind.__name__ if isinstance(kind, type) else str(kind).replace("datetime.", "")
    return _KINDS.get(name)


def _own_option(parameter: inspect.Parameter, text: str) -> PolicyOption:
    flag, kind = _flag(parameter.name), _kind_of(parameter)
    if kind is None:
        raise click.UsageError(f"{flag} cannot be given here: {parameter} has no simple type")
    if _is_required(parameter):
        return PolicyOption([flag], type=kind, help=f"{text}  [required]")
    default = NONE if parameter.default is None else parameter.default
    if kind is click.BOOL:
        flag += f"/--no-{flag.removeprefix('--')}"
    return PolicyOption([flag], type=kind, default=default, show_default=True, help=text)


def _wrapper_option(name: str, wrap: Callable[..., BackOff]) -> PolicyOption:
    kind = _KINDS[inspect.signature(wrap).parameters[name].annotation]
    kind = kind if isinstance(kind, OrNone) else OrNone(kind)
    text = f"{_help_of(wrap).get(name, '')} none: no wrapper."
    return WrapperOption([_flag(name)], type=kind, help=text)


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.default is inspect.Parameter.empty


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _help_of(make: Callable[..., object]) -> dict[str, str]:
    """Return what a docstring says of each argument; those of base classes come first."""
    texts: dict[str, str] = {}
    for one in reversed(getattr(make, "__mro__", (make,))):
        found = _ARGS.search(f"{inspect.cleandoc(one.__doc__ or '')}\n")
        texts |= _ARG.findall(found[1]) if found else ()
    flags = {f"``{name}``": _flag(name) for name in texts.keys() - {"backoff"}}
    for name, text in texts.items():
        told = " ".join(text.split()).replace(" or a timedelta", "").replace("math.inf", "inf")
        told = re.sub("``.*?``", lambda code: flags.get(code[0], code[0][2:-2]), told)
        texts[name] = re.sub(r"\bNone\b", NONE, told)
    return texts


def required_of(policy: NamedPolicy) -> list[str]:
    return [name for name, one in _parameters_of(policy).items() if _is_required(one)]


def sample_options(policy: NamedPolicy) -> str:
    """Return the options that a policy requires, with the values of its docstring's example."""
    call = rf" {re.escape(getattr(policy.make, '__name__', ''))}\((.*?)\)"
    found = re.search(call, policy.make.__doc__ or "")
    values = found[1].split(", ") if found else []
    required = zip(required_of(policy), values, strict=False)
    return "".join(f" {_flag(name)} {value}" for name, value in required)


def policy_parameters(policy: NamedPolicy) -> list[click.Parameter]:
    """Return the options of a policy, and ``values``, arguments for those that it requires."""
    names = " ".join(f"[{name.upper()}]" for name in required_of(policy))
    values = [click.Argument(["values"], nargs=-1, metavar=names)] if names else []
    return [*values, *policy_options(policy)]


def seed_option() -> click.Option:
    text = "Draw the same delays in each run. Without it, each run draws its own."
    return click.Option(["--seed"], type=click.IntRange(min=0), metavar="N", help=text)


def with_arguments(
    policy: NamedPolicy, values: Mapping[str, object], arguments: Sequence[str]
) -> dict[str, object]:
    """Return the values of options, with arguments for required ones that were not given."""
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


def build_policy(
    policy: NamedPolicy,
    values: Mapping[str, object],
    clock: TimeSource | None = None,
    rng: random.Random | None = None,
) -> BackOff:
    """Return the policy that the options of the current command describe.

    Of the values those count that were given on the command line. A ``seed`` among them takes the
    place of ``rng``.
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
    missing = [_flag(name) for name in required_of(policy) if name not in own]
    if missing:
        sample = sample_options(policy)
        hint = f", as in:{sample}" if sample else ""
        raise click.UsageError(f"{policy.name} needs {' and '.join(missing)}{hint}")
    offered: dict[str, Any] = {"clock": clock, "rng": rng}
    if seed is not None:
        offered["rng"] = random.Random(seed)  # type: ignore[arg-type]  # noqa: S311 - no secret
    try:
        backoff: BackOff = policy(**own, **_accepted(policy, offered))
        require_policy(policy.name, backoff)
        if given.get("jitter") is not None or given.get("max_jitter") is not None:
            given.setdefault("max_elapsed_time", _limit_ahead(backoff))
        for name, wrap in _WRAPPERS.items():
            if given.get(name) is not None:
                backoff = wrap(backoff, given[name], **_accepted(wrap, offered))
    except (TypeError, ValueError) as error:
        raise click.UsageError(_with_flags(str(error), [*parameters, *_WRAPPERS])) from error
    return backoff


def _accepted(make: Callable[..., object], offered: Mapping[str, Any]) -> dict[str, Any]:
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
