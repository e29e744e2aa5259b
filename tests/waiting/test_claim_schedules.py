"""Every interleaving of two and three threads that change what they share, under a claim.

``states`` visits each state that their byte code can reach: with signal handlers, finalizers,
interrupts and forks at every place where CPython lets them come. Nothing is left out.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import Channel
from backoff_ticker._sentinels import ENDED
from backoff_ticker.channels._buffer import Bounded, PendingSend, Unbounded, _take_out
from backoff_ticker.clock import let_other_threads_run
from backoff_ticker.waiting import FREE, WaitQueue, WaitSet, acquire, complete
from tests.waiting.machine import Shared, give_way, park, take_out
from tests.waiting.states import Fault, Gone, Interrupt, Model, Role, visit

if TYPE_CHECKING:
    from collections.abc import Callable

# Bodies of threads. A pair has two numbers, which are equal whenever nobody is changing them.


def change(pair):
    claim = pair.claim
    acquire(claim)
    try:
        pair.a += 1
        pair.b += 1
    finally:
        claim[FREE] = True
    return 1


def change_written_out(pair):
    claim = pair.claim
    try:
        del claim[FREE]
    except KeyError:
        acquire(claim)
    try:
        a = pair.a
        pair.b += 1
        pair.a = a + 1
        return 1
    finally:
        claim[FREE] = True


def read(pair):
    claim = pair.claim
    acquire(claim)
    try:
        a = pair.a
        b = pair.b
    finally:
        claim[FREE] = True
    return 0 if a == b else "torn"


def change_twice(pair):
    return change(pair) + change_written_out(pair)


def pairs() -> tuple[Any, ...]:
    return (Shared(claim={FREE: True}, a=0, b=0),)


def judge_pair(outcomes: list[Any], pair: Any) -> None:
    """Each change was made wholly or not at all, and none was lost."""
    if Gone(in_a_change=True) not in outcomes:
        assert "torn" not in outcomes, "a torn change was read"
        assert pair.a == pair.b, f"a torn change: {pair.a}, {pair.b}"
        if Interrupt not in outcomes and Gone(in_a_change=False) not in outcomes:
            least = sum(outcomes)
            assert pair.a >= least, f"a lost change: {pair.a} of {least}"


def pair_model(*roles: Role, **settings: Any) -> Model:
    settings = {"stubs": {let_other_threads_run: give_way}, **settings}
    return Model(pairs, [*roles], judge_pair, **settings)


BODIES = [change, change_written_out, change_twice, read]


@pytest.mark.parametrize("count", [2, 3])
def test_threads_under_a_claim(count):
    for bodies in combinations_with_replacement(BODIES, count):
        assert visit(pair_model(*map(Role, bodies))) >= 25


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("handler", BODIES)
def test_a_handler_and_a_finalizer_use_what_their_threads_change(handler, body):
    """A handler comes to one thread, a finalizer to the other: neither waits for its own thread."""
    roles = Role(body, handler=handler), Role(change, handler=change)
    assert visit(pair_model(*roles)) >= 300


@pytest.mark.parametrize("body", BODIES)
def test_an_interrupt_leaves_no_half_of_a_change_and_no_claim(body):
    roles = Role(body, interrupts=True, handler=change), Role(change), Role(read)
    assert visit(pair_model(*roles)) >= 1000


@pytest.mark.parametrize("body", BODIES)
def test_a_fork_at_any_moment_leaves_nobody_waiting(body):
    """The other threads are anywhere, even in the middle of a change, and do not go on."""
    roles = Role(body, forks=True, handler=change), Role(change), Role(change_written_out)
    assert visit(pair_model(*roles)) >= 1000


# What the search must find


def change_that_forgets(pair):
    claim = pair.claim
    acquire(claim)
    if pair.a:
        return 0
    pair.a += 1
    pair.b += 1
    claim[FREE] = True
    return 1


def change_after_a_look(pair):
    while not pair.is_free:
        give_way()
    pair.is_free = False
    pair.a += 1
    pair.b += 1
    pair.is_free = True
    return 1


def change_with_a_call(pair):
    claim = pair.claim
    acquire(claim)
    try:
        pair.a += 1
        give_way()
        pair.b += 1
    finally:
        claim[FREE] = True
    return 1


def change_after_a_call(pair):
    claim = pair.claim
    acquire(claim)
    give_way()  # as if this took it
    try:
        pair.a += 1
        pair.b += 1
    finally:
        claim[FREE] = True
    return 1


def change_two(one, other):
    claim, inner = one.claim, other.claim
    acquire(claim)
    try:
        acquire(inner)
        try:
            one.a += 1
            other.a += 1
        finally:
            inner[FREE] = True
    finally:
        claim[FREE] = True


def change_two_in_reverse(one, other):
    change_two(other, one)


def free_pairs() -> tuple[Any, ...]:
    return (Shared(is_free=True, a=0, b=0),)


def two_of(body: Any) -> Model:
    return pair_model(Role(body), Role(body))


WAITS = "somebody waits forever"
WRONG = "a torn change|a lost change"
STUBS = {let_other_threads_run: give_way}
FAULTS: dict[str, tuple[Callable[[], Model], str]] = {
    "a path without a release": (lambda: two_of(change_that_forgets), f"{WAITS}|a claim is held"),
    "a look, then a store": (
        lambda: Model(free_pairs, [Role(change_after_a_look)] * 2, judge_pair, stubs=STUBS),
        WRONG,
    ),
    "a handler in a call in a change": (
        lambda: pair_model(Role(change_with_a_call, handler=change)),
        WAITS,
    ),
    "an interrupt between the claim and try": (
        lambda: pair_model(Role(change_after_a_call, interrupts=True)),
        "a claim is held",
    ),
    "claims that stay held in a forked child": (
        lambda: pair_model(Role(change), Role(change, forks=True), frees=False),
        WAITS,
    ),
    "two claims at once": (
        lambda: Model(
            lambda: pairs() + pairs(),
            [Role(change_two), Role(change_two_in_reverse)],
            lambda *_: None,
            stubs=STUBS,
        ),
        WAITS,
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault):
    make, message = FAULTS[fault]
    with pytest.raises(Fault, match=message) as raised:
        visit(make())
    assert ".py:" in str(raised.value)


# Lines of waiters


def enter(source, places, index, domain):
    source.add(places[index], domain)
    return places[index]


def enter_and_leave(source, places, index, domain):
    source.add(places[index], domain)
    return source.remove(places[index])


def remove_first(source, places, index, domain):
    return source.remove(places[0])


def lines(*domains: int) -> Callable[[], tuple[Any, ...]]:
    """Make a wait set, and a place for a waiter of each of the domains."""

    def make() -> tuple[Any, ...]:
        nowhere = {"line": None, "before": None, "after": None, "permit": False}
        places = tuple(Shared(domain=domain, **nowhere) for domain in domains)
        return WaitSet({FREE: True}), places

    return make


def lines_with_one(domain: int) -> tuple[Any, ...]:
    source, places = lines(5, domain)()
    source.add(places[0], 5)
    return source, places


def standing(line: Any) -> list[Any]:
    """Return the places of a line, and check that they belong there."""
    found, before, place = [], None, line.first
    while place is not None:
        assert place.line is line, "a place does not know its line"
        assert place.domain == line.domain, "a place is in the line of another domain"
        assert place.before is before, "a line is broken"
        found.append(place)
        before, place = place, place.after
    assert line.last is before, "the last place is not the last"
    return found


def judge_lines(outcomes: list[Any], source: Any, places: Any) -> None:
    found = standing(source)
    for domain, line in (source.others or {}).items():
        assert line.domain == domain
        assert standing(line), "an empty line was left"
        found += standing(line)
    inside = [place for place in places if place.line is not None]
    assert {*map(id, found)} == {*map(id, inside)}
    entered = [each for each in outcomes if isinstance(each, Shared)]
    assert all(place in inside for place in entered), "a place was lost"


@pytest.mark.parametrize("domains", [(5, 5, 5), (5, 6, 5), (5, 6, 6), (5, 6, 7)])
@pytest.mark.parametrize("bodies", [(enter, enter_and_leave, enter_and_leave), (enter,) * 3])
def test_waiters_stand_in_line_and_leave(bodies, domains):
    roles = [Role(body, (n, domains[n])) for n, body in enumerate(bodies)]
    assert visit(Model(lines(*domains), roles, judge_lines, stubs=STUBS)) >= 300


@pytest.mark.parametrize("domain", [5, 6])
def test_a_waiter_is_taken_out_of_its_line_once(domain):
    def judge(outcomes: list[Any], *shared: Any) -> None:
        judge_lines(outcomes, *shared)
        assert sorted(outcomes[:2]) == [False, True]

    roles = [Role(remove_first, (0, 5)), Role(remove_first, (0, 5)), Role(enter, (1, domain))]
    assert visit(Model(lambda: lines_with_one(domain), roles, judge, stubs=STUBS)) >= 250


def wake_first(source):
    claim = source.claim
    acquire(claim)
    try:
        place = source.first
    finally:
        claim[FREE] = True
    if place is not None:
        place.permit = True


def wait_for_end(source, places, index, domain):
    place = places[index]
    source.add(place, domain)
    while not source.closed:
        park(place)
    source.remove(place)
    wake_first(source)


def end(source, places):
    source.closed = True
    wake_first(source)


def end_too_late(source, places):
    wake_first(source)
    source.closed = True


def ending(body: Any) -> Model:
    roles = [Role(wait_for_end, (0, 0)), Role(wait_for_end, (1, 0)), Role(body)]
    return Model(lines(0, 0), roles, judge_lines, stubs=STUBS)


def test_nobody_waits_for_what_has_ended():
    assert visit(ending(end)) >= 1000


def test_a_wake_up_before_the_change_is_found():
    with pytest.raises(Fault, match=WAITS):
        visit(ending(end_too_late))


# The buffer of a channel


def completed(call, argument=None):
    try:
        return call(argument)
    except BaseException:
        call(argument)
        raise


def send(buffer, pendings, sent, got, index, gives_up):
    pending = pendings[index]
    if buffer.put(pending.item, None):
        sent.append(pending.item)
        return
    try:
        if buffer.put(pending.item, pending):
            sent.append(pending.item)
        elif gives_up:
            buffer.refuse(pending)
    except BaseException:
        completed(buffer.refuse, pending)
        raise


def receive(buffer, pendings, sent, got, index=0, gives_up=False):
    got.append(buffer.take())


def close(buffer, pendings, sent, got, index, gives_up):
    buffer.close()


def buffers(*items: str) -> Callable[[], tuple[Any, ...]]:
    """Make a buffer of capacity 1 that holds some items."""

    def make() -> tuple[Any, ...]:
        buffer = Bounded(1)
        buffer.claim = {FREE: True}
        for item in items:
            buffer.put(item, None)
        return buffer, tuple(PendingSend(buffer.claim, item) for item in "abc"), [*items], []

    return make


def judge_buffer(outcomes: list[Any], buffer: Any, pendings: Any, sent: Any, got: Any) -> None:
    """Each accepted item is left or was received, once, and nothing else; the room is right."""
    line, each = [], buffer.first_send
    while each is not None:
        line.append(each)
        each = each.later
    for pending in pendings:
        assert pending not in line or pending.accepted is None, "a send that was decided waits"
    assert buffer.room + len(buffer.items) == 1, "room was lost or found"
    assert not line or (buffer.room <= 0 and not buffer.closed), "a send waits for nothing"
    accepted = {*sent, *(each.item for each in pendings if each.accepted)}
    there = [*buffer.items, *(each for each in got if isinstance(each, str))]
    assert len({*there}) == len(there), f"received twice: {there}"
    assert accepted <= {*there}, f"accepted and lost: {accepted - {*there}}"
    if Interrupt not in outcomes:  # a receiver may have to put an item back
        assert buffer.room >= 0, "more items than room"
        assert accepted == {*there}, f"refused and received: {there}"


def buffer_model(items: tuple[str, ...], *roles: Role) -> Model:
    stubs = {
        **STUBS,
        Bounded.wake_receiver: give_way,
        WaitQueue.wake_next: give_way,
        WaitSet.close: give_way,
        complete: completed,
    }
    return Model(buffers(*items), [*roles], judge_buffer, stubs=stubs)


ITEMS = [(), pytest.param(("early",), marks=pytest.mark.slow)]


STAYS, LEAVES = (send, False), (send, True)
TAKES, CLOSES = (receive, False), (close, False)


@pytest.mark.parametrize("items", ITEMS)
@pytest.mark.parametrize(
    "others",
    [(TAKES, TAKES), (TAKES, CLOSES), (STAYS, TAKES), (STAYS, CLOSES), (LEAVES, LEAVES)],
)
@pytest.mark.parametrize("gives_up", [False, True])
def test_a_send_meets_two_others(gives_up, others, items):
    roles = (Role(body, (n, leaves)) for n, (body, leaves) in enumerate(others))
    assert visit(buffer_model(items, Role(send, (2, gives_up)), *roles)) >= 100


@pytest.mark.parametrize("items", ITEMS)
@pytest.mark.parametrize(("leaving", "staying"), [(receive, None), (None, receive)])
def test_a_receive_in_a_handler(items, leaving, staying):
    roles = Role(send, (0, True), handler=leaving), Role(send, (1, False), handler=staying)
    assert visit(buffer_model(items, *roles)) >= 100


@pytest.mark.parametrize("items", ITEMS)
@pytest.mark.parametrize("gives_up", [False, True])
def test_an_interrupted_send_loses_no_room(items, gives_up):
    sending = Role(send, (0, gives_up), interrupts=True)
    assert visit(buffer_model(items, sending, Role(send, (1, False)), Role(receive))) >= 100


@pytest.mark.parametrize("items", ITEMS)
def test_an_interrupted_receive_loses_no_item(items):
    roles = Role(send, (0, False)), Role(send, (1, False)), Role(receive, interrupts=True)
    assert visit(buffer_model(items, *roles)) >= 100


# The end of a buffer without a limit


def send_at_once(channel, sent, got, item):
    Channel.send(channel, item)
    sent.append(item)


def receive_at_once(channel, sent, got, item):
    quick = channel._buffer.quick
    if quick:
        try:
            got.append(quick.first_out)
            return
        except IndexError:
            pass
    got.append(channel._buffer.take())


def receive_twice(channel, sent, got, item):
    receive_at_once(channel, sent, got, item)
    receive_at_once(channel, sent, got, item)


def close_and_receive(channel, sent, got, item):
    channel._buffer.closed = True
    receive_at_once(channel, sent, got, item)


def endless(*items: str) -> Callable[[], tuple[Any, ...]]:
    def make() -> tuple[Any, ...]:
        buffer = Unbounded()
        buffer.claim = {FREE: True}
        buffer.items.extend(items)
        return Shared(_buffer=buffer), [*items], []

    return make


def judge_end(outcomes: list[Any], channel: Any, sent: Any, got: Any) -> None:
    buffer = channel._buffer
    there = Counter(each for each in got if isinstance(each, str))
    there += Counter(buffer.items)
    if buffer.late is None:
        assert ENDED not in got
    elif Interrupt not in outcomes:
        assert not buffer.inbox and not buffer.late, "a refused item was left"
    lost, found = Counter(sent) - there, there - Counter(sent)
    assert not lost, f"accepted and lost: {lost}"
    assert Interrupt in outcomes or not found, f"refused and received: {found}"


def ending_model(items: tuple[str, ...], *roles: Role) -> Model:
    waking = WaitQueue.wake_next, Unbounded.wake_receiver
    stubs = {**STUBS, **dict.fromkeys(waking, give_way), _take_out: take_out}
    constant = {"_buffer", "accept", "claim", "first", "others", "room"}
    return Model(endless(*items), [*roles], judge_end, constant, stubs)


@pytest.mark.parametrize("items", ITEMS)
@pytest.mark.parametrize("names", ["ab", "aa"])
@pytest.mark.parametrize(
    "other",
    [send_at_once, receive_at_once, pytest.param(receive_twice, marks=pytest.mark.slow)],
)
def test_what_meets_the_end_is_received_or_refused(other, names, items):
    bodies = send_at_once, other, close_and_receive
    roles = [Role(body, (name,)) for body, name in zip(bodies, f"{names}x", strict=True)]
    assert visit(ending_model(items, *roles)) >= 1000


@pytest.mark.slow
@pytest.mark.parametrize("interrupted", [0, 1, 2])
def test_an_interrupt_at_the_end_loses_nothing(interrupted):
    bodies = send_at_once, receive_at_once, close_and_receive
    roles = [
        Role(body, (name,), interrupts=number == interrupted)
        for number, (body, name) in enumerate(zip(bodies, "abx", strict=True))
    ]
    assert visit(ending_model((), *roles)) >= 1000
