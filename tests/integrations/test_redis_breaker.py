"""Circuits that processes share, with a real Redis that fails."""

import contextlib
import random
import sys
import time

import pytest
import redis

from backoff_ticker import CircuitOpen, CircuitState, ConstantBackOff, ExponentialBackOff
from backoff_ticker.integrations._redis import circuit as redis_circuit
from backoff_ticker.integrations.redis import RedisCircuitBreaker
from tests import effort
from tests.circuits.circuits import fail, refused, succeed
from tests.helpers import PATIENCE, SetClock, eventually
from tests.integrations.processes import Process, forked, write_files
from tests.tickers.made_policies import Scripted

pytestmark = pytest.mark.timeout(45)

CLOSED, OPEN, HALF_OPEN = CircuitState
A_MINUTE = ConstantBackOff(60)
KEY = "backoff_ticker:circuit:payments"


@pytest.fixture
def make(connected):
    """Make breakers of one name, each as if it were in a process of its own."""
    return lambda backoff=A_MINUTE, **options: connected(
        RedisCircuitBreaker, name="payments", backoff=backoff, failures=1, **options
    )


class ByHand(redis_circuit.SharedCircuit):
    """Tells and hears when the test says so, which calls functions before and after Redis."""

    connected = True

    def start(self):
        self.note_connection(False)

    def ask(self, *arguments):
        self.before()
        self.answer = self._client.execute_command(*self._command, *arguments)
        self.after()
        return self.answer

    tell = end = lambda self: None


@pytest.fixture
def by_hand(redis_server, monkeypatch):
    """Make breakers that tell and hear when the test says so."""
    monkeypatch.setattr(redis_circuit, "SharedCircuit", ByHand)
    client = redis_server.client()
    return lambda backoff=A_MINUTE, **options: RedisCircuitBreaker(
        client, "payments", backoff, failures=1, **options
    )


@pytest.fixture
def now(monkeypatch):
    """The clock of all breakers, which the test sets; links and Redis have theirs."""
    made = SetClock()
    monkeypatch.setattr(redis_circuit, "CLOCK", made)
    return made


def exchange(*breakers, before=lambda: None, after=lambda: None):
    """Let breakers tell and learn; call functions right before and after Redis has answered."""
    for each in breakers:
        each._shared.before, each._shared.after = before, after
        each._shared.exchange()


def hear(one, other):
    """Let a breaker hear what Redis has just answered another one, as it does in a thread."""
    one._shared.hear(other._shared.answer)


def each_is(state, *breakers):
    eventually(lambda: all(each.state is state for each in breakers), f"{breakers} {state}")


def make_half_open(one, *others):
    version = one._shared.version
    while one._shared.version == version:  # its time may be over before it could be told
        one.open(0.05)
        eventually(lambda: one._shared.version != version or one.state is HALF_OPEN)
    each_is(HALF_OPEN, one, *others)


def stored(redis_server):
    return redis_server.client(decode_responses=True).hgetall(KEY)


def is_let_through(breaker):
    try:
        breaker.release(breaker.allow())
    except CircuitOpen:
        return False
    return True


def probe(breaker):
    """Return the ticket of a probe, once it may be made."""
    eventually(lambda: is_let_through(breaker))
    return breaker.allow()


def test_it_opens_and_closes_everywhere(make):
    seen = []
    one, other = make(), make(on_change=lambda old, new, breaker: seen.append((old, new, breaker)))
    fail(one)
    each_is(OPEN, one, other)
    assert 30 < other.remaining() <= 60
    assert refused(other).state is OPEN
    one.reset()
    each_is(CLOSED, one, other)
    succeed(other)
    eventually(lambda: len(seen) == 2)  # a hook is called after the change
    assert seen == [(CLOSED, OPEN, other), (OPEN, CLOSED, other)]


def test_the_delays_grow_as_if_there_was_one_policy(make, now):
    breakers = [make(ExponentialBackOff(0.05, 0, 2, max_elapsed_time=None)) for _ in range(3)]
    fail(breakers[0])
    for exponent in range(1, 5):
        each_is(OPEN, *breakers)
        now.advance(0.1 * 2 ** (exponent - 1))  # more than is left, which is told in ms
        one = breakers[exponent % 3]
        one.record(probe(one), OSError())
        assert one.remaining() == pytest.approx(0.05 * 2**exponent)


def test_of_two_changes_the_first_that_redis_hears_of_wins(due):
    one, other = due
    for each in (one, other):
        each._shared.connected = False  # so that both may probe
    succeed(one)
    fail(other)
    exchange(one)
    assert (one.state, other.state) == (CLOSED, OPEN)
    exchange(other)
    assert other.state is CLOSED
    assert not other._shared._untold


def test_a_change_of_a_process_that_redis_has_no_answer_for_is_not_forgotten(by_hand):
    one, other = by_hand(), by_hand()
    one.open(30)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            exchange(one, before=lambda: 1 / 0)
    other.open(60)
    exchange(other)
    hear(one, other)
    assert one.remaining() <= 30, "the word of a user here comes later"
    exchange(one, other)
    assert other.remaining() <= 30


def test_those_that_hear_of_another_as_they_tell_have_opened_it_once(by_hand):
    policies = [Scripted(20.0, 30.0) for _ in range(2)]
    one, other = (by_hand(each) for each in policies)
    for each in (one, other):
        fail(each)
    exchange(other)
    exchange(one, before=lambda: hear(one, other))
    assert [each.asked for each in policies] == [1, 1]
    exchange(one, other)
    assert [each.asked for each in policies] == [1, 1]


def test_an_answer_that_is_older_than_a_message_is_no_loss_of_data(by_hand, redis_server):
    def open_other():
        if not other._shared.version:
            fail(other)
            exchange(other)
            hear(one, other)

    one, other = by_hand(), by_hand()
    exchange(one, after=open_other)
    exchange(one, other)
    assert (one.state, other.state) == (OPEN, OPEN)
    assert one._shared.version == other._shared.version == int(stored(redis_server)["version"])
    assert stored(redis_server)["by"] == other._shared._me


def test_a_change_by_hand_as_another_one_is_taken_is_told_as_such(by_hand):
    class Untold(dict):
        def popitem(self):
            one._shared._untold, taken = {}, super().popitem()
            one.open(500)
            return taken

    one, other = by_hand(), by_hand()
    one._shared._untold = Untold()
    fail(other)
    exchange(other)  # so Redis knows a later change than the first one
    fail(one)
    exchange(one)
    exchange(one, other)
    assert other.remaining() > 400


def test_it_is_opened_and_reset_by_hand_whatever_others_have_done(make, redis_server):
    one, other = make(), make()
    one.open()
    each_is(OPEN, other)
    assert one.remaining() is other.remaining() is None
    client = redis_server.client()
    assert 86_000 < client.ttl(KEY) <= 86_400
    client.delete(KEY)
    eventually(lambda: client.exists(KEY), "renewed by those who know it")
    late = make()
    assert (late.state, late.remaining()) == (OPEN, None)
    late.open(30)
    eventually(lambda: all(each.remaining() for each in (one, other, late)))
    assert 80 < client.ttl(KEY) <= 90
    other.reset()
    each_is(CLOSED, one, other, late)
    assert 86_000 < client.ttl(KEY) <= 86_400


@pytest.mark.parametrize("when", ["before it is noted", "in a hook", "in a hook that tells"])
def test_what_another_process_does_meanwhile_does_not_undo_a_reset_by_hand(by_hand, when):
    class Noting(dict):
        def __setitem__(self, what, breaker):
            other._shared._untold = {}
            open_meanwhile()
            other._shared._untold[what] = breaker

    def open_meanwhile(*_):
        one.open(20)
        exchange(one)
        if when == "in a hook that tells":
            exchange(other)
        else:
            hear(other, one)

    def hook(_old, new, _breaker):
        if new is CLOSED and "hook" in when:
            open_meanwhile()

    one, other = by_hand(), by_hand(on_change=hook)
    other.open(10)
    exchange(other, one)
    if "noted" in when:
        other._shared._untold = Noting()
    other.reset()
    assert other.state is CLOSED
    exchange(other, one)
    assert (one.state, other.state) == (CLOSED, CLOSED)


def test_what_comes_after_a_change_by_hand_counts_though_its_answer_is_still_on_the_way(by_hand):
    def reset_other():
        other.reset()
        exchange(other)
        hear(one, other)

    one, other = by_hand(), by_hand()
    one.open(30)
    exchange(one, after=reset_other)
    exchange(one)  # as it was told to ask again
    assert (one.state, other.state) == (CLOSED, CLOSED)


@pytest.mark.faults
def test_redis_gives_no_version_twice_though_it_loses_its_data_between_two_changes(
    by_hand, redis_server
):
    client = redis_server.client()
    for _ in range(20):  # both changes come within a millisecond, mostly
        breakers = by_hand(), by_hand()
        for each in breakers:
            each.open(30)
        for each in breakers:
            exchange(each)
            client.delete(KEY)
        one, other = (each._shared.version for each in breakers)
        assert one != other


def test_a_hook_that_exits_ends_no_thread(make):
    one, other = make(), make(on_change=lambda *_: sys.exit())
    for change, state in [(one.open, OPEN), (one.reset, CLOSED), (one.open, OPEN)]:
        change()
        each_is(state, other)
    assert other.wait_until_connected(PATIENCE)


def test_a_hook_may_change_it_again(make):
    one = make(on_change=lambda _old, new, breaker: new is OPEN and breaker.reset())
    seen = []
    other = make(on_change=lambda _old, new, _breaker: seen.append(new))
    fail(other)
    eventually(lambda: len(seen) == 2)
    assert seen == [OPEN, CLOSED]
    each_is(CLOSED, one)


def test_an_error_of_the_policy_is_logged_where_nobody_can_receive_it(make, caplog):
    one, other = make(), make(Scripted(LookupError("policy")))
    fail(one)
    each_is(OPEN, other)
    eventually(lambda: "LookupError: policy" in caplog.text)
    assert other.connected


@pytest.mark.parametrize("seed", range(effort.rounds(5, 100)))
def test_whatever_happens_they_agree_in_the_end(by_hand, redis_server, seed):
    """Each answer and message comes late by chance, but in its order; Redis may lose all."""
    chance = random.Random(seed)
    breakers = [by_hand() for _ in range(3)]
    client = redis_server.client()
    inboxes = [client.pubsub(ignore_subscribe_messages=True) for _ in breakers]
    for inbox in inboxes:
        inbox.subscribe(f"{KEY}@0")
        assert inbox.get_message(timeout=0.01) is None

    def hear(index, most):
        while most and (message := inboxes[index].get_message()):
            breakers[index]._shared.hear(message["data"])
            most -= 1

    def tell(index, chance_of_loss=0.0):
        def lose():
            if chance.random() < chance_of_loss:
                raise ConnectionError

        def hear_and_lose():
            hear(index, chance.randrange(4))  # in the other thread
            lose()

        with contextlib.suppress(ConnectionError):
            exchange(breakers[index], before=lose, after=hear_and_lose)

    for _ in range(60):
        index = chance.randrange(3)
        breaker = breakers[index]
        match chance.choice(["fail"] * 4 + ["hear", "tell"] * 4 + ["open", "reset", "lose"]):
            case "fail":
                with contextlib.suppress(CircuitOpen, OSError), breaker.guard():
                    raise OSError
            case "hear":
                hear(index, 3)
            case "tell":
                tell(index, 0.2)
            case "open":
                breaker.open(chance.choice([None, 30]))
            case "reset":
                breaker.reset()
            case "lose":
                client.delete(KEY)
    for _ in range(4):  # one tells, the others hear of that and may tell what Redis has lost
        for index in range(3):
            tell(index)
            hear(index, 1000)
    for each in (*inboxes, client):
        each.close()
    assert len({(each.state, each.remaining() is None) for each in breakers}) == 1
    known = stored(redis_server)
    assert known.get("state", "closed") == breakers[0].state.value
    assert {each._shared.version for each in breakers} == {int(known.get("version", 0))}


@pytest.fixture
def due(by_hand, now):
    """Two breakers that are half-open, on a clock that the test sets."""
    one, other = by_hand(), by_hand()
    one.open(0.001)
    exchange(one, other)
    now.advance(1)
    time.sleep(0.01)  # on the clock of Redis, too
    return one, other


def test_a_process_asks_before_it_probes(due, now, redis_server):
    one, other = due
    for each in (one, one, other):
        assert not is_let_through(each)
    exchange(one, other)
    now.advance(4.9)
    assert [is_let_through(each) for each in (one, other, one)] == [True, False, True]
    began = time.time() * 1000
    exchange(one, other)
    lease = int(stored(redis_server)["lease"])
    assert began + 60_000 < lease < time.time() * 1000 + 61_000
    now.advance(59)
    assert [is_let_through(each) for each in (other, one)] == [False, True]
    now.advance(2)
    assert not is_let_through(one), "its time is over"
    exchange(one)
    assert is_let_through(one)


def end_lease(redis_server):
    """Have the time of a lease be over on the clock of Redis."""
    redis_server.client().hset(KEY, "lease", 1)


def set_clock_back(redis_server):
    """Make of what Redis has stored what it would be after its clock was set back by an hour."""
    for moment in ("until", "lease"):
        redis_server.client().hincrby(KEY, moment, 3_600_000)


@pytest.mark.faults
def test_a_clock_of_redis_that_is_set_back_opens_a_circuit_for_no_longer(by_hand, redis_server):
    one, other = by_hand(), by_hand()
    one.open(30)
    exchange(one)
    set_clock_back(redis_server)
    exchange(other)
    assert 29 < other.remaining() <= 30
    set_clock_back(redis_server)
    exchange(late := by_hand())
    assert 29 < late.remaining() <= 30


@pytest.mark.faults
def test_a_clock_of_redis_that_is_set_back_keeps_nobody_from_probing(due, now, redis_server):
    one, other = due
    set_clock_back(redis_server)
    exchange(one)
    time.sleep(0.01)  # on the clock of Redis, too
    assert not is_let_through(one), "it has to ask"
    exchange(one)
    assert is_let_through(one)
    set_clock_back(redis_server)
    exchange(other)
    assert int(stored(redis_server)["lease"]) < time.time() * 1000 + 62_000


@pytest.mark.faults
def test_a_lease_that_redis_has_no_room_for_is_asked_for_again(due, redis_server):
    one, _ = due
    client = redis_server.client()
    assert not is_let_through(one)
    client.config_set("maxmemory", 1)
    for _ in range(2):
        with pytest.raises(redis.RedisError, match="maxmemory"):
            exchange(one)
    client.config_set("maxmemory", 0)
    exchange(one)
    assert is_let_through(one)


def test_a_lease_that_was_not_used_is_given_to_another(due, now, redis_server):
    one, other = due
    assert not is_let_through(one)
    exchange(one, other)
    for _ in range(5):
        now.advance(1)
        assert not is_let_through(other)
    now.advance(0.1)
    assert not is_let_through(one), "its time is over a bit earlier than that of Redis"
    now.advance(0.5)
    end_lease(redis_server)
    assert not is_let_through(other), "it has to ask"
    exchange(other, one)
    assert [is_let_through(each) for each in (one, other)] == [False, True]


def test_processes_whose_calls_come_every_now_and_then_at_the_same_time(due, now, redis_server):
    """As those of retries do, which all wait until the circuit's time is over."""
    let_through = []
    for number in range(3):
        let_through.append([is_let_through(each) for each in due])
        exchange(*due)
        now.advance(20)
        if number == 0:
            end_lease(redis_server)  # the next one lasts for 40 s
            exchange(*due)
    assert let_through == [[False, False], [False, False], [True, False]]


def test_calls_that_are_rarer_than_probes_may_take_are_let_through(due, now):
    one, other = due
    assert not is_let_through(one)
    exchange(one, other)
    now.advance(61)
    assert not is_let_through(other), "its first call asks"
    exchange(other, one)
    now.advance(61)
    one.record(one.allow())
    assert one.state is CLOSED


@pytest.mark.faults
def test_a_redis_that_does_not_answer_keeps_nobody_from_probing(due, now):
    one, other = due
    for wait in (0, 1, 1):
        now.advance(wait)
        assert not is_let_through(one)
    now.advance(0.1)
    assert is_let_through(one)
    other._shared.connected = False
    assert is_let_through(other)


def test_a_late_process_finds_a_circuit_whose_time_is_over_half_open(make):
    one = make()
    make_half_open(one)
    late = make()
    each_is(HALF_OPEN, late)
    ticket = probe(late)
    refused(one)
    late.record(ticket)
    each_is(CLOSED, one, late)


@pytest.mark.faults
def test_a_redis_that_has_lost_a_change_learns_it_again(make, redis_server):
    one, other = (make(ConstantBackOff(3600)) for _ in range(2))
    other.open(50)
    each_is(OPEN, one)
    client = redis_server.client()
    old = client.dump(KEY)
    other.reset()
    each_is(CLOSED, one)
    fail(other)
    each_is(OPEN, one)
    client.restore(KEY, 0, old, replace=True)  # they tell it when they next ask
    eventually(lambda: int(stored(redis_server)["version"]) >= other._shared.version)
    assert one.state is other.state is make().state is OPEN
    assert one.remaining() > 50, "it has not moved on"


def test_the_program_of_the_page_opens_it(make, redis_server, tmp_path):
    write_files("share_a_circuit.md", tmp_path)
    one = make()
    env = {"REDIS_URL": redis_server.url}
    with Process(tmp_path, "maintenance.py", "1800", env=env) as program:
        assert program.wait() == 0
    each_is(OPEN, one)
    assert 1700 < one.remaining() <= 1800


def test_a_closed_one_goes_on_alone(make, now):
    one, other = make(ConstantBackOff(0.3)), make()
    fail(one)
    one.close()
    one.close()
    each_is(OPEN, other)
    assert not one.connected
    now.advance(0.3)
    assert one.state is HALF_OPEN
    succeed(one)
    assert one.state is CLOSED
    assert other.state is not CLOSED


@pytest.mark.posix
def test_a_forked_child_shares_it_as_another_process(make):
    one = make()
    make_half_open(one)
    ticket = probe(one)
    with forked(lambda: one.wait_until_connected(PATIENCE) and not is_let_through(one)):
        pass
    one.record(ticket)
    assert one.state is CLOSED


@pytest.mark.posix
def test_a_forked_child_does_not_repeat_what_a_user_did_before(by_hand, redis_server):
    def check():
        eventually(lambda: stored(redis_server))
        one._shared.note_connection(False)  # as the link does in a child
        exchange(one)
        return True

    one, other = by_hand(), by_hand()
    one.open()
    with forked(check):
        one.reset()
        exchange(one)
    exchange(one, other)
    assert (one.state, other.state) == (CLOSED, CLOSED)


HUGE, THEM = 10**30, "a" * 32
HOSTILE = [
    *(f"{number} open 60000 {THEM} - 0" for number in (HUGE, 2**53, -1)),
    *(f"1 open {HUGE} {THEM} - 0", f"1 open 60000 {THEM} - {'9' * 500}"),
    *(f"1 ajar 60000 {THEM} - 0", "1 open 60000 them - 0", "nan open nan them - nan"),
    *("\x1b[2J 1\n2", "x" * 100_000),
]


@pytest.mark.faults
@pytest.mark.parametrize("message", HOSTILE, ids=lambda text: text[:20])
def test_a_message_that_no_breaker_has_sent_changes_nothing(redis_server, make, message, caplog):
    one, other = make(), make()
    client = redis_server.client()
    client.publish(f"{KEY}@0", message)
    eventually(lambda: "Circuit payments: not shared, as Redis fails: " in caplog.text)
    assert one.wait_until_connected(PATIENCE)
    assert other.wait_until_connected(PATIENCE)
    assert (one.state, other.state) == (CLOSED, CLOSED)
    one.open(60)
    eventually(lambda: other.state is OPEN)
    assert all(each.getMessage().isprintable() for each in caplog.records)
    assert max(len(each.getMessage()) for each in caplog.records) < 300


@pytest.mark.faults
@pytest.mark.parametrize("version", [HUGE, "nan", "-5", "many"])
def test_a_version_that_redis_has_given_to_nobody_counts_for_none(redis_server, make, version):
    one, other = make(), make()
    redis_server.client().hset(KEY, mapping={"version": version, "state": "open", "until": -1})
    one.open(60)
    eventually(lambda: other.state is OPEN)
    one.reset()
    eventually(lambda: other.state is CLOSED)
