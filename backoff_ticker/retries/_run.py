"""One run of a retry: what has happened so far, and what follows a failure.

Nothing here waits or calls the operation. Of user code it asks the policy, and what judges errors
and results; these may fail, and their errors pass.
"""

from __future__ import annotations

from .._clock import resolve_clock
from .._errors import Cancelled, DeadlineExceeded
from .._numbers import LARGEST, shown
from .._policy_run import PolicyRun
from .._stop import STOP
from .._turn import Last
from ..policies._running import checked_delay, start_policy
from ._errors import Permanent, RetryAfter, chain, hang_on, permanent_in, unwrapped
from ._outcome import Outcome, StopReason
from ._skipping import SkippingClock, skippers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._protocols import Clock
    from .._stop import Stop
    from ._rules import Rules

__all__ = ["TELLING", "Run"]

_NOTE = "gave up after "
TELLING = (Permanent, RetryAfter, Cancelled)
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
        paced: Whether a wait of no time is a wait, too.
        result: What the last attempt that did not fail returned.
        token: What cancels it; may change while the policy is asked.
        cut: The ``asyncio.CancelledError`` that cut the last attempt: it tells where.
        cut_for: Why the run is to end for that; None: ``attempt_timeout`` cut it.
        culprit: What is to blame if something else than the operation fails.
        failure: What that raised.
        is_waiting: Whether ``delay`` is what follows.
        reason: Why it ended; None before.
    """

    deadline: float | None = None
    waited: float = 0.0
    paced: bool = False
    result: object = None
    skipping: SkippingClock | None = None
    cut: BaseException | None = None
    cut_for: StopReason | None = None
    culprit: str = ""
    failure: Exception | None = None
    reason: StopReason | None = None
    is_waiting: bool = False
    _blamed: str = ""
    _policy: PolicyRun | None = None
    _ended: float = 0.0

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
            self.paced = True
        self.rules = rules
        self.name = name
        self.clock: Clock = clock
        self.error: Any = error
        self.attempts: int = 0 if error is None else made
        self.delay: float = 0.0
        self.token = token
        self._ask: Callable[[], float | Stop | Last] | None = None
        self._from_start = error is None or began is not None
        if began is None:
            began = clock.monotonic() if failed is None else failed
        self._began: float = began
        if rules.timeout is not None:
            self.deadline = min(self._began + rules.timeout, LARGEST)

    def now(self) -> float:
        """Return the time, if there is a deadline to compare it with."""
        return 0.0 if self.deadline is None else self.clock.monotonic()

    def judge(self, error: Exception, now: float, *, always: bool = False) -> StopReason | None:
        """Decide what follows a failure: fix the ``delay``, or say why to give up.

        Args:
            error: What the operation raised.
            now: What ``now()`` returned.
            always: Whether to retry it whatever ``on`` says.

        Raises:
            Exception: The policy, or ``on``, failed: named by ``culprit``.
        """
        rules = self.rules
        most = rules.max_attempts
        if (
            rules.plain
            and isinstance(error, rules.on)
            and error.__cause__ is None
            and not isinstance(error, TELLING)
            and (most is None or self.attempts < most)
        ):
            self.error = error
            return self.ask()  # which is all that what follows comes to
        asked = self.asked(error, always=always)
        if isinstance(asked, StopReason):
            return asked
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
        if asked is not True:
            self.delay = rules.clamped(asked)
        if self.deadline is not None and now + self.delay >= self.deadline:
            self.is_waiting = True
            return StopReason.DEADLINE
        if rules.budget is not None and not rules.budget.try_acquire():
            return StopReason.BUDGET
        return None

    def asked(self, error: Exception, *, always: bool = False) -> StopReason | bool | float:
        """Return what a failure asks for by itself.

        Returns:
            Why it must not be retried; else True, or so many seconds to wait.
        """
        self.error = error
        self.culprit = "the error"
        permanent = permanent_in(error)
        if permanent is not None:
            self.error = unwrapped(permanent)
            return StopReason.PERMANENT
        if isinstance(error, RetryAfter):
            self.error = unwrapped(error)
            return error.seconds
        self.culprit = "on"
        wanted = always or self.rules.wants(error)
        if wanted is not False:
            return wanted
        # The work was called off: if by our own token, that is what there is to say.
        called_off = isinstance(error, Cancelled) and self.is_cancelled()
        return StopReason.CANCELLED if called_off else StopReason.NOT_RETRIED

    def cut_error(self) -> Exception:
        """Return what stands for an attempt that was cut."""
        if self.cut_for is StopReason.CANCELLED:
            return self.refusal()
        if self.cut_for is StopReason.DEADLINE:
            return DeadlineExceeded()
        error = TimeoutError(f"the attempt took longer than {self.rules.attempt_timeout!r} s")
        error.__context__ = self.cut
        return error

    def judge_cut(self, now: float) -> StopReason | None:
        """Decide what follows an attempt that was cut."""
        if self.cut_for is not None:
            return self.cut_for
        error, self.cut = self.cut_error(), None
        return self.judge(error, now)

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

    def refusal(self) -> Exception:
        """Return what stands for an attempt that must not be made any more."""
        token = self.token
        return token.error() if token is not None and token.cancelled else DeadlineExceeded()

    def refused(self) -> StopReason:
        """Take back the attempt that had begun: it must not be made any more; return why."""
        self.attempts -= 1
        return self.look(self.now()) or StopReason.CANCELLED

    def fail(self, failure: Exception) -> StopReason:
        """Keep what failed instead of the operation, and whose fault it was."""
        if self.failure is not None:
            hang_on(failure, self.failure)
        self.failure = failure
        self._blamed = self.culprit
        return StopReason.FAILED

    def accepts(self) -> bool:
        """Whether the result is accepted."""
        rules = self.rules
        if rules.until is None and rules.retry_if is None:
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

    def _begin_policy(self) -> Callable[[], float | Stop | Last]:
        """Begin the run of the policy, at the first failure: its limits of time count from here."""
        rules = self.rules
        if rules.still:
            self._ask = rules.backoff.next_backoff
            return self._ask
        backoff = start_policy("backoff", rules.backoff, self.clock)
        if rules.straight:
            self._ask = backoff.next_backoff
        else:
            given = () if rules.token is None else (rules.token,)
            self._policy = PolicyRun(backoff, resolve_clock(rules.clock), given)
            self._ask = self._ask_policy
        return self._ask

    def _ask_policy(self) -> float | Last:
        policy = self._policy
        assert policy is not None  # noqa: S101 - begun
        delay = policy.ask()
        self.token = policy.token
        return delay

    def _checked(self, delay: object) -> float | None:
        """Return what the policy answered as a delay; None for ``STOP``."""
        if isinstance(delay, Last):
            if delay.error is not None:
                raise delay.error
            return None
        return None if delay is STOP else checked_delay(self.rules.backoff, delay)

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
            now - self._began,
            self.waited,
            self.delay if self.is_waiting and not ended else None,
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
            final: Any = DeadlineExceeded()
            if self.token is not None and self.token.cancelled:
                final = self.token.error()
            why = str(final)
        elif self.reason is StopReason.DEADLINE:
            final = DeadlineExceeded()
            why = f"the timeout of {self.rules.timeout!r} s"
            if self.is_waiting:
                why = f"a wait of {round(self.delay, 3)} s would reach {why}"
        else:
            final = last if failure is None else failure
            why = self._why()
        if last is not None:
            if failure is not None:
                hang_on(failure, last)
            elif final is not last:
                chain(final, "__cause__", last)
        if cut is not None and final.__context__ is None:
            chain(final, "__context__", cut)
        _annotate(final, self._note(why))
        return final  # type: ignore[no-any-return]

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
        return f"{self._blamed} failed"

    def _note(self, why: str) -> str:
        times = "1 attempt" if self.attempts == 1 else f"{self.attempts} attempts"
        since = "" if self._from_start else " since the first failed"
        return f"{_NOTE}{times} in {round(self._ended - self._began, 3)} s{since}: {why}"


def _annotate(error: BaseException, note: str) -> None:
    """Add ``note`` to ``error``, in place of one that another run left there."""
    notes = getattr(error, "__notes__", None)
    kept = [old for old in notes if not _is_ours(old)] if isinstance(notes, list) else []
    try:
        # Not add_note(): an error that is frozen takes no attributes.
        BaseException.__setattr__(error, "__notes__", [*kept, note])
    except Exception:  # noqa: BLE001, S110 - an error that refuses notes is raised without one
        pass


def _is_ours(note: object) -> bool:
    words = note.split(maxsplit=5) if isinstance(note, str) and note.startswith(_NOTE) else []
    return len(words) > 4 and words[3].isdigit() and words[4].startswith("attempt")  # noqa: PLR2004
