"""A policy for the retries of google-api-core.

Problem: ``retry_target`` takes any delays, but refuses a generator that ends.
Shows: ``SleepGenerator``, which makes them of any policy; where it stops, the last error is raised.

    python examples/integrations/use_google_api_core.py
"""

from google.api_core import exceptions, retry

from backoff_ticker import ExponentialBackOff, with_max_retries
from backoff_ticker.integrations.google_api_core import SleepGenerator

delays = SleepGenerator(with_max_retries(ExponentialBackOff(0.001), 3))
calls: list[int] = []


def fetch() -> None:
    calls.append(1)
    raise exceptions.ServiceUnavailable("no route")


try:
    retry.retry_target(fetch, retry.if_transient_error, delays, timeout=300)
except exceptions.ServiceUnavailable as error:
    print(f"{error}, after {len(calls)} calls")
