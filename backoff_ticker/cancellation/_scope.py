"""``async with token.scope()``: a block whose body a token cancels through asyncio.

asyncio has one way to end a coroutine, ``task.cancel()``, and counts these requests so that each
can be taken back. A scope follows that protocol as ``asyncio.timeout()`` does: it counts relative
to its entry, takes back its own request, and turns the ``CancelledError`` into ``Cancelled`` only
if nobody else cancelled the task.
"""

from __future__ import annotations

from types import GenericAlias

from ..waiting import Waiter, cancelled_error, checkpoint, complete, current_loop, current_task

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from typing import Any, Generic, Protocol

    from typing_extensions import TypeVar

    from .._errors import Cancelled
    from ..clock import Clock, TimerHandle
    from ..waiting import WaitSet

    class CancelSource(Protocol):
        """What a scope needs of a token."""

        @property
        def cancelled(self) -> bool: ...
        @property
        def deadline(self) -> float | None: ...
        @property
        def clock(self) -> Clock: ...
        def _wait_set(self) -> WaitSet: ...
        def _error(self) -> Cancelled: ...

    T_co = TypeVar("T_co", bound=CancelSource, default=CancelSource, covariant=True)
else:
    T_co, Generic = None, {None: object}  # typing is not imported at run time


class Scope(Generic[T_co]):
    """The ``async with`` block that ``CancellationToken.scope()`` returns.

    Example:
        >>> import asyncio
        >>> from backoff_ticker import CancellationToken, Cancelled
        >>> async def main():
        ...     token = CancellationToken()
        ...     asyncio.get_running_loop().call_soon(token.cancel, "enough")
        ...     try:
        ...         async with token.scope():
        ...             await asyncio.sleep(60)
        ...     except Cancelled as error:
        ...         print(error)
        >>> asyncio.run(main())
        cancelled: enough
    """

    __slots__ = ("_block", "_token")

    __class_getitem__: classmethod[Any, ..., GenericAlias] = classmethod(GenericAlias)

    def __init__(self, token: T_co) -> None:
        self._token = token
        self._block = CancellableBlock(token)

    def __repr__(self) -> str:
        return f"<Scope of {self._token!r}>"

    async def __aenter__(self) -> T_co:
        """Enter the block; if the token is cancelled already, its first ``await`` is cancelled.

        Raises:
            RuntimeError: It is not entered in a task, or was entered before.
        """
        await self._block.enter_async()
        return self._token

    async def __aexit__(self, _: object, exc: BaseException | None, __: object) -> None:
        """Leave the block: take the cancel back and raise ``Cancelled`` instead."""
        block = self._block
        pending = block.leave(exc)
        error, block.error = block.error, None
        if error is not None:
            try:
                raise error from exc
            finally:
                del error  # it refers to this frame
        if pending:
            await block.settle()


class CancellableBlock(Waiter):
    """The code of one task between ``enter()`` and ``leave()``, which a token cancels.

    Attributes:
        error: What to raise instead of this block's ``CancelledError``; None if there was none.
    """

    __slots__ = ("_cancelling", "_fired", "_task", "_timer", "_token", "error")

    def __init__(self, token: CancelSource) -> None:
        super().__init__(None, (token._wait_set(),))
        self._token = token
        self._task: asyncio.Task[object] | None = None
        self._timer: TimerHandle | None = None
        self._cancelling = 0
        self._fired = False
        self.error: Cancelled | None = None

    async def enter_async(self) -> None:
        """Enter the block from a coroutine."""
        if self._task is None and current_task().cancelling():
            # A cancel from elsewhere may be pending; it must not be mistaken for this block's.
            await checkpoint
        self.enter()

    def enter(self) -> None:
        """Enter the block from code that cannot ``await``."""
        if self._task is not None:
            raise RuntimeError("a scope can be entered once; call token.scope() again")
        loop = current_loop()
        self.loop: asyncio.AbstractEventLoop | None = loop
        self.domain: int = id(loop)
        self._task = current_task()
        self._cancelling = self._task.cancelling()
        token = self._token
        try:
            self.register()
            self.hold()
            if token.cancelled:
                loop.call_soon(self.fire)
            elif token.deadline is not None:
                self._timer = token.clock.call_at(token.deadline, self.fire, loop=loop)
        except BaseException:
            self._fired = True  # nothing may cancel the task after this
            self._detach()
            raise

    def _detach(self) -> None:
        """Forget the token, and be forgotten. May be repeated."""
        self.release()
        if self._timer is not None:
            self._timer.cancel()
        self.unregister()

    def fire(self) -> None:
        """Cancel the body, once, if the token is cancelled and the block has not been left."""
        if self._token.cancelled and not self._fired and self._task is not None:
            self._fired = True
            self._task.cancel()

    def leave(self, exc: BaseException | None) -> bool:
        """Leave the block from code that cannot ``await``; ``exc`` is what ended it.

        Sets ``error`` if ``exc`` is the cancel of this block and nobody else's.

        Returns:
            Whether a cancel of this block is still pending: the body cancelled the token itself
            and did not wait after that. ``settle()`` must then be awaited.
        """
        task: Any = self._task
        try:
            self._detach()
        except BaseException:
            complete(self._detach)
            raise
        fired, self._fired = self._fired, True
        if not fired or task.uncancel() > self._cancelling:
            return False
        if isinstance(exc, cancelled_error()):
            self.error = self._token._error()
            return False
        return True

    async def settle(self) -> None:
        """Receive and drop the cancel that ``leave()`` found still pending."""
        try:
            await checkpoint
        except cancelled_error():
            if current_task().cancelling() > self._cancelling:
                raise
