"""Event loops that no virtual clock can drive, such as uvloop's, are refused inside one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from .._kernel import kernel_here
from ._loops import driver_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    Patch: TypeAlias = tuple[Any, str, Callable[[Any], Any]]
    """The owner, the attribute's name, and a function from original to replacement."""


def _refuse(loop: object) -> None:
    """Raise an ``UntrackedLoopError`` inside a strict clock."""
    kernel = kernel_here()
    if kernel is not None and kernel.strict:
        driver_of(loop, kernel)


def _making(original: Callable[..., Any]) -> Callable[..., Any]:
    def make(loop: Any, /, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        original(loop, *args, **kwargs)
        try:
            _refuse(loop)
        except BaseException:
            loop.close()  # nobody else has it
            raise

    return make


def _running(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(loop: object, /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        _refuse(loop)
        return original(loop, *args, **kwargs)

    return run


def _patches_of(loop_class: type) -> Iterator[Patch]:
    yield loop_class, "__init__", _making
    yield loop_class, "run_forever", _running
    yield loop_class, "run_until_complete", _running


def foreign_loop_patches(apply: Callable[[Patch], None]) -> Iterator[Patch]:
    """Return the patches of all classes of such loops.

    Args:
        apply: Applies those of a class that is defined later.
    """

    def subclassing(_original: object) -> Any:  # noqa: ANN401
        def init_subclass(subclass: type, /, **kwargs: Any) -> None:  # noqa: ANN401
            super(asyncio.AbstractEventLoop, subclass).__init_subclass__(**kwargs)  # type: ignore[misc]
            if not issubclass(subclass, asyncio.BaseEventLoop):
                for patch in _patches_of(subclass):
                    apply(patch)

        return classmethod(init_subclass)

    yield asyncio.AbstractEventLoop, "__init_subclass__", subclassing
    for loop_class in asyncio.AbstractEventLoop.__subclasses__():
        if not issubclass(loop_class, asyncio.BaseEventLoop):
            yield from _patches_of(loop_class)
