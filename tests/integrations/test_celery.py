"""Tasks of Celery, as its workers run them, with a broker and a result backend in memory."""

import asyncio
import os
import threading
import uuid
from datetime import UTC, datetime
from functools import partial

import celery
import pytest
from celery.app.trace import build_tracer
from celery.exceptions import Ignore, Reject, Retry, SoftTimeLimitExceeded
from celery.signals import worker_init, worker_process_init, worker_shutting_down

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    CircuitBreaker,
    CircuitOpen,
    CircuitState,
    ConstantBackOff,
    ExponentialBackOff,
    Permanent,
    RetryAfter,
    RetryBudget,
    configure,
    retry_call,
    with_max_retries,
    with_token,
)
from backoff_ticker.integrations import celery as integration
from backoff_ticker.integrations.celery import retry_task, shutdown_token
from tests.integrations.celery_workers import messages_of
from tests.integrations.processes import forked

# Celery gives the tasks of one test to the apps of the others, too; from 5.7 on it warns then.
pytestmark = pytest.mark.filterwarnings("ignore:Task name .* is already registered")

DOUBLED = ExponentialBackOff(1, 0, 2, max_interval=None, max_elapsed_time=None)
NO_ROUTE = ConnectionError("no route")


@pytest.fixture
def app():
    made = celery.Celery(
        "tasks", broker="memory://", backend="cache+memory://", set_as_current=False
    )
    made.conf.task_default_queue = uuid.uuid4().hex  # queues in memory belong to the process
    made.conf.result_extended = True
    made.conf.broker_connection_retry_on_startup = True
    with made:
        yield made


def failing(app, error=NO_ROUTE, policy=DOUBLED, *, max_retries=None, **options):
    """Return a task that fails, or raises the errors of a list, one at a time."""

    @app.task(name=uuid.uuid4().hex, max_retries=max_retries)
    @retry_task(policy, **options)
    def fails():
        raised = error.pop(0) if isinstance(error, list) else error
        if isinstance(raised, BaseException):
            raise raised
        return raised

    return fails


def work(task, retries=0, args=(), **request):
    """Do what a worker does with a message; return the state, and the result or error."""
    tracer = build_tracer(task.name, task, app=task.app)
    name = uuid.uuid4().hex
    message = {"id": name, "retries": retries, "delivery_info": {}, **request}
    _, info, _, _ = tracer(name, args, {}, message)
    return ("SUCCESS", None) if info is None else (info.state, info.retval)


def received(app):
    """Return the headers of the messages at the broker, and take these away."""
    return [message.headers for message in messages_of(app)]


@pytest.mark.faults
@pytest.mark.parametrize("bind", [False, True])
@pytest.mark.parametrize("call", ["worker", "eager", "function"])
def test_autoretry_for_is_refused_at_the_first_call(app, bind, call):
    @app.task(name=uuid.uuid4().hex, autoretry_for=(Exception,), bind=bind, retry_backoff=True)
    @retry_task(DOUBLED)
    def refused(*args):
        raise AssertionError("called")

    if call == "worker":
        state, error = work(refused)
        assert state == "FAILURE"
    else:
        with pytest.raises(TypeError) as caught:
            refused() if call == "function" else refused.apply(throw=True)
        error = caught.value
    assert f"task {refused.name} has autoretry_for and @retry_task" in str(error)
    assert received(app) == []


@pytest.mark.parametrize("retries, delay", [(0, 1.0), (1, 2.0), (5, 32.0), (20, 2.0**20)])
def test_the_policy_says_the_delay_of_each_retry(app, retries, delay):
    state, retry = work(failing(app), retries)
    assert (state, retry.when, retry.exc) == ("RETRY", delay, NO_ROUTE)
    assert retry.__cause__ is NO_ROUTE
    (headers,) = received(app)
    assert headers["retries"] == retries + 1
    countdown = datetime.fromisoformat(headers["eta"]) - datetime.now(UTC)
    assert countdown.total_seconds() == pytest.approx(delay, abs=5)


def notes_of(error):
    return getattr(error, "__notes__", [])


TWO_RETRIES = with_max_retries(DOUBLED, 2)


@pytest.mark.parametrize(
    "policy, limit, last, note",
    [
        (TWO_RETRIES, None, 2, f"3 attempts: the policy stopped: {TWO_RETRIES!r}"),
        (DOUBLED, 3, 3, "4 attempts: max_retries is 3"),
        (DOUBLED, 0, 0, "1 attempt: max_retries is 0"),
        (DOUBLED, 1, 5, "6 attempts: max_retries is 1"),
    ],
)
def test_stop_and_celerys_max_retries_end_with_the_error_itself(app, policy, limit, last, note):
    error = ConnectionError()
    task = failing(app, error, policy, max_retries=limit)
    assert work(task, last) == ("FAILURE", error)
    assert notes_of(error) == [f"gave up after {note}"]
    assert limit == 0 or work(task, (limit or last) - 1)[0] == "RETRY"


@pytest.mark.parametrize(
    "raised, on, notes",
    [
        (Permanent(ValueError("bad")), None, ["gave up after 2 attempts: the error is permanent"]),
        (KeyError("x"), ConnectionError, []),
        (Cancelled("by another token"), None, []),
    ],
)
def test_what_is_not_retried_fails_with_the_error_itself(app, raised, on, notes):
    error = raised.error if isinstance(raised, Permanent) else raised
    assert work(failing(app, raised, on=on), 1) == ("FAILURE", error)
    assert notes_of(error) == notes
    assert received(app) == []


@pytest.mark.parametrize(
    "seconds, options, delay",
    [(42, {}, 42.0), (86_400, {}, 1800.0), (86_400, {"max_retry_after": None}, 86_400.0)],
)
def test_retry_after_says_the_delay(app, seconds, options, delay):
    task = failing(app, RetryAfter(seconds, NO_ROUTE), **options)
    assert work(task, 2)[1].when == delay
    (headers,) = received(app)
    assert headers["retries"] == 3


RULES = {ConnectionError: True, ConnectionResetError: ConstantBackOff(7), TimeoutError: False}
SOFT = SoftTimeLimitExceeded()


@pytest.mark.parametrize(
    "error, on, delay",
    [
        (OSError(), (KeyError, OSError), 4.0),
        (OSError(), KeyError | OSError, 4.0),
        (ConnectionError(), RULES, 4.0),
        (ConnectionResetError(), RULES, 7.0),
        (TimeoutError(), RULES, None),
        (OSError(), lambda error: 5, 5.0),
        (OSError(), lambda error: True, 4.0),
        (OSError(), lambda error: False, None),
        *((SOFT, on, None) for on in (None, Exception, {Exception: True})),
        *((SOFT, on, 4.0) for on in (SoftTimeLimitExceeded, lambda error: True)),  # it is named
    ],
)
def test_the_errors_that_are_retried(app, error, on, delay):
    state, retry = work(failing(app, error, on=on), 2)
    assert (state, getattr(retry, "when", None)) == ("RETRY" if delay else "FAILURE", delay)


@pytest.mark.parametrize("on", [None, Exception, {Exception: True}, lambda error: True])
@pytest.mark.parametrize("predicate", [Ignore(), Reject("no"), Retry("later")])
def test_what_celery_is_told_passes(app, predicate, on):
    breaker, budget = CircuitBreaker(failures=1), RetryBudget(10)
    budget.try_acquire()
    task = failing(app, predicate, on=on, breaker=breaker, budget=budget)
    state = {Ignore: "IGNORED", Reject: "REJECTED", Retry: "RETRY"}[type(predicate)]
    assert work(task) == (state, predicate)
    assert received(app) == []
    assert (breaker.state, budget.tokens) == (CircuitState.CLOSED, 9)


def test_default_hooks_see_each_attempt_as_a_run_and_retries_can_be_switched_off(app):
    seen = []
    names = "on_attempt", "on_retry", "on_success", "on_give_up"
    hooks = {name: partial(lambda name, outcome: seen.append(name), name) for name in names}
    task = failing(app, [NO_ROUTE, NO_ROUTE, 1], max_retries=1)
    with configure(**hooks):
        assert [work(task, n)[0] for n in (0, 1, 0)] == ["RETRY", "FAILURE", "SUCCESS"]
    assert seen == ["on_attempt", "on_attempt", "on_give_up", "on_attempt", "on_success"]
    with configure(active=False):
        assert work(failing(app)) == ("FAILURE", NO_ROUTE)


def test_each_retry_takes_from_the_budget_and_each_success_fills_it(app):
    error = ConnectionError()
    budget = RetryBudget(2, token_ratio=1)
    task = failing(app, [error, error, error, 1, error], budget=budget)
    assert [work(task, n)[0] for n in (0, 1, 2)] == ["RETRY", "RETRY", "FAILURE"]
    (note,) = notes_of(error)
    assert note.startswith("gave up after 3 attempts: nothing left in <RetryBudget 0.0 of 2.0")
    assert budget.tokens == 0
    assert work(task)[0] == "SUCCESS"
    assert budget.tokens == 1
    assert work(task)[0] == "RETRY"


def test_an_open_circuit_sends_a_task_back_for_its_time_without_counting_a_retry(app, clock):
    breaker = CircuitBreaker(ConstantBackOff(60), failures=1)
    answers = [NO_ROUTE, 1]
    task = failing(app, answers, breaker=breaker, max_retries=3)
    assert work(task, 0)[1].when == 1.0
    clock.advance(20)
    for retries in 0, 3:
        state, retry = work(task, retries)
        assert (state, retry.when, type(retry.exc)) == ("RETRY", 40.0, CircuitOpen)
    assert [headers["retries"] for headers in received(app)] == [1, 0, 3]
    clock.advance(40)
    assert work(task, 3) == ("SUCCESS", None)
    assert (breaker.state, answers) == (CircuitState.CLOSED, [])


@pytest.mark.faults
@pytest.mark.parametrize("options, most", [({}, 900.0), ({"visibility_timeout": 8}, 4.0)])
def test_no_task_is_sent_back_for_longer_than_the_broker_waits(app, options, most):
    app.conf.broker_transport_options = options
    token, breaker = CancellationToken(), CircuitBreaker()
    token.cancel()
    breaker.open(7200)
    assert work(failing(app, breaker=breaker))[1].when == most
    breaker.open()  # until a reset
    for retries in {"breaker": breaker}, {"policy": with_token(DOUBLED, token)}:
        assert work(failing(app, **retries))[1].when == min(most, 10.0)


def test_an_attempt_that_was_not_made_frees_the_place_of_its_probe(app, clock):
    breaker = CircuitBreaker(ConstantBackOff(60), failures=1)
    task = failing(app, [NO_ROUTE, 1], breaker=breaker)
    work(task)
    clock.advance(60)
    with configure(on_attempt=lambda _: 1 / 0):
        assert type(work(task)[1]) is ZeroDivisionError
    assert work(task) == ("SUCCESS", None)


@pytest.mark.parametrize("is_default", [False, True])
def test_a_cancelled_token_sends_a_task_back_without_counting_a_retry(app, is_default):
    token = CancellationToken()

    @app.task(max_retries=2)
    @retry_task(DOUBLED, token=None if is_default else token)
    def fetch():
        token.cancel("SIGTERM")
        retry_call(lambda: 1 / 0, ConstantBackOff(3600), token=token)

    with configure(token=token if is_default else None):
        state, retry = work(fetch, 2)
    assert (state, retry.when, type(retry.exc)) == ("RETRY", 10.0, Cancelled)
    (headers,) = received(app)
    assert headers["retries"] == 2


def test_a_task_that_comes_back_keeps_what_the_message_says(app):
    task, expires = failing(app), "2100-01-01T00:00:00+00:00"
    chain = [dict(task.s().set(task_id="next"))]
    work(task, 1, root_id="root", chain=chain, headers={"tenant": "a"}, expires=expires)
    (message,) = messages_of(app)
    kept = {"root_id": "root", "tenant": "a"}
    assert kept.items() <= message.headers.items()
    assert message.headers["expires"].startswith("2100-01-01")
    _, _, embedded = message.decode()
    assert embedded["chain"][0]["options"]["task_id"] == "next"


def test_a_message_goes_back_to_the_queue_if_the_broker_takes_no_other(app, monkeypatch):
    task = failing(app, budget=(budget := RetryBudget(3)))

    def refuse(*args, **options):
        raise task.OperationalError("connection refused")

    monkeypatch.setattr(celery.canvas.Signature, "apply_async", refuse)
    state, reject = work(task)
    assert (state, reject.requeue, str(reject.reason)) == ("REJECTED", True, "connection refused")
    assert budget.tokens == 3


def test_what_is_called_as_a_function_is_called_once(app):
    @retry_task()
    def double(number):
        """Double it."""
        return 2 * number

    assert double(number=21) == 42
    assert (double.__name__, double.__doc__) == ("double", "Double it.")
    breaker = CircuitBreaker()
    breaker.open()
    with pytest.raises(ConnectionError):
        failing(app, breaker=breaker)()


def test_eager_mode_ends_as_workers_do_and_sends_nothing_back(app):
    breaker, token = CircuitBreaker(), CancellationToken()
    breaker.open()
    token.cancel()
    error = ConnectionError()
    assert failing(app, error, max_retries=2).apply().result is error
    assert notes_of(error) == ["gave up after 3 attempts: max_retries is 2"]
    assert isinstance(failing(app, breaker=breaker).apply().result, CircuitOpen)
    assert isinstance(failing(app, token=token).apply().result, Cancelled)
    assert received(app) == []


def test_tasks_with_bind_shared_tasks_and_classes(app):
    def until_third(task):
        if task.request.retries < 2:
            raise NO_ROUTE
        return task.request.retries

    @app.task(bind=True)
    @retry_task(ConstantBackOff(3600))
    def bound(self):
        return until_third(self)

    @celery.shared_task
    @retry_task(ConstantBackOff(3600))
    def shared():
        return until_third(celery.current_task)

    class Classy(app.Task):
        name = "classy"

        @retry_task(ConstantBackOff(3600))
        def run(self):
            return until_third(self)

    tasks = bound, app.tasks[shared.name], app.register_task(Classy())
    assert [task.apply().get() for task in tasks] == [2, 2, 2]  # eager mode does not wait


def test_what_is_decorated_and_the_options_are_checked_at_once(app):
    for name in ("policy", "on", "budget", "breaker"):
        with pytest.raises(TypeError, match=f"^{name} must be"):
            retry_task(**{name: 5})
    with pytest.raises(TypeError, match="a function without async, not <function"):
        retry_task()(asyncio.sleep)
    for lazy in True, False:
        task = app.task(lazy=lazy, name=f"task{lazy}")(work)
        with pytest.raises(TypeError, match="write @app.task above it"):
            retry_task()(task)


@pytest.fixture
def worker_token(monkeypatch):
    """Return a token that is new, as in a worker that has just begun."""
    monkeypatch.setattr(integration, "_token", CancellationToken())
    with configure(token=None):
        yield shutdown_token()
    for end in integration._ends:
        os.close(end)
    integration._ends.clear()


def test_in_a_worker_it_is_the_default_and_a_shutdown_cancels_it(worker_token):
    worker_init.send(sender=None)
    worker_process_init.send(sender=None)  # of the pool solo
    worker_shutting_down.send(sender=None, sig="SIGTERM", how="Warm", exitcode=0)
    worker_shutting_down.send(sender=None, sig="SIGQUIT", how="Cold", exitcode=0)
    assert worker_token.cause == "SIGTERM"
    with pytest.raises(Cancelled, match="SIGTERM"):
        retry_call(lambda: 1 / 0, ConstantBackOff(3600))


@pytest.mark.parametrize("during", [False, True])
def test_a_process_of_the_pool_that_starts_before_or_during_it_learns_of_it(worker_token, during):
    def shut_down():
        worker_shutting_down.send(sender=None, sig="SIGTERM", how="Warm", exitcode=0)

    def is_told():
        errors = []
        threading.excepthook = errors.append
        worker_process_init.send(sender=None)
        os.write(writer, b"ready")
        for thread in threading.enumerate()[1:]:
            thread.join(20)
        cause = "SIGTERM" if during else "the worker shuts down"
        return (worker_token.cause, errors) == (cause, [])

    worker_init.send(sender=None)
    if during:
        shut_down()
    reader, writer = os.pipe()
    with forked(is_told):
        assert os.read(reader, 5) == b"ready"
        if not during:
            shut_down()
    os.close(reader)
    os.close(writer)
