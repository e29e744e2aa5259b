"""Requests of httpx that are sent again.

Problem: httpx does not repeat a request that a busy server has refused, nor one whose answer was
lost.
Shows: ``RetryTransport``, which waits as the server asks in ``Retry-After``, or as a policy says.

    python examples/integrations/use_httpx.py
"""

import httpx

from backoff_ticker import ExponentialBackOff
from backoff_ticker.integrations.httpx import RetryTransport
from backoff_ticker.testing import no_wait

busy = httpx.Response(503, headers={"Retry-After": "20"})
answers = iter([busy, httpx.Response(200, text="42")])
# Yours is httpx.HTTPTransport().
server = httpx.MockTransport(lambda _: next(answers))

transport = RetryTransport(
    server,
    ExponentialBackOff(),
    max_attempts=5,
    timeout=120,
    notify=lambda error, delay: print(error, f"again in {delay:.0f} s"),
)
with httpx.Client(transport=transport) as client, no_wait():  # as in a test
    print(client.get("http://prices.example/gold").text)
