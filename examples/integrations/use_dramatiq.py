"""Messages of dramatiq, retried after the delays of a policy.

Problem: dramatiq retries a failed message after 15 s at least, with delays that only a minimum and
a maximum describe, and whatever the error is.
Shows: ``BackOffRetries`` with a policy, ``RetryAfter`` and ``Permanent``; the broker is in memory.

    python examples/integrations/use_dramatiq.py
"""

import logging

import dramatiq
from dramatiq.brokers.stub import StubBroker

from backoff_ticker import ExponentialBackOff, Permanent, RetryAfter
from backoff_ticker.integrations.dramatiq import BackOffRetries

# It logs each failure.
logging.getLogger("dramatiq").setLevel(logging.CRITICAL)
broker = StubBroker(fail_fast_default=False)
BackOffRetries(ExponentialBackOff(0.01), max_retries=5).install(broker)
failures = [
    ConnectionError("no route"),
    RetryAfter(0.05, OSError("busy: come back in 50 ms")),
]


@dramatiq.actor(broker=broker)
def send(address: str) -> None:
    if "@" not in address:
        raise Permanent(ValueError(f"{address!r} is no address"))
    if failures:
        print(f"failed: {failures[0]}")
        raise failures.pop(0)
    print(f"sent to {address}")


worker = dramatiq.Worker(broker, worker_timeout=10, worker_threads=1)
worker.start()
send.send("ann@example.org")
broker.join("default")
send.send("ann")
broker.join("default")
worker.stop()
dead = [message.args[0] for message in broker.dead_letters]
print("dead-lettered:", *dead)
