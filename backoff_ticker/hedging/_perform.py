"""The attempts of a hedged call and the way through it, for threads and coroutines.

A thread runs that to its end by one ``send()``: where a coroutine awaits, a thread calls.
"""

from __future__ import annotations

from types import coroutine

from ..channels import Channel, select, select_async
from ..retries import (
    HEDGE_OPTIONS,
    Awaiting,
    Options,
    Run,
    StopReason,
    concluded,
    name_of,
    require_operation,
    settings,
)
from ..waiting import checkpoint
from ._attempt import Attempt, NotMade
from ._hedging import Hedging

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from typing import Any

    from ..policies import BackOff

_MAX_ATTEMPTS = 5
"""As many attempts as gRPC allows."""


def new_run(
    what: str, operation: object, backoff: BackOff | None, options: Mapping[str, Any]
) -> Run | None:
    """Return the state of a new call; None: retries are off, so the operation is called once.

    Raises:
        TypeError, ValueError: An option, or the operation, is invalid.
    """
    require_operation(operation)
    given = {"max_attempts": _MAX_ATTEMPTS, **options}
    checked = Options(what, backoff, given, allowed=HEDGE_OPTIONS)
    if settings.in_use:
        checked = checked.under_settings()
    return None if checked.is_off else Run(checked, name_of(operation))


class Attempts:
    """The attempts of one call.

    Attributes:
        run: The call.
        running: Those whose end the caller has not handled.
        ended: Receives each as it ends.
    """

    def __init__(self, run: Run, operation: Callable[[], Any]) -> None:
        self.run: Run = run
        self.operation: Callable[[], Any] = operation
        self.running: dict[Attempt, None] = {}
        self.ended: Channel[Attempt] = Channel(float("inf"), clock=run.clock)

    def launch(self) -> None:
        """Start attempt number ``run.attempts``, and do not wait for it."""
        raise NotImplementedError

    def about_to_end(self) -> bool:
        """Whether an attempt is done whose end was not told yet."""
        return False

    def dismiss(self) -> None:
        """End the attempts as far as they can be ended; may be repeated."""
        raise NotImplementedError

    async def finish(self) -> None:
        """Dismiss the attempts, and wait for the end of those that can be cut; may be repeated."""
        self.dismiss()

    def forget(self, attempt: Attempt) -> bool:
        """Note that the end of an attempt was handled; False: it was before."""
        if attempt.token is not None:
            attempt.token.cancel()
        return self.running.pop(attempt, self) is None

    def drop(self, attempt: Attempt) -> None:
        """Forget an attempt that is not needed any more, and how it ended."""
        self.forget(attempt)
        self.run.attempts -= isinstance(attempt.take_error(), NotMade)


@coroutine  # not async: Python would warn of a coroutine that an interrupt kept from its first step
def perform(attempts: Attempts) -> Generator[Any, Any, BaseException | None]:
    """Bring a call to its end; return the error to raise, None if ``run.result`` is the result."""
    run = attempts.run
    hedging = Hedging(run, attempts.launch)
    try:
        hedging.end((yield from _decide(hedging, attempts)))
        is_cut = run.reason is StopReason.CANCELLED or run.reason is StopReason.DEADLINE
        if is_cut and (yield from _succeeds_late(hedging, attempts)):
            hedging.end(StopReason.SUCCEEDED)
    except Exception as failure:  # noqa: BLE001 - of the policy, the pool, or of what judges
        hedging.end(run.fail(failure))
    yield from attempts.finish()
    final: BaseException | None = yield from concluded(run)
    return final


async def _decide(hedging: Hedging, attempts: Attempts) -> StopReason:
    hedging.start()
    reason = None
    while reason is None:
        attempt = await _next_end(hedging, attempts)
        if attempt is not None and attempt in attempts.running:
            reason = await _handle(attempt, hedging, attempts)
        elif not attempts.about_to_end():
            reason = hedging.after_wait()
    return reason


async def _next_end(hedging: Hedging, attempts: Attempts) -> Attempt | None:
    """Wait until an attempt has ended and return it; None if a limit or a start is due."""
    ended, token, awaits = attempts.ended, hedging.token, hedging.run.awaits
    sources: tuple[Any, ...] = (ended,) if token is None else (ended, token)
    timeout = hedging.seconds_left()
    try:
        if awaits:
            source, value = await select_async(*sources, timeout=timeout)
        else:
            source, value = select(*sources, timeout=timeout)
    except TimeoutError:
        source = None
    if source is ended:
        return value  # type: ignore[no-any-return]
    if awaits:
        await checkpoint()  # lets attempts end that are done at the same moment
    return ended.receive_nowait() if len(ended) else None


async def _handle(attempt: Attempt, hedging: Hedging, attempts: Attempts) -> StopReason | None:
    """Act on the end of an attempt; return why the call is over, None if it is not."""
    error = attempt.take_error()
    try:
        # To end as told is no failure.
        reason: Any = hedging.limit_reached() if attempt.ends_as_told(error) else None
        attempts.forget(attempt)
        reason = reason or hedging.after_end(error, attempt.result)
        if isinstance(reason, Awaiting):
            reason = hedging.after_answer(await reason())
        return reason  # type: ignore[no-any-return]
    finally:
        del error  # its traceback refers to this frame: a reference cycle


async def _succeeds_late(hedging: Hedging, attempts: Attempts) -> bool:
    """Whether an attempt has ended with a good result, or does so in spite of a cut."""
    awaits, ended, came = hedging.run.awaits, attempts.ended, False
    if awaits:
        attempts.dismiss()
    while not came and (len(ended) or (awaits and attempts.running)):
        attempt = await ended.receive_async() if awaits else ended.receive_nowait()
        if attempts.forget(attempt) and attempt.take_error() is None:
            accepted = hedging.accepts(attempt.result)
            if isinstance(accepted, Awaiting):
                accepted = hedging.run.options.parse_judgement(await accepted())
            came = accepted
    return came
