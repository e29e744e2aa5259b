"""A state that one thread at a time may replace, without a lock.

The state is an immutable tuple whose first item is its *claim*, an empty dict. Whoever
``setdefault``s a mark of its own into the claim has it, and ends by storing the next state, with
a new claim, in one step. A lock would do the same, but a lock can be met again by a signal
handler or a finalizer in the thread that holds it, and an interrupt can leave it locked.

Invariants:
    * A claim is never given back: it goes with its state. Holding on to an old state is harmless.
    * A rule that is interrupted changes nothing: the old state comes back with a new claim. The
      store that sees to this calls nothing, so no second interrupt can come before it. What must
      be called after it, to wake others, is called again if an interrupt hits it.
    * Who finds the state claimed leaves a note first and then tries; who held the claim looks for
      notes after the store. One of the two sees the other.
    * A claim that a fork left behind, of a thread that is gone, is taken over.
"""

from __future__ import annotations

from _thread import get_ident

from .. import _process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Claim = dict[int, tuple[int, int]]
    State = tuple[Any, ...]


class Claimable:
    """Holds the state, and the notes of those who found it claimed."""

    __slots__ = ("_facts", "_notes", "_turn")

    def __init__(self, turn: State) -> None:
        self._turn = turn
        self._facts: dict[str, Any] = {}
        self._notes: list[Callable[[Any], State]] | tuple[()] = ()

    def _apply(self, turn: State, rule: Callable[[Any], State]) -> bool:
        """Replace ``turn`` by what ``rule`` makes of it; False if somebody else has claimed it."""
        claim: Claim = turn[0]
        mark = (get_ident(), _process.generation)
        try:
            if claim.setdefault(0, mark) is not mark:
                return False
            after = rule(turn)
            self._turn = ({}, *after[1:])
        except BaseException:
            if claim and claim[0] is mark and self._turn is turn:
                self._turn = ({}, *turn[1:])
                # Written out wherever it stands: an interrupt can hit the entry of a helper.
                try:
                    self._wake()
                except BaseException:
                    self._wake()
                    raise
            raise
        return True

    def _release(self) -> None:
        """After a claim was let go: do what was left for its holder, and wake who may wait."""
        try:
            self._run_deferred()
            self._wake()
        except BaseException:
            self._wake()
            raise

    def _wake(self) -> None:
        """Wake who may wait for the claim, or for the state to change."""

    @staticmethod
    def _is_mine(turn: State) -> bool:
        """Whether this very thread has claimed ``turn``."""
        claim: Claim = turn[0]
        return bool(claim) and claim[0] == (get_ident(), _process.generation)

    def _is_stale(self, turn: State) -> bool:
        """Whether a claimed state is over, or was claimed by a thread that a fork left behind."""
        if self._turn is not turn:
            return True
        claim: Claim = turn[0]
        generation = _process.generation
        if claim[0][1] == generation:
            return False
        mark = (get_ident(), generation)
        try:
            if claim.setdefault(generation, mark) is mark:
                self._turn = ({}, *turn[1:])
        except BaseException:
            if generation in claim and claim[generation] is mark and self._turn is turn:
                self._turn = ({}, *turn[1:])
            raise
        return True

    def _defer(self, rule: Callable[[Any], State]) -> None:
        """Have ``rule`` applied: now, or by whoever has claimed the state."""
        self._write_note(rule)
        self._release()

    def _write_note(self, rule: Callable[[Any], State]) -> None:
        """Have ``rule`` applied by whoever lets the state go next."""
        notes = self._facts.setdefault("notes", [])
        notes.append(rule)
        self._notes = notes

    def _run_deferred(self) -> None:
        """Apply the rules that were left, unless somebody else will."""
        while self._notes:
            turn = self._turn
            if not self._apply(turn, self._next_note) and not self._is_stale(turn):
                return

    def _next_note(self, turn: State) -> State:
        notes = self._notes
        if not notes:
            return turn
        after = notes[0](turn)
        del notes[0]
        return after
