"""Back-off policies: how long to wait before the next attempt, or whether to give up."""

from __future__ import annotations

from ._algorithm import AlgorithmBackOff as AlgorithmBackOff
from ._algorithm_adaptive import (
    LILDBackOff as LILDBackOff,
    LIMDBackOff as LIMDBackOff,
    MILDBackOff as MILDBackOff,
    MIMDBackOff as MIMDBackOff,
)
from ._algorithm_fixed import (
    ConstantFeedbackBackOff as ConstantFeedbackBackOff,
    ExponentialFeedbackBackOff as ExponentialFeedbackBackOff,
    FibonacciBackOff as FibonacciBackOff,
)
from ._aws_jitter import (
    DecorrelatedJitterBackOff as DecorrelatedJitterBackOff,
    EqualJitterBackOff as EqualJitterBackOff,
    FullJitterBackOff as FullJitterBackOff,
)
from ._base import successive_bounds as successive_bounds
from ._chain import chain as chain
from ._constant import (
    ConstantBackOff as ConstantBackOff,
    StopBackOff as StopBackOff,
    ZeroBackOff as ZeroBackOff,
)
from ._copying import (
    copy_policy as copy_policy,
    is_immutable as is_immutable,
    is_policy as is_policy,
    require_policy as require_policy,
)
from ._exponential import ExponentialBackOff as ExponentialBackOff
from ._limits import (
    with_max_elapsed_time as with_max_elapsed_time,
    with_max_interval as with_max_interval,
    with_max_retries as with_max_retries,
)
from ._named import POLICIES as POLICIES, NamedPolicy as NamedPolicy, named_policy as named_policy
from ._policy_run import End as End, PolicyRun as PolicyRun, failed_with as failed_with
from ._running import (
    FrozenClock as FrozenClock,
    checked_delay as checked_delay,
    delays as delays,
    draw_next as draw_next,
    is_feedback as is_feedback,
    start_policy as start_policy,
    tell as tell,
)
from ._token_backoff import token_policies as token_policies, with_token as with_token
from ._truncated import TruncatedExponentialBackOff as TruncatedExponentialBackOff
from ._with_jitter import (
    Drawn as Drawn,
    with_added_jitter as with_added_jitter,
    with_jitter as with_jitter,
)
from ._wrapper import Wrapper as Wrapper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._protocol import BackOff as BackOff, FeedbackBackOff as FeedbackBackOff
