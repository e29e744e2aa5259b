"""``simulate outage``: clients of a service that is down for a while.

Each client makes a request, waits, and makes the next. A request is a call that is retried as the
policy says: real retries, with a real budget or circuit breaker, in coroutines on a virtual clock.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, NamedTuple

from .._errors import CircuitOpen
from ..circuits import CircuitBreaker
from ..policies import ExponentialBackOff
from ..retries import RetryBudget, retry_call_async
from ..testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ._policy_argument import PolicyArgument

NO_LIMIT, BUDGET, BREAKER = "none", "budget", "breaker"

STEPS = 100
"""Parts of the time in which calls are counted for a diagram."""

_SETTLE_TIMEOUT = 1e6
"""Real seconds: whoever stops the command may continue it the next day."""


_REFUSAL = 0.001
"""Seconds that a refusal by the breaker takes: in no time, a policy without delays would retry for
ever at the moment at which a probe is on its way."""


class Scene(NamedTuple):
    """The clients, and when the service is up; all but ``clients`` and ``budget`` in seconds.

    Attributes:
        clients: How many call.
        every: The mean time from the end of a client's request to its next one.
        healthy: How long the service is up at first.
        outage: How long it is down then.
        recovery: How long clients make requests after that.
        latency: How long a call takes.
        budget: The tokens of the retry budget that all clients share.
    """

    clients: int
    every: float
    healthy: float
    outage: float
    recovery: float
    latency: float
    budget: float

    @property
    def up_again(self) -> float:
        """When the outage ends."""
        return self.healthy + self.outage

    @property
    def end(self) -> float:
        """When the last requests begin."""
        return self.up_again + self.recovery


class Outage(NamedTuple):
    """The calls that the service got from clients with one policy.

    Attributes:
        policy: How they wait before they retry.
        limit: What limits their retries: nothing, a budget, or a circuit breaker.
        healthy: The calls before the outage.
        outage: The calls in it.
        recovery: The calls after it.
        load: The calls in the outage, as a multiple of what there would have been without one.
        peak: The most calls in a hundredth of the time, as such a multiple, too.
        recovered: Seconds from the end of the outage until each client has had an answer; None:
            some have none.
    """

    policy: str
    limit: str
    healthy: int
    outage: int
    recovery: int
    load: float
    peak: float
    recovered: float | None


class Course(NamedTuple):
    """A row, and what is drawn of it.

    Attributes:
        row: The row.
        calls: The calls in each part of the time, a hundredth.
    """

    row: Outage
    calls: list[int]


def simulate_outage(
    policies: Sequence[PolicyArgument],
    scene: Scene,
    seed: int | None,
    progress: Callable[[float], object],
) -> Iterable[Course]:
    """Yield what happens with each policy: without a limit, with a budget, with a breaker.

    Args:
        policies: How clients wait before they retry.
        scene: The clients, and when the service is up.
        seed: Of all that is drawn; None: it differs each time.
        progress: Called with the share that is done.
    """
    limits = (NO_LIMIT, BUDGET, BREAKER)
    count = len(policies) * len(limits)
    for number in range(count):

        def so_far(share: float, number: int = number) -> None:
            progress((number + share) / count)

        policy, limit = policies[number // len(limits)], limits[number % len(limits)]
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
        self.calls = [0] * STEPS

    async def call(self) -> None:
        """Call it, unless the breaker refuses that."""
        if self._breaker is None:
            await self._answer()
            return
        try:
            with self._breaker:
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
            self.calls[int(now / scene.end * STEPS)] += 1
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
) -> Course:
    with VirtualClock(auto=True, settle_timeout=_SETTLE_TIMEOUT) as clock:
        policy = argument.make(rng)
        budget = RetryBudget(scene.budget) if limit == BUDGET else None
        breaker = CircuitBreaker(_breaker_delays(rng)) if limit == BREAKER else None
        service = _Service(scene, clock, breaker, progress)

        answered: dict[int, float] = {}  # by client, the first time after the outage

        async def client(number: int) -> None:
            await asyncio.sleep(rng.random() * scene.every)
            while clock.monotonic() < scene.end:
                try:
                    await retry_call_async(service.call, policy, budget=budget)
                except (ConnectionError, CircuitOpen):
                    pass
                else:
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
        max(service.calls) / (scene.end / STEPS * usual),
        max(answered.values()) - scene.up_again if len(answered) == scene.clients else None,
    )
    return Course(row, service.calls)


def _breaker_delays(rng: random.Random) -> ExponentialBackOff:
    """Return those that a breaker has by default, but seeded."""
    return ExponentialBackOff(5, multiplier=2, max_interval=60, max_elapsed_time=None, rng=rng)
