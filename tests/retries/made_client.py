"""A class with a method of each kind, all of them retried."""

import inspect

from backoff_ticker import ConstantBackOff, retry
from tests.retries.faces import in_loop
from tests.retries.scripts import Script

RETRIED = retry(ConstantBackOff(5), max_attempts=3)

KINDS = ["method", "coroutine", "generator", "agenerator"]
OF_CLASS = ["class_inside", "class_around", "class_coroutine"]
STATIC = ["static_inside", "static_around"]


class Client:
    """Each method calls the script of its object, or that of the class."""

    shared = Script(OSError)

    def __init__(self, script):
        self.script = script

    @RETRIED
    def method(self):
        return self.script()

    @RETRIED
    async def coroutine(self):
        return await self.script.in_loop()

    @RETRIED
    def generator(self):
        yield self.script()

    @RETRIED
    async def agenerator(self):
        yield await self.script.in_loop()

    @classmethod
    @RETRIED
    def class_inside(cls):
        return cls, cls.shared()

    @RETRIED
    @classmethod
    def class_around(cls):
        return cls, cls.shared()

    @RETRIED
    @classmethod
    async def class_coroutine(cls):
        return cls, await cls.shared.in_loop()

    @staticmethod
    @RETRIED
    def static_inside():
        return Client, Client.shared()

    @RETRIED
    @staticmethod
    def static_around():
        return Client, Client.shared()


def result_of(returned):
    """Bring what a method of some kind has returned to its end."""
    if inspect.isgenerator(returned):
        return next(returned)
    if inspect.isasyncgen(returned):
        return in_loop(anext(returned))
    return in_loop(returned) if inspect.iscoroutine(returned) else returned
