"""Eight clients reconnect to a server that fails them: four threads, four asyncio tasks, one token.

The server is a real one, on loopback. A plan, drawn from ``--seed``, says how it treats each
client: it refuses the connection, resets it, or hangs up in the middle of its answer, and then
serves. Each client tries again at the ticks of an exponential back-off until it has an answer.
Ctrl-C, SIGTERM or ``--timeout`` cancels the one token that all of them share, whether they wait
for a tick or for the server.

    python examples/reconnect.py                                # all connect
    python examples/reconnect.py --never-serve --max-retries 3  # all give up
    python examples/reconnect.py --hang                         # no answer: try Ctrl-C

Exit status: 0 all connected; 1 a back-off gave up, or the time-out came first; 2 bad options;
130 after SIGINT, 143 after SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import enum
import itertools
import os
import random
import signal
import socket
import struct
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from backoff_ticker import (
    AsyncTicker,
    BackOff,
    CancellationToken,
    Cancelled,
    CloseReason,
    DeadlineExceeded,
    ExponentialBackOff,
    Pace,
    Tick,
    Ticker,
    cancel_on_signals,
    with_max_retries,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

CONNECTED = "connected"
CANCELLED = "cancelled"


# The clients: the part to copy.


@dataclass
class Client:
    """One that reconnects, in a thread or in a task, and how it fared.

    With ``Pace.RETURN`` a delay runs from the end of the attempt before: one that takes long is
    never followed at once by the next.
    """

    who: str
    server: Server
    backoff: BackOff
    token: CancellationToken
    patience: float
    outcomes: list[str] = field(default_factory=list)
    close_reason: CloseReason | None = None

    def connect(self) -> None:
        """Try at each tick until connected, in a thread."""
        with Ticker(self.backoff, token=self.token, pace=Pace.RETURN) as ticker:
            for tick in ticker:
                try:
                    self._call()
                except (Cancelled, OSError) as error:
                    self._report(tick, describe(error))
                else:
                    self._report(tick, CONNECTED)
                    break
        self.close_reason = ticker.close_reason

    async def connect_async(self) -> None:
        """Try at each tick until connected, in an event loop."""
        async with AsyncTicker(self.backoff, token=self.token, pace=Pace.RETURN) as ticker:
            async for tick in ticker:
                try:
                    await self._call_async()
                except (Cancelled, OSError) as error:
                    self._report(tick, describe(error))
                else:
                    self._report(tick, CONNECTED)
                    break
        self.close_reason = ticker.close_reason

    def _call(self) -> None:
        with socket.socket() as line:
            line.settimeout(self.patience)
            hang_up = self.token.on_cancel(lambda: shut_down(line))
            try:
                line.connect(self.server.address_for(self.who))
                self.token.raise_if_cancelled()  # a cancel before had nothing to shut down
                line.sendall(f"{self.who}\n".encode())
                with line.makefile("rb") as answer:
                    check(answer.readline())
            except OSError:
                self.token.raise_if_cancelled()  # then it was we who hung up
                raise
            finally:
                hang_up.remove()

    async def _call_async(self) -> None:
        async with self.token.scope(), asyncio.timeout(self.patience):
            reader, writer = await asyncio.open_connection(*self.server.address_for(self.who))
            try:
                writer.write(f"{self.who}\n".encode())
                check(await reader.readline())
            finally:
                writer.close()
                with contextlib.suppress(OSError):  # it may be broken
                    await writer.wait_closed()

    def _report(self, tick: Tick, outcome: str) -> None:
        self.outcomes.append(outcome)
        late = f"{tick.lateness * 1000:.2f} ms"
        say(f"{self.who:<10}{tick.number:>4}{tick.delay:>9.3f} s{late:>12}  {outcome}")

    @property
    def connected(self) -> bool:
        """Whether it got through."""
        return CONNECTED in self.outcomes

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        ticks = len(self.outcomes)
        if self.connected:
            return f"connected at tick {ticks}"
        if CANCELLED in self.outcomes:
            return f"cancelled in the attempt of tick {ticks}"
        if self.close_reason is CloseReason.EXHAUSTED:
            return f"gave up after tick {ticks}"
        return f"cancelled in the wait for tick {ticks + 1}"


class HalfLineError(ConnectionError):
    """The server hung up in the middle of its answer."""


def check(answer: bytes) -> None:
    """Raise a ``HalfLineError`` unless the answer is a whole line."""
    if not answer.endswith(b"\n"):
        raise HalfLineError(f"the answer ends at {answer!r}")


def describe(error: Exception) -> str:
    """Say in a word or two what became of an attempt."""
    match error:
        case Cancelled():  # first: a DeadlineExceeded is a TimeoutError too
            return CANCELLED
        case ConnectionRefusedError():
            return "refused"
        case ConnectionResetError():
            return "reset"
        case HalfLineError():
            return "half a line"
        case TimeoutError():
            return "no answer"
    return str(error)


def shut_down(line: socket.socket) -> None:
    """End whatever waits for the socket in another thread; to close it would not."""
    with contextlib.suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)


_output = threading.Lock()


def say(line: str) -> None:
    """Print a line in one piece, even if other threads print."""
    with _output:
        print(line, flush=True)


# The server, and what it does to them.


class Turn(enum.Enum):
    """How the server treats one attempt."""

    REFUSE = enum.auto()
    RESET = enum.auto()
    CUT = enum.auto()
    HANG = enum.auto()
    SERVE = enum.auto()


FAILURES = [Turn.REFUSE, Turn.RESET, Turn.CUT]


def plan(rng: random.Random, then: list[Turn]) -> Iterable[Turn]:
    """Return a client's turns: three to five failures, each kind among them; ``then`` for ever."""
    failures = FAILURES + rng.choices(FAILURES, k=rng.randint(0, 2))
    rng.shuffle(failures)
    return itertools.chain(failures, itertools.cycle(then))


class Server:
    """Greets a client that says its name, if the client's plan has come to that.

    Clients ask it where to connect, as they would ask a name service. It sends one that is to be
    refused to a port where nobody listens.
    """

    def __init__(self, plans: dict[str, Iterable[Turn]]) -> None:
        self._plans = {who: iter(turns) for who, turns in plans.items()}
        self._turns: dict[str, Turn] = {}
        self._calls: set[asyncio.Task[None]] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0)
        self._nobody = socket.socket()
        self._nobody.bind(("127.0.0.1", 0))  # never listens: it keeps the port, the system refuses

    async def __aenter__(self) -> None:
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    async def __aexit__(self, *exc_info: object) -> None:
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()
        self._nobody.close()
        await asyncio.gather(*self._calls)

    def address_for(self, who: str) -> tuple[str, int]:
        """Return where ``who`` is to connect; with each call its next turn begins."""
        turn = self._turns[who] = next(self._plans[who])
        door = self._nobody if turn is Turn.REFUSE else self._listener
        host, port = door.getsockname()
        return host, port

    def _accept(self) -> None:
        line, _ = self._listener.accept()
        line.settimeout(0)
        call = asyncio.create_task(self._serve(line))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def _serve(self, line: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with line, contextlib.suppress(OSError):  # clients may hang up
            who = (await loop.sock_recv(line, 100)).decode().strip()
            match self._turns.get(who):
                case Turn.RESET:
                    no_linger = struct.pack("ii", 1, 0)  # on, for 0 s: closing resets
                    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_linger)
                case Turn.CUT:
                    await loop.sock_sendall(line, b"hel")
                case Turn.HANG:
                    say(f"{who:<39}(waits for an answer)")
                    await loop.sock_recv(line, 1)
                case Turn.SERVE:
                    await loop.sock_sendall(line, f"hello {who}\n".encode())


# The program.


async def connect_all(options: argparse.Namespace, token: CancellationToken) -> list[Client]:
    """Run the server and the clients until each has connected, given up or been cancelled."""
    threads = [f"thread-{number}" for number in range(1, options.workers + 1)]
    tasks = [f"task-{number}" for number in range(1, options.tasks + 1)]
    rngs = {who: random.Random(f"{options.seed} {who}") for who in threads + tasks}
    then = FAILURES if options.never_serve else [Turn.HANG if options.hang else Turn.SERVE]
    server = Server({who: plan(rng, then) for who, rng in rngs.items()})

    def client(who: str) -> Client:
        first = options.initial_interval
        backoff = ExponentialBackOff(first, max_interval=max(first, 10.0), rng=rngs[who])
        limited = with_max_retries(backoff, options.max_retries)
        return Client(who, server, limited, token, options.attempt_timeout)

    clients = {who: client(who) for who in threads + tasks}
    loop = asyncio.get_running_loop()
    # The token is left, and so cancelled, before the pool waits for its threads.
    async with server:
        with ThreadPoolExecutor(max(options.workers, 1)) as pool, token:
            await asyncio.gather(
                *(loop.run_in_executor(pool, clients[who].connect) for who in threads),
                *(clients[who].connect_async() for who in tasks),
            )
    return list(clients.values())


def run(options: argparse.Namespace) -> int:
    """Connect, sum up, and return the exit status."""
    with cancel_on_signals() as interrupted:
        say(f"{options.workers} threads and {options.tasks} tasks, seed {options.seed}")
        say(f"{'who':<10}{'tick':>4}{'delay':>11}{'late':>12}  outcome")
        started = time.monotonic()
        token = interrupted.child(timeout=options.timeout)
        clients = asyncio.run(connect_all(options, token))
        seconds = time.monotonic() - started

        say("")
        for client in clients:
            say(f"{client.who:<10}{client.ending}")
        counts = Counter(outcome for client in clients for outcome in client.outcomes)
        outcomes = ", ".join(f"{number} {outcome}" for outcome, number in counts.most_common())
        say(f"\n{counts.total()} ticks in {seconds:.2f} s: {outcomes}")

        connected = f"{sum(client.connected for client in clients)} of {len(clients)} connected"
        if interrupted.cancelled:
            say(f"{connected}, interrupted by {interrupted.cause}")
            return 128 + signal.Signals[str(interrupted.cause)]
        if all(client.connected for client in clients):
            say(connected)
            return 0
        timed_out = isinstance(token.cause, DeadlineExceeded)
        say(f"{connected}, {f'timed out after {options.timeout:g} s' if timed_out else 'gave up'}")
        return 1


class Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with status 2."""
        self.exit(2, f"{self.prog}: {message}\n")


def seconds(text: str) -> float:
    """Read a time from the command line."""
    with contextlib.suppress(ValueError):
        if 0.0 < (value := float(text)) <= 24 * 3600:
            return value
    raise argparse.ArgumentTypeError(f"must be seconds, more than 0 and at most a day: {text!r}")


def count(text: str) -> int:
    """Read a small number from the command line."""
    with contextlib.suppress(ValueError):
        if (value := int(text)) in range(101):
            return value
    raise argparse.ArgumentTypeError(f"must be a whole number from 0 to 100: {text!r}")


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = Parser(description=(__doc__ or "").partition("\n")[0], allow_abbrev=False)
    add = parser.add_argument
    add("--seed", default="1", help="decides all failures and delays (%(default)s)")
    add("--workers", type=count, default=4, metavar="N", help="clients in threads (%(default)s)")
    add("--tasks", type=count, default=4, metavar="N", help="clients in tasks (%(default)s)")
    add("--initial-interval", type=seconds, default=0.1, metavar="S", help="(%(default)s s)")
    add("--max-retries", type=count, default=10, metavar="N", help="then give up (%(default)s)")
    add("--attempt-timeout", type=seconds, default=5.0, metavar="S", help="(%(default)s s)")
    add("--timeout", type=seconds, metavar="S", help="for all of it (none)")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--never-serve", action="store_true", help="fail every attempt")
    instead.add_argument("--hang", action="store_true", help="after the failures, answer nothing")
    options = parser.parse_args()
    if not options.workers + options.tasks:
        parser.error("with --workers 0 and --tasks 0 there is nobody to connect")
    return options


def main() -> int:
    """Run from the command line."""
    options = parse_options()
    try:
        return run(options)
    except BrokenPipeError:  # of the output: its reader left, as in ``| head``
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
