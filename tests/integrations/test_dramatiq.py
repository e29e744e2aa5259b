"""Messages of dramatiq that fail: put back after the policy's delay, dead-lettered, never lost."""

import logging
from datetime import timedelta

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker
from dramatiq.middleware import Middleware, MiddlewareError, Retries, SkipMessage

from backoff_ticker import (
    Cancelled,
    CircuitBreaker,
    ConstantBackOff,
    ExponentialBackOff,
    Permanent,
    RetryAfter,
    RetryBudget,
    StopBackOff,
    ZeroBackOff,
    with_max_retries,
)
from backoff_ticker.integrations.dramatiq import BackOffRetries
from backoff_ticker.testing import no_wait
from tests.helpers import SetClock, eventually
from tests.integrations.processes import Process
from tests.tickers.made_policies import Scripted

NO_ROUTE = ConnectionError("no route")
DOUBLING = ExponentialBackOff(0.001, 0, 2)


class Recorder(Middleware):
    """Remembers each delay with which a message is put back; a clock moves by it."""

    def __init__(self):
        self.delays = []
        self.clock = SetClock()

    def before_enqueue(self, broker, message, delay):
        if delay is not None:
            self.delays.append(delay)
            self.clock.advance(delay / 1000)


class Setting:
    """A broker in memory, and a worker that runs while ``run()`` waits for all messages."""

    def __init__(self, retries):
        self.broker = StubBroker(fail_fast_default=False)
        self.retries = retries
        retries.install(self.broker)
        self.recorder = Recorder()
        self.broker.add_middleware(self.recorder)
        self.calls = []

    def work(self, failures, error=NO_ROUTE):
        """Return a function that raises the error so many times."""

        def work(*_):
            self.calls.append(1)
            if len(self.calls) <= failures:
                raise error() if isinstance(error, type) else error

        return work

    def refuse(self, message):
        """Let the circuit of the actor refuse a message, which comes back."""
        with pytest.raises(MiddlewareError) as refused:
            self.retries.before_process_message(self.broker, message)
        self.retries.after_process_message(self.broker, message, exception=refused.value)

    def actor(self, failures, error=NO_ROUTE, **options):
        """Return an actor that raises the error so many times, or calls a function."""
        work = failures if callable(failures) else self.work(failures, error)
        return dramatiq.actor(work, actor_name="act", broker=self.broker, **options)

    def run(self, *messages):
        worker = dramatiq.Worker(self.broker, worker_timeout=10, worker_threads=2)
        worker.start()
        try:
            for message in messages:
                self.broker.enqueue(message)
            self.broker.join("default", timeout=20_000)
        finally:
            worker.stop()
        return self.recorder.delays

    @property
    def dead(self):
        return self.broker.dead_letters


@pytest.mark.parametrize(
    "options, of_message, delays",
    [
        ({}, {}, [1, 2, 4, 8]),
        ({}, {"retries": 4}, [16, 32, 64, 128]),  # a worker that takes over goes on with the count
        ({"policy": ConstantBackOff(0.003)}, {}, [3, 3, 3, 3]),
    ],
)
def test_each_retry_of_a_message_has_its_delay(options, of_message, delays):
    setting = Setting(BackOffRetries(DOUBLING))
    act = setting.actor(4, **options)
    assert setting.run(act.message_with_options(**of_message)) == delays
    assert len(setting.calls) == 5
    assert setting.dead == []


ONCE = {"retry_when": lambda retries, error: retries < 1}
# The delays count as elapsed: 0, 1, 3, 7 and 15 ms.
LIMITED = ExponentialBackOff(0.001, 0, 2, max_elapsed_time=0.008)


@pytest.mark.parametrize(
    "policy, of_all, of_actor, made",
    [
        (ZeroBackOff(), {"max_retries": 2}, {}, 2),
        (ZeroBackOff(), {}, {"max_retries": 3}, 3),
        (ZeroBackOff(), {"max_retries": 0}, {}, 0),
        (with_max_retries(ZeroBackOff(), 4), {}, {}, 4),
        (StopBackOff(), {}, {}, 0),
        (ZeroBackOff(), {"max_retries": None}, {"policy": StopBackOff()}, 0),
        (ZeroBackOff(), ONCE, {}, 1),
        (ZeroBackOff(), {}, ONCE, 1),
        (ZeroBackOff(), {"budget": RetryBudget(2)}, {}, 2),
        (ZeroBackOff(), {}, {"budget": RetryBudget(1)}, 1),
        (LIMITED, {}, {}, 3),
    ],
)
def test_what_ends_the_retries_dead_letters_the_message(policy, of_all, of_actor, made):
    setting = Setting(BackOffRetries(policy, **of_all))
    act = setting.actor(100, **of_actor)
    assert len(setting.run(act.message("kept"))) == made
    (letter,) = setting.dead
    assert list(letter.args) == ["kept"]
    assert letter.options["retries"] == made + 1
    assert "no route" in letter.options["traceback"]


def test_an_exhausted_message_is_told_to_the_actor_that_wants_to_know():
    setting = Setting(BackOffRetries(ZeroBackOff(), max_retries=1))
    told = []

    @dramatiq.actor(broker=setting.broker)
    def exhausted(message, counts):
        told.append((list(message["args"]), counts))

    setting.run(setting.actor(100, on_retry_exhausted="exhausted").message("a"))
    assert told == [(["a"], {"retries": 1, "max_retries": 1})]


CAUSED = OSError()
CAUSED.__cause__ = OSError()
CAUSED.__cause__.__cause__ = Permanent(KeyError())


@pytest.mark.parametrize("error", [Permanent(OSError("no such user")), CAUSED, LookupError()])
def test_what_cannot_pass_is_not_retried(error):
    budget = RetryBudget(10)
    setting = Setting(BackOffRetries(ZeroBackOff(), budget=budget))
    assert setting.run(setting.actor(100, error, throws=LookupError).message()) == []
    assert (len(setting.dead), budget.tokens) == (1, 10)


@pytest.mark.parametrize(
    "error, most, delay",
    [
        (RetryAfter(0.012), 3600, 12),
        (RetryAfter(60, OSError()), 0.005, 5),
        (RetryAfter(60), timedelta(seconds=0.005), 5),
        (RetryAfter(0.012), None, 12),
        (dramatiq.errors.Retry(delay=9), 3600, 9),
        (dramatiq.errors.Retry(), 3600, 1),
        # A shutdown, or dramatiq, has ended the work.
        (Cancelled, 3600, 1),
        (dramatiq.middleware.Shutdown, 3600, 1),
        (dramatiq.middleware.TimeLimitExceeded, 3600, 1),
    ],
)
def test_an_error_comes_back_after_its_own_delay_or_that_of_the_policy(error, most, delay):
    setting = Setting(BackOffRetries(DOUBLING, max_retry_after=most))
    assert setting.run(setting.actor(1, error).message()) == [delay]
    assert setting.dead == []


def test_no_delay_is_longer_than_dramatiq_allows():
    setting = Setting(BackOffRetries(ConstantBackOff(10**8)))
    proxy = dramatiq.MessageProxy(setting.actor(1).message())
    setting.retries.after_process_message(setting.broker, proxy, exception=OSError())
    assert setting.recorder.delays == [7 * 86_400_000]


def test_a_success_fills_the_budget_and_only_a_retry_takes_from_it():
    budget = RetryBudget(10, token_ratio=0.5)
    for max_retries in (2, 0):
        setting = Setting(BackOffRetries(ZeroBackOff(), max_retries=max_retries, budget=budget))
        setting.run(setting.actor(2).message())
        assert budget.tokens == 8.5


@pytest.mark.parametrize("inside", [False, True])
def test_while_the_circuit_is_open_no_work_is_done_and_no_retry_counts(caplog, inside):
    """It may be an option of the actor, or what the actor itself uses."""
    setting = Setting(BackOffRetries(ConstantBackOff(0.01), max_retries=1))
    breaker = CircuitBreaker(ConstantBackOff(0.05), failures=1, clock=setting.recorder.clock)
    work, options = setting.work(1), {"budget": RetryBudget(1)}
    if inside:
        work = breaker(work)
    else:
        options["breaker"] = breaker
    act = setting.actor(work, **options)
    with caplog.at_level(logging.ERROR):
        assert setting.run(act.message()) == [10, 40]
    assert len(setting.calls) == 2
    assert setting.dead == []
    assert inside or len(caplog.records) == 1  # the failure itself


@pytest.mark.faults
def test_no_message_waits_for_a_circuit_for_longer_than_half_an_hour():
    breaker = CircuitBreaker()
    breaker.open(7200)
    setting = Setting(BackOffRetries(ConstantBackOff(0.01)))
    setting.refuse(dramatiq.MessageProxy(setting.actor(0, breaker=breaker).message()))
    assert setting.recorder.delays == [1_800_000]


def test_the_policys_delay_counts_if_it_is_longer_than_the_circuit_is_open():
    breaker = CircuitBreaker()
    breaker.open()  # until a reset: nobody knows for how long
    setting = Setting(BackOffRetries(ConstantBackOff(0.01), max_retries=0))
    proxy = dramatiq.MessageProxy(setting.actor(0, breaker=breaker).message())
    for _ in range(2):
        setting.refuse(proxy)
    assert setting.recorder.delays == [10, 10]
    assert not proxy.failed
    assert proxy.options["retries"] == 0


def test_a_message_that_is_skipped_gives_the_probe_back():
    class Skip(Middleware):
        def before_process_message(self, broker, message):
            if message.args == ("skipped",):
                raise SkipMessage

    clock = SetClock()
    breaker = CircuitBreaker(ConstantBackOff(1), failures=1, clock=clock)
    setting = Setting(BackOffRetries(DOUBLING))
    setting.broker.add_middleware(Skip())
    with pytest.raises(OSError), breaker.guard():
        raise OSError
    clock.advance(1)
    act = setting.actor(0, breaker=breaker)
    setting.run(act.message("skipped"))
    setting.run(act.message())
    assert (setting.calls, breaker.state) == ([1], "closed")


@pytest.mark.parametrize("is_back", [True, False])
def test_a_message_is_put_back_if_the_broker_returns_or_dead_lettered(monkeypatch, caplog, is_back):
    setting = Setting(BackOffRetries(DOUBLING, budget=(budget := RetryBudget(3, token_ratio=0.1))))
    act = setting.actor(1)
    enqueue = setting.broker.enqueue
    failures = [OSError("gone")] * (2 if is_back else 1000)

    def gone(message, *, delay=None):
        if delay is not None and failures:
            raise failures.pop()
        return enqueue(message, delay=delay)

    monkeypatch.setattr(setting.broker, "enqueue", gone)
    with no_wait():
        assert setting.run(act.message()) == ([1] if is_back else [])
    assert (len(setting.calls), len(setting.dead)) == ((2, 0) if is_back else (1, 1))
    assert budget.tokens == (2.1 if is_back else 3)
    assert ("Unexpected failure in after_process_message" in caplog.text) is not is_back


def test_so_is_one_whose_policy_or_predicate_fails(caplog):
    broken = Scripted(then=lambda: 1 / 0)
    for options in ({"policy": broken}, {"retry_when": lambda retries, error: 1 / 0}):
        setting = Setting(BackOffRetries(DOUBLING))
        setting.run(setting.actor(1, **options).message())
        assert len(setting.dead) == 1
    assert "ZeroDivisionError" in caplog.text


def test_it_takes_the_place_of_retries_and_beside_them_is_refused():
    setting = Setting(retries := BackOffRetries(DOUBLING))
    kinds = [type(each) for each in setting.broker.middleware]
    assert BackOffRetries in kinds
    assert Retries not in kinds
    bare = StubBroker(middleware=[])
    retries.install(bare)
    assert bare.middleware == [retries]
    broker = StubBroker()
    broker.add_middleware(retries)
    with pytest.raises(MiddlewareError, match=r"BackOffRetries\(...\).install\(broker\)"):
        dramatiq.actor(lambda: None, actor_name="act", broker=broker)


def test_options_without_effect_are_refused():
    setting = Setting(BackOffRetries(DOUBLING))
    with pytest.raises(MiddlewareError, match="actor 'act' has min_backoff=5, which has no effect"):
        setting.actor(0, min_backoff=5)
    broker = StubBroker()
    dramatiq.actor(lambda: None, actor_name="act", broker=broker, max_backoff=5)
    with pytest.raises(MiddlewareError, match="max_backoff=5"):
        BackOffRetries(DOUBLING).install(broker)


@pytest.mark.parametrize(
    "options, told",
    [
        ({"policy": 1}, "policy must be a BackOff"),
        ({"budget": 1}, "budget must be a RetryBudget"),
        ({"max_retry_after": -1}, "max_retry_after must be"),
        ({"breaker": 1}, "breaker must be a CircuitBreaker"),
    ],
)
def test_bad_options_are_told_at_once(options, told):
    setting = Setting(BackOffRetries(DOUBLING))
    with pytest.raises(MiddlewareError, match=f"actor 'act': {told}"):
        setting.actor(0, **options)
    if "breaker" not in options:
        with pytest.raises((TypeError, ValueError), match=told):
            BackOffRetries(**{"policy": DOUBLING, **options})


# A real broker, and workers that are killed

TASKS = """\
import os
import time

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import CurrentMessage

from backoff_ticker import ConstantBackOff, configure
from backoff_ticker.integrations.dramatiq import BackOffRetries

configure(on_retry=lambda outcome: print("waits", flush=True))
url = os.environ["REDIS"]
broker = RedisBroker(url=url, heartbeat_timeout=3000, maintenance_chance=1_000_000)
broker.add_middleware(CurrentMessage())
BackOffRetries(ConstantBackOff(0.05)).install(broker)
dramatiq.set_broker(broker)
counts = redis.Redis.from_url(url)


def retries():
    return CurrentMessage.get_current_message().options.get("retries", 0)


@dramatiq.actor
def act(number):
    counts.hincrby("calls", f"{number}:{retries()}", 1)
    if retries() < 2:
        raise ConnectionError("no route")
    if number >= 10 and not counts.exists("killed"):
        print("in the middle", flush=True)
        time.sleep(3600)
    counts.hincrby("done", number, 1)


@dramatiq.actor
def fail_when_told(path):
    print("call", retries(), flush=True)
    while not os.path.exists(path):
        time.sleep(0.01)
    if retries() == 0:
        raise ConnectionError("no route")
"""

MESSAGES = 60
THREADS = 4
WORKER = ("-m", "dramatiq", "tasks", "--processes", "1", "--threads", str(THREADS))


@pytest.fixture
def program(tmp_path):
    """Return a function that starts a program which knows the actors."""
    pytest.importorskip("dramatiq.brokers.redis")
    (tmp_path / "tasks.py").write_text(TASKS)

    def start(server, *arguments):
        environment = {
            "REDIS": server.url,
            "dramatiq_restart_delay": "100",
            "dramatiq_worker_timeout": "50",
            "dramatiq_queue_prefetch": str(THREADS),
        }
        return Process(tmp_path, *arguments, env=environment)

    return start


def send(program, server, code):
    with program(server, "-c", f"import tasks\n{code}") as sender:
        assert sender.wait() == 0, sender.lines


@pytest.mark.slow
@pytest.mark.posix
@pytest.mark.faults
def test_no_message_is_lost_when_a_worker_is_killed(redis_server, program):
    send(program, redis_server, f"for each in range({MESSAGES}): tasks.act.send(each)")
    with redis_server.client() as client:
        with program(redis_server, *WORKER) as worker:
            worker.wait_for("in the middle", THREADS)
        # Here it was killed, with calls under way and other messages in its memory.
        client.set("killed", 1)
        with program(redis_server, *WORKER):
            eventually(lambda: client.hlen("done") == MESSAGES)
            eventually(lambda: client.hlen("dramatiq:default.msgs") == 0)
        calls = {key.decode(): int(value) for key, value in client.hgetall("calls").items()}
        assert client.zcard("dramatiq:default.XQ") == 0  # nothing was dead-lettered
    assert set(calls) == {f"{n}:{count}" for n in range(MESSAGES) for count in range(3)}
    # At least once: what was under way, and what had been put back but not acknowledged.
    doubled = [key for key, times in calls.items() if times > 1]
    assert THREADS <= len(doubled) <= 3 * THREADS
    assert set(calls.values()) == {1, 2}


@pytest.mark.slow
@pytest.mark.posix
@pytest.mark.faults
def test_no_message_is_lost_when_the_broker_is_killed_and_restarted(tmp_path, program):
    from tests.integrations.redis_server import RedisServer

    go = tmp_path / "go"
    with RedisServer(tmp_path / "redis", durable=True) as server:
        send(program, server, f"tasks.fail_when_told.send({str(go)!r})")
        with program(server, *WORKER) as worker:
            worker.wait_for("call 0")
            server.kill()
            go.touch()
            worker.wait_for("waits")  # the message could not be put back yet
            server.start()
            worker.wait_for("call 1")
            assert worker.count("call 0") == 1
