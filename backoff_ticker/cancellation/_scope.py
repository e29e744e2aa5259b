"""``async with token.scope()``: a token that cancels the code inside through asyncio.

asyncio has one way to end a coroutine, ``task.cancel()``, and counts the requests so that whoever
made one can take it back. A scope follows that protocol as ``asyncio.timeout()`` does: it counts
relative to its entry, takes back its own request, and turns the ``CancelledError`` into
``Cancelled`` only if nobody else asked for it.
"""

from __future__ import annotations

from ..waiting import Waiter, cancelled_error, checkpoint, current_loop, current_task

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from types import TracebackType

    from .._errors import Cancelled
    from ..clock import TimerHandle
    from ._token import CancellationToken


class Scope(Waiter):
    """One block; see ``CancellationToken.scope``.

    Attributes:
        error: What the cancel of this block was turned into; None if it was not.
    """

    __slots__ = ("_cancelling", "_fired", "_task", "_timer", "_token", "error", "loop")

    def __init__(self, token: CancellationToken) -> None:
        super().__init__()
        self._token = token
        self._task: asyncio.Task[object] | None = None
        self._timer: TimerHandle | None = None
        self._cancelling = 0
        self._fired = False
        self.error: Cancelled | None = None

    async def __aenter__(self) -> CancellationToken:
        """Enter the block; under a cancelled token its first ``await`` is cancelled.

        Raises:
            RuntimeError: It is not entered in a task, or was entered before.
        """
        if self._task is None and current_task().cancelling():
            await checkpoint  # a cancel that is still to come is not this block's: let it come now
        self.enter()
        return self._token

    def enter(self) -> None:
        """Enter the block where there is no ``await``."""
        if self._task is not None:
            raise RuntimeError("a scope can be entered once; call token.scope() again")
        loop = current_loop()
        self.loop: asyncio.AbstractEventLoop | None = loop
        self._task = current_task()
        self._cancelling = self._task.cancelling()
        token = self._token
        token.wait_set().add(self)
        if token.cancelled:
            loop.call_soon(self.fire)
        elif token.deadline is not None:
            self._timer = token.clock.call_at(token.deadline, self.fire, loop=loop)

    def fire(self) -> None:
        """Cancel the body, once, if the token is cancelled and the block has not been left."""
        if self._token.cancelled and not self._fired and self._task is not None:
            self._fired = True
            self._task.cancel()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the block: take the cancel back, and tell it as ``Cancelled``."""
        unmet = self.leave(exc)
        error, self.error = self.error, None
        if error is not None:
            try:
                raise error from exc
            finally:
                del error  # it leads to this frame
        if unmet:
            await self.settle()

    async def settle(self) -> None:
        """Let a cancel of this block come that its body did not meet, and end here."""
        task = self._task
        assert task is not None  # noqa: S101 - entered
        try:
            await checkpoint
        except cancelled_error():
            if task.cancelling() > self._cancelling:
                raise

    def leave(self, exc: BaseException | None) -> bool:
        """Leave the block where there is no ``await``; ``exc`` is what ended it.

        ``error`` is then what is to be raised instead, if ``exc`` is the cancel of this block and
        nobody else's.

        Returns:
            Whether a cancel of this block was not met by the body and is still to come. Only a
            body that cancelled the token itself, and then did not wait, can leave one.
        """
        task = self._task
        assert task is not None  # noqa: S101 - entered
        if self._timer is not None:
            self._timer.cancel()
        self._token.wait_set().leave(self)
        fired, self._fired = self._fired, True
        if not fired or task.uncancel() > self._cancelling:
            return False
        if isinstance(exc, cancelled_error()):
            self.error = self._token.error()
            return False
        return True
