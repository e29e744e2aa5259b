"""How functions that take ``**options`` show each option by name, type and default.

At run time they take a dict: twenty defaults, filled in at each call, would make ``retry_call`` a
third slower before any of them is looked at. Type checkers know the options by the ``TypedDict`` of
``**options``. ``inspect.signature`` and ``help()`` show the last overload, which is also run, with
the options of its ``TypedDict`` in place of ``**options``.
"""

from __future__ import annotations

from ._option_table import OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from inspect import Signature
    from typing import Any, Generic, Literal, ParamSpec, overload

    from typing_extensions import TypeVar

    P = ParamSpec("P")
    D = TypeVar("D")
    R = TypeVar("R")
    Y = TypeVar("Y")
    S = TypeVar("S")
    F = TypeVar("F", bound=Callable[..., object])
    AsyncF = TypeVar("AsyncF", bound=Callable[..., Coroutine[Any, Any, Any] | AsyncIterator[Any]])

    # Whether options can be used anywhere, or, as `attempt_timeout`, in coroutines only.
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

    # The results of wrong uses that no argument type can refuse. They can be neither called nor
    # awaited, and their names say what to do instead.

    class DecoratesNoClasses:
        """Of ``retry(OSError)``, which needs ``retry(on=OSError)``, and of other classes."""

    class UseRetryCallAsync:
        """Of ``retry_call`` with a coroutine function."""

    class UseHedgeCallAsync:
        """Of ``hedge_call`` with a coroutine function."""

    class Untyped:
        """Nothing is of this type. An argument that fits it is untyped, and is accepted."""

else:

    def overload(function):  # noqa: ANN001, ANN202
        return function


class shows:  # noqa: N801 - a decorator
    """A decorator of functions that are to be seen as another one.

    Its signature is made when somebody asks for it, because that takes ``inspect`` and ``typing``.

    Args:
        overload: The other one. Its ``**options`` are shown one by one, with types and defaults.
        **defaults: Those that differ from what ``OPTIONS`` says.
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
        *parameters, last = shown.parameters.values()
        if last.name != "options":
            return shown
        types = getattr(_option_types, last.annotation[len("Unpack[") : -1]).__annotations__
        defaults = {name: option.default for name, option in OPTIONS.items()} | self._defaults
        for name, kind in types.items():
            shape: Any = {"default": defaults[name], "annotation": kind.__forward_arg__}
            parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, **shape))
        order = list(OPTIONS)
        parameters.sort(key=lambda one: order.index(one.name) if one.name in OPTIONS else -1)
        return shown.replace(parameters=parameters)
