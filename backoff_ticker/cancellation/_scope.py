"""``async with token.scope()``: a block whose body a token cancels through asyncio or trio.

asyncio counts the calls of ``task.cancel()`` so that each can be taken back. A scope does as
``asyncio.timeout()``: it counts from its entry, takes back its own call, and turns the
``CancelledError`` into ``Cancelled`` only if nobody else cancelled the task. Under trio there is a
cancel scope around the body, which does all of that.
"""

from __future__ import annotations

from types import GenericAlias

from ..waiting import (
    NO_DEADLINE,
    Waiter,
    cancelled_error,
    checkpoint,
    current_task,
    new_cut,
    protected_in_trio,
    trio_runs,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Generic

    from typing_extensions import TypeVar

    from .._errors import Cancelled
    from ..clock import TimerHandle
    from ._tree import Node

    T_co = TypeVar("T_co", bound=Node, default=Node, covariant=True)
else:
    T_co, Generic = None, {None: object}  # typing is not imported at run time


class Scope(Generic[T_co]):
    """The ``async with`` block that ``CancellationToken.scope()`` returns.

    Example:
        >>> import asyncio
        >>> from backoff_ticker import CancellationToken, Cancelled
        >>> async def main():
        ...     async with CancellationToken(timeout=0.01).scope():
        ...         await asyncio.sleep(60)
        >>> try:
        ...     asyncio.run(main())
        ... except Cancelled as error:
        ...     print(error)
        the deadline has passed
    """

    __slots__ = ("_block",)

    __class_getitem__: classmethod[Any, ..., GenericAlias] = classmethod(GenericAlias)

    def __init__(self, token: T_co) -> None:
        self._block = CancellableBlock(token)

    def __repr__(self) -> str:
        return f"<Scope of {self._block.token!r}>"

    @protected_in_trio
    async def __aenter__(self) -> T_co:
        await self._block.enter()
        return self._block.token

    @protected_in_trio
    async def __aexit__(self, _: object, exc: BaseException | None, __: object) -> None:
        error, is_pending = self._block.leave(exc)
        if error is not None:
            try:
                raise error from exc
            finally:
                del error  # it refers to this frame
        if is_pending:
            await self._block.settle()


class CancellableBlock(Waiter, Generic[T_co]):
    """The code of one task between ``enter()`` and ``leave()``, which a token cancels."""

    __slots__ = ("_cancelling", "_fired", "_task", "_timer", "token")

    def __init__(self, token: T_co) -> None:
        self.token: T_co = token
        self._task: Any = None
        self._timer: TimerHandle | None = None
        self._cancelling = 0
        self._fired = False

    async def enter(self) -> None:
        if self._task is None and not trio_runs() and current_task().cancelling():
            # A cancel from elsewhere may be pending; it must not be mistaken for this block's.
            await checkpoint()
        if self._task is not None:
            raise RuntimeError("a scope can be entered once; call token.scope() again")
        self._task = task = new_cut()
        self._cancelling = task.cancelling()
        loop = task.get_loop()
        token = self.token
        super().__init__(loop, (token._wait_set(),))
        try:
            self.register()
            self.hold()
            if token.cancelled:
                loop.call_soon(self.fire)
            elif token._deadline != NO_DEADLINE:
                self._timer = token._clock.call_at(token._deadline, self.fire, loop=loop)
        except BaseException:
            self.leave(None)
            raise

    def fire(self) -> None:
        if self.token.cancelled and not self._fired:
            self._fired = True
            self._task.cancel()

    def leave(self, exc: BaseException | None) -> tuple[Cancelled | None, bool]:
        """Leave the block; return the error to raise for ``exc``, and whether a cancel is pending.

        There is an error if ``exc`` is this block's cancel, and nobody else's. A cancel is pending
        if the body cancelled the token and did not wait after that: await ``settle()`` then.
        """
        fired, self._fired = self._fired, True
        if self._timer is not None:
            self._timer.cancel()
        self.unregister()
        if hasattr(self._task, "catches"):  # in trio
            return self.token._error() if self._task.catches(exc) else None, False
        if not fired or self._task.uncancel() > self._cancelling:
            return None, False
        if isinstance(exc, cancelled_error()):
            return self.token._error(), False
        return None, not isinstance(exc, GeneratorExit)  # a coroutine that is closed awaits nothing

    async def settle(self) -> None:
        try:
            await checkpoint()
        except cancelled_error():
            if self._task.cancelling() > self._cancelling:
                raise
