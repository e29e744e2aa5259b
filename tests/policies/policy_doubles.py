"""Policies, wrappers and generators as a user may write them; how a test asks a policy."""

import gc
import random
import sys

from backoff_ticker import ConstantBackOff, with_max_retries


def ask(policy, count):
    """Return the next so many answers of a policy."""
    return [policy.next_backoff() for _ in range(count)]


def steps(work):
    """Return how many lines of Python ``work()`` runs, without finalizers of other garbage."""
    count = 0

    def trace(_frame, _event, _argument):
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    gc.disable()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def constant(seconds, count):
    """Return a policy of so many delays."""
    return with_max_retries(ConstantBackOff(seconds), count)


class Counting:
    """A policy of 0.0, 1.0, 2.0 ... with its state in ``asked``."""

    def __init__(self):
        self.asked = 0

    def next_backoff(self):
        self.asked += 1
        return float(self.asked - 1)

    def reset(self):
        self.asked = 0


class Recording:
    """A policy that notes what it is asked, and answers from a list."""

    def __init__(self, answers=(1.0, 2.0, 3.0, 4.0)):
        self.answers = list(answers)
        self.calls = []

    def next_backoff(self):
        self.calls.append("next")
        return self.answers[(self.calls.count("next") - 1) % len(self.answers)]

    def reset(self):
        self.calls.append("reset")


class Feedback(Recording):
    """A feedback policy that notes what it is told."""

    def failure(self, timestamp=None):
        self.calls.append(("failure", timestamp))
        return 5.0

    def success(self, timestamp=None):
        self.calls.append(("success", timestamp))
        return 0.5

    next_backoff = failure


class Guarded(Recording):
    """A policy of a user with a token of its own."""

    def __init__(self, token):
        super().__init__()
        self.token = token


class Passing:
    """A base for wrappers that hold their policy in some place, without a ``__copy__``."""

    def next_backoff(self):
        return self.inner.next_backoff()

    def reset(self):
        self.inner.reset()


class Wrapper(Passing):
    """A user's policy around another one, whose token it hands on."""

    def __init__(self, inner):
        self.inner = inner

    @property
    def token(self):
        return getattr(self.inner, "token", None)


class InDict(Wrapper):
    """One that holds its policy in a dict."""

    def __init__(self, policy):
        self.held = {"label": 1, "policy": policy}

    @property
    def inner(self):
        return self.held["policy"]


# Generators: policies refuse what is no ``random.Random``; only ``random()`` is replaced


LAST_DRAW = 1.0 - 2.0**-53
"""The greatest number that ``random()`` gives."""


class StubRandom(random.Random):
    """Draws ``drawn``, which a test may change between two draws, and counts the ``draws``."""

    def __init__(self, drawn):
        super().__init__()
        self.drawn = drawn
        self.draws = 0

    def random(self):
        self.draws += 1
        return self.drawn

    def __repr__(self):
        return f"StubRandom({self.drawn!r})"


class NoMore(random.Random):
    """Draws the given numbers in turn, and no more; ``left`` are those not drawn yet."""

    def __init__(self, numbers):
        super().__init__()
        self.left = list(numbers)

    def random(self):
        assert self.left, "one draw more than the source"
        return self.left.pop(0)


class Seeded(random.Random):
    """Draws the numbers of a seed."""

    def __init__(self, seed):
        super().__init__(seed)
        self.first_seed = seed

    def __repr__(self):
        return f"Seeded({self.first_seed!r})"
