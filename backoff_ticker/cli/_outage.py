"""``simulate outage``: clients of a service that is down for a while.

Each client makes a request, waits, and makes the next. A request is a call that is retried as the
policy says: real retries, with a real budget or circuit breaker, in coroutines on a virtual clock.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from .. import CircuitBreaker, ExponentialBackOff, RetryBudget, retry_call_async
from .._errors import CircuitOpen
from ..testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ._policy_names import PolicyArgument

NO_LIMIT, BUDGET, BREAKER = "none", "budget", "breaker"

_STEPS = 100  # parts of the time in which calls are counted
_SETTLE_TIMEOUT = 1e6  # real seconds: whoever stops the command may continue it the next day
# Seconds that a refusal by the breaker takes. If it took no time, a policy without delays would
# retry forever at the moment at which a probe is on its way.
_REFUSAL = 0.001


class Scene(NamedTuple):
    """The options of the command; all but ``clients`` and ``budget`` in seconds."""

    clients: int
    every: float
    healthy: float
    outage: float
    recovery: float
    latency: float
    budget: float

    @property
    def up_again(self) -> float:
        return self.healthy + self.outage

    @property
    def end(self) -> float:
        """When the last requests begin."""
        return self.up_again + self.recovery


class Outage(NamedTuple):
    """The calls that the service got from clients with one policy: before, in, after the outage.

    ``load`` is the calls in it, as a multiple of the usual, and ``peak`` the most in a hundredth of
    the time; ``recovered`` is seconds from its end until each client has had an answer, or None.
    """

    policy: str
    limit: str
    healthy: int
    outage: int
    recovery: int
    load: float
    peak: float
    recovered: float | None


def simulate_outage(
    policies: Sequence[PolicyArgument],
    scene: Scene,
    seed: int | None,
    progress: Callable[[float], object],
) -> Iterable[tuple[Outage, list[int]]]:
    """Yield what happens with each policy: without a limit, with a budget, with a breaker.

    With each row come the calls in each hundredth of the time.
    """
    cases = [(policy, limit) for policy in policies for limit in (NO_LIMIT, BUDGET, BREAKER)]
    for number, (policy, limit) in enumerate(cases):

        def so_far(share: float, number: int = number) -> None:
            progress((number + share) / len(cases))

        yield _simulate(policy, limit, scene, random.Random(seed), so_far)  # noqa: S311 - no secret


class _Service:
    """Counts the calls, and fails those that begin in the outage."""

    def __init__(
        self,
        scene: Scene,
        clock: VirtualClock,
        breaker: CircuitBreaker | None,
        progress: Callable[[float], object],
    ) -> None:
        self._scene, self._clock, self._progress = scene, clock, progress
        self._breaker = breaker
        self.healthy = self.outage = self.recovery = 0
        self.calls = [0] * _STEPS

    async def call(self) -> None:
        if self._breaker is None:
            await self._answer()
            return
        try:
            with self._breaker.guard():
                await self._answer()
        except CircuitOpen:
            await asyncio.sleep(_REFUSAL)
            raise

    async def _answer(self) -> None:
        now, scene = self._clock.monotonic(), self._scene
        is_down = scene.healthy <= now < scene.up_again
        if is_down:
            self.outage += 1
        elif now < scene.healthy:
            self.healthy += 1
        else:
            self.recovery += 1
        if now < scene.end:
            self.calls[int(now / scene.end * _STEPS)] += 1
            self._progress(now / scene.end)
        await asyncio.sleep(scene.latency)
        if is_down:
            raise ConnectionError


def _simulate(
    argument: PolicyArgument,
    limit: str,
    scene: Scene,
    rng: random.Random,
    progress: Callable[[float], object],
) -> tuple[Outage, list[int]]:
    with VirtualClock(auto=True, settle_timeout=_SETTLE_TIMEOUT) as clock:
        policy = argument.make(rng)
        budget = RetryBudget(scene.budget) if limit == BUDGET else None
        pauses = ExponentialBackOff(5, multiplier=2, max_elapsed_time=None, rng=rng)  # the default
        breaker = CircuitBreaker(pauses) if limit == BREAKER else None
        service = _Service(scene, clock, breaker, progress)

        answered: dict[int, float] = {}  # by client, the first time after the outage

        async def client(number: int) -> None:
            await asyncio.sleep(rng.random() * scene.every)
            while clock.monotonic() < scene.end:
                with suppress(ConnectionError, CircuitOpen):
                    await retry_call_async(service.call, policy, budget=budget)
                    if clock.monotonic() >= scene.up_again:
                        answered.setdefault(number, clock.monotonic())
                await asyncio.sleep(scene.every * rng.uniform(0.5, 1.5))

        async def clients() -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(scene.clients):
                    group.create_task(client(number))

        asyncio.run(clients())
    usual = scene.clients / (scene.every + scene.latency)  # calls a second
    row = Outage(
        argument.label,
        limit,
        service.healthy,
        service.outage,
        service.recovery,
        service.outage / (scene.outage * usual),
        max(service.calls) / (scene.end / _STEPS * usual),
        max(answered.values()) - scene.up_again if len(answered) == scene.clients else None,
    )
    return row, service.calls
