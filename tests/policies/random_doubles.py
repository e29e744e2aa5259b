"""Doubles of random generators: what a policy draws is what the test says.

Each is a ``random.Random``, since policies refuse anything else, of which only ``random()`` is
replaced. ``StubRandom`` draws one number, ``NoMore`` a list and then nothing; ``Seeded`` really
draws, and prints as it is made.
"""

import random

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
