"""Policies made of others: the base of wrappers, chains, and how feedback passes through both."""

from __future__ import annotations

from math import inf

from .._sentinels import STOP, Stop
from .._validation import LARGEST, whole_repr
from ._base import ANY_POLICY, Bounds, Calls, Policy, known, union
from ._copying import held_policies, is_builtin, is_immutable, require_policy
from ._run import checked_delay, combined, is_feedback, tell, token_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, overload as overload  # noqa: PLC0414 - for the other files

    from ..cancellation import CancellationToken
    from ._protocol import BackOff, FeedbackBackOff
else:

    def overload(function: object) -> object:
        """Return the function; the real one costs the import of ``typing``."""
        return function


class TakesFeedback:
    """The methods of a ``FeedbackBackOff``, for a policy that passes feedback on."""

    __slots__ = ()

    def failure(self, timestamp: float | None = None) -> float | Stop:
        """Report a failed attempt; return the seconds to wait, or ``STOP``.

        A timestamp, if any, is passed on to the policy inside. If that raises an error, nothing is
        counted.
        """
        return self._told("failure", timestamp)

    def success(self, timestamp: float | None = None) -> float | Stop:
        """Report a successful attempt; takes, returns and raises the same as ``failure()``."""
        return self._told("success", timestamp)

    _told: Any  # returns the answer to "failure" or "success"; the policy's own class has it

    def __reduce__(self) -> tuple[Any, ...]:
        return _new_with_feedback, (type(self).__bases__[0],), object.__getstate__(self)


def add_feedback(policy: Policy, *inside: BackOff) -> None:
    """Give a policy ``failure()`` and ``success()`` if one inside has them, and its class has not.

    ``isinstance(policy, FeedbackBackOff)`` looks at the class, so the object gets another one.
    """
    if any(map(is_feedback, inside)) and not is_feedback(policy):
        policy.__class__ = _feedback_class(type(policy))


_with_feedback: dict[type[Policy], type[Policy]] = {}


def _feedback_class(cls: type[Policy]) -> type[Policy]:
    if cls not in _with_feedback:
        names = ("__module__", "__qualname__", "__doc__")
        namespace = {"__slots__": (), **{name: getattr(cls, name) for name in names}}
        _with_feedback.setdefault(cls, type(cls.__name__, (cls, TakesFeedback), namespace))
    return _with_feedback[cls]


def _new_with_feedback(cls: type[Policy]) -> Policy:
    return object.__new__(_feedback_class(cls))


class BackOffWrapper(Policy):
    """A policy that changes the delays of another policy; derive from it to write your own.

    Call ``super().__init__(backoff)`` and override ``transform``: it takes a delay of the policy
    inside, a checked float, and returns the delay to wait, or ``STOP``. To change more, override
    ``next_backoff`` and ``reset``. The class does the rest:

    - ``failure()`` and ``success()`` exist if, and only if, the policy inside is a
      ``FeedbackBackOff``. Override ``transform_success`` to change the delay after a success.
    - A ``token`` inside cancels the ticker or retry that uses the wrapper.
    - A copy of the wrapper has its own copy of the policy inside.
    - ``bounds()`` returns 0 and the largest float, unless you override it.

    Attributes:
        backoff: The policy inside.

    Raises:
        TypeError: ``backoff`` is not a policy.

    Example:
        >>> from backoff_ticker import BackOffWrapper, ExponentialBackOff, delays
        >>> class WholeSeconds(BackOffWrapper):
        ...     def transform(self, delay):
        ...         return float(round(delay))
        >>> policy = WholeSeconds(ExponentialBackOff(1, 0, 1.5, max_elapsed_time=12))
        >>> list(delays(policy))
        [1.0, 2.0, 2.0, 3.0]
    """

    __slots__ = ("backoff",)

    def __init__(self, backoff: BackOff) -> None:
        require_policy("backoff", backoff)
        self.backoff: BackOff = backoff
        add_feedback(self, backoff)

    @property
    def token(self) -> CancellationToken | None:
        """The token of the policy inside; None if it has none."""
        return token_of(self.backoff)

    def transform(self, delay: float) -> float | Stop:
        """Return the seconds to wait instead of ``delay``, or ``STOP``."""
        return delay

    def transform_success(self, delay: float) -> float | Stop:
        """Return the seconds to wait after a success instead of ``delay``, or ``STOP``."""
        return self.transform(delay)

    def next_backoff(self) -> float | Stop:
        """Return the transformed delay of the policy inside, or ``STOP``."""
        if not self._may_ask("failure"):
            return STOP
        answer = self.backoff.next_backoff()
        if type(answer) is float and 0.0 <= answer <= LARGEST:  # _answer(), inlined
            return self.transform(answer)
        return self._answer(answer)

    def reset(self) -> None:
        """Start again, and reset the policy inside."""
        self.backoff.reset()

    def _may_ask(self, outcome: str) -> bool:
        return True

    def _answer(self, answer: float | Stop) -> float | Stop:
        if answer is STOP:
            return STOP
        return self.transform(checked_delay(self.backoff, answer))

    def _told(self, outcome: str, timestamp: float | None) -> float | Stop:
        if not self._may_ask(outcome):
            return STOP
        answer = tell(self.backoff, outcome, timestamp)
        if outcome == "failure" or answer is STOP:
            return self._answer(answer)
        return self.transform_success(checked_delay(self.backoff, answer))

    def _range(self, delay: float) -> Bounds:
        """Return the least and the greatest that ``delay`` can become; both rise with it."""
        return delay, delay

    def _span(self, first: int, last: int) -> Bounds | None:
        if not is_builtin(type(self)):
            return super()._span(first, last)
        inside = known(self.backoff)._span(first, last)
        return inside and (self._range(inside[0])[0], self._range(inside[1])[1])

    def _calls(self) -> Calls:
        return known(self.backoff)._calls()

    def _skip(self, calls: int) -> int | None:
        return known(self.backoff)._skip(calls)


class _Chain(Policy):
    """What ``chain()`` returns; ``position`` is the index of the policy in use."""

    __slots__ = ("backoffs", "position", "token")

    def __init__(self, backoffs: tuple[BackOff, ...]) -> None:
        if not backoffs:
            raise TypeError("chain() needs at least one policy")
        for number, backoff in enumerate(backoffs, 1):
            require_policy(f"argument {number} of chain()", backoff)
        self.backoffs: tuple[BackOff, ...] = tuple({id(part): part for part in backoffs}.values())
        self.position: int = 0
        self.token: CancellationToken | None = combined(map(token_of, backoffs))
        add_feedback(self, *backoffs)

    def next_backoff(self) -> float | Stop:
        return self._told("next_backoff", None)

    def reset(self) -> None:
        for backoff in self.backoffs:
            backoff.reset()
        self.position = 0

    def _told(self, outcome: str, timestamp: float | None) -> float | Stop:
        """Tell the policy in use, by the method named ``outcome``, or the next one if it stops."""
        while self.position < len(self.backoffs):
            backoff = self.backoffs[self.position]
            if outcome == "next_backoff" or is_feedback(backoff):
                answer = tell(backoff, outcome, timestamp)
            else:
                if outcome == "success":
                    backoff.reset()
                answer = backoff.next_backoff()
            if answer is not STOP:
                return checked_delay(backoff, answer)
            self.position += 1
        return STOP

    def _parts(self) -> Iterator[tuple[Policy, float, float]]:
        """Yield what tells each policy's bounds, and how many delays it returns: least, most.

        Of one that shares a policy with an earlier part nothing is known, as that has used it.
        """
        used: set[int] = set()
        for backoff in self.backoffs:
            part, inside = known(backoff), _stateful_inside(backoff)
            least, most = part._calls()
            yield (part, least, most) if used.isdisjoint(inside) else (ANY_POLICY, 0, most)
            used |= inside

    def _span(self, first: int, last: int) -> Bounds | None:
        found: Bounds | None = None
        for part, least, most in self._parts():
            # `last` counts from the first call that may be this part's, `first` from the first
            # that must be.
            if first <= most:
                found = union(found, part._span(first, int(min(last, most))))
            if last <= least:
                break
            first = 1 if first <= most else first - int(most)
            last -= int(least)
        return found

    def _calls(self) -> Calls:
        _, *counts = zip(*self._parts(), strict=True)
        # Not sum() alone: ints too great for a float may be among them.
        least, most = (inf if inf in numbers else sum(numbers) for numbers in counts)
        return least, most

    def _skip(self, calls: int) -> int | None:
        if any(known(backoff)._skip(0) is None for backoff in self.backoffs):
            return None
        left = calls
        while left and self.position < len(self.backoffs):
            left -= known(self.backoffs[self.position])._skip(left) or 0
            if left:
                self.position += 1
        return calls - left

    def __repr__(self) -> str:
        return f"chain({', '.join(map(whole_repr, self.backoffs))})"


def _stateful_inside(policy: BackOff) -> set[int]:
    """Return the ids of the policies in ``policy``, itself included, that have state."""
    found: set[int] = set()
    left = [policy]
    while left:
        policy = left.pop()
        if id(policy) not in found and not is_immutable(policy):
            found.add(id(policy))
            left += held_policies(policy)
    return found


if TYPE_CHECKING:  # what policies are to whose class add_feedback() has added

    class FeedbackPolicy(Policy, TakesFeedback): ...

    class FeedbackWrapper(BackOffWrapper, TakesFeedback): ...


@overload
def chain(b1: FeedbackBackOff, /, *more: BackOff) -> FeedbackPolicy: ...
@overload
def chain(b1: BackOff, b2: FeedbackBackOff, /, *more: BackOff) -> FeedbackPolicy: ...
@overload
def chain(b1: BackOff, b2: BackOff, b3: FeedbackBackOff, /, *more: BackOff) -> FeedbackPolicy: ...
@overload
def chain(
    b1: BackOff, b2: BackOff, b3: BackOff, b4: FeedbackBackOff, /, *more: BackOff
) -> FeedbackPolicy: ...
@overload
def chain(*backoffs: BackOff) -> Policy: ...
def chain(*backoffs: BackOff) -> Policy:
    """Return a policy with the delays of the first policy, then those of the second, and so on.

    The next policy takes over when one returns ``STOP``. A policy that has stopped is not asked
    again before ``reset()``, which resets all of them; so a policy object that is given twice is
    used once. A token of any of the policies cancels the ticker or retry that uses the chain.

    The chain is a feedback policy if one of the policies is, and passes feedback to the policy in
    use. If that policy takes none, a failure asks it for its next delay, and a success resets it.
    Type checkers see this for the first four policies.

    Raises:
        TypeError: No policy is given.
        ValueError: Tokens of the policies have deadlines on different clocks.

    Example:
        >>> from backoff_ticker import ConstantBackOff, chain, delays, with_max_retries
        >>> fast, slow = ConstantBackOff(1), ConstantBackOff(60)
        >>> list(delays(chain(with_max_retries(fast, 2), with_max_retries(slow, 1))))
        [1.0, 1.0, 60.0]
    """
    return _Chain(backoffs)
