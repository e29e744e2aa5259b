"""``attempts``: a retry as a loop whose attempts are blocks."""

from __future__ import annotations

from .._operation import run_at_once
from .._sentinels import EMPTY
from .._validation import counted, whole_repr
from ._attempt import Attempt, hide, show
from ._cut import CuttableAttempt
from ._option_table import CUTTING, LOOP_OPTIONS
from ._options import Options
from ._outcome import Outcome
from ._run import Run
from ._signatures import shows
from ._steps import enter, interrupted, leave, raise_final, wait_for_next

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self, Unpack

    from ..policies import BackOff
    from ._option_types import RetryOptions

_NAME = "attempts()"


def _shown(  # type: ignore[empty-body]  # its signature is all it has
    backoff: BackOff | None = None, **options: Unpack[RetryOptions]
) -> Attempts: ...


@shows(_shown)
def attempts(backoff: BackOff | None = None, **options: Unpack[RetryOptions]) -> Attempts:
    """Return the attempts of one run, to retry a block of code in a loop.

    Write ``for attempt in attempts(...):`` and ``with attempt:`` inside; in a coroutine use ``async
    for`` and ``async with attempt:``. The loop ends after a block that succeeded. If the error of a
    block is retried, the loop waits and the block runs again; otherwise the block raises the error.

    Example:
        >>> from backoff_ticker import ZeroBackOff, attempts
        >>> for attempt in attempts(ZeroBackOff(), on=OSError, max_attempts=5):
        ...     with attempt:
        ...         if attempt.number < 3:
        ...             raise OSError("not yet")
        ...         print("attempt", attempt.number)
        attempt 3

    Args:
        backoff: The policy. None means ``ExponentialBackOff()``.
        **options: The options of ``retry`` but for ``fallback``; those of coroutines work in
            ``async for``. With ``until``, the block passes its result to
            ``attempt.set_result(value)``.
    """
    return Attempts(Options(_NAME, backoff, options, LOOP_OPTIONS))


class Attempts:
    """The iterator that ``attempts()`` returns: one run, attempt by attempt, to be iterated once.

    Thread safety: one thread or task at a time iterates; ``outcome`` may be read in any thread.
    Waits, cancels and interrupts are as ``retry`` describes them.
    """

    __slots__ = ("_block", "_options")

    def __init__(self, options: Options) -> None:
        self._options = options
        self._block: Block | None = None  # its run begins with the first step

    @property
    def outcome(self) -> Outcome:
        """The state of the run so far, or how it ended."""
        if self._block is not None:
            return self._block.run.outcome()
        return Outcome(self._options.name or _NAME, 0, 0.0, 0.0, None, None, None)

    def __repr__(self) -> str:
        _, made, *_, reason, _ = self.outcome
        state = (reason or "open") if made else "not begun"
        policy = whole_repr(self._options.backoff)
        return f"<Attempts {state}, {counted(made, 'attempt')}, {policy}>"

    def __del__(self) -> None:
        block = getattr(self, "_block", None)
        if block is not None:  # it may have been left between two blocks
            block.close()

    def __iter__(self) -> Self:
        self._options.raise_if_attempts_are_cut()
        return self.__aiter__()

    def __next__(self) -> Attempt:
        block = self._begun(awaits=False)
        if block.run.ending is None:
            run_at_once(block.advance)
        return block.given(StopIteration)

    def __aiter__(self) -> Self:
        if self._block is not None:
            raise RuntimeError("attempts() can be iterated once: call it again for another run")
        return self

    async def __anext__(self) -> Attempt:
        block = self._begun(awaits=True)
        if block.run.ending is None:
            await block.advance()
        return block.given(StopAsyncIteration)

    def _begun(self, *, awaits: bool) -> Block:
        """Return the block of the run, which begins with the first step."""
        if self._block is None:
            self._block = Block(self._options, awaits=awaits)
        return self._block


# What the attempts do: `with attempt:` and `async with attempt:`

_BETWEEN, _GIVEN, _INSIDE = "between", "given", "inside"  # blocks; a block is due; it runs


class Block:
    """The block of a loop, which is entered once for each attempt of its run.

    The ``options`` are without what is set for the process; an ``async for`` ``awaits``.
    """

    __slots__ = ("_cuttable", "_is_async", "_options", "run", "stage")

    def __init__(self, options: Options, *, awaits: bool) -> None:
        self.run = Run(options.under_settings(), options.name or _NAME)
        self.run.block = self
        self._options = options
        self._is_async = awaits
        self.stage: str = _BETWEEN
        self._cuttable: CuttableAttempt | None = None  # around the block that runs

    async def advance(self) -> None:
        """Wait for the time of the next attempt; with a breaker, until one may be made."""
        run = self.run
        if self.stage == _GIVEN:
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
                        self.stage = _GIVEN
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

    def close(self) -> None:
        """Close the run. May be repeated."""
        self.run.close()
        self.run.block = None  # it refers to the run: a reference cycle

    def _pause(self) -> None:
        """Show no attempt until the next step; if the run has ended, close it."""
        hide(self.run)
        if self.run.ending is not None:
            self.close()

    def enter(self, attempt: Attempt) -> None:
        run, self.stage = self.run, _BETWEEN
        run.awaits = False
        if self._is_async:
            self._require_nothing_to_await(run)
        show(attempt)
        if run.options.has_entry or not self._may_run(run):
            run_at_once(self._enter, run)
            if run.final is not None:  # nothing is called here once the block may run
                raise_final(run)

    async def enter_async(self, attempt: Attempt) -> None:
        run, self.stage = self.run, _BETWEEN
        if not self._is_async:
            raise TypeError("`async with attempt:` is for `async for`: write `with attempt:`")
        show(attempt)
        await self._enter(run)
        if run.final is not None:
            raise_final(run)

    def exit(self, error: BaseException | None) -> bool:
        """Leave the block; return whether its error is swallowed, because the loop goes on."""
        if error is None and self._cuttable is None and not self.run.options.has_exit:
            self.stage = _BETWEEN
            self.run.succeed()
            self._pause()
            return False
        run_at_once(self._leave, error)
        return self._goes_on(error)

    async def exit_async(self, error: BaseException | None) -> bool:
        await self._leave(error)
        return self._goes_on(error)

    def _require_nothing_to_await(self, run: Run) -> None:
        """End the run by a TypeError if a plain ``with`` cannot do what its own options ask for."""
        options = self._options
        names = [name for name in CUTTING if getattr(options, name) is not None]
        names += [*options.awaited_functions(), *(["budget"] if options.awaits_budget else ())]
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
        self.stage = _INSIDE
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
            if self.stage != _INSIDE:
                self._pause()

    async def _leave(self, error: BaseException | None) -> None:
        """Leave the block, and decide what follows."""
        run = self.run
        self.stage = _BETWEEN
        try:
            error = await self._leave_cuttable(error)
            if error is not None and not isinstance(error, Exception):
                await interrupted(run, error)
                return
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
        except Exception as other:  # a cut, or what is left of a group without it
            return other
        return None if is_cut else error

    def _goes_on(self, error: BaseException | None) -> bool:
        if self.run.ending is not None:
            raise_final(self.run, error)
        return self.run.ending is None
