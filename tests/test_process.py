"""Forked and spawned children, and exits, while tickers run: no hang and no noise."""

import pytest

from tests.effort import has_lock, rounds
from tests.stress.tools import run_silently

CHURN = """
sys.setswitchinterval(1e-6)
token = CancellationToken()
shared = Ticker(ConstantBackOff(0.0), token=token)
slow = Ticker(ConstantBackOff(0.0005), token=token)
pushed = queue.SimpleQueue()
push = Ticker(ConstantBackOff(0.001)).send_to(pushed)
def churn():
    while True:
        shared.receive()
        child = token.child(timeout=60)
        child.on_cancel(int).remove()
        with child: pass
threads(3, churn)
threads(2, lambda: list(slow))
threads(2, token.wait)
time.sleep(0.05)

def in_child():
    assert shared.receive(20).number > 1
    assert slow.receive(20).number >= 1
    ticks = queue.SimpleQueue()
    own = Ticker(ConstantBackOff(0.001))
    own.send_to(ticks)
    assert [ticks.get(timeout=20).number for _ in range(3)] == [1, 2, 3]
    called = threading.Event()
    token.child(timeout=0.001).on_cancel(called.set)
    assert called.wait(20)
    woken = threads(3, token.wait) + threads(2, lambda: list(slow))
    woken += threads(1, lambda: list(shared))
    async def in_a_loop():
        waiting = asyncio.create_task(token.wait_async())
        await AsyncTicker(ConstantBackOff(0.001)).receive()
        await asyncio.sleep(0.01)
        token.cancel("in the child")
        assert await waiting
    asyncio.run(in_a_loop())
    for thread in woken:
        thread.join(20)
        assert not thread.is_alive()
"""


@pytest.mark.slow
def test_forks_under_churn_leave_children_that_work():
    count = rounds(3 if has_lock() else 1, 60)  # without it the churn takes all processors
    run_silently(CHURN + f"for _ in range({count}): assert collect(fork(in_child)) == 0\n")


def test_a_claim_that_a_thread_held_at_the_fork_stops_nobody_in_the_child():
    run_silently(
        """
asking, go_on = threading.Event(), threading.Event()
class Slow:
    def next_backoff(self):
        if threading.current_thread() is not threading.main_thread() and not go_on.is_set():
            asking.set(); go_on.wait()
        return 0.0
    def reset(self): pass
    def __copy__(self): return self
ticker = Ticker(Slow())
taken = []
holder = threading.Thread(target=lambda: taken.append(ticker.receive().number))
holder.start(); asking.wait()
waiters = threads(2, lambda: taken.append(ticker.receive().number))
def child():
    assert ticker.receive(20).number == 1
    assert [ticker.receive(20).number for _ in range(3)] == [2, 3, 4]
    ticker.success(); ticker.reset()
    assert ticker.receive(20).number == 5
    ticker.stop()
assert collect(fork(child)) == 0
go_on.set()
for thread in (holder, *waiters): thread.join(20)
assert sorted(taken) == [1, 2, 3], taken
"""
    )


def test_a_hedged_attempt_may_fork_and_make_hedged_calls_in_the_child():
    run_silently(
        """
def operation():
    child = fork(lambda: hedge_call(int, ConstantBackOff(1), timeout=20))
    return collect(child)
assert hedge_call(operation, ConstantBackOff(20)) == 0
"""
    )


PATIENT = """
from backoff_ticker.clock._system import scheduler
scheduler._idle_seconds = 3600.0
"""
"""An exit that waited for the scheduler's thread would take an hour, and not five seconds."""

EXITS = {
    "waiting daemon threads": """
token = CancellationToken()
threads(5, lambda: list(Ticker(ConstantBackOff(0.001), token=token)))
threads(5, lambda: list(Ticker(ConstantBackOff(3600), token=token)))
threads(2, token.wait)
""",
    "a push and a deadline": """
sink = queue.SimpleQueue()
Ticker(ConstantBackOff(0.0002)).send_to(sink)
CancellationToken().child(timeout=0.02).on_cancel(int)
CancellationToken().child(timeout=3600).on_cancel(int)
janus = Ticker(ConstantBackOff(0.001)).queue()
""",
    "a ticker at exit": """
def at_exit():
    ticker = Ticker(ConstantBackOff(0.001))
    assert [ticker.receive().number for _ in range(3)] == [1, 2, 3]
    token = CancellationToken().child(timeout=0.001)
    assert token.wait(20)
    try:
        Ticker(ConstantBackOff(0.001)).send_to(queue.SimpleQueue())
    except RuntimeError:
        pass
atexit.register(at_exit)
""",
    "finalizers at shutdown": """
class Late:
    def __init__(self):
        self.token = CancellationToken()
        self.ticker = Ticker(ConstantBackOff(0.001), token=self.token)
        self.ticker.receive(); self.me = self
        self.sink = queue.SimpleQueue(); self.push = self.ticker.send_to(self.sink)
    def __del__(self):
        self.ticker.success(); self.ticker.stop(); self.push.stop()
        self.token.scope(); self.token.cancel()
late = Late()
sys.late = Late()
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("body", EXITS)
def test_an_exit_with_running_tickers_is_quick_and_silent(body):
    for end in ("", "time.sleep(0.05)"):
        script = PATIENT + EXITS[body] + end
        run_silently(script, "-X", "dev", "-W", "error", timeout=25.0)


def test_a_state_that_was_replaced_before_a_fork_is_not_claimed_in_the_child():
    """A handler comes between the look at a tick and its claim: it takes the tick and forks."""
    run_silently(
        """
class HandledClock(SystemClock):
    __slots__ = ()
    handler = None
    def __new__(cls): return object.__new__(cls)
    def monotonic(self):
        handler, HandledClock.handler = HandledClock.handler, None
        if handler is not None: handler()
        return time.monotonic()
ticker = Ticker(ZeroBackOff(), clock=HandledClock())
taken, children = [], []
def take_and_fork():
    taken.append(ticker.receive_nowait().number)
    children.append(os.fork())
HandledClock.handler = take_and_fork
taken.append(ticker.receive_nowait().number)
if not children[0]: os._exit(taken != [1, 2])
assert collect(children[0]) == 0
assert taken == [1, 2], taken
"""
    )


def test_a_cancel_in_a_child_starts_no_thread_for_callbacks_on_a_deadline():
    run_silently(
        """
token = CancellationToken(timeout=3600)
for _ in range(2): token.on_cancel(int)
def child():
    token.cancel()
    assert threading.active_count() == 1
assert collect(fork(child)) == 0
"""
    )
