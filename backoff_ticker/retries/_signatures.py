"""What ``inspect``, ``help()`` and type checkers see of functions that take ``**options``.

Twenty keyword parameters with defaults would make ``retry_call`` a third slower than a dict. Type
checkers know the options by the ``TypedDict`` of ``**options``; ``inspect`` and ``help()`` show the
last overload, with those options one by one.
"""

from __future__ import annotations

from ._option_table import OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from inspect import Signature
    from typing import Any, Generic, Literal, Never, ParamSpec, overload as overload  # noqa: PLC0414

    from typing_extensions import TypeVar

    P = ParamSpec("P")
    T = TypeVar("T")
    D = TypeVar("D", default=Never)  # what a fallback gives; nothing if there is none
    R = TypeVar("R")
    Y = TypeVar("Y")
    S = TypeVar("S")
    F = TypeVar("F", bound=Callable[..., object])
    AsyncF = TypeVar("AsyncF", bound=Callable[..., Coroutine[Any, Any, Any] | AsyncIterator[Any]])

    # Whether the options fit any function, or, coroutine functions only.
    SyncOptions = Literal["sync options"]
    AsyncOptions = Literal["async options"]
    Options_co = TypeVar("Options_co", bound=str, covariant=True, default=Any)
    Fallback_co = TypeVar("Fallback_co", covariant=True)

    class Decorator(Generic[Options_co]):
        """What ``retry(...)`` returns: it decorates a function and keeps its type."""

        @overload
        def __call__(self, function: Untyped, /) -> Any: ...
        @overload
        def __call__(  # type: ignore[overload-overlap]  # the more special one comes first
            self, function: type[Any], /
        ) -> DecoratesNoClasses: ...
        @overload
        def __call__(self, function: AsyncF, /) -> AsyncF: ...
        @overload
        def __call__(self: Decorator[SyncOptions], function: F, /) -> F: ...
        def __call__(self, function: Any, /) -> Any:
            """Return ``function``, retried."""

    class FallbackDecorator(Generic[Fallback_co]):
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

    # The results of wrong uses that no type of an argument can refuse. Their names say what to do.

    class DecoratesNoClasses:
        """Of ``retry(OSError)``, which needs ``retry(on=OSError)``, and of other classes."""

    class UseRetryCallAsync:
        """Of ``retry_call`` with a coroutine function."""

    class Untyped:
        """Nothing has this type. An argument that fits it is untyped, and is accepted."""

else:

    def overload(function):  # noqa: ANN001, ANN202
        return function


class shows:  # noqa: N801 - a decorator
    """A decorator that gives a function the signature of its last overload, when it is asked for.

    Args:
        overload: The last overload.
        **defaults: Defaults that differ from those of ``OPTIONS``, or of options that the
            ``TypedDict`` lacks.
    """

    def __init__(self, overload: Callable[..., Any], **defaults: object) -> None:
        self.__wrapped__ = overload
        self._defaults = defaults

    def __call__(self, function: F) -> F:
        function.__wrapped__ = self  # type: ignore[attr-defined]
        return function

    @property
    def __signature__(self) -> Signature:
        from inspect import Parameter, signature

        from . import _option_types

        shown = signature(self.__wrapped__)
        *parameters, last = (
            known for known in shown.parameters.values() if known.name != "fallback"
        )
        if last.name != "options":
            return shown
        types = getattr(_option_types, last.annotation[len("Unpack[") : -1]).__annotations__
        for name, option in OPTIONS.items():
            kind = types[name].__forward_arg__ if name in types else "object"
            if (name in types or name in self._defaults) and kind != "None":
                default = self._defaults.get(name, option.default)
                shape: Any = {"default": default, "annotation": kind}
                parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, **shape))
        return shown.replace(parameters=parameters)
