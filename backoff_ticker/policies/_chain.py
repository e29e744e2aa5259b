"""Policies one after the other."""

from __future__ import annotations

from math import inf

from .._sentinels import STOP, Stop
from .._validation import whole_repr
from ._base import ANY_POLICY, Bounds, Calls, Policy, known, union
from ._copying import held_policies, is_immutable, require_policy
from ._run import checked_delay, combined, is_feedback, tell, token_of
from ._wrapper import add_feedback, overload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..cancellation import CancellationToken
    from ._protocol import BackOff, FeedbackBackOff
    from ._wrapper import FeedbackPolicy


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
