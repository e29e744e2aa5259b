"""A channel against a plain model: a list of items, and who waits on either side of it."""

import asyncio
from math import inf

from hypothesis import Phase, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from backoff_ticker import CLOSED, Channel, ChannelClosed, WouldBlock, select, select_async
from tests.channels.turned_loop import TurnedClock, TurnedLoop, outcome_of

PICK = st.integers(0, 10**6)
TIMEOUT = st.none() | st.integers(1, 4)


class ChannelMachine(RuleBasedStateMachine):
    """Whatever was begun is settled at the end of each rule, but some rules do two things before.

    Which of several waiting receivers gets an item is not said by the model.
    """

    @initialize(capacity=st.sampled_from([0, 1, 2, 3, inf]))
    def begin(self, capacity):
        self.clock = TurnedClock()
        self.loop = TurnedLoop(self.clock)
        self.channel = Channel(capacity, clock=self.clock)
        self.capacity = capacity
        self.items = []
        self.senders = []
        self.receivers = []
        self.closed = False
        self.served = 0
        self.count = 0

    def teardown(self):
        waiting = [*self.senders, *self.receivers]
        for each in waiting:
            each.task.cancel()
        self.loop.turn()
        self.loop.close()
        assert all(each.outcome() is asyncio.CancelledError for each in waiting)

    # What the model says

    def room(self):
        return len(self.items) < (self.capacity or len(self.receivers) - self.served)

    def let_in(self):
        """Accept the items of senders that wait, in order."""
        let = []
        while self.senders and self.room():
            let.append(self.senders.pop(0))
            self.items.append(let[-1].item)
        return let

    def take(self):
        """Receive one item; tell which senders were let in."""
        if self.items:
            return self.items.pop(0), self.let_in()
        sender = self.senders.pop(0)
        return sender.item, [sender]

    def settle(self):
        """Let everything in the loop run, and compare who has ended and how."""
        delivered, accepted = [], self.let_in()
        while self.served < len(self.receivers) and (self.items or self.senders):
            self.served += 1
            item, let = self.take()
            delivered.append(item)
            accepted += let
        self.served = 0
        self.loop.turn()
        for each in accepted:
            assert each.task.done()
            assert each.outcome() is None
        for each in self.senders:
            self.check_end(each)
        got = []
        for each in self.receivers:
            if each.task.done() and isinstance(each.outcome(), int):
                got.append(each)
            else:
                self.check_end(each)
        assert sorted(each.outcome() for each in got) == delivered
        self.senders = [each for each in self.senders if not each.task.done()]
        self.receivers = [each for each in self.receivers if not each.task.done()]

    def check_end(self, each):
        if self.closed:
            assert each.outcome() is ChannelClosed
        elif each.deadline <= self.clock.now:
            assert each.outcome() is TimeoutError
        else:
            assert not each.task.done()

    # Sending

    def next_item(self):
        self.count += 1
        return self.count

    def offer(self):
        """Send without a wait, by either method."""
        item = self.next_item()
        if item % 2:
            outcome = outcome_of(self.channel.send_nowait, item)
        else:
            outcome = outcome_of(self.channel.send, item, 0)
        if self.closed:
            assert outcome is ChannelClosed
        elif self.room() and not self.senders:
            assert outcome is None
            self.items.append(item)
        else:
            assert outcome is (WouldBlock if item % 2 else TimeoutError)

    @rule(times=st.integers(1, 3))
    def send_without_waiting(self, times):
        for _ in range(times):
            self.offer()
        self.settle()

    @rule(timeout=TIMEOUT)
    def send(self, timeout):
        item = self.next_item()
        sender = self.loop.start(self.channel.send_async(item, timeout), timeout)
        sender.item = item
        self.senders.append(sender)
        if self.closed:
            self.loop.turn()
            assert self.senders.pop().outcome() is ChannelClosed
        self.settle()

    # Receiving

    def ask(self, how):
        """Receive without a wait, by one of three methods; who is let in by it has ended."""
        method, when_empty, at_the_end = [
            (self.channel.receive_nowait, WouldBlock, ChannelClosed),
            (lambda: self.channel.receive(timeout=0), TimeoutError, ChannelClosed),
            (lambda: select(self.channel, timeout=0)[1], TimeoutError, CLOSED),
        ][how]
        outcome = outcome_of(method)
        if self.items or self.senders:
            item, self.let = self.take()
            assert outcome == item
        else:
            self.let = []
            assert outcome is (at_the_end if self.closed else when_empty)

    @rule(how=st.integers(0, 2))
    def receive_without_waiting(self, how):
        self.ask(how)
        self.loop.turn()
        assert [each.outcome() for each in self.let] == [None] * len(self.let)
        self.settle()

    @rule(timeout=TIMEOUT, by_select=st.booleans())
    def receive(self, timeout, by_select):
        async def receive():
            if not by_select:
                return await self.channel.receive_async(timeout)
            value = (await select_async(self.channel, timeout=timeout))[1]
            if value is CLOSED:
                raise ChannelClosed
            return value

        self.receivers.append(self.loop.start(receive(), timeout))
        self.settle()

    # Leaving

    @precondition(lambda self: self.receivers)
    @rule(number=PICK, send=st.booleans())
    def cancel_a_receiver(self, number, send):
        if send:
            self.offer()
        receiver = self.receivers.pop(number % len(self.receivers))
        receiver.task.cancel()
        self.settle()
        assert receiver.outcome() is asyncio.CancelledError

    @precondition(lambda self: self.senders)
    @rule(number=PICK, receive=st.booleans())
    def cancel_a_sender(self, number, receive):
        sender = self.senders[number % len(self.senders)]
        if receive:
            self.ask(number % 3)
        sender.task.cancel()
        if sender in self.senders:
            self.senders.remove(sender)
        self.settle()
        assert sender.outcome() is asyncio.CancelledError

    @rule(seconds=st.integers(1, 3), send=st.booleans())
    def advance(self, seconds, send):
        if send:
            self.offer()
        self.clock.advance(seconds)
        self.clock.fire()
        self.settle()

    @precondition(lambda self: self.count > 8)
    @rule(send=st.booleans())
    def close(self, send):
        if send:
            self.offer()
        self.channel.close()
        self.closed = True
        refused, self.senders = self.senders, []
        self.loop.turn()
        assert [each.outcome() for each in refused] == [ChannelClosed] * len(refused)
        self.settle()

    @precondition(lambda self: self.closed)
    @rule()
    def iterate_to_the_end(self):
        assert list(self.channel) == self.items
        self.items = []

    @invariant()
    def agree(self):
        assert len(self.channel) == len(self.items)
        assert self.channel.closed is self.closed
        assert self.channel


ChannelMachine.TestCase.settings = settings(
    stateful_step_count=50,
    derandomize=True,
    phases=[Phase.generate],  # shrinking takes longer than a test may
)
TestChannelMachine = ChannelMachine.TestCase
