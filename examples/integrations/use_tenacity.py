"""A policy and a token for the retries of tenacity.

Problem: after a cancel, a wait of tenacity goes on, or is followed by one more attempt.
Shows: ``BackOffWait``, ``stop_when_cancelled`` and ``sleep_using_token``: the cancel ends the call.

    python examples/integrations/use_tenacity.py
"""

import tenacity

from backoff_ticker import CancellationToken, Cancelled, ExponentialBackOff
from backoff_ticker.integrations.tenacity import (
    BackOffWait,
    sleep_using_token,
    stop_when_cancelled,
)

shutdown = CancellationToken()
wait = BackOffWait(ExponentialBackOff(30, max_elapsed_time=300))


def terminate(_state: tenacity.RetryCallState) -> None:
    shutdown.cancel("SIGTERM")  # stands for a signal during the wait


@tenacity.retry(
    wait=wait,
    stop=wait.stop | stop_when_cancelled(shutdown),
    sleep=sleep_using_token(shutdown),
    before_sleep=terminate,
)
def fetch() -> None:
    raise ConnectionError("no route")


try:
    fetch()
except Cancelled as error:
    print(error)
