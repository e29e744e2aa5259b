"""The one way in which threads change what they share: a claim.

An object that threads share has a *claim*, a list of two entries. The thread that deletes the
second one holds the claim, and it alone may change the object; then it puts the entry back::

    acquire(claim)
    try:
        ...  # the change
    finally:
        claim += FREED

That is a lock, but nothing here is a call, so nothing comes between: ``docs/architecture.md`` says
why it is no lock of ``threading``. And nothing here can fail: a list that loses the second of two
entries keeps the memory of both.

The rule of a change:
    * What it relies on, it reads itself: what was looked at before may be over. It reads once what
      others may store without the claim.
    * No call, no loop, and no property, save one of a function in C. It loads and stores slots and
      items of dicts and deques, adds numbers, and compares what is its own.
    * Nothing is made but numbers: CPython 3.11 collects garbage as a container is made.
    * What leaves the object stays in a local variable: its finalizer must run later.
    * One claim at a time. Wake-ups, callbacks, all that is somebody else's, come after the change.

``tests/waiting/test_claims.py`` checks the byte code of every change, for all but the first line.
``acquire()`` itself is a function in Python: CPython runs no handler as one returns. Its first step
is written out where speed matters: ``try: del claim[FREE]``, ``except IndexError: acquire(claim)``.

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
"""How often who waits lets others run at once; then it rests, so that no processor is busy."""

_REST = 0.001
_RESTS = 1000
"""The seconds of a rest, and after how many nobody goes on with the change: a stopped process makes
none."""


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
        if turns > _SPINS + _RESTS:
            raise RuntimeError(
                "a change of an object of backoff_ticker does not end: a trace function, profiler "
                "or signal handler that runs in the middle of one must not use any such object"
            )
        let_other_threads_run(_REST if turns > _SPINS else 0)


def _free_all() -> None:
    for claim in _CLAIMS:
        claim[:] = [None, None]


after_fork(_free_all)
