"""How threads and coroutines wait for the same things, and how they are woken.

* ``_wait_set``: waiters, and the sets in which they register: ``WaitSet`` for what happens once,
  ``WaitLine`` for values at known times, ``WaitQueue`` for values that each wake one waiter.
* ``_parking``: how a thread and how a coroutine waits; the only file that uses asyncio.
* ``_trio``: whether trio runs here; ``_trio_run``: a run of it in the shape of an event loop;
  ``_trio_clock``: the time of a run with a clock of its own.
* ``_selectable``: what ``select`` needs of a ticker, a channel or a token.
* ``_claim``: the one way to change a state that threads share.

What always holds:

* A waiter registers before its last check, so no wake-up after that check is lost.
* A waiter always leaves every set that it registered with, whatever interrupts it, and passes on a
  wake-up that it may have received; but that of a ticker may rest: see ``LoopWaiter.rest()``.
* A cancel, a stop or a close first marks the end and then wakes the waiters; a signal handler that
  raises in the middle does not cut it short, nor does a full stack: see ``carry_out()``.
* A wake-up waits for nothing: it may come from a signal handler or a finalizer.
"""

from __future__ import annotations

from ._claim import (
    FREE as FREE,
    FREED as FREED,
    Claim as Claim,
    acquire as acquire,
    claim_of as claim_of,
)
from ._parking import (
    CHECKPOINT_EVERY as CHECKPOINT_EVERY,
    LoopWaiter as LoopWaiter,
    cancelled_error as cancelled_error,
    checkpoint as checkpoint,
    current_loop as current_loop,
    current_task as current_task,
    loop_runs as loop_runs,
    new_cut as new_cut,
    on_loop_wait as on_loop_wait,
    park_coroutine as park_coroutine,
    park_thread as park_thread,
    shielded as shielded,
    tasks_of_block as tasks_of_block,
    warn_if_loop_runs as warn_if_loop_runs,
)
from ._selectable import Source as Source
from ._trio import (
    current_run as current_run,
    interruptible_in_trio as interruptible_in_trio,
    protected_in_trio as protected_in_trio,
    trio_runs as trio_runs,
)
from ._wait_set import (
    NO_DEADLINE as NO_DEADLINE,
    Place as Place,
    Waiter as Waiter,
    WaitLine as WaitLine,
    WaitQueue as WaitQueue,
    WaitSet as WaitSet,
    carry_out as carry_out,
    check_stack as check_stack,
    complete as complete,
    failure_of as failure_of,
)
