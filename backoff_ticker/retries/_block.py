"""The block of an attempt in a loop: what ``with attempt:`` and ``async with attempt:`` do."""

from __future__ import annotations

from .._operation import run_at_once
from .._sentinels import EMPTY
from ._attempt import hide, show
from ._cut import CuttableAttempt, awaited_functions
from ._final_error import raise_final
from ._option_table import CUTTING
from ._outcome import Ending, StopReason
from ._steps import enter, interrupted, leave, wait_for_next

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._attempt import Attempt
    from ._options import Options
    from ._run import Run

_BETWEEN, _GIVEN, _INSIDE = "between", "given", "inside"  # two blocks; a block is due; it runs


class Block:
    """The block of a loop, which is entered once for each attempt.

    Args:
        run: The run of the loop.
        options: Its own options, without what is set for the process.
        awaits: Whether the loop is an ``async for``.
    """

    __slots__ = ("_cuttable", "_is_async", "_options", "_stage", "run")

    def __init__(self, run: Run, options: Options, *, awaits: bool) -> None:
        self.run = run
        self._options = options
        self._is_async = awaits
        self._stage: str = _BETWEEN
        self._cuttable: CuttableAttempt | None = None  # around the block that runs

    # For the loop

    async def advance(self) -> None:
        """Wait for the time of the next attempt; with a breaker, until one may be made."""
        run = self.run
        if self._stage == _GIVEN:
            number = run.attempts
            raise RuntimeError(f"attempt {number} was not made: write `with attempt:` in the loop")
        run.awaits = self._is_async
        try:
            if run.attempt is not None:
                show(run.attempt)
                await wait_for_next(run)
            while run.ending is None:
                attempt, refused = run.begin(), None
                if run.options.breaker is not None:
                    show(attempt)
                    refused = run.ask_circuit()
                if run.ending is None:
                    if refused is None:
                        self._stage = _GIVEN
                        break
                    await enter(run)
                if await leave(run, refused):
                    await wait_for_next(run)
        except BaseException as interrupt:
            await interrupted(run, interrupt)
            raise
        finally:
            self._pause()

    def given(self, stop: type[Exception]) -> Attempt:
        """Return the attempt to be made; if the run has ended, raise its error, or ``stop``."""
        run = self.run
        if run.ending is None and run.attempt is not None:
            return run.attempt
        if isinstance(run.final, (StopIteration, StopAsyncIteration)):
            # Raised by a step of the loop, it would end the loop silently.
            error = RuntimeError(f"the run ended with {type(run.final).__name__}")
            error.__cause__, run.final = run.final, error
        raise_final(run)
        raise stop

    def _pause(self) -> None:
        """Show no attempt until the next step; if the run has ended, close it."""
        run = self.run
        if run.ending is None:
            hide(run)
        else:
            run.close()
            run.block = None  # it refers to the run: a reference cycle

    # For the attempt

    def enter(self, attempt: Attempt) -> None:
        run = self._given(attempt)
        run.awaits = False
        if self._is_async:
            self._require_nothing_to_await(run)
        show(attempt)
        if run.options.has_entry or not self._may_run(run):
            run_at_once(self._enter, run)
            if run.final is not None:  # nothing is called here once the block may run
                raise_final(run)

    async def enter_async(self, attempt: Attempt) -> None:
        run = self._given(attempt)
        if not self._is_async:
            raise TypeError("`async with attempt:` is for `async for`: write `with attempt:`")
        show(attempt)
        await self._enter(run)
        if run.final is not None:
            raise_final(run)

    def exit(self, error: BaseException | None) -> bool:
        """Leave the block; return whether its error is swallowed, because the loop goes on."""
        run = self.run
        if error is None and self._cuttable is None and not run.options.has_exit:
            self._stage = _BETWEEN
            run.succeed()
            self._pause()
            return False
        run_at_once(self._leave, error)
        return self._goes_on(error)

    async def exit_async(self, error: BaseException | None) -> bool:
        await self._leave(error)
        return self._goes_on(error)

    def set_result(self, attempt: Attempt, result: object) -> None:
        if self._stage != _INSIDE or self.run.attempt is not attempt:
            raise RuntimeError(f"set_result() needs the block of attempt {attempt.number} to run")
        self.run.result = result

    def _given(self, attempt: Attempt) -> Run:
        run = self.run
        if self._stage != _GIVEN or run.attempt is not attempt:
            raise RuntimeError(f"attempt {attempt.number} can be entered once")
        self._stage = _BETWEEN
        return run

    def _require_nothing_to_await(self, run: Run) -> None:
        """End the run by a TypeError if a plain ``with`` cannot do what its own options ask for."""
        options = self._options
        names = [name for name in CUTTING if getattr(options, name) is not None]
        names += awaited_functions(options)
        names += ["budget"] if options.awaits_budget else []
        if names:
            what = f"{names[0]} of attempts()"
            text = f"`with attempt:` cannot obey {what} in `async for`: write `async with attempt:`"
            run.fail(TypeError(text), what)
            run.final = run.ending.error  # type: ignore[union-attr]  # it has just failed
            self._pause()
            raise_final(run)

    def _may_run(self, run: Run) -> bool:
        """Have the last look at the limits: whether the block may run, which then begins."""
        token = run.limits.token
        if run.attempts > 1 and run.options.has_limits and run.limits.reached() is not None:
            return False
        if token is not None and token.cancelled and run.attempts > 1:
            return False
        run.is_paid = False
        run.result = EMPTY
        self._stage = _INSIDE
        return True

    async def _enter(self, run: Run) -> None:
        """Enter the block; if it must not run, the run has ended."""
        try:
            if run.options.has_entry:
                await enter(run)
            if run.ending is None and run.awaits and run.options.can_cut:
                self._cuttable = CuttableAttempt(run)
                await self._cuttable.__aenter__()
            if run.ending is None:
                if self._may_run(run):
                    return
                run.refuse()
            await self._leave_cuttable(None)
            await leave(run, None)
        except BaseException as interrupt:
            await self._leave_cuttable(interrupt)
            await interrupted(run, interrupt)
            raise
        finally:
            if self._stage != _INSIDE:
                self._pause()

    async def _leave(self, error: BaseException | None) -> None:
        """Leave the block, and decide what follows."""
        run = self.run
        self._stage = _BETWEEN
        try:
            error = await self._leave_cuttable(error)
            if error is not None and not isinstance(error, Exception):
                await interrupted(run, error)
                return
            if error is not None and run.options.is_off:  # it passes as it is
                run.error, error = error, None
                run.end(Ending(StopReason.NOT_RETRIED))
            if error is not None or run.options.has_exit or not run.succeed():
                await leave(run, error)
        except BaseException as interrupt:
            await interrupted(run, interrupt)
            raise
        finally:
            self._pause()
            del error  # a traceback refers to this frame: a reference cycle

    async def _leave_cuttable(self, error: BaseException | None) -> BaseException | None:
        """Leave what may cut the block; return the error of the block, or what has cut it."""
        cuttable, self._cuttable = self._cuttable, None
        try:
            is_cut = cuttable is not None and await cuttable.__aexit__(None, error, None)
        except TimeoutError as late:
            return late
        return None if is_cut else error

    def _goes_on(self, error: BaseException | None) -> bool:
        run = self.run
        if run.ending is None:
            return True
        raise_final(run, error)
        return False
