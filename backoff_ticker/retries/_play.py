"""A script while it is played, in a thread or a coroutine: everything but the attempts."""

from __future__ import annotations

from functools import partial

from ._awaitables import drop, is_awaitable
from ._pause import pause, pause_async
from ._script import CALL, END, PAUSE, REFUSED, RETRY, steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._run import Run


class Play:
    """The script of one run, under way.

    Args:
        run: The run.

    Attributes:
        step: What the script asks for now. ``END`` also after an interrupt, or what else came out
            of the script: nothing more is to be done then.
    """

    __slots__ = ("_run", "_script", "step")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._script = steps(run)
        self.step: Any = next(self._script)

    def answer(self, answer: object) -> None:
        """Tell the script how its step went."""
        self.step = END
        self.step = self._script.send(answer)

    def throw(self, error: BaseException) -> None:
        """Tell the script what its step raised."""
        self.step = END
        self.step = self._script.throw(error)

    def refuses(self) -> bool:
        """Whether the attempt that is due must not be made any more; the script is then told."""
        if not self._run.is_refused():
            return False
        if self.step is CALL:
            self.answer(REFUSED)
        return True

    def close(self) -> None:
        """End the script where it is, if it has not ended."""
        self.step = END
        self._script.close()

    def advance(self, until: object = None) -> None:
        """Do what is asked for up to ``CALL``, ``END``, or a step that is ``until`` or of it."""
        run, script = self._run, self._script
        step, self.step = self.step, END
        while not (step is CALL or step is END or step is until or step.__class__ is until):
            answer = None
            try:
                if step is PAUSE:
                    pause(run)
                elif step is not RETRY:
                    answer = step()
                    if answer is not None and is_awaitable(answer):
                        self._refuse(answer)
            except BaseException as interrupt:  # noqa: BLE001 - the script raises it again
                step = script.throw(interrupt)
            else:
                step = script.send(answer)
        self.step = step

    async def advance_async(self, until: object = None) -> None:
        """Do in a coroutine what ``advance()`` does in a thread; awaitable answers are awaited."""
        run, script = self._run, self._script
        step, self.step = self.step, END
        while not (step is CALL or step is END or step is until or step.__class__ is until):
            answer: Any = None
            try:
                if step is PAUSE:
                    await pause_async(run)
                elif step is not RETRY:
                    answer = step()
                    if answer is not None and is_awaitable(answer):
                        answer = await answer
            except BaseException as interrupt:  # noqa: BLE001 - the script raises it again
                step = script.throw(interrupt)
            else:
                step = script.send(answer)
        self.step = step

    def advance_unawaited(self) -> None:
        """Do what is asked for up to ``RETRY``, as far as nothing has to be awaited.

        What has to be is left for ``advance_async()``.
        """
        step, self.step = self.step, END
        while not (step is CALL or step is END or step is RETRY):
            try:
                answer = step()
            except BaseException as interrupt:  # noqa: BLE001 - the script raises it again
                step = self._script.throw(interrupt)
                continue
            if is_awaitable(answer):
                step = partial(_same, answer)
                break
            step = self._script.send(answer)
        self.step = step

    def finish_unawaited(self) -> None:
        """Do what is asked for up to ``CALL`` or ``END``; drop what would have to be awaited."""
        self.advance_unawaited()
        while not (self.step is CALL or self.step is END):
            drop(self.step())
            self.answer(None)
            self.advance_unawaited()

    def _refuse(self, answer: object) -> None:
        drop(answer)
        raise TypeError(
            f"{self._run.culprit} returned an awaitable, which only a coroutine can await"
        )


def _same(answer: object) -> object:
    return answer
