"""One run of a retry: what has happened so far, and what follows a failure.

Nothing here waits or calls the operation. Of user code it asks the policy, and what judges errors
and results; these may fail, and their errors pass.
"""

from __future__ import annotations

from .._errors import Cancelled
from .._sentinels import STOP
from .._validation import LARGEST
from ..clock import resolve_clock
from ..policies import End, PolicyRun, checked_delay, start_policy
from ._ending import cut_error
from ._errors import Permanent, RetryAfter, hang_on, permanent_in, unwrapped
from ._outcome import Outcome, StopReason
from ._skipping import SkippingClock, skippers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._sentinels import Stop
    from ..clock import Clock
    from ._rules import Rules

MARKERS = (Permanent, RetryAfter, Cancelled)
"""Errors that say by themselves what is to follow."""


class Run:
    """The state of one run; used by one thread or task at a time.

    Args:
        rules: The options.
        name: What is retried.
        error: What the last attempt raised, if attempts were made already.
        began: When the first of them began, if that was measured.
        failed: When it failed, if that was measured.
        made: How many were made.

    Attributes:
        clock: What measures it.
        deadline: When its ``timeout`` is reached, in the clock's monotonic seconds; None: never.
        attempts: How many attempts began.
        waited: Seconds spent between attempts.
        delay: The wait that follows the last failure, in seconds.
        error: What the last attempt that failed raised.
        always_pauses: Whether a wait of no time is a wait, too.
        result: What the last attempt that did not fail returned.
        token: What cancels it; may change while the policy is asked.
        skipping: The clock, if waits are skipped.
        cut: The ``asyncio.CancelledError`` that cut the last attempt: it tells where.
        cut_for: Why the run is to end for that; None: ``attempt_timeout`` cut it.
        culprit: What is to blame if something else than the operation fails.
        failure: What that raised.
        blamed: Whose fault it was.
        is_waiting: Whether ``delay`` is what follows, or would.
        began: When it began, in the clock's monotonic seconds.
        from_start: Whether that was before the first attempt, not after its failure.
        ended: When it ended.
        reason: Why it ended; None before.
    """

    # What most runs never change stands in the class: so a run costs half as much to begin.
    deadline: float | None = None
    waited: float = 0.0
    always_pauses: bool = False
    result: object = None
    skipping: SkippingClock | None = None
    cut: BaseException | None = None
    cut_for: StopReason | None = None
    culprit: str = ""
    failure: Exception | None = None
    reason: StopReason | None = None
    is_waiting: bool = False
    blamed: str = ""
    _policy: PolicyRun | None = None
    ended: float = 0.0

    def __init__(  # noqa: PLR0913, PLR0917 - what is known of the attempts made already
        self,
        rules: Rules,
        name: str,
        error: Exception | None = None,
        began: float | None = None,
        failed: float | None = None,
        made: int = 1,
    ) -> None:
        clock = resolve_clock(rules.clock)
        token = rules.token
        if token is not None and token.deadline is not None and token.clock is not clock:
            raise ValueError(
                f"token must have its deadline on the retry's clock {clock!r}, "
                f"not on {token.clock!r}"
            )
        if skippers:
            clock = self.skipping = SkippingClock(clock)
        if self.skipping is not None or rules.timer is not None:
            self.always_pauses = True
        self.rules = rules
        self.name = name
        self.clock: Clock = clock
        self.error: Any = error
        self.attempts: int = 0 if error is None else made
        self.delay: float = 0.0
        self.token = token
        self._ask: Callable[[], float | Stop | End] | None = None
        self.from_start: bool = error is None or began is not None
        if began is None:
            began = clock.monotonic() if failed is None else failed
        self.began: float = began
        if rules.timeout is not None:
            self.deadline = min(self.began + rules.timeout, LARGEST)

    def now(self) -> float:
        """Return the time, if there is a deadline to compare it with."""
        return 0.0 if self.deadline is None else self.clock.monotonic()

    def judge(self, error: Exception, *, always: bool = False) -> StopReason | None:
        """Decide what follows a failure: fix the ``delay``, or say why to give up.

        Args:
            error: What the operation raised.
            always: Whether to retry it whatever ``on`` says.

        Raises:
            Exception: The policy, or ``on``, failed: named by ``culprit``.
        """
        rules = self.rules
        most = rules.max_attempts
        if (  # the loops of _go_on have this condition, too
            rules.policy_decides
            and isinstance(error, rules.on)
            and error.__cause__ is None
            and not isinstance(error, MARKERS)
            and (most is None or self.attempts < most)
        ):
            self.error = error
            return self.ask()  # which is all that what follows comes to
        demand = self.demand_of(error, always=always)
        if isinstance(demand, StopReason):
            return demand
        now = 0.0 if self.deadline is None else self.clock.monotonic()
        reason = None
        token = self.token
        if self.deadline is not None or (
            token is not None and (token.cancelled or self.skipping is not None)
        ):
            reason = self.look(now)
        if reason is None and most is not None and self.attempts >= most:
            reason = StopReason.MAX_ATTEMPTS
        reason = reason or self.ask()
        if reason is not None:
            return reason
        if demand is not None:
            self.delay = demand
        if self.deadline is not None and now + self.delay >= self.deadline:
            self.is_waiting = True
            return StopReason.DEADLINE
        if rules.budget is not None and not rules.budget.try_acquire():
            return StopReason.BUDGET
        return None

    def demand_of(self, error: Exception, *, always: bool = False) -> StopReason | float | None:
        """Return what a failure demands by itself, before anything else is looked at.

        Returns:
            Why it must not be retried; else how many seconds to wait, None: as the policy says.
        """
        rules = self.rules
        self.error = error
        self.culprit = "the error"
        permanent = permanent_in(error)
        if permanent is not None:
            self.error = unwrapped(permanent)
            return StopReason.PERMANENT
        if isinstance(error, RetryAfter):
            self.error = unwrapped(error)
            return rules.clamped(error.seconds)
        if always:
            return None
        self.culprit = "on"
        wanted = rules.wants(error)
        if wanted is True:
            return None
        if wanted is not False:
            return rules.clamped(wanted)
        # The work was called off: if by our own token, that is what there is to say.
        called_off = isinstance(error, Cancelled) and self.is_cancelled()
        return StopReason.CANCELLED if called_off else StopReason.NOT_RETRIED

    def judge_cut(self) -> StopReason | None:
        """Decide what follows an attempt that was cut."""
        if self.cut_for is not None:
            return self.cut_for
        error, self.cut = cut_error(self), None
        return self.judge(error)

    def is_cancelled(self) -> bool:
        """Whether a token cancels it, or would if the waits had not been skipped."""
        token = self.token
        if token is None:
            return False
        if token.cancelled:
            return True
        if self.skipping is None or token.deadline is None:
            return False
        return self.clock.monotonic() >= token.deadline

    def look(self, now: float) -> StopReason | None:
        """Return why no further attempt may be made at ``now``; None if one may."""
        if self.token is not None and self.is_cancelled():
            return StopReason.CANCELLED
        if self.deadline is not None and now >= self.deadline:
            return StopReason.DEADLINE
        return None

    def is_refused(self) -> bool:
        """Whether a call must not be made any more; the last look, right before it."""
        token = self.token
        return token is not None and self.attempts > 1 and token.cancelled

    def refused(self) -> StopReason:
        """Take back the attempt that had begun: it must not be made any more; return why."""
        self.attempts -= 1
        return self.look(self.now()) or StopReason.CANCELLED

    def fail(self, failure: Exception) -> StopReason:
        """Keep what failed instead of the operation, and whose fault it was."""
        if self.failure is not None:
            hang_on(failure, self.failure)
        self.failure = failure
        self.blamed = self.culprit
        return StopReason.FAILED

    def accepts(self) -> bool:
        """Whether the result is accepted."""
        rules = self.rules
        if not rules.judges_results:
            return True
        self.culprit = "retry_if" if rules.until is None else "until"
        return rules.accepts(self.result)

    # The policy

    def ask(self) -> StopReason | None:
        """Ask the policy for the ``delay``; return why there is none if there is none."""
        self.culprit = "the back-off policy"
        delay: Any = (self._ask or self._begin_policy())()
        if delay.__class__ is not float or not 0.0 <= delay <= LARGEST:
            delay = self._checked(delay)
            if delay is None:
                return StopReason.CANCELLED if self.is_cancelled() else StopReason.EXHAUSTED
        self.delay = delay
        return None

    def _begin_policy(self) -> Callable[[], float | Stop | End]:
        """Begin the run of the policy, at the first failure: its limits of time count from here."""
        rules = self.rules
        if rules.immutable:
            self._ask = rules.backoff.next_backoff
            return self._ask
        backoff = start_policy("backoff", rules.backoff, self.clock)
        if rules.simple:
            self._ask = backoff.next_backoff
        else:
            beneath = self.clock if self.skipping is None else self.skipping.clock
            given = () if rules.token is None else (rules.token,)
            self._policy = PolicyRun(backoff, beneath, given)
            self._ask = self._ask_policy
        return self._ask

    def _ask_policy(self) -> float | End:
        policy = self._policy
        assert policy is not None  # noqa: S101 - begun
        delay = policy.ask()
        self.token = policy.token
        return delay

    def _checked(self, delay: object) -> float | None:
        """Return what the policy answered as a delay; None for ``STOP``."""
        if isinstance(delay, End):
            if delay.error is not None:
                raise delay.error
            return None
        return None if delay is STOP else checked_delay(self.rules.backoff, delay)

    # The end

    def end(self, reason: StopReason) -> None:
        """Keep why it ended, and when."""
        self.reason = reason
        self.ended = self.clock.monotonic()

    def outcome(self) -> Outcome:
        """Return what is known of it now."""
        ended = self.reason is not None
        now = self.ended if ended else self.clock.monotonic()
        return Outcome(
            self.name,
            self.attempts,
            now - self.began,
            self.waited,
            self.delay if self.is_waiting and not ended else None,
            self.reason,
            self.error,
        )
