"""A policy for the decorators of the package backoff.

Problem: a wait generator of backoff has no limit, no state of its own and no name for its jitter.
Shows: ``wait_gen``, which makes one of any policy; where the policy stops, backoff gives up.

    python examples/integrations/use_backoff.py
"""

import backoff

from backoff_ticker import ExponentialBackOff, with_max_retries
from backoff_ticker.integrations.backoff import wait_gen

policy = with_max_retries(ExponentialBackOff(0.001), 3)
calls: list[int] = []


@backoff.on_exception(wait_gen(policy), ConnectionError, jitter=None)
def fetch() -> None:
    calls.append(1)
    raise ConnectionError("no route")


try:
    fetch()
except ConnectionError as error:
    print(f"{error}, after {len(calls)} calls")
