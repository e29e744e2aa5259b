"""Requests of requests and urllib3 that are sent again.

Problem: the ``Retry`` of urllib3 cannot be cancelled in a wait, and knows one policy only.
Shows: ``BackOffRetry`` with a policy and a token, against a server that is busy at first.

    python examples/integrations/use_urllib3.py
"""

from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import requests
from requests.adapters import HTTPAdapter

from backoff_ticker import CancellationToken, ExponentialBackOff
from backoff_ticker.integrations.urllib3 import BackOffRetry
from backoff_ticker.testing import no_wait

answers = [503, 200]


class Busy(BaseHTTPRequestHandler):  # the server of this example
    def do_GET(self) -> None:
        self.send_response(answers.pop(0))
        self.send_header("Retry-After", "20")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


# Cancelled when your service shuts down: ends the waits.
stop = CancellationToken()
retries = BackOffRetry(
    ExponentialBackOff(),
    total=4,
    token=stop,
    notify=lambda error, delay: print(error, f"again in {delay:.0f} s"),
)
with (
    HTTPServer(("127.0.0.1", 0), Busy) as server,
    requests.Session() as session,
    no_wait(),
):
    Thread(target=server.serve_forever).start()
    session.trust_env = False  # no proxy for this server
    session.mount("http://", HTTPAdapter(max_retries=retries))
    session.mount("https://", HTTPAdapter(max_retries=retries))
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        print(session.get(url, timeout=10).status_code)
    finally:
        server.shutdown()
