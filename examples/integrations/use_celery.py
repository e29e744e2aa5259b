"""Tasks of Celery, retried at the times of a policy.

Problem: Celery's own back-off has whole seconds and one formula, and retries whatever the error is.
Shows: ``retry_task`` with a policy, ``RetryAfter`` and ``Permanent``. Celery runs the tasks in this
process (``apply()``), where it does not wait; a worker runs them in the same way, and waits.

    python examples/integrations/use_celery.py
"""

import logging

from celery import Celery
from celery.signals import task_retry

from backoff_ticker import ExponentialBackOff, Permanent, RetryAfter
from backoff_ticker.integrations.celery import retry_task

# It logs each failure.
logging.getLogger("celery").setLevel(logging.CRITICAL)
app = Celery("tasks")
failures = [
    ConnectionError("no route"),
    ConnectionError("no route"),
    RetryAfter(30),
]


@app.task(max_retries=5)
@retry_task(ExponentialBackOff(0.5, 0, multiplier=2))
def send(address: str) -> str:
    if "@" not in address:
        raise Permanent(ValueError(f"{address!r} is no address"))
    if failures:
        raise failures.pop(0)
    return f"sent to {address}"


@task_retry.connect
def show(reason: object, **_: object) -> None:
    print(reason)


print(send.apply(["ann@example.org"]).get())
result = send.apply(["ann"])
print(result.state, repr(result.result), *result.result.__notes__)
