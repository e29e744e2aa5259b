"""``select`` and ``merge``: the first of several sources, in threads and loops, at random."""

import math
import queue
from collections import Counter

import pytest

from backoff_ticker import (
    CLOSED,
    AsyncTicker,
    CancellationToken,
    Channel,
    ConstantBackOff,
    SystemClock,
    Ticker,
    Timer,
    WouldBlock,
    ZeroBackOff,
    merge,
)
from tests.channels.ends import drained, error, still_waits, value
from tests.helpers import readable_id

CAPACITY = pytest.mark.parametrize("capacity", [0, 1, math.inf])


def of(*items):
    """Return a channel without a bound that holds ``items``."""
    channel = Channel(math.inf)
    for item in items:
        channel.send_nowait(item)
    return channel


@CAPACITY
@pytest.mark.parametrize("first", [0, 1, 2])
@pytest.mark.parametrize("waits", [True, False])
def test_the_first_that_is_ready_is_taken(senders, receivers, clock, capacity, first, waits):
    channels = [Channel[str](capacity) for _ in range(3)]
    if waits:
        selecting = receivers.select(*channels)
        still_waits(clock, selecting)
    sending = senders.send(channels[first], "a")
    if not waits:
        clock.settle()
        selecting = receivers.select(*channels)
    assert value(selecting) == (channels[first], "a")
    assert value(sending) is None
    assert [len(channel) for channel in channels] == [0, 0, 0]
    assert clock.pending() == []
    if capacity == 0:  # it waits nowhere any more
        for channel in channels:
            with pytest.raises(WouldBlock):
                channel.send_nowait("b")


def test_without_sources_there_is_nothing_to_wait_for(receivers):
    assert type(error(receivers.select())) is TypeError
    assert type(error(receivers.select(timeout=1))) is TypeError


class KindOfTimer:
    """A class, not an object, that has what a timer has."""

    c = Channel(1)
    start = stop = print


UNKNOWN = [None, 1, "abc", [], (), object(), CLOSED, queue.Queue()]
UNKNOWN += [Channel, CancellationToken, KindOfTimer]


@pytest.mark.parametrize("unknown", UNKNOWN, ids=readable_id)
def test_an_unknown_source_is_refused_before_anything_is_taken(receivers, clock, unknown):
    channel = of("a")
    token = CancellationToken()
    sources = (channel, token, unknown)
    for timeout in (None, 0):
        failing = receivers.select(*sources, timeout=timeout)
        assert type(error(failing)) is TypeError
    assert type(error(receivers.merge(*sources))) is TypeError
    assert drained(channel) == ["a"]


@CAPACITY
def test_a_source_given_twice_gives_one_item_at_a_time(senders, receivers, clock, capacity):
    channel = Channel(capacity)
    for number in range(3):
        selecting = receivers.select(channel, channel)
        still_waits(clock, selecting)
        value(senders.send(channel, number))
        assert value(selecting) == (channel, number)
        assert len(channel) == 0
    assert clock.pending() == []


EITHER_ORDER = pytest.mark.parametrize("order", [1, -1])

TIMED = {
    "timer": lambda clock: Timer(clock=clock),
    "its channel": lambda clock: Timer(clock=clock).c,
    "ticker": lambda clock: Ticker(ConstantBackOff(1), clock=clock),
    "deadline": lambda clock: CancellationToken(clock=clock).child(timeout=60),
}


@EITHER_ORDER
@pytest.mark.parametrize("by_channel", [False, True])
def test_beside_a_channel_of_another_clock_a_timers_clock_counts(
    receivers, clock, order, by_channel
):
    timer = Timer(clock=clock)
    timer.start(3600)
    source = timer.c if by_channel else timer
    sources = [Channel(clock=SystemClock()), source][::order]
    for seconds, timeout in ((1800, 1800), (1800, None)):
        selecting = receivers.select(*sources, timeout=timeout)
        still_waits(clock, selecting)
        clock.advance(seconds - 1)
        assert not selecting.done()
        clock.advance(1)
        assert (type(error(selecting)) is TimeoutError) == (timeout is not None)
    assert value(selecting) == (source, clock.time())


@EITHER_ORDER
@pytest.mark.parametrize("other", list(TIMED))
def test_a_timer_is_not_mixed_with_times_of_another_clock(receivers, clock, order, other):
    ready = Channel(1)
    ready.send_nowait(1)
    sources = [ready, *[Timer(clock=clock), TIMED[other](SystemClock())][::order]]
    assert "needs sources on one clock" in str(error(receivers.select(*sources)))
    assert type(error(receivers.select(*sources))) is ValueError
    with pytest.raises(ValueError, match="needs sources on one clock"):
        merge(*sources)
    assert len(ready) == 1


EACH = 100


def even(counts):
    """Whether counts are as even as chance would have them; a fair choice fails once in 10**11."""
    expected = sum(counts) / len(counts)
    return sum((count - expected) ** 2 for count in counts) / expected < 60


def test_each_kind_of_source_has_the_same_chance(receivers, clock):
    token = CancellationToken()
    token.cancel("over")
    ended = Channel()
    ended.close()
    stopped = Ticker(ZeroBackOff())
    stopped.stop()
    sources = [of(*range(600)), Ticker(ZeroBackOff()), AsyncTicker(ZeroBackOff())]
    sources += [token, ended, stopped]
    pairs = [value(receivers.select(*sources)) for _ in range(EACH * len(sources))]
    chosen = Counter(source for source, _ in pairs)
    assert even([chosen[source] for source in sources])
    told = {source: got for source, got in pairs if source in (token, ended, stopped)}
    assert told == {token: "over", ended: CLOSED, stopped: CLOSED}


@pytest.mark.parametrize("how", ["select", "merge"])
def test_chance_has_no_pattern(receivers, clock, how):
    """Taking turns would be even, too, and starve a source that is ready at each second turn."""
    channel, ticker, idle = of(*range(EACH * 4)), Ticker(ZeroBackOff()), Channel()
    choose = receivers.chooser(how, idle, channel, ticker)
    chosen = [value(choose())[0] for _ in range(EACH * 4)]
    pairs = Counter(zip(chosen[::2], chosen[1::2], strict=True))
    assert even([pairs[one, other] for one in (channel, ticker) for other in (channel, ticker)])


@pytest.mark.parametrize("kind", [Ticker, AsyncTicker])
def test_a_wait_for_many_idle_tickers_looks_once(receivers, clock, monkeypatch, kind):
    """However much time passes, and whatever other tickers do."""
    look, looks = kind._recheck, []
    monkeypatch.setattr(kind, "_recheck", lambda *args: looks.append(args) or look(*args))
    tickers = [kind(ConstantBackOff(3600)) for _ in range(1000)]
    for ticker in tickers:
        ticker.receive_nowait()
    selecting = receivers.select(*tickers)
    still_waits(clock, selecting)
    for _ in range(50):
        assert len(clock.pending()) <= 1
        clock.advance(60)
        kind(ConstantBackOff(3600)).receive_nowait()
    still_waits(clock, selecting)
    clock.advance(600)
    assert value(selecting)[1].number == 2
    assert len(looks) == len(tickers)


def test_the_end_of_each_source_is_told_once_also_of_one_given_twice(receivers, clock):
    channel = of(1)
    channel.close()
    ticker = Ticker(ConstantBackOff(10))
    ticker.stop()
    token = CancellationToken()
    token.cancel("why")
    pairs = value(receivers.merge(channel, ticker, token, channel, token))
    assert [got for source, got in pairs if source is channel] == [1, CLOSED]
    assert [got for source, got in pairs if source is ticker] == [CLOSED]
    assert [got for source, got in pairs if source is token] == ["why"]


def test_a_token_ends_nothing_but_itself(senders, receivers, clock):
    channel = Channel()
    token = CancellationToken()
    merging = receivers.merge(token, channel)
    value(senders.send(channel, "a"))
    clock.settle()
    token.cancel()
    clock.settle()
    value(senders.send(channel, "b"))
    still_waits(clock, merging)
    channel.close()
    assert value(merging) == [(channel, "a"), (token, None), (channel, "b"), (channel, CLOSED)]


def test_an_item_that_looks_like_an_end_ends_nothing(receivers, clock):
    channel = Channel(3)
    for item in (CLOSED, 1, CLOSED):
        channel.send_nowait(item)
    channel.close()
    merging = receivers.merge(channel, CancellationToken().child(timeout=5))
    still_waits(clock, merging)
    clock.advance(5)
    items = [got for source, got in value(merging) if source is channel]
    assert items == [CLOSED, 1, CLOSED, CLOSED]


def test_an_end_that_another_thread_has_given_meanwhile_is_not_given_again(clock, monkeypatch):
    channel = Channel()
    channel.close()
    merging = merge(channel)
    given = []

    def draw():
        """Stand for another thread that takes a step between two of ours."""
        monkeypatch.undo()
        given.append(next(merging))
        return 0.0

    monkeypatch.setattr("backoff_ticker.channels._merge.shared_random", draw)
    assert list(merging) == []
    assert given == [(channel, CLOSED)]
