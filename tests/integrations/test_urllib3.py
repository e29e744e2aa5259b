"""The ``Retry`` for urllib3 and requests; what all clients share is in ``test_http_clients``."""

import threading
import weakref
from contextlib import contextmanager, nullcontext, suppress
from functools import partial

import pytest
import requests
import urllib3

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    ExponentialBackOff,
    RetryBudget,
    ZeroBackOff,
    configure,
)
from backoff_ticker.integrations.urllib3 import BackOffRetry
from backoff_ticker.testing import no_wait
from tests.helpers import collect_garbage
from tests.integrations.misbehaving_server import (
    MisbehavingServer,
    answer,
    endless_body,
    half_an_answer,
    reset,
)


@pytest.fixture
def delays():
    return []


@pytest.fixture
def noting(delays):
    return {"notify": lambda error, delay: delays.append(delay)}


@contextmanager
def getting(retries, *behaviours):
    """Yield a function that gets a page from a server, and the server; no retry waits."""
    with (
        MisbehavingServer(*behaviours) as server,
        no_wait(),
        urllib3.PoolManager(retries=retries) as http,
    ):
        yield partial(http.request, "GET", server.url), server


def test_the_fields_are_kept(delays, noting):
    token, budget = CancellationToken(), RetryBudget(10)
    policy = ConstantBackOff(2)
    retries = BackOffRetry(policy, total=7, read=3, token=token, budget=budget, **noting)
    made = retries.new(total=5).increment("GET", "/", error=urllib3.exceptions.ProtocolError("x"))
    assert (type(made), made.total, made.read, retries.read) == (BackOffRetry, 4, 2, 3)
    assert [each.method for each in made.history] == ["GET"]
    assert budget.tokens == 9
    token.cancel()
    with pytest.raises(Cancelled):
        made.sleep()
    assert delays == [2.0]
    assert budget.tokens == 10
    retries.sleep()  # nothing has failed: no wait


@pytest.mark.parametrize("name", ["backoff_factor", "backoff_jitter", "backoff_max"])
def test_options_whose_place_the_policy_takes_are_refused(name):
    with pytest.raises(TypeError, match=f"has no {name}: see policy and max_retry_after"):
        BackOffRetry(**{name: 1})


def test_each_request_begins_the_policy_anew(delays, noting):
    policy = ExponentialBackOff(1, multiplier=2, randomization_factor=0)
    retries = BackOffRetry(policy, total=3, raise_on_status=False, **noting)
    behaviours = [answer(503), answer(503), answer(200), answer(503), answer(200)]
    with getting(retries, *behaviours) as (get, _):
        get()
        get()
    assert delays == [1.0, 2.0, 1.0]


def test_unless_told_urllib3_and_requests_raise_their_own_errors():
    with MisbehavingServer(*[answer(503)] * 9) as server:
        with (
            urllib3.PoolManager(retries=BackOffRetry(ZeroBackOff(), total=1)) as http,
            pytest.raises(urllib3.exceptions.MaxRetryError, match="too many 503 error"),
        ):
            http.request("GET", server.url)
        adapter = requests.adapters.HTTPAdapter(max_retries=BackOffRetry(ZeroBackOff(), total=1))
        with requests.Session() as session:
            session.trust_env = False
            session.mount("http://", adapter)
            with pytest.raises(requests.exceptions.RetryError, match="too many 503 error"):
                session.get(server.url)
    assert server.methods == "GET GET GET GET"


def test_an_empty_budget_ends_as_urllib3_ends():
    budget = RetryBudget(max_tokens=1)
    retries = BackOffRetry(ZeroBackOff(), budget=budget)
    wanted = pytest.raises(urllib3.exceptions.MaxRetryError)
    with getting(retries, *[reset] * 9) as (get, server), wanted as caught:
        get()
    assert isinstance(caught.value.reason, urllib3.exceptions.ProtocolError)
    assert "nothing left" in caught.value.reason.__notes__[0]
    assert server.methods == "GET GET"


@pytest.mark.parametrize("total", [0, 1, 2])
def test_the_last_retry_is_charged_too(total, caplog):
    caplog.set_level("CRITICAL", "urllib3")  # a record would keep the run alive
    budget = RetryBudget(max_tokens=10)
    for behaviour in (answer(503), reset):
        retries = BackOffRetry(total=total, budget=budget, raise_on_status=False)
        raised = suppress(urllib3.exceptions.MaxRetryError)
        with getting(retries, *[behaviour] * 9) as (get, server), raised:
            get()
        collect_garbage()
        assert len(server.received) == 1 + total
    assert budget.tokens == 10 - 2 * total


def test_a_cancel_gives_the_connection_back():
    """The pool has one, and would wait for it."""
    token = CancellationToken()
    retries = BackOffRetry(ZeroBackOff(), token=token)
    with (
        MisbehavingServer(answer(503, b"x" * 100), answer(503)) as server,
        urllib3.HTTPConnectionPool("127.0.0.1", server.port, maxsize=1, block=True) as pool,
    ):
        token.cancel()
        with pytest.raises(Cancelled):
            pool.request("GET", "/", retries=retries, pool_timeout=5, preload_content=False)
        assert pool.request("GET", "/", retries=False, pool_timeout=5).status == 503


def test_an_answer_that_was_read_keeps_its_connection():
    with getting(BackOffRetry(), answer(503, b"x" * 1000), answer(503)) as (get, server):
        assert get().data == b"fine"
    assert server.connections == 1


def test_nothing_is_kept_of_a_request_that_has_ended():
    retries = BackOffRetry(ZeroBackOff(), total=1, raise_on_status=False)
    with getting(retries, answer(503), answer(503)) as (get, _):
        response = weakref.ref(get())
        collect_garbage()
        assert response() is None


@pytest.mark.faults
@pytest.mark.parametrize("total", [1, 0])
def test_nobody_waits_for_the_body_of_an_answer_that_is_retried_or_the_last(total):
    retries = BackOffRetry(ZeroBackOff(), total=total)
    with MisbehavingServer(endless_body(503)) as server, requests.Session() as session:
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retries))
        with nullcontext() if total else pytest.raises(requests.exceptions.RetryError):
            assert session.get(server.url).text == "fine"
        assert not server.ended.is_set()


def test_what_the_server_asks_may_be_ignored(delays, noting):
    retries = BackOffRetry(ConstantBackOff(7), respect_retry_after_header=False, **noting)
    with getting(retries, answer(503, Retry_After="20")) as (get, _):
        get()
    assert delays == [7.0]


def test_a_redirect_is_followed_without_a_wait_of_the_policy(delays, noting):
    moved = answer(302, Location="/there")
    retries = BackOffRetry(ConstantBackOff(7), total=9, **noting)
    with getting(None, answer(503), moved, answer(503)) as (get, server):
        assert get(retries=retries).data == b"fine"
    assert [each.path for each in server.received] == ["/", "/", "/there", "/there"]
    assert delays == [7.0, 7.0]


@contextmanager
def redirecting(retries):
    """Yield a pool whose server redirects one request, and asks to wait before that."""
    with (
        MisbehavingServer(answer(302, Location="/there", Retry_After="50")) as server,
        urllib3.HTTPConnectionPool("127.0.0.1", server.port, retries=retries) as pool,
    ):
        yield pool, server


def test_a_redirect_that_asks_to_wait_can_be_cancelled():
    token = CancellationToken()
    canceller = threading.Thread(target=token.cancel)
    with redirecting(BackOffRetry(token=token)) as (pool, server), pytest.raises(Cancelled):
        canceller.start()
        pool.request("GET", "/")
    canceller.join()
    assert server.methods == "GET"


@pytest.mark.parametrize(
    "block", [partial(configure, active=False), partial(no_wait, max_attempts=1)]
)
def test_a_redirect_is_followed_where_retries_are_switched_off(block):
    with redirecting(BackOffRetry()) as (pool, _), block():
        assert pool.request("GET", "/").data == b"fine"


def test_a_body_that_breaks_off_is_retried_where_urllib3_reads_it_itself():
    with getting(BackOffRetry(), half_an_answer) as (get, server):
        assert get().data == b"fine"
    assert server.methods == "GET GET"


def test_urllib3_repeats_a_post_after_an_error_that_it_does_not_know():
    """As after an error of TLS in the middle of an answer; this package does not."""
    error = urllib3.exceptions.SSLError("bad record")
    assert urllib3.Retry(3).increment("POST", "/", error=error).total == 2
    with pytest.raises(urllib3.exceptions.SSLError):
        BackOffRetry().increment("POST", "/", error=error)
    assert BackOffRetry().increment("GET", "/", error=error).total == 3


def test_limit_a_generator_is_sent_again_as_an_empty_body():
    """By urllib3 itself; so PUT is not among the methods that are repeated unless told."""
    for method, bodies in ("PUT", [b"42"]), ("DELETE", [b"42", b""]):
        with MisbehavingServer(answer(503)) as server, urllib3.PoolManager() as http:
            body = (chunk for chunk in [b"42"])
            http.request(method, server.url, body=body, retries=BackOffRetry(ZeroBackOff()))
        assert server.bodies == bodies
