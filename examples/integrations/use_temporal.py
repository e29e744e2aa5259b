"""An activity of Temporal with a policy of this package, and with a token.

Problem: Temporal's retries have no jitter, do not know when a service wants to be called again, and
a cancel does not end the waits of the threads that an activity uses.
Shows: ``activity_errors`` and ``activity_token``, ``retry_policy``, in Temporal's own environment
for tests, without a server.

    python examples/integrations/use_temporal.py
"""

import dataclasses
import threading

from temporalio import activity
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.testing import ActivityEnvironment

from backoff_ticker import (
    ConstantBackOff,
    ExponentialBackOff,
    Permanent,
    RetryAfter,
    retry_call,
)
from backoff_ticker.integrations.temporal import (
    activity_errors,
    activity_token,
    retry_policy,
)


@activity.defn
def charge(error: Exception) -> None:
    policy = ExponentialBackOff(1, randomization_factor=0, multiplier=2)
    with activity_errors(policy):
        raise error


for error in (
    ConnectionError("no route"),
    RetryAfter(20),
    Permanent(LookupError("no such card")),
):
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(environment.info, attempt=3)
    try:
        environment.run(charge, error)
    except ApplicationError as told:
        again, never = told.next_retry_delay, told.non_retryable
        print(f"{told}: again in {again}, never: {never}")


def fail() -> None:
    raise ConnectionError("no route")


@activity.defn(no_thread_cancel_exception=True)
def fetch() -> None:
    with activity_token(interval=0.01) as token:
        # It waits for an hour.
        retry_call(fail, ConstantBackOff(3600), token=token)


environment = ActivityEnvironment()
threading.Timer(0.05, environment.cancel).start()
try:
    environment.run(fetch)
except CancelledError as error:
    print(error)

print(retry_policy(ConstantBackOff(30), max_attempts=5).initial_interval)
