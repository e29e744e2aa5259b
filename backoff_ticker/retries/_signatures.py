"""What ``inspect``, ``help()`` and type checkers see of functions that take ``**options``.

Twenty keyword parameters with defaults would make ``retry_call`` a third slower than a dict. Type
checkers know the options by the ``TypedDict`` of ``**options``; ``inspect`` and ``help()`` show
those options one by one.
"""

from __future__ import annotations

from ._option_table import OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from inspect import Signature
    from typing import Any, Never, ParamSpec, Protocol, overload as overload  # noqa: PLC0414

    from typing_extensions import TypeVar

    P = ParamSpec("P")
    T = TypeVar("T")
    D = TypeVar("D", default=Never)  # what a fallback gives; nothing if there is none
    R = TypeVar("R")
    Y = TypeVar("Y")
    S = TypeVar("S")
    F = TypeVar("F", bound=Callable[..., object])
    Fallback_co = TypeVar("Fallback_co", covariant=True)

    class Decorator(Protocol):
        """What ``retry(...)`` returns: it decorates a function and keeps its type."""

        def __call__(self, function: F, /) -> F:
            """Return ``function``, retried."""

    class FallbackDecorator(Protocol[Fallback_co]):
        """What ``retry(fallback=...)`` returns: the function may then return the fallback."""

        @overload
        def __call__(self, function: Callable[P, Untyped], /) -> Callable[P, Any]: ...
        @overload
        def __call__(
            self, function: Callable[P, Coroutine[Y, S, R]], /
        ) -> Callable[P, Coroutine[Y, S, R | Fallback_co]]: ...
        @overload
        def __call__(self, function: Callable[P, R], /) -> Callable[P, R | Fallback_co]: ...
        def __call__(self, function: Any, /) -> Any:
            """Return ``function``, retried."""

    class Untyped:
        """Nothing has this type. What fits it is untyped, and stays so."""

else:

    def overload(function):  # noqa: ANN001, ANN202
        return function


class shows:  # noqa: N801 - a decorator
    """A decorator that gives a function the signature of another one, option by option.

    Args:
        shown: A stub with the signature, or the last overload.
        **defaults: Defaults that differ from those of ``OPTIONS``, or of options that the
            ``TypedDict`` lacks.
    """

    def __init__(self, shown: Callable[..., Any], **defaults: object) -> None:
        self.__wrapped__ = shown
        self._defaults = defaults

    def __call__(self, function: F) -> F:
        function.__wrapped__ = self  # type: ignore[attr-defined]
        return function

    @property
    def __signature__(self) -> Signature:
        from inspect import Parameter, signature

        from . import _option_types

        shown = signature(self.__wrapped__)
        *first, last = (known for known in shown.parameters.values() if known.name != "fallback")
        types = getattr(_option_types, last.annotation[len("Unpack[") : -1]).__annotations__
        for name, option in OPTIONS.items():
            if name in types or name in self._defaults:
                default = self._defaults.get(name, option.default)
                kind = types[name].__forward_arg__ if name in types else "object"
                first.append(
                    Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
                )
        return shown.replace(parameters=first)
