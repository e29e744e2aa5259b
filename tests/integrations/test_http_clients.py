"""What holds for every client of HTTP: what is sent again, when, and how it ends."""

import threading
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from email.utils import formatdate

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    CircuitBreaker,
    CircuitOpen,
    ConstantBackOff,
    DeadlineExceeded,
    RetryBudget,
    ZeroBackOff,
    configure,
    with_max_retries,
)
from backoff_ticker.testing import no_wait
from tests.helpers import SetClock
from tests.integrations.http_faces import FACES
from tests.integrations.misbehaving_server import (
    PATIENCE,
    MisbehavingServer,
    answer,
    breaks_off,
    disconnect,
    endless_body,
    half_an_answer,
    hang,
    reset,
)

NOW = 1_700_000_000.0


@pytest.fixture(params=FACES, ids=lambda kind: kind.__name__)
def face(request):
    return request.param()


@pytest.fixture(params=[kind for kind in FACES if kind.has_runs], ids=lambda kind: kind.__name__)
def running(request):
    """A client whose attempts this package makes."""
    return request.param()


NO_WAIT, SEVEN = ZeroBackOff(), ConstantBackOff(7)


def send(face, *behaviours, method="GET", policy=NO_WAIT, **options):
    """Send a request to a server; return the status, the text, and the methods that reached it."""
    with MisbehavingServer(*behaviours) as server:
        got = face.request(method, server.url, policy, **options)
    return got.status, got.text, server.methods


def send_in_vain(face, *behaviours, method="GET", error=None, **options):
    """Send a request for which an error is raised; return the methods that reached the server."""
    with MisbehavingServer(*behaviours) as server, pytest.raises(error or face.transport_errors):
        face.request(method, server.url, NO_WAIT, **options)
    return server.methods


def waits(face, *behaviours, policy=SEVEN, **options):
    """Send a request; return the same as ``send()``, and the delays before the retries."""
    delays = []
    options["notify"] = lambda error, delay: delays.append(delay)
    with no_wait():
        return send(face, *behaviours, policy=policy, **options), delays


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_status_that_may_pass_is_retried(face, status):
    assert send(face, answer(status), answer(status)) == (200, "fine", "GET GET GET")


@pytest.mark.parametrize("status", [400, 401, 404, 409, 501, 505])
def test_another_status_is_returned(face, status):
    assert send(face, answer(status, b"no")) == (status, "no", "GET")


FAILURES = {
    "reset": reset,
    "disconnect": disconnect,
    "half a status": breaks_off(b"HTTP/1.1 2"),
    "nonsense": breaks_off(b"220 mail.example ESMTP\r\n\r\n"),
    "503": answer(503),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("method", ["GET", "DELETE", "HEAD", "OPTIONS"])
def test_an_idempotent_request_is_sent_again_after_a_failure(face, method, failure):
    status, _, methods = send(face, failure, method=method)
    assert (status, methods) == (200, f"{method} {method}")


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_another_request_is_sent_once_if_it_may_have_arrived(face, failure):
    if failure is FAILURES["503"]:
        assert send(face, failure, method="POST", body=b"data") == (503, "", "POST")
    else:
        assert send_in_vain(face, failure, method="POST", body=b"data") == "POST"


@pytest.mark.parametrize("body", ["bytes", "stream"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
def test_any_request_is_sent_again_if_there_was_no_connection(face, method, body):
    server = MisbehavingServer()
    refused = []

    def start(outcome):
        refused.append(outcome.last_error)
        if len(refused) == 2:
            server.__enter__()

    content = None if method == "GET" else b"data" if body == "bytes" else face.stream(b"da", b"ta")
    try:
        got = face.request(method, server.url, NO_WAIT, body=content, on_retry=start)
    finally:
        server.__exit__()
    assert got.text == "fine"
    assert server.methods == method
    assert server.bodies == [b"" if method == "GET" else b"data"]
    assert all(isinstance(error, face.connect_errors) for error in refused)


def test_a_read_that_times_out_is_retried(face):
    assert send(face, hang, read_timeout=0.3) == (200, "fine", "GET GET")


def test_methods_and_statuses_are_options_and_a_body_in_memory_is_sent_again(face):
    options = face.rules(methods={"post"}, statuses=[409])
    with MisbehavingServer(answer(409), reset) as server:
        assert face.request("POST", server.url, NO_WAIT, body=b"data", **options).text == "fine"
    assert server.methods == "POST POST POST"
    assert server.bodies == [b"data"] * 3
    for other in options, face.rules(methods=[]):
        assert send_in_vain(face, reset, **other) == "GET"
        assert send(face, answer(503), method="POST", **other) == (503, "", "POST")


def test_a_body_that_is_read_as_it_is_sent_is_not_sent_again(running):
    for_put = {"method": "PUT", "body": running.stream(b"da", b"ta")}
    assert send(running, answer(503, b"busy"), **for_put) == (503, "busy", "PUT")
    for_put["body"] = running.stream(b"da", b"ta")
    assert send_in_vain(running, reset, **for_put) == "PUT"


def http_date(seconds):
    return formatdate(NOW + seconds, usegmt=True)


@pytest.mark.parametrize(
    "fields, expected",
    [
        ({"Retry_After": "20"}, 20.0),
        ({"Retry_After": http_date(30)}, 30.0),
        ({"Retry_After_Ms": "1500"}, 1.5),
        ({"retry_after_ms": "2.5", "Retry_After": "20"}, 0.0025),
        ({"x_ms_retry_after_ms": "750"}, 0.75),
        ({"retry_after_ms": "0", "Retry_After": "20"}, 20.0),
        # Nothing that could be followed: the policy decides.
        ({}, 7.0),
        ({"Retry_After": "0"}, 7.0),
        ({"Retry_After": http_date(-30)}, 7.0),
        ({"Retry_After": "soon"}, 7.0),
        # What breaks the rules asks for the greatest number in it.
        ({"Retry_After_Ms": "1e3"}, 1.0),
        ({"Retry_After": "20.5"}, 20.5),
        ({"Retry_After": "20, 30"}, 30.0),
        ({"Retry_After": "2", "Retry-after": "30"}, 30.0),
        ({"Retry_After": "2", "Retry-after": http_date(30)}, 30.0),
        ({"Retry_After": "30 s"}, 30.0),
    ],
)
def test_a_wait_that_the_server_asks_for(face, fields, expected):
    got, delays = waits(face, answer(503, **fields), clock=SetClock(epoch=NOW))
    assert (got, delays) == ((200, "fine", "GET GET"), [expected])


def test_any_wait_that_the_server_asks_for_may_be_allowed(face):
    _, delays = waits(face, answer(503, Retry_After="86400"), max_retry_after=None)
    assert delays == [86_400.0]


@pytest.mark.faults
@pytest.mark.parametrize(
    "fields, options",
    [
        ({"Retry_After": "61"}, {}),
        ({"Retry_After": "9" * 400}, {}),
        ({"Retry_After_Ms": "60001"}, {}),
        ({"Retry_After_Ms": "9" * 400, "Retry_After": "20"}, {}),
        ({"Retry_After": "3600.5"}, {}),
        ({"Retry_After": "20, 3600"}, {}),
        ({"Retry_After": "20", "Retry-after": "3600"}, {}),
        ({"Retry_After": "2023-11-14T23:13:20Z"}, {}),
        ({"Retry_After": http_date(86_400)}, {}),
        ({"Retry_After": "20"}, {"max_retry_after": timedelta(seconds=19)}),
    ],
)
def test_nothing_is_sent_sooner_than_the_server_asks(face, fields, options):
    answers = [answer(503, b"first"), answer(503, b"second", **fields)]
    got, delays = waits(face, *answers, clock=SetClock(epoch=NOW), **options)
    assert (got, delays) == ((503, "second", "GET GET"), [7.0])


def test_a_retry_is_logged_without_the_query(face, caplog):
    caplog.set_level("INFO", logger="backoff_ticker.http")
    with MisbehavingServer(answer(503, Retry_After="20"), reset) as server, no_wait():
        face.request("GET", server.url + "gold?key=secret", ConstantBackOff(0.25))
    first, second = [record for record in caplog.records if record.name == "backoff_ticker.http"]
    message = "GET 127.0.0.1/gold failed in attempt 1, again in 20 s: 503"
    assert first.getMessage() == message
    fields = ("method", "host", "path", "status", "attempt", "wait")
    assert [getattr(first, each) for each in fields] == ["GET", "127.0.0.1", "/gold", 503, 1, 20.0]
    assert [getattr(second, each) for each in fields[3:]] == [None, 2, 0.25]
    assert "secret" not in first.getMessage()


def test_the_last_response_is_returned_with_its_body_or_the_last_error_raised(face):
    limit = face.rules(max_attempts=3)
    answers = [answer(503, b"first"), answer(502, b"second"), answer(500, b"third")]
    assert send(face, *answers, **limit) == (500, "third", "GET GET GET")
    assert send_in_vain(face, answer(503), reset, disconnect, **limit) == "GET GET GET"
    assert send(face, *[answer(503)] * 9) == (503, "", "GET GET GET GET GET"), "unless told"


def test_the_policy_may_stop(face):
    policy = with_max_retries(ConstantBackOff(7), 1)
    got, delays = waits(face, *[answer(503)] * 9, policy=policy)
    assert (got, delays) == ((503, "", "GET GET"), [7.0])


def test_a_response_is_closed_before_the_wait(face):
    """The pool has one connection, which would not be free otherwise."""
    behaviours = [endless_body(503), answer(503, b"x" * 100_000), answer(503)]
    assert send(face, *behaviours) == (200, "fine", "GET GET GET GET")


def test_a_budget_is_charged_and_filled(face):
    budget = RetryBudget(max_tokens=2, token_ratio=0.5)
    with MisbehavingServer(answer(503), *[answer(200)], *[answer(503, b"busy")] * 9) as server:
        assert face.request("GET", server.url, NO_WAIT, budget=budget).status == 200
        assert budget.tokens == 1.5
        got = face.request("GET", server.url, NO_WAIT, budget=budget)
        assert (got.status, got.text) == (503, "busy")
        assert budget.tokens == 0.5
        assert face.request("POST", server.url, NO_WAIT, budget=budget).status == 503
        assert budget.tokens == 0.5
    assert server.methods == "GET GET GET GET POST"
    with MisbehavingServer() as server:
        face.request("GET", server.url, NO_WAIT, budget=budget)
        assert budget.tokens == 1.0


@pytest.mark.parametrize("cuts_attempt", [False, True])
def test_a_token_ends_a_wait_and_the_attempt_of_a_coroutine(face, cuts_attempt):
    if cuts_attempt and not face.has_loop:
        pytest.skip("a request of a thread cannot be cut")
    token = CancellationToken()
    with MisbehavingServer(hang if cuts_attempt else answer(503, Retry_After="50")) as server:

        def cancel():
            if cuts_attempt:
                server.hung.wait(PATIENCE)
            token.cancel("shutting down")

        canceller = threading.Thread(target=cancel)
        waits = {"on_retry": lambda outcome: canceller.start()}
        if cuts_attempt:
            canceller.start()
        with pytest.raises(Cancelled, match="shutting down") as caught:
            face.request("GET", server.url, ConstantBackOff(1), token=token, **waits)
    assert server.methods == "GET"
    assert cuts_attempt or caught.value.__cause__ is not None


def test_a_circuit_hears_of_each_attempt(running):
    breaker = CircuitBreaker(ConstantBackOff(3600), failures=3)
    with MisbehavingServer(*[answer(503, b"busy")] * 9) as server:
        assert running.request("POST", server.url, NO_WAIT, breaker=breaker).status == 503
        with pytest.raises(CircuitOpen):
            running.request("GET", server.url, NO_WAIT, breaker=breaker, max_elapsed_time=1)
    assert server.methods == "POST GET GET"


@pytest.mark.parametrize(
    "options, kind, message",
    [
        ({"methods": "GET"}, TypeError, "methods must be a list, tuple or set, not 'GET'"),
        ({"methods": [1]}, TypeError, "methods must be names such as 'GET', not 1"),
        ({"statuses": 503}, TypeError, "must be a list, tuple or set, not 503"),
        ({"statuses": ["503"]}, TypeError, "must be ints, not '503'"),
        ({"statuses": [600]}, ValueError, "100 to 599, not 600"),
        ({"max_retry_after": -1}, ValueError, "max_retry_after must be .*not -1"),
        ({"budget": 5}, TypeError, "budget must be a RetryBudget, .* not 5"),
        ({"on": OSError}, TypeError, "'on'"),
        ({"timer": None}, TypeError, "'timer'"),
        ({"policy": 5}, TypeError, "policy must be a BackOff"),
    ],
    ids=str,
)
def test_a_mistake_is_refused_before_the_first_request(face, options, kind, message):
    with pytest.raises(kind, match=message):
        face.request("GET", "http://127.0.0.1:9/", **{"policy": NO_WAIT, **face.rules(**options)})


def test_a_function_to_be_awaited_is_told_or_refused_before_the_first_request(face):
    told = []

    async def tell(error, delay):
        told.append(delay)

    allowed = nullcontext() if face.has_loop else pytest.raises(TypeError, match="as notify")
    with MisbehavingServer(answer(503)) as server, allowed:
        face.request("GET", server.url, NO_WAIT, notify=tell)
    assert (told, len(server.bodies)) == (([0.0], 2) if face.has_loop else ([], 0))


def test_each_redirect_is_a_run_of_its_own(running):
    moved = answer(302, Location="/there")
    with MisbehavingServer(answer(503), moved, answer(503)) as server:
        assert running.request("GET", server.url, NO_WAIT, max_attempts=2).text == "fine"
    assert [each.path for each in server.received] == ["/", "/", "/there", "/there"]


def test_an_end_in_the_wait_raises_the_error_because_the_response_is_closed(running):
    clock = SetClock()

    def late(outcome):
        clock.now += 11

    options = {"max_elapsed_time": 10, "clock": clock, "on_retry": late}
    with (
        MisbehavingServer(answer(503)) as server,
        no_wait(),
        pytest.raises(running.status_error, match="503") as caught,
    ):
        running.request("GET", server.url, NO_WAIT, **options)
    assert "max_elapsed_time" in caught.value.__notes__[0]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_tunnel_is_asked_for_again_unless_the_proxy_refuses_it_for_good(running, method):
    """The server has not been reached."""
    with (
        MisbehavingServer(answer(503), answer(407)) as proxy,
        pytest.raises(running.proxy_error, match="407"),
    ):
        options = {"proxy": proxy.url, "body": running.stream(b"data")}
        running.request(method, "https://prices.example", NO_WAIT, **options)
    assert proxy.methods == "CONNECT CONNECT"


def test_headers_that_break_off_are_a_failure(running):
    assert send(running, breaks_off(b"HTTP/1.1 200 OK\r\nContent-Le")) == (200, "fine", "GET GET")


def test_a_body_that_breaks_off_as_the_caller_reads_is_not_retried(running):
    assert send_in_vain(running, half_an_answer) == "GET"


@pytest.mark.parametrize("fields", [{}, {"Retry_After": "30"}], ids=str)
def test_where_retries_are_switched_off_each_request_is_sent_once(face, fields):
    with configure(active=False):
        assert send(face, answer(503, b"busy", **fields)) == (503, "busy", "GET")


def test_a_server_that_hangs_is_left_when_the_time_is_over(running):
    told = []
    with MisbehavingServer(hang) as server, pytest.raises(DeadlineExceeded):
        running.request("GET", server.url, NO_WAIT, timeout=0.3, on_retry=told.append)
    assert told == []


def test_an_attempt_of_a_coroutine_has_its_own_time(running):
    if not running.has_loop:
        with pytest.raises(TypeError, match="no option 'attempt_timeout'"):
            running.request("GET", "http://127.0.0.1:9/", NO_WAIT, attempt_timeout=3)
        return
    for method, retries in ("POST", 0), ("GET", 2):
        told = []
        options = {"attempt_timeout": 0.2, "max_attempts": 3, "on_retry": told.append}
        with MisbehavingServer(*[hang] * 9) as server, pytest.raises(TimeoutError):
            running.request(method, server.url, NO_WAIT, **options)
        assert len(told) == retries


def test_what_surrounds_an_attempt_sees_the_error_of_an_answer(running):
    seen = []

    @contextmanager
    def around(outcome):
        try:
            yield
        except running.status_error as error:
            seen.append((outcome.attempts, str(error)[:3]))

    with MisbehavingServer(answer(503)) as server:
        assert running.request("GET", server.url, NO_WAIT, around=around).status == 200
    assert seen == [(1, "503")]
