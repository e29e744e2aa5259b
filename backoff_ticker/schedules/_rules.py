"""What follows the work of a key: which errors are failures, when the key is due again, who knows.

The worker that has the key follows these rules in its own thread, outside of all changes.
"""

from __future__ import annotations

from .._error_chain import find_permanent, unwrapped
from .._errors import Cancelled, RetryAfter
from .._operation import called
from .._sentinels import STOP
from .._shown import shown_error
from .._validation import safe_repr
from ..circuits import as_error_rule, checked_answer, rule_for, rules_by_class
from ..clock import later
from ..policies import (
    ExponentialBackOff,
    PolicyRun,
    checked_delay,
    delay_after,
    is_feedback,
    is_policy,
    start_policy,
    tell,
)
from ..waiting import NO_DEADLINE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final, TypeAlias

    from .._sentinels import Stop
    from ..cancellation import CancellationToken
    from ..clock import Clock
    from ..policies import BackOff
    from ._job import Job
    from ._keys import Entry, Hold

    # What an error means. None: neither failure nor success; False: a failure that is raised; True:
    # one that is not. Such failures may also say the wait, or a policy of their own, or STOP.
    Verdict: TypeAlias = bool | float | BackOff | Stop | None

_DEFAULT_BACKOFF: Final = ExponentialBackOff()
_LONGEST_RETRY_AFTER: Final = 6 * 3600.0
"""The most seconds that an error may ask for; the default of ``max_retry_after`` of retries."""
_AFTER_BROKEN_POLICY: Final = 60.0


class Rules:
    """The rules of one schedule, from its options of the same names."""

    def __init__(
        self,
        clock: Clock,
        backoff: BackOff | None,
        on: Any,
        notify: Callable[[Job[Any], Any, float], object] | None,
        on_give_up: Callable[[Job[Any], Any], object] | None,
    ) -> None:
        self._clock = clock
        self._backoff = backoff
        self._on = None if on is None else as_error_rule("on", on)
        self._by_class = rules_by_class(self._on)
        self._notify = notify
        self._on_give_up = on_give_up

    def token(self, given: CancellationToken | None) -> CancellationToken | None:
        """Check the policies; return a token that is cancelled with ``given`` or one of theirs."""
        policies: dict[str, Any] = {
            "backoff": _DEFAULT_BACKOFF if self._backoff is None else self._backoff
        }
        for kind, rule in (self._by_class or {}).items():
            if is_policy(rule):
                policies[f"on[{kind.__name__}]"] = rule
        for name, policy in policies.items():
            given = PolicyRun(start_policy(name, policy, self._clock), self._clock, given).token
        return given

    def verdict_on(self, error: BaseException) -> Verdict:
        """Return what an error means that has left the block of a job."""
        if not isinstance(error, Exception):
            return None
        if find_permanent(error) is not None:
            return STOP
        if isinstance(error, RetryAfter):
            return min(error.seconds, _LONGEST_RETRY_AFTER)
        if self._by_class is None:
            rule: Any = checked_answer(called("on", self._on, error))
        else:
            # Who names all errors does not mean a cancel.
            base = Cancelled if isinstance(error, Cancelled) else object
            rule = rule_for(self._by_class, error, base)
            rule = False if rule is None else rule
        if rule is False and isinstance(error, Cancelled):
            return None
        return min(rule, _LONGEST_RETRY_AFTER) if isinstance(rule, float) else rule

    def due_after_success(self, hold: Hold, now: float) -> float:
        entry = hold.entry
        if self._backoff is not None and is_feedback(self._backoff):
            self._run_of(entry, self._backoff)
        delay: Any = STOP
        for original, policy in (entry.runs or {}).items():
            answer = tell(policy, "success", None)
            if original == id(self._backoff):
                delay = answer
        if entry.every:
            return entry.advance(hold.due, now)
        return NO_DEADLINE if delay is STOP else later(now, checked_delay(self._backoff, delay))

    def due_after_failure(
        self, hold: Hold, now: float, failures: int, verdict: Verdict
    ) -> tuple[float, float]:
        """Return when a key is due after a failure, and how long that is."""
        entry = hold.entry
        slot = entry.advance(hold.due, now)
        wait = verdict if isinstance(verdict, float) else None
        # The policy is asked even if the error says how long to wait: it may have had enough.
        policy: Any = self._backoff if isinstance(verdict, (bool, float)) else verdict
        if policy is None and entry.every:
            return (slot, slot - now) if wait is None else (later(now, wait), wait)
        if policy is STOP:
            delay: Any = STOP
        elif is_feedback(policy):
            delay = tell(self._run_of(entry, policy), "failure", None)
        else:
            delay = delay_after(_DEFAULT_BACKOFF if policy is None else policy, failures)
        if delay is STOP:
            return NO_DEADLINE, NO_DEADLINE
        seconds = checked_delay(policy, delay) if wait is None else wait
        return later(now, seconds), seconds

    def due_after_rest(self, hold: Hold, now: float, seconds: float) -> float:
        hold.entry.advance(hold.due, now)
        return later(now, seconds)

    def due_after_broken_policy(self, hold: Hold, now: float) -> float:
        slot = hold.entry.advance(hold.due, now)
        return slot if hold.entry.every else later(now, _AFTER_BROKEN_POLICY)

    def _run_of(self, entry: Entry, policy: BackOff) -> BackOff:
        """Return the key's own copy of a feedback policy."""
        if entry.runs is None:
            entry.runs = {}
        if id(policy) not in entry.runs:
            entry.runs[id(policy)] = start_policy("backoff", policy, self._clock)
        return entry.runs[id(policy)]

    def tell(
        self,
        job: Job[Any],
        error: BaseException | None,
        failures: int,
        delay: float,
        *,
        is_raised: bool,
    ) -> None:
        """Tell of a failure whom it concerns; a delay of ``NO_DEADLINE``: the key leaves."""
        gives_up = delay == NO_DEADLINE
        if error is not None:
            error = unwrapped(find_permanent(error) or error)
        if gives_up and self._on_give_up is not None:
            called("on_give_up", self._on_give_up, job, error)
        elif not gives_up and is_raised:
            pass  # who catches the error knows
        elif not gives_up and self._notify is not None:
            called("notify", self._notify, job, error, delay)
        else:
            import logging

            then = "leaves the schedule" if gives_up else f"rests for {delay:.3g} s"
            shown = None if error is None else shown_error(error)
            level = logging.WARNING if gives_up or failures == 1 else logging.DEBUG
            text = "%s failed, %s in a row, and %s: %s"
            logger = logging.getLogger("backoff_ticker.schedule")
            logger.log(level, text, safe_repr(job.key), failures, then, shown)
