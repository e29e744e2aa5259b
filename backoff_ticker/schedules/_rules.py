"""What follows the work of a key: which errors are failures, when the key is due again, who knows.

The worker that has the key follows these rules in its own thread, outside of all changes.
"""

from __future__ import annotations

from .._error_chain import find_permanent, unwrapped
from .._errors import Cancelled, RetryAfter
from .._operation import called
from .._sentinels import STOP
from .._validation import as_seconds, safe_repr
from ..circuits import as_error_rule, rules_by_class
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
    from ._keys import Entry

    # What an error means. None: neither failure nor success; False: a failure that is raised; True:
    # one that is not. Such failures may also say the wait, or a policy of their own, or STOP.
    Verdict: TypeAlias = bool | float | BackOff | Stop | None

_DEFAULT_BACKOFF: Final = ExponentialBackOff()
_LONGEST_RETRY_AFTER: Final = 6 * 3600.0
"""The most seconds that an error may ask for; the default of ``max_retry_after`` of retries."""
_AFTER_BROKEN_POLICY: Final = 60.0


class Plan:
    """What follows the end of a job.

    Attributes:
        what: ``"give back"``, or what was said of the job: ``"succeed"``, ``"fail"`` and so on.
        due: When the key is due again; ``NO_DEADLINE``: it leaves, unless it is asked for.
        failures: How often its work has failed in a row by now.
        delay: The seconds until ``due``, after a failure.
        error: The error of the work.
        swallows: Whether that goes no further.
        broken: What code of the user has raised; it is raised once the key is back.
    """

    __slots__ = ("broken", "delay", "due", "error", "failures", "swallows", "what")

    def __init__(self, what: str, error: BaseException | None) -> None:
        self.what = what
        self.error = error
        self.due = NO_DEADLINE
        self.delay = 0.0
        self.failures = 0
        self.swallows = True
        self.broken: Exception | None = None


class Rules:
    """The rules of one schedule.

    Attributes:
        policies: ``backoff`` and those that ``on`` names, by the names for errors.
        notify, on_give_up: Hooks of the user; None: there is none.
    """

    def __init__(self, clock: Clock, backoff: BackOff | None, on: Any) -> None:  # noqa: ANN401 - any rule
        self._clock = clock
        self._backoff = backoff
        self._on = None if on is None else as_error_rule("on", on)
        self._by_class = rules_by_class(self._on)
        self.policies = {"backoff": _DEFAULT_BACKOFF if backoff is None else backoff}
        for kind, rule in (self._by_class or {}).items():
            if is_policy(rule):
                self.policies[f"on[{kind.__name__}]"] = rule
        self.notify: Callable[[Job[Any], Any, float], object] | None = None
        self.on_give_up: Callable[[Job[Any], Any], object] | None = None

    def token(self, given: CancellationToken | None) -> CancellationToken | None:
        """Check the policies; return a token that is cancelled with ``given`` or one of theirs."""
        for name, policy in self.policies.items():
            tokens = () if given is None else (given,)
            given = PolicyRun(start_policy(name, policy, self._clock), self._clock, tokens).token
        return given

    def plan(self, job: Job[Any], error: BaseException | None, now: float) -> Plan:
        """Return what follows the end of a job: with ``error``, or as was said of it."""
        said: Any
        what, said = job._said if error is None else ("fail", error)
        plan = Plan(what, said if what == "fail" else None)
        plan.failures = job.failures
        entry = job._hold.entry
        try:
            verdict: Verdict = True
            if error is not None:
                plan.swallows = False
                verdict = self._verdict_on(error)
                if verdict is None:
                    plan.what = "give back"
                    return plan
                plan.swallows = verdict is not False
            entry.pass_slots(job.due)
            if what == "retry_in":
                plan.due = later(now, said)
            elif what == "succeed":
                plan.failures = 0
                plan.due = self._due_after_success(entry, now)
            elif what == "fail":
                plan.failures += 1
                plan.due, plan.delay = self._due_after_failure(entry, now, plan.failures, verdict)
        except Exception as broken:  # noqa: BLE001 - of on, or of a policy
            plan.broken = broken
            plan.due = entry.next_slot(now) if entry.every else later(now, _AFTER_BROKEN_POLICY)
        return plan

    def _verdict_on(self, error: BaseException) -> Verdict:
        if not isinstance(error, Exception):
            return None
        if find_permanent(error) is not None:
            return STOP
        if isinstance(error, RetryAfter):
            return min(error.seconds, _LONGEST_RETRY_AFTER)
        if self._by_class is None:
            answer = called("on", self._on, error)
            rule = answer if isinstance(answer, bool) else as_seconds("what on returns", answer)
        else:
            kinds = type(error).__mro__
            named = next((kind for kind in kinds if kind in self._by_class), object)
            rule = self._by_class.get(named, False)
            if isinstance(error, Cancelled) and not issubclass(named, Cancelled):
                rule = False  # who names all errors does not mean a cancel
        if rule is False and isinstance(error, Cancelled):
            return None
        return min(rule, _LONGEST_RETRY_AFTER) if isinstance(rule, float) else rule

    def _due_after_success(self, entry: Entry, now: float) -> float:
        delay: Any = STOP
        for original, policy in (entry.runs or {}).items():
            answer = tell(policy, "success", None)
            if original == id(self._backoff):
                delay = answer
        if entry.every:
            return entry.next_slot(now)
        if entry.runs is None and self._backoff is not None and is_feedback(self._backoff):
            delay = tell(self._run_of(entry, self._backoff), "success", None)
        return NO_DEADLINE if delay is STOP else later(now, checked_delay(self._backoff, delay))

    def _due_after_failure(
        self, entry: Entry, now: float, failures: int, verdict: Verdict
    ) -> tuple[float, float]:
        """Return when a key is due after a failure, and how long that is."""
        policy: Any = self._backoff if isinstance(verdict, bool) else verdict
        if policy is None and entry.every:
            slot = entry.next_slot(now)
            return slot, slot - now
        delay: float | Stop
        if policy is STOP or isinstance(policy, float):
            delay = policy
        elif is_feedback(policy):
            delay = tell(self._run_of(entry, policy), "failure", None)
        else:
            delay = delay_after(policy or _DEFAULT_BACKOFF, failures)
        if delay is STOP:
            return NO_DEADLINE, 0.0
        seconds = checked_delay(policy, delay)
        return later(now, seconds), seconds

    def _run_of(self, entry: Entry, policy: BackOff) -> BackOff:
        """Return the key's own copy of a feedback policy."""
        if entry.runs is None:
            entry.runs = {}
        if id(policy) not in entry.runs:
            entry.runs[id(policy)] = start_policy("backoff", policy, self._clock)
        return entry.runs[id(policy)]

    def tell(self, job: Job[Any], plan: Plan) -> None:
        """Tell of a failure whom it concerns."""
        gives_up = plan.due == NO_DEADLINE
        error = plan.error
        if error is not None:
            error = unwrapped(find_permanent(error) or error)
        if gives_up and self.on_give_up is not None:
            called("on_give_up", self.on_give_up, job, error)
        elif not gives_up and not plan.swallows:
            pass  # who catches the error knows
        elif not gives_up and self.notify is not None:
            called("notify", self.notify, job, error, plan.delay)
        else:
            import logging

            then = "leaves the schedule" if gives_up else f"is due again in {plan.delay:.3g} s"
            logging.getLogger("backoff_ticker.schedule").warning(
                "%s failed, %s in a row, and %s: %r", safe_repr(job.key), plan.failures, then, error
            )
