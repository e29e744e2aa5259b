"""How threads and coroutines wait for the same things, and how they are woken."""

from __future__ import annotations

from ._atomic_state import CLAIMED as CLAIMED, AtomicState as AtomicState
from ._parking import (
    CHECKPOINT_EVERY as CHECKPOINT_EVERY,
    NO_DEADLINE as NO_DEADLINE,
    LoopWaiter as LoopWaiter,
    ThreadWaiter as ThreadWaiter,
    cancelled_error as cancelled_error,
    checkpoint as checkpoint,
    current_loop as current_loop,
    current_task as current_task,
    park_coroutine as park_coroutine,
    park_thread as park_thread,
)
from ._selectable import Source as Source
from ._wait_set import (
    Waiter as Waiter,
    WaitLine as WaitLine,
    WaitQueue as WaitQueue,
    WaitSet as WaitSet,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._atomic_state import Claim as Claim
