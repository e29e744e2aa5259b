"""``RedisCircuitBreaker``: processes tell each other when their circuits open and close."""

from __future__ import annotations

import os
import re
import threading
import weakref
from contextlib import contextmanager
from math import ceil
from typing import TYPE_CHECKING
from uuid import uuid4

from ... import CircuitBreaker, CircuitState
from .client import CLOCK, LOGGER, LONGEST
from .link import Link, Linked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import timedelta
    from types import UnionType
    from typing import TypedDict, Unpack

    from redis import Redis

    from ...policies import BackOff

    Hook = Callable[[CircuitState, CircuitState, CircuitBreaker], object]

    class CircuitOptions(TypedDict, total=False):
        """Those of ``CircuitBreaker``."""

        on: (
            type[Exception]
            | tuple[type[Exception], ...]
            | UnionType
            | Mapping[type[Exception], float | timedelta | BackOff]
            | Callable[[Exception], float | timedelta]
        )
        failures: int | None
        failure_rate: float | None
        window_calls: int | None
        window: float | timedelta | None
        minimum_calls: int | None
        probes: int
        successes: int
        probe_timeout: float | timedelta
        on_change: Hook | list[Hook] | tuple[Hook, ...] | None


# All in seconds.
LEASE = 5.0  # in which a process may begin with probes, once it has asked for that: at least
PATIENCE = 2.0  # that an answer of Redis may take before calls probe without it
GRACE = 0.5  # for which Redis keeps the lease from others afterwards, as messages take time
KEPT_DUE = 60.0  # after its end, for which an opening is stored; later processes start closed
KEPT = 86_400.0  # for which a closing is, or an opening until a reset; those that know renew it

SCRIPT = """
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local stamp = time[1] * 1000000 + time[2]
local me, base, change, open_for = ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local forced, lease_for = ARGV[6] == "1", tonumber(ARGV[7])
local found = redis.call("HMGET", KEYS[1],
    "version", "state", "by", "prober", "until", "for", "lease", "lease for")
local version, state = tonumber(found[1] or 0), found[2] or "-"
if not (version and version >= 0 and version < 2^53) then version = 0 end  -- others wrote it
local by, prober = found[3] or "-", found[4] or "-"
local is_new, is_set_back = false, false
local function number(value) return string.format("%.0f", value) end

-- The server's clock may have been set back, or a replica whose clock is behind has taken over:
-- what is left is never more than it was at first.
local function at_most(end_, whole)
    is_set_back = is_set_back or end_ - now > whole
    return math.min(end_, now + whole)
end
local opened_for, leased_for = tonumber(found[6] or 0), tonumber(found[8] or 0)
local open_until = at_most(tonumber(found[5] or 0), opened_for)
local lease_until = at_most(tonumber(found[7] or 0), leased_for)

-- A process that did not know of the latest change makes none, unless a user has asked for it.
if change ~= "-" and (forced or version <= base) then
    version, state, by = math.max(stamp, version + 1, base + 1), change, me
    open_until, opened_for = open_for < 0 and -1 or now + open_for, open_for
    prober, lease_until, is_new = "-", 0, true
end
if lease_for > 0 and version <= base and open_until ~= -1 and open_until <= now
    and (prober == me or lease_until <= now) then
    lease_until = math.max(now + lease_for, prober == me and lease_until or 0)
    prober, leased_for, is_new = me, lease_until - now, true
end
local left = open_until == -1 and -1 or math.max(0, open_until - now)
local lease = math.max(0, lease_until - now)
local message = table.concat({number(version), state, number(left), by, prober, number(lease)}, " ")
if is_new or is_set_back then
    redis.call("HSET", KEYS[1], "version", number(version), "state", state, "by", by,
        "prober", prober, "until", number(open_until), "for", number(opened_for),
        "lease", number(lease_until), "lease for", number(leased_for))
    local kept = (state == "closed" or left == -1) and ARGV[9] or ARGV[8]
    redis.call("PEXPIRE", KEYS[1], number(math.max(left, lease) + kept))
end
if is_new then redis.call("PUBLISH", ARGV[1], message) end
return message
"""
"""Make a change or take the lease, if it may be; return and publish what holds then.

A version is the time of the change in µs, but greater than all before: Redis gives none a second
time, even if it has lost its data.
"""

_WHO = "([0-9a-f]{32}|-)"
_MESSAGE = re.compile(  # with a version that Lua holds exactly
    f"([1-8]?[0-9]{{1,15}}) (open|closed|-) (-1|[0-9]{{1,15}}) {_WHO} {_WHO} ([0-9]{{1,15}})"
)
_CHANGE, _BY_HAND, _LEASE = "change", "by hand", "lease"


class RedisCircuitBreaker(Linked, CircuitBreaker):
    """A ``CircuitBreaker`` that is shared by all processes that give it the same name.

    A process that opens or closes the circuit tells the others, within about one round trip to
    Redis. Calls and failures are not shared, and no call waits for Redis. Use it as any breaker.

    Example:
        >>> import redis
        >>> from backoff_ticker.integrations.redis import RedisCircuitBreaker
        >>> client = redis.Redis(socket_timeout=1, socket_connect_timeout=1)
        >>> breaker = RedisCircuitBreaker(client, "payments", failures=3)
        >>> with breaker.guard():
        ...     print("paid")
        paid
        >>> breaker.close()

    The first process whose failures reach the threshold opens it in all processes, for the delay of
    its policy. The policies of the others move on with it, as if there was one.

    One process at a time makes the probes. The first call that wants to probe is refused while the
    breaker asks Redis; if Redis agrees, the next calls of its process are the probes. A process
    that ends while it probes keeps the others from it for ``probe_timeout``, and at least 5 s.

    Of two changes at the same time, the first that Redis hears of wins, but ``open()`` and
    ``reset()`` always do. Without Redis, each process goes on with its own circuit; once Redis is
    back, with its data or without, they agree again. A program that starts while the circuit is
    open may make calls until it has connected: ``wait_until_connected()`` prevents that.

    Thread safety: any thread. ``on_change`` is also called for changes of other processes, in a
    thread of the breaker. A forked child connects by itself.

    Args:
        client: As in ``RedisCancellationToken``.
        name: What the processes call the circuit, such as the name of the service.
        backoff: As for ``CircuitBreaker``.
        **options: Those of ``CircuitBreaker`` other than ``clock`` and ``may_probe``. ``failures``
            and ``failure_rate`` count the calls of one process, and ``successes`` its probes;
            ``probes`` is for all processes together.
    """

    _kind = "a RedisCircuitBreaker"

    def __init__(
        self,
        client: Redis,
        name: str,
        backoff: BackOff | None = None,
        **options: Unpack[CircuitOptions],
    ) -> None:
        self._link = self._shared = shared = SharedCircuit(self, client, name)
        super().__init__(backoff, may_probe=shared.may_probe, clock=CLOCK, **options)
        self._hooks = (shared.changed, *self._hooks)
        shared.probe_timeout = self._probe_timeout
        shared.start()
        weakref.finalize(self, shared.end).atexit = False  # the link sees to that

    def open(self, seconds: float | timedelta | None = None) -> None:
        """Open the circuit in all processes: for some seconds, or until ``reset()``.

        Arguments and errors are those of ``CircuitBreaker.open()``.
        """
        with self._shared.by_hand():
            super().open(seconds)

    def reset(self) -> None:
        """Close the circuit in all processes, whatever its state."""
        with self._shared.by_hand():
            super().reset()


class SharedCircuit(Link):
    """What a process knows of the shared circuit, and has to tell.

    All that is told is how the circuit of this process is at that time: so a change that was undone
    before it could be told is never heard of, nor is an opening whose time is over.
    """

    def __init__(self, breaker: CircuitBreaker, client: Redis, name: str) -> None:
        super().__init__(client, "circuit", name, SCRIPT)
        self._breaker = weakref.ref(breaker)
        self.probe_timeout = 60.0
        self._process = 0
        # What is not told yet, each with the breaker, which must not be collected before that.
        # Calls add to it, and the teller takes from it: each in one step.
        self._untold: dict[str, CircuitBreaker] = {}
        self._wanted_lease: dict[str, float] = {}  # likewise: for how many seconds it is wanted
        self.version = 0  # of the latest change that this process knows

    def note_connection(self, connected: bool) -> None:
        """Forget the lease of a connection that is lost; in a forked child, be another process."""
        if not connected:
            self._forget_lease()
        if self._process != os.getpid():  # at the start, and in a forked child
            self._process = os.getpid()
            self._me = uuid4().hex
            by_hand = self._untold.pop(_BY_HAND, None)
            if by_hand is not None:  # before a fork: the parent tells that it was by hand
                self._untold[_CHANGE] = by_hand
            self._lock = threading.Lock()  # no call takes it
            self._telling: dict[str, CircuitBreaker] = {}  # what is being told
            self._muted: set[int] = set()  # threads whose changes are told in another way, or not

    def _forget_lease(self) -> None:
        self.lease = (False, 0.0)  # whether it is this process that may probe, and until when
        self.wish: float | None = None  # when a call last wanted to probe
        self.asked: float | None = None  # when the lease was asked for; None: Redis has answered

    # In the threads of calls: nothing waits

    def changed(self, _old: CircuitState, new: CircuitState, breaker: CircuitBreaker) -> None:
        """Note a change of the circuit: a hook of the breaker."""
        if new is not CircuitState.HALF_OPEN and threading.get_ident() not in self._muted:
            self._forget_lease()
            self._wanted_lease.clear()
            self._untold[_CHANGE] = breaker
            self.tell()

    @contextmanager
    def by_hand(self) -> Iterator[None]:
        """Tell what a user does inside, whatever others have done."""
        try:
            with self._mute():
                try:
                    yield
                finally:
                    self._note(_BY_HAND)  # while it is muted: no message comes between
        finally:
            self.tell()

    def _note(self, what: str) -> None:
        if (breaker := self._breaker()) is not None:
            self._untold[what] = breaker

    @contextmanager
    def _mute(self) -> Iterator[None]:
        ident = threading.get_ident()
        is_nested = ident in self._muted  # in a hook of the breaker, or in a signal handler
        try:
            self._muted.add(ident)
            yield
        finally:
            if not is_nested:
                self._muted.discard(ident)

    def may_probe(self) -> bool:
        """Whether a call may be a probe; if nobody holds the lease, ask for it."""
        now = CLOCK.monotonic()
        before, self.wish = self.wish, now
        gap = 0.0 if before is None else now - before
        is_mine, until = self.lease
        asked = self.asked
        wanted = 0.0
        if not self.connected:
            return True
        if now < until:
            is_allowed = is_mine
        elif asked is not None:
            is_allowed = now - asked > PATIENCE
        else:
            is_allowed = gap > self.probe_timeout
            if not is_allowed:  # ask for a lease until the next call, unless that is too long
                self.asked = now
                wanted = max(LEASE, min(2 * gap, self.probe_timeout))
        if is_allowed:
            wanted = self.probe_timeout
        if wanted:
            self._wanted_lease[_LEASE] = wanted
            self.tell()
        return is_allowed

    # In the threads of the link

    def exchange(self) -> None:
        """Tell what is to be told, and learn what holds now."""
        if not self._tell_and_learn():
            self._note(_CHANGE)  # Redis does not know any more what this process does
            self._tell_and_learn()

    def _tell_and_learn(self) -> bool:
        """Do so once; return whether Redis knows all that this process knew before."""
        with self._lock:
            # Calls add to these at any time, without the lock. They are emptied before the circuit
            # is looked at: what changes from here on is told next time.
            telling = self._telling = {}
            while self._untold:
                what, breaker = self._untold.popitem()
                telling[what] = breaker
            lease = self._wanted_lease.pop(_LEASE, 0.0)
            asked, base = self.asked, self.version
            change, open_for = self._look() if telling else ("-", 0)
        try:
            answer = self.ask(
                *(self._me, base, change, open_for, int(_BY_HAND in telling)),
                *(ceil(seconds * 1000) for seconds in (lease and lease + GRACE, KEPT_DUE, KEPT)),
            )
            if asked == self.asked:
                self.asked = None
            return self.hear(answer) >= base
        except BaseException:
            self._untold.update(telling)
            if lease:
                self._wanted_lease.setdefault(_LEASE, lease)
            raise
        finally:
            self._telling = {}

    def _look(self) -> tuple[str, int]:
        """Return what to tell of the circuit, and for how many ms it is open; -1: until reset()."""
        breaker = self._breaker()
        if breaker is None or (state := breaker.state) is CircuitState.HALF_OPEN:
            return "-", 0
        left = 0.0 if state is CircuitState.CLOSED else breaker.remaining()
        return state.value, -1 if left is None else min(ceil(left * 1000), LONGEST)

    def hear(self, message: bytes) -> int:
        """Take over what the script says, unless it is old; return its version."""
        if (found := _MESSAGE.fullmatch(message.decode())) is None:
            raise ValueError("a message that no circuit has sent")
        version, left, lease = map(int, found.group(1, 3, 6))
        state, by, prober = found.group(2, 4, 5)
        with self._lock:
            # Nothing else is muted here, as two messages are not applied at a time.
            is_by_hand = self._muted or _BY_HAND in self._untold or _BY_HAND in self._telling
            if version > self.version and by != self._me and is_by_hand:
                # Perhaps Redis has heard of what a user does here before this change: ask again.
                self.tell()
            elif version > self.version:
                self.version = version
                self._forget_lease()
                if by != self._me:
                    self._apply(state, left)
            if version == self.version:
                is_mine = prober == self._me
                seconds = lease / 1000 - (GRACE if is_mine else 0.0)
                self.lease = is_mine, CLOCK.monotonic() + seconds
        return version

    def _apply(self, state: str, left: int) -> None:
        is_changed = self._untold.pop(_CHANGE, None) is not None or _CHANGE in self._telling
        if (breaker := self._breaker()) is None:
            return
        try:
            with self._mute():
                if state == "closed":
                    if breaker.state is not CircuitState.CLOSED:
                        CircuitBreaker.reset(breaker)
                elif left < 0:
                    CircuitBreaker.open(breaker)
                # Two that open it at the same time have opened it once: the policy moves on once.
                elif not (
                    is_changed and breaker.state is CircuitState.OPEN and breaker.remaining()
                ):
                    CircuitBreaker.open(breaker, max(1, left) / 1000)
        except Exception:
            LOGGER.exception("%s: the policy failed as another process had opened it", self._title)
