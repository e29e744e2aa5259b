"""Back-off policies: how long to wait before the next attempt, or whether to give up.

Files, each of which imports only from those above it:

- ``_protocol``: what a policy is, and how one reads the time.
- ``_copying``: how a policy is copied, with the policies that it holds.
- ``_base``: the base class of the policies here: bounds, copies, elapsed time.
- ``_run``: running a policy: asking it, checking its answers, finding its token.
- ``_common``: the common policies without feedback.
- ``_algorithm``, ``_algorithm_policies``: the feedback policies of Perl's Algorithm::Backoff.
- ``_wrapper``: policies made of others: the base of wrappers, and chains.
- ``_limits``: wrappers that limit a policy.
- ``_jitter``: policies and wrappers with jitter.
- ``_named``: the table of policies by name.

What always holds: a policy is asked by one thread at a time. Whatever runs a policy runs a copy,
which shares no state with the original. A delay that leaves this folder is a float from 0 to
the largest one. ``next_backoff()`` and ``bounds(n)`` cost the same for any number of calls.
"""

from __future__ import annotations

from ._common import ExponentialBackOff as ExponentialBackOff
from ._copying import (
    copy_policy as copy_policy,
    is_immutable as is_immutable,
    is_policy as is_policy,
    makes_policies as makes_policies,
    require_policy as require_policy,
)
from ._run import (
    End as End,
    FrozenClock as FrozenClock,
    PolicyRun as PolicyRun,
    checked_delay as checked_delay,
    delay_after as delay_after,
    draw_next as draw_next,
    failed_with as failed_with,
    is_feedback as is_feedback,
    start_policy as start_policy,
    tell as tell,
    token_of as token_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:  # the facade has the names for users
    from ._protocol import BackOff as BackOff, TimeSource as TimeSource
