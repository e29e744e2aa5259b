"""A state that one thread at a time may replace, without a lock.

A state has a ``claim``, an empty dict. The thread that stores its mark there first (``setdefault``
is atomic) has claimed the state and may replace it. A lock would do the same, but a signal handler
or a finalizer may need it in the very thread that holds it, and an interrupt can leave it locked.

Invariants:
    * A state is never changed, only replaced by another with a claim of its own. A thread that
      still looks at a replaced state cannot claim it.
    * A rule that is interrupted changes nothing: the state stays, and its claim is released.
    * A thread that finds the state claimed appends its rule to ``deferred`` before it tries to
      claim; the thread that held the claim looks at ``deferred`` after the store. One of the two
      sees the other.
    * Claims are kept by process: in a forked child those of the parent's threads do not count.
"""

from __future__ import annotations

from _thread import get_ident

from .. import _process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final, Protocol

    Claim = dict[int, tuple[int]]

    class State(Protocol):
        claim: Claim


class _Claimed:
    __slots__ = ()


CLAIMED: Final = _Claimed()
"""Returned by ``AtomicState.replace()`` where another call has claimed the state."""


class AtomicState:
    """Holds a state, and the rules that wait to be applied to it.

    Attributes:
        current: The state.
        deferred: Rules ``rule(state) -> state`` that the next thread to release a claim applies.
    """

    __slots__ = ("current", "deferred")

    def __init__(self, state: State) -> None:
        self.current: Any = state
        self.deferred: list[Callable[[Any], State]] | tuple[()] = ()

    def replace(
        self,
        state: State,
        rule: Callable[[Any, Any, Any], tuple[State, Any]],
        owner: object,
        argument: object,
    ) -> Any:  # noqa: ANN401 - what the rule returns
        """Replace ``state`` by what ``rule`` makes of it.

        Args:
            state: The value of ``current`` that the caller has read.
            rule: Called as ``rule(owner, state, argument)`` by the one thread that has claimed the
                state; returns the next state, or the same for no change, and a result.
            owner: Passed to the rule. A bound method or a closure would cost the hot path more.
            argument: Passed to the rule.

        Returns:
            The result of the rule; ``CLAIMED`` if the state is claimed, or was replaced before.

        Raises:
            BaseException: What the rule raised. Threads that found the state claimed have to be
                woken then.
        """
        claim = state.claim
        generation = _process.generation
        mark = (get_ident(),)
        try:
            # A state that was replaced before a fork could be claimed in the child.
            if claim.setdefault(generation, mark) is not mark or self.current is not state:
                return CLAIMED
            after, result = rule(owner, state, argument)
            # ATOMIC: no call from the last look of the rule to the return of its result.
            if after is state:
                del claim[generation]
            else:
                self.current = after
        except BaseException:
            # ATOMIC: no call before the claim is released: a second interrupt could hit it.
            if generation in claim and claim[generation] is mark and self.current is state:
                del claim[generation]
            raise
        return result

    @staticmethod
    def holder(state: State) -> int | None:
        """Return the identifier of the thread that has claimed ``state``; None if none has."""
        mark = state.claim.get(_process.generation)
        return None if mark is None else mark[0]

    def is_claimed(self, state: State) -> bool:
        """Whether ``state`` is claimed and has not been replaced yet."""
        return _process.generation in state.claim and self.current is state

    def defer(self, rule: Callable[[Any], State]) -> None:
        """Have ``rule`` applied by the next thread to release a claim, or to ``run_deferred()``."""
        made: list[Any] = []  # before the look: Python 3.11 may collect garbage here
        # ATOMIC: no call until the rule stands in the list. There is none before the first rule.
        self.deferred = deferred = self.deferred or made
        deferred.append(rule)

    def run_deferred(self) -> None:
        """Apply the deferred rules, unless a thread that has claimed the state will."""
        while self.deferred:
            state = self.current
            claimed = self.replace(state, AtomicState._apply_first, self, None) is CLAIMED
            if claimed and self.is_claimed(state):
                return

    def _apply_first(self, state: State, _: None) -> tuple[State, None]:
        deferred = self.deferred
        if not deferred:
            return state, None
        step = deferred[0](state), None
        # ATOMIC: no call from here to the store, so a rule is applied once.
        del deferred[0]
        return step
