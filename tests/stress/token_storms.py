"""Storms over tokens: who is cancelled, who wakes, and which callbacks run."""

import threading
from random import Random

from backoff_ticker import CancellationToken, any_of
from tests.stress.crew import cast

TREE = 150
"""Tokens of a tree."""

WAITING = 60
"""Threads that wait; twice as many coroutines do."""

EVERLASTING = CancellationToken()
"""Never cancelled; what is derived from it does not stay with it."""

EVERLASTING.child()  # what it keeps for children is there before the first storm


class Callback:
    """Counts its calls."""

    def __init__(self, token):
        self.calls = []
        self.prevented = 0
        self.handle = token.on_cancel(lambda: self.calls.append(None))

    def remove(self):
        self.prevented += self.handle.remove()

    def check(self):
        assert len(self.calls) + self.prevented == 1, "called and prevented, twice, or not at all"


def build_while_it_is_cancelled(crew, draw):
    """Grow a tree of tokens in all threads and loops, and cancel its root in two threads."""
    root = CancellationToken()
    known = [root]
    callbacks = []
    big_enough = threading.Event()
    won = []

    def grow(draw):
        parent = known[int(draw.random() * len(known))]
        was_cancelled = bool(won) or parent.cancelled
        how = draw.random()
        if how < 0.5:
            token = parent.child()
        elif how < 0.7:
            token = parent.child(timeout=60)
        else:
            token = any_of(EVERLASTING, parent)
        assert token.cancelled or not was_cancelled, "made too late, and not cancelled"
        callbacks.append(callback := Callback(token))
        if how < 0.1:
            twig = token.child()
            leaf = any_of(twig, EVERLASTING).child()
            token.cancel()
            assert twig.cancelled
            assert leaf.cancelled, "cancel() has returned, and this is not cancelled"
        elif draw.random() < 0.3:
            callback.remove()
        known.append(token)
        if len(known) >= TREE:  # two threads may have appended
            big_enough.set()

    async def build(face):
        own = Random(draw.random())
        while not root.cancelled:
            grow(own)
            if face.in_loop:
                await face.give_way()
        grow(own)

    def cancel():
        big_enough.wait()
        won.append(root.cancel("enough"))
        left = [token for token in known.copy() if not token.cancelled]
        assert left == [], "cancel() has returned, and these are not cancelled"

    def wait():
        while not known[int(draw.random() * len(known))].wait(1e-4):
            pass
        assert root.wait()

    crew.play(*cast(build, 3, 2), cancel, cancel, wait)
    assert sorted(won) == [False, True], "exactly one cancel() does it"
    assert [token for token in known if not token.cancelled] == []
    for callback in callbacks:
        callback.check()
    return len(known)


def wake_a_crowd(crew, draw):
    """Hundreds of waits in threads and loops, with and without a timeout: all wake."""
    token, waiting, woken = CancellationToken(), [], []
    tokens, ready = [token, token.child()], threading.Event()

    async def wait(face):
        waiting.append(None)
        if len(waiting) >= 2 * WAITING:
            ready.set()
        mine = draw.choice(tokens)
        while not await face.wait(mine.wait, mine.wait_async, draw.choice([None, 1e-4, 60])):
            pass
        woken.append(None)

    def cancel():
        ready.wait()
        token.cancel()

    crew.play(*cast(wait, WAITING, 2 * WAITING), cancel)
    assert len(woken) == 3 * WAITING
    return len(woken)


STORMS = {"token trees": build_while_it_is_cancelled, "a crowd of waits": wake_a_crowd}
