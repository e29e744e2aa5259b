"""The two ends of a channel, each in threads or in an event loop."""

from backoff_ticker import Channel, ChannelClosed, WouldBlock, merge, select, select_async
from tests.helpers import PATIENCE, Place


class End(Place):
    """One end of channels."""

    def send(self, channel, item, timeout=None):
        return self.start(channel.send, channel.send_async, item, timeout)

    def send_all(self, channel, items):
        """Send ``items`` one after the other."""

        def block():
            for item in items:
                channel.send(item)

        async def await_():
            for item in items:
                await channel.send_async(item)

        return self.start(block, await_)

    def receive(self, channel, timeout=None):
        return self.start(channel.receive, channel.receive_async, timeout)

    def select(self, *sources, timeout=None):
        return self.start(select, select_async, *sources, timeout=timeout)

    def receive_all(self, channel):
        """Iterate to the end."""
        return self.collect(lambda: channel)

    def merge(self, *sources):
        return self.collect(lambda: merge(*sources))

    def step(self, merging):
        """Take a value from a merge that exists."""
        return self.start(lambda: next(merging), merging.__anext__)

    def chooser(self, how, *sources):
        """Return what begins a ``select``, or each step of one ``merge``."""
        if how == "select":
            return lambda: self.select(*sources)
        merging = merge(*sources)
        return lambda: self.step(merging)


def value(future):
    """Return what ``future`` ends with now."""
    return future.result(PATIENCE)


def value_after(clock, seconds, future):
    """Return what ``future`` ends with after so many seconds, and not before."""
    clock.advance(seconds - 0.125)
    assert not future.done()
    clock.advance(0.125)
    return value(future)


def error(future):
    """Return what ``future`` fails with now."""
    return future.exception(PATIENCE)


def still_waits(clock, *futures):
    """Check that all of ``futures`` go on waiting once everything else has come to rest."""
    clock.settle()
    assert not any(future.done() for future in futures)


def ended(clock, futures):
    """Return those of ``futures`` that are done once everything has come to rest."""
    clock.settle()
    return [future for future in futures if future.done()]


def values(futures):
    """Return what all of ``futures`` end with now."""
    return [value(future) for future in futures]


def filled(capacity, items=3):
    """Return a channel with the items 0, 1 and so on, so many, or as many as there is room for."""
    channel = Channel(capacity)
    for item in range(int(min(capacity, items))):
        channel.send_nowait(item)
    return channel


def drained(channel):
    """Take what can be taken now without waiting."""
    return [channel.receive_nowait() for _ in range(len(channel))]


def outcome_of(call, *args):
    """Return what a call that does not wait returns, or the class of its error."""
    try:
        return call(*args)
    except (ChannelClosed, TimeoutError, WouldBlock) as error:
        return type(error)
