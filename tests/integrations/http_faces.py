"""Each client of HTTP that the package has an adapter for, behind one face for shared tests."""

import asyncio
from importlib import import_module
from typing import NamedTuple


class Answer(NamedTuple):
    """What a client got."""

    status: int
    text: str


class Face:
    """A client of HTTP.

    Attributes:
        has_runs: Whether this package makes the attempts, so that each request is a run of its own,
            a body that can be read once is never sent twice, and a circuit breaker hears of all.
        transport_errors: What it raises when a connection breaks.
        connect_errors: What it raises when there is none.
        status_error: What an answer that is retried is for hooks, where there are runs.
        proxy_error: What it raises where a proxy refuses a tunnel, where there are runs.
        strict: Whether a status of 400 or more raises the client's own error.

    ``request()`` sends one request and reads the response. ``rules()`` gives the options that say
    what is retried, and how often, under the names of the client.
    ``stream()`` gives a body that can be read once.
    """

    has_runs = True
    has_loop = False
    headers = None
    strict = False

    def rules(self, **options):
        return options

    def stream(self, *chunks):
        return (each for each in chunks)

    def answer(self, response):
        if self.strict:
            response.raise_for_status()
        return Answer(response.status_code, response.text)


class Httpx(Face):
    """A client of httpx for threads."""

    def __init__(self):
        self.httpx = import_module("httpx")
        self.module = import_module("backoff_ticker.integrations.httpx")
        self.transport_errors = self.httpx.TransportError
        self.connect_errors = self.httpx.ConnectError
        self.status_error = self.httpx.HTTPStatusError
        self.proxy_error = self.httpx.ProxyError

    def inner_options(self, proxy):
        limits = self.httpx.Limits(max_connections=1)
        return {"verify": False, "limits": limits, "proxy": proxy}  # loads no certificates

    def request(self, method, url, policy, *, body=None, read_timeout=20, proxy=None, **options):
        inner = self.httpx.HTTPTransport(**self.inner_options(proxy))
        transport = self.module.RetryTransport(inner, policy, **options)
        options = {"transport": transport, "timeout": read_timeout, "follow_redirects": True}
        with self.httpx.Client(**options) as client:
            return self.answer(client.request(method, url, content=body, headers=self.headers))


class AsyncHttpx(Httpx):
    """A client of httpx for event loops."""

    has_loop = True

    def request(self, method, url, policy, *, body=None, read_timeout=20, proxy=None, **options):

        async def main():
            inner = self.httpx.AsyncHTTPTransport(**self.inner_options(proxy))
            transport = self.module.AsyncRetryTransport(inner, policy, **options)
            given = {"transport": transport, "timeout": read_timeout, "follow_redirects": True}
            async with self.httpx.AsyncClient(**given) as client:
                sent = {"content": body, "headers": self.headers}
                return self.answer(await client.request(method, url, **sent))

        return asyncio.run(main())

    async def stream(self, *chunks):
        for each in chunks:
            yield each


class Urllib3(Face):
    """A pool of urllib3."""

    has_runs = False

    def __init__(self):
        self.urllib3 = import_module("urllib3")
        self.module = import_module("backoff_ticker.integrations.urllib3")
        self.transport_errors = self.urllib3.exceptions.HTTPError
        self.connect_errors = self.urllib3.exceptions.NewConnectionError

    def request(self, method, url, policy, *, body=None, read_timeout=20, **options):
        retries = self.module.BackOffRetry(policy, raise_on_status=self.strict, **options)
        with self.urllib3.PoolManager(retries=retries, maxsize=1, block=True) as http:
            timeout = self.urllib3.Timeout(connect=20, read=read_timeout)
            waits = {"timeout": timeout, "pool_timeout": 20}
            response = http.request(
                method, url, body=body, headers=self.headers, preload_content=False, **waits
            )
            got = Answer(response.status, response.data.decode())
            response.release_conn()
            return got

    def rules(self, **options):
        names = {"methods": "allowed_methods", "statuses": "status_forcelist"}
        if "max_attempts" in options:
            options["total"] = options.pop("max_attempts") - 1
        return {names.get(name, name): value for name, value in options.items()}


class Requests(Urllib3):
    """A session of requests."""

    def __init__(self):
        super().__init__()
        self.requests = import_module("requests")
        self.transport_errors = self.requests.RequestException

    def request(self, method, url, policy, *, body=None, read_timeout=20, **options):
        retries = self.module.BackOffRetry(policy, raise_on_status=False, **options)
        adapter = self.requests.adapters.HTTPAdapter(
            max_retries=retries, pool_maxsize=1, pool_block=True
        )
        with self.requests.Session() as session:
            session.trust_env = False
            session.mount("http://", adapter)
            sent = {"data": body, "headers": self.headers, "timeout": read_timeout}
            return self.answer(session.request(method, url, **sent))


class Aiohttp(Face):
    """A session of aiohttp."""

    has_loop = True
    stream = AsyncHttpx.stream

    def __init__(self):
        self.aiohttp = import_module("aiohttp")
        self.module = import_module("backoff_ticker.integrations.aiohttp")
        self.transport_errors = self.aiohttp.ClientError
        self.connect_errors = self.aiohttp.ClientConnectorError
        self.status_error = self.aiohttp.ClientResponseError
        self.proxy_error = self.aiohttp.ClientHttpProxyError

    def request(self, method, url, policy, *, body=None, read_timeout=20, proxy=None, **options):

        async def main():
            aiohttp = self.aiohttp
            middleware = self.module.RetryMiddleware(policy, **options)
            sent = {"data": body, "headers": self.headers, "proxy": proxy}
            async with (
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(limit=1),
                    middlewares=(middleware,),
                    timeout=aiohttp.ClientTimeout(sock_read=read_timeout, connect=20),
                ) as session,
                session.request(method, url, **sent) as response,
            ):
                if self.strict:
                    response.raise_for_status()
                return Answer(response.status, await response.text())

        return asyncio.run(main())


FACES = [Httpx, AsyncHttpx, Urllib3, Requests, Aiohttp]
