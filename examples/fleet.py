"""Poll 10,000 devices from 16 threads, or from one event loop, while some of them are down.

Problem: thousands of devices are due at times of their own, and a few workers share them. No device
may be with two workers at once, and those that are down should be asked less often.
Shows: a ``Schedule`` that threads or coroutines read; its counters; one signal that ends all waits.

    python examples/fleet.py [--loop] [--devices N]

Every 5 seconds another tenth of the devices goes down, and the tenth before comes back. A server in
the same process answers for them. You see a line a second, until Ctrl-C or SIGTERM ends all of it.
"""

import argparse
import asyncio
import socket
import time
from asyncio import StreamReader, StreamWriter
from collections import deque
from concurrent.futures import ThreadPoolExecutor

from backoff_ticker import ExponentialBackOff, Schedule, cancel_on_signals

WORKERS = 16
lateness = deque[float]()  # of the polls, in seconds


async def answer(reader: StreamReader, writer: StreamWriter) -> None:
    while device := await reader.readline():
        is_down = int(device) % 10 == time.monotonic() // 5 % 10
        writer.write(b"no answer\n" if is_down else b"21.5\n")
    writer.close()


def poll(fleet: Schedule[int], port: int) -> None:
    gateway = socket.create_connection(("127.0.0.1", port))
    with gateway, gateway.makefile("rwb", 0) as lines:
        for job in fleet:
            with job:
                lateness.append(job.lateness)
                lines.write(b"%d\n" % job.key)
                float(lines.readline())  # a ValueError: it is down


async def poll_async(fleet: Schedule[int], port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async for job in fleet:
        with job:
            lateness.append(job.lateness)
            writer.write(b"%d\n" % job.key)
            float(await reader.readline())
    writer.close()


async def main(options: argparse.Namespace) -> None:
    pool = ThreadPoolExecutor(WORKERS)  # the default may be smaller
    asyncio.get_running_loop().set_default_executor(pool)
    gateway = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = gateway.sockets[0].getsockname()[1]
    async with gateway, asyncio.TaskGroup() as group:
        with cancel_on_signals() as signals, signals.child() as stop:
            fleet = Schedule[int](
                every=10,
                backoff=ExponentialBackOff(1, max_elapsed_time=None),
                on=(OSError, ValueError),
                token=stop,
                notify=lambda *_: None,
            )
            fleet.add_all(range(options.devices))
            for _ in range(WORKERS):
                if options.loop:
                    group.create_task(poll_async(fleet, port))
                else:
                    group.create_task(asyncio.to_thread(poll, fleet, port))
            print(" healthy  failing  polls/s  most lateness")
            while not await stop.wait_async(1):
                late = [lateness.popleft() for _ in range(len(lateness))]
                print(
                    f"{len(fleet) - fleet.failing:>8} {fleet.failing:>8}"
                    f" {len(late):>8} {max(late, default=0):>12.3f} s"
                )
    print("stopped:", signals.cause)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--loop", action="store_true")
    parser.add_argument("--devices", type=int, default=10_000)
    asyncio.run(main(parser.parse_args()))
