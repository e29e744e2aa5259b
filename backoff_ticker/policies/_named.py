"""Every policy by name: one table for the command line, the documentation and integrations."""

from __future__ import annotations

import re
from types import MappingProxyType

from .._validation import names_like, safe_repr, unknown_option
from . import _algorithm_policies, _common, _jitter
from ._base import signature_of
from ._common import ConstantBackOff, ExponentialBackOff, TruncatedExponentialBackOff
from ._jitter import FullJitterBackOff
from ._limits import with_max_retries
from ._wrapper import chain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from inspect import Signature
    from random import Random
    from typing import Final

    from ._base import Policy


class NamedPolicy:
    """An entry of ``POLICIES``: call it with options to make the policy.

    ``inspect.signature`` lists the options.

    Attributes:
        name: The name of the policy.
        make: The class, or the function that makes the policy.
        preset: Whether it stands for published defaults of a class, rather than for a class.
        feedback: Whether the policy is a feedback policy.

    Example:
        >>> from backoff_ticker import POLICIES
        >>> POLICIES["constant"](interval=2)
        ConstantBackOff(2.0)
    """

    makes_policies: Final = True
    __slots__ = ("_defaults", "_preset_source", "feedback", "make", "name", "preset")

    def __init__(
        self, name: str, make: Callable[..., Policy], preset_source: str = "", **defaults: object
    ) -> None:
        self.name: str = name
        self.preset: bool = bool(preset_source)
        self.feedback: bool = hasattr(make, "failure")
        self.make: Callable[..., Policy] = make
        self._preset_source = preset_source
        self._defaults = defaults

    @property
    def source(self) -> str:
        """Where the rule and the defaults come from. Empty if Python drops docstrings (-OO)."""
        if self.preset:
            return self._preset_source
        _, _, text = (self.make.__doc__ or "").partition("Source: ")
        return " ".join(text.partition("\n\n")[0].replace("``", "").split()).removesuffix(".")

    @property
    def __signature__(self) -> Signature:
        found = signature_of(self.make)
        parameters = found.parameters.items()
        own = [
            one.replace(default=self._defaults.get(name, one.default)) for name, one in parameters
        ]
        return found.replace(parameters=own)

    def __call__(self, **options: object) -> Policy:
        """Make the policy; takes and raises the same as ``named_policy()``, but for the name."""
        signature = self.__signature__
        for name in options:
            if name not in signature.parameters:
                raise unknown_option(f"the policy {self.name}", name, signature.parameters)
        try:
            signature.bind(**options)
        except TypeError as error:
            raise TypeError(f"options of {self.name}: {error}") from None
        return self.make(**self._defaults | options)

    def __repr__(self) -> str:
        return f"<NamedPolicy {self.name}>"


def _grpc(rng: Random | None = None) -> Policy:
    first = with_max_retries(ConstantBackOff(1.0), 1)
    return chain(first, ExponentialBackOff(1.6, 0.2, 1.6, 120.0, None, rng=rng))


def _aws(max_retries: int = 2, rng: Random | None = None) -> Policy:
    """Make the policy.

    Args:
        max_retries: The number of delays before ``STOP``: an int >= 0.
        rng: As in ``FullJitterBackOff``.
    """
    return with_max_retries(FullJitterBackOff(1.0, 20.0, rng=rng), max_retries)


def _classes() -> Iterator[NamedPolicy]:
    """Yield an entry for each class of policies, in the order in which they are defined."""
    for family in (_common, _jitter, _algorithm_policies):
        for name, found in vars(family).items():
            if name.endswith("BackOff") and found.__module__ == family.__name__:
                words = re.sub("(?<=[a-z])(?=[A-Z])", "-", name.removesuffix("BackOff"))
                yield NamedPolicy(words.lower(), found)


_TABLE = (
    *_classes(),
    NamedPolicy(
        "go",
        ExponentialBackOff,
        "NewExponentialBackOff() of cenkalti/backoff v4: 0.5 s, x1.5, 50 %, 60 s, 15 min ahead",
    ),
    NamedPolicy(
        "java",
        ExponentialBackOff,
        "ExponentialBackOff.Builder of Google's HTTP Client Library for Java: as go, 15 min passed",
        look_ahead=False,
    ),
    NamedPolicy(
        "cloud-storage",
        TruncatedExponentialBackOff,
        "documentation of Google Cloud Storage: 1 s, x2, up to 1 s on top, 64 s",
    ),
    NamedPolicy(
        "grpc", _grpc, "gRPC connection backoff protocol: first 1 s plain, then x1.6, 20 %, 120 s"
    ),
    NamedPolicy(
        "aws",
        _aws,
        "standard retry mode of the AWS SDK for Python: full jitter, 1 s, x2, 20 s, 3 attempts",
    ),
)

POLICIES: Mapping[str, NamedPolicy] = MappingProxyType({entry.name: entry for entry in _TABLE})
"""Every policy by its name: a mapping from names to ``NamedPolicy``."""


def named_policy(name: str, **options: object) -> Policy:
    """Make a policy by its name, for example from a configuration file.

    The options are those of the class. The presets ``go``, ``java`` and ``cloud-storage`` have the
    published values as defaults; the preset ``aws`` takes ``max_retries``. ``POLICIES`` has all
    names.

    Args:
        name: A name of ``POLICIES``, such as ``"constant"`` or ``"full-jitter"``.
        **options: The arguments of the policy, by keyword.

    Raises:
        ValueError: No policy has that name, or an option is out of its range.
        TypeError: An option is missing, unknown or of the wrong type, or ``name`` is not a str.

    Example:
        >>> from backoff_ticker import named_policy
        >>> named_policy("constant", interval=2)
        ConstantBackOff(2.0)
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, not {safe_repr(name)}")
    entry = POLICIES.get(name)
    if entry is None:
        alike = names_like(name, POLICIES)
        hint = f": did you mean {alike}?" if alike else ""
        raise ValueError(f"name must be one of {', '.join(POLICIES)}, not {name!r}{hint}")
    return entry(**options)
