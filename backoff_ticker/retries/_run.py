"""One run of a retry: what has happened so far, and what follows a failure.

Nothing here waits or calls the operation. Of user code it asks the policy, and ``on`` where that
is a function; both may fail, and their errors pass.
"""

from __future__ import annotations

from .._clock import resolve_clock
from .._errors import Cancelled, DeadlineExceeded
from .._numbers import LARGEST, shown
from .._policy_run import PolicyRun, failed_with
from .._stop import STOP
from .._turn import Last
from ..policies._running import checked_delay, start_policy
from ._errors import RetryAfter, permanent_in, unwrapped
from ._outcome import Outcome, StopReason
from ._skipping import SkippingClock, skippers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .._protocols import BackOff, Clock
    from .._stop import Stop
    from .._token import CancellationToken
    from ._rules import Rules

__all__ = ["Run"]

_NOTE = "gave up after "


class Run:
    """The state of one run; used by one thread or task at a time.

    Args:
        rules: The options.
        name: What is retried.
        error: What the first attempt raised, if it was made before anything was measured.

    Attributes:
        rules: The options.
        name: What is retried.
        clock: What measures it.
        began: When it began, in the clock's monotonic seconds.
        deadline: When its ``timeout`` is reached; None: never.
        attempts: How many attempts began.
        waited: Seconds spent between attempts.
        error: What the last attempt that failed raised.
        result: What the last attempt that did not fail returned.
        token: What cancels it; may change while the policy is asked.
        cut: The ``asyncio.CancelledError`` that cut the last attempt: it tells where.
        cutter: The token that cuts the attempt that runs; None: none does.
        delay: The wait that follows the last failure, in seconds.
        until: When it ends.
        culprit: What is to blame if something else than the operation fails.
        failure: What that raised.
        reason: Why it ended; None before.
        manager_is_async: Whether what spans an attempt has to be awaited.
    """

    __slots__ = (
        "_ask",
        "_ended",
        "_from_start",
        "_policy",
        "attempts",
        "began",
        "clock",
        "culprit",
        "cut",
        "cutter",
        "deadline",
        "delay",
        "error",
        "failure",
        "manager_is_async",
        "name",
        "reason",
        "result",
        "rules",
        "skipping",
        "token",
        "until",
        "waited",
    )

    def __init__(self, rules: Rules, name: str, error: Exception | None = None) -> None:
        clock = resolve_clock(rules.clock)
        self.rules = rules
        self.name = name
        token = self.token = rules.token
        if token is not None and token.deadline is not None and token.clock is not clock:
            raise ValueError(
                f"token must have its deadline on the retry's clock {clock!r}, "
                f"not on {token.clock!r}"
            )
        self.cut: BaseException | None = None
        self.cutter: CancellationToken | None = None
        self.skipping: SkippingClock | None = None
        if skippers:
            clock = self.skipping = SkippingClock(clock)
        self.clock: Clock = clock
        began = self.began = clock.monotonic()
        self.deadline = None if rules.timeout is None else min(began + rules.timeout, LARGEST)
        self._from_start = error is None
        self._ended = began
        self._ask: Callable[[], float | Stop | Last] | None = None
        self._policy: PolicyRun | None = None
        self.attempts = 0 if error is None else 1
        self.waited = 0.0
        self.error: BaseException | None = error
        self.failure: Exception | None = None
        self.manager_is_async = False
        self.result: object = None
        self.delay: float = 0.0
        self.until: float = began
        self.culprit: str = ""
        self.reason: StopReason | None = None

    def judge(self, error: Exception, now: float, *, always: bool = False) -> StopReason | None:
        """Decide what follows a failure: fix ``delay`` and ``until``, or say why to give up.

        Args:
            error: What the operation raised.
            now: The time, on the run's clock.
            always: Whether to retry it whatever ``on`` says.

        Raises:
            Exception: The policy, or ``on``, failed: named by ``culprit``.
        """
        rules = self.rules
        self.error = error
        permanent = permanent_in(error)
        if permanent is not None:
            self.error = unwrapped(permanent)
            return StopReason.PERMANENT
        asked = self._asked_wait(error, always=always)
        if asked is False:
            return StopReason.NOT_RETRIED
        reason = self.look(now)
        if reason is not None:
            return reason
        if rules.max_attempts is not None and self.attempts >= rules.max_attempts:
            return StopReason.MAX_ATTEMPTS
        delay = self._next_delay()
        if delay is None:
            return StopReason.CANCELLED if self.is_cancelled(now) else StopReason.EXHAUSTED
        if asked is not True:
            delay = rules.clamped(asked)
        self.delay = delay
        self.until = min(now + delay, LARGEST)
        if self.deadline is not None and self.until >= self.deadline:
            return StopReason.DEADLINE
        if rules.budget is not None and not rules.budget.try_acquire():
            return StopReason.BUDGET
        return None

    def _asked_wait(self, error: Exception, *, always: bool) -> bool | float:
        """Return whether to retry an error, or after how many seconds."""
        if isinstance(error, RetryAfter):
            if error.error is not None:
                self.error = error.error
            return error.seconds
        if always:
            return True
        on = self.rules.on
        if on is Exception:
            return True
        self.culprit = "on"
        return self.rules.wants(error)

    def is_cancelled(self, now: float) -> bool:
        """Whether a token cancels it, or would if the waits had not been skipped."""
        token = self.token
        if token is None:
            return False
        if token.cancelled:
            return True
        return self.skipping is not None and token.deadline is not None and now >= token.deadline

    def look(self, now: float) -> StopReason | None:
        """Return why no further attempt may be made; None if one may."""
        if self.token is not None and self.is_cancelled(now):
            return StopReason.CANCELLED
        if self.deadline is not None and now >= self.deadline:
            return StopReason.DEADLINE
        return None

    def look_again(self) -> StopReason | None:
        """Look once more after a wait; no clock is read where none is needed."""
        if self.token is None and self.deadline is None:
            return None
        return self.look(self.clock.monotonic())

    def judge_cut(self, now: float, *, refused: bool) -> StopReason | None:
        """Decide what follows an attempt that was cut, or that was not made after all."""
        if refused:
            self.attempts -= 1
            return StopReason.CANCELLED
        if self.cutter is not None and self.cutter.cancelled:
            return StopReason.CANCELLED
        if self.deadline is not None and now >= self.deadline:
            return StopReason.DEADLINE
        error = TimeoutError(f"the attempt took longer than {self.rules.attempt_timeout!r} s")
        error.__cause__, self.cut = self.cut, None
        return self.judge(error, now)

    def accepts(self) -> bool:
        """Whether the result is accepted."""
        rules = self.rules
        if rules.until is None and rules.retry_if is None:
            return True
        self.culprit = "retry_if" if rules.until is None else "until"
        return rules.accepts(self.result)

    # The policy

    def _next_delay(self) -> float | None:
        """Return what the policy says, checked; None for ``STOP``.

        It begins with the first failure, and so do its own limits of time.
        """
        self.culprit = "the back-off policy"
        ask = self._ask
        if ask is None:
            ask = self._ask = self._begin_policy()
        backoff = self.rules.backoff
        try:
            delay = ask()
            if self._policy is not None:
                self.token = self._policy.token
            elif delay is not STOP:
                return checked_delay(backoff, delay)
        except Exception as error:  # noqa: BLE001 - named, and raised
            delay = failed_with(error, self.culprit, backoff)
        if isinstance(delay, Last) and delay.error is not None:
            raise delay.error
        return delay if isinstance(delay, float) else None

    def _begin_policy(self) -> Callable[[], float | Stop | Last]:
        rules = self.rules
        if rules.still:
            return rules.backoff.next_backoff
        backoff: BackOff = start_policy("backoff", rules.backoff, self.clock)
        if rules.straight:
            return backoff.next_backoff
        given = () if rules.token is None else (rules.token,)
        clock = resolve_clock(rules.clock)
        policy = self._policy = PolicyRun(backoff, clock, given)
        self.token = policy.token
        return policy.ask

    # The end

    def end(self, reason: StopReason) -> None:
        """Keep why it ended, and when."""
        self.reason = reason
        self._ended = self.clock.monotonic()

    def outcome(self) -> Outcome:
        """Return what is known of it now."""
        ended = self.reason is not None
        now = self._ended if ended else self.clock.monotonic()
        return Outcome(
            self.name,
            self.attempts,
            now - self.began,
            self.waited,
            None if ended or self.error is None else self.delay,
            self.reason,
            self.error,
        )

    def take_final_error(self) -> BaseException | None:
        """Return what is to be raised at the end, with a note that says why; None if nothing is."""
        if self.reason is StopReason.SUCCEEDED or self.reason is StopReason.INTERRUPTED:
            return None
        last, failure, cut = self.error, self.failure, self.cut
        self.failure = self.cut = None
        if self.reason is StopReason.CANCELLED:
            token = self.token
            cancelled = token is not None and token.cancelled
            final: BaseException = token.error() if cancelled else DeadlineExceeded()  # type: ignore[union-attr]
            why = str(final)
        elif self.reason is StopReason.DEADLINE:
            final = DeadlineExceeded()
            why = f"the timeout of {self.rules.timeout!r} s"
        else:
            final = failure or last  # type: ignore[assignment]  # nobody gives up without one
            why = self._why()
        from_ = last or cut
        if final is not last and from_ is not None and (failure is None or not final.__cause__):
            final.__cause__ = from_
        _annotate(final, self._note(why))
        return final

    def _why(self) -> str:
        rules = self.rules
        match self.reason:
            case StopReason.PERMANENT:
                return "the error is permanent"
            case StopReason.NOT_RETRIED:
                return "on does not retry this error"
            case StopReason.MAX_ATTEMPTS:
                return f"max_attempts is {rules.max_attempts}"
            case StopReason.EXHAUSTED:
                return f"the policy stopped: {shown(rules.backoff)}"
            case StopReason.BUDGET:
                return f"nothing left in {rules.budget!r}"
        return f"{self.culprit} failed"

    def _note(self, why: str) -> str:
        times = "1 attempt" if self.attempts == 1 else f"{self.attempts} attempts"
        since = "" if self._from_start else " since the first failed"
        return f"{_NOTE}{times} in {self._ended - self.began:.3g} s{since}: {why}"


def _annotate(error: BaseException, note: str) -> None:
    """Add ``note`` to ``error``, in place of one that another run left there."""
    try:
        notes = getattr(error, "__notes__", None)
        if isinstance(notes, list):
            notes[:] = [old for old in notes if not str(old).startswith(_NOTE)]
        error.add_note(note)
    except Exception:  # noqa: BLE001, S110 - an error that refuses notes is raised without one
        pass
