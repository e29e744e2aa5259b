"""Events of retries and circuits for structlog.

Problem: a log should say that a call was retried, in keys and values that a program can read.
Shows: ``StructlogObserver`` as hooks of all retries, and of a circuit.

    python examples/integrations/use_structlog.py
"""

import structlog

from backoff_ticker import (
    CircuitBreaker,
    ConstantBackOff,
    configure,
    retry,
)
from backoff_ticker.integrations.structlog import StructlogObserver
from backoff_ticker.testing import no_wait

log = StructlogObserver()  # logs to get_logger("backoff_ticker")
breaker = CircuitBreaker(failures=2, on_change=log.on_change("prices"))


@retry(
    ConstantBackOff(1),
    on=ConnectionError,
    max_attempts=2,
    breaker=breaker,
)
def fetch() -> None:
    raise ConnectionError("no route")


with structlog.testing.capture_logs() as events:  # for this example
    with configure(**log.hooks), no_wait():
        try:
            fetch()
        except ConnectionError as error:
            print(error)

for event in events:
    subject = event.get("operation"), event.get("error")
    print(event["log_level"], event["event"], *subject)
