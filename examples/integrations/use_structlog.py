"""Events of retries and circuits for structlog.

Problem: a log should say that a call was retried, in keys and values that a program can read.
Shows: ``StructlogObserver`` as hooks of all retries, and of a circuit.

    python examples/integrations/use_structlog.py
"""

import structlog

from backoff_ticker import (
    CircuitBreaker,
    ConstantBackOff,
    retry,
    set_default_hooks,
)
from backoff_ticker.integrations.structlog import StructlogObserver
from backoff_ticker.testing import no_wait

# The logger structlog.get_logger("backoff_ticker").
log = StructlogObserver()
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
    with set_default_hooks(**log.hooks), no_wait():
        try:
            fetch()
        except ConnectionError as error:
            print(error)

for event in events:
    print(
        event["log_level"],
        event["event"],
        event.get("operation"),
        event.get("error"),
    )
