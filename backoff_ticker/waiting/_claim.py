"""The one way in which threads change what they share: a claim.

An object that threads share has a *claim*, a list of two entries. The thread that deletes the
second one holds the claim, and it alone may change the object; then it puts the entry back.
``docs/architecture.md`` shows how, and says why it is no lock of ``threading``.

The rule of a change:
    * It reads what it relies on itself, as that may have changed since anybody looked, and only
      once if others may store it without the claim.
    * No call, no loop, and no property, except one of a function in C. It loads and stores slots
      and items of dicts and deques, adds numbers, and compares what is its own.
    * It makes no objects but numbers: CPython 3.11 collects garbage when a container is made.
    * There may be no memory for a number that it makes, or an item that it adds: what must not stay
      half done comes after that.
    * What leaves the object stays in a local variable: its finalizer must run later.
    * One claim at a time. Wake-ups, callbacks and other code of users come after the change.

``tests/waiting/test_claims.py`` checks the byte code of every change, for all but the first line.
``acquire()`` is a function in Python: CPython runs no handler when one returns. Its first step is
written out where speed matters: ``try: del claim[FREE]``, ``except IndexError: acquire(claim)``.

Objects share 251 claims by their address: none needs memory for its own, and a forked child, in
which the threads of its parent do not go on, frees all of them.
"""

from __future__ import annotations

from .._process import after_fork
from ..clock import let_other_threads_run

Claim = list[None]

FREE = 1
"""The index of the entry that a claim has while nobody holds it."""

FREED = (None,)
"""What is added to a claim to release it."""

_CLAIMS: tuple[Claim, ...] = tuple([None, None] for _ in range(251))

_SPINS = 100
"""How often a thread that waits lets others run; after that it also sleeps between its tries."""

_SLEEP = 0.001  # seconds
_SLEEPS = 1000
"""After how many it gives up: a count, as a process may be stopped for any time."""


def claim_of(thing: object) -> Claim:
    """Return the claim for changes of ``thing``; the same each time."""
    # A prime number of claims: each thread may have memory of its own for new objects, and so
    # those of two threads have addresses that differ by a large power of two.
    return _CLAIMS[(id(thing) >> 4) % len(_CLAIMS)]


def acquire(claim: Claim) -> None:
    """Take ``claim``; wait until the thread that holds it has finished its change.

    Raises:
        RuntimeError: It did not for a second: this thread is that one.
    """
    turns = 0
    while True:
        try:
            del claim[FREE]
        except IndexError:
            pass  # another thread was faster
        else:
            return
        turns += 1
        if turns > _SPINS + _SLEEPS:
            raise RuntimeError(
                "a change of an object of backoff_ticker does not end: a trace function, profiler "
                "or signal handler that runs in the middle of one must not use any such object"
            )
        let_other_threads_run(_SLEEP if turns > _SPINS else 0)


def _free_all() -> None:
    for claim in _CLAIMS:
        claim[:] = [None, None]


after_fork(_free_all)
