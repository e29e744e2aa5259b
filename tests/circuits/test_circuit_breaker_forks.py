"""CircuitBreaker: a process that was forked off has a circuit of its own."""

from tests.stress.tools import run_silently


def test_a_child_has_a_circuit_of_its_own():
    run_silently(
        """
from tests.helpers import SetClock
sys.setswitchinterval(1e-6)
now = SetClock()
asking, go_on = threading.Event(), threading.Event()
class Policy:
    slow = False
    def next_backoff(self):
        if self.slow: asking.set(); go_on.wait(30)
        return 0.25
    def reset(self): pass
    def __copy__(self): return self

def fail(breaker):
    try:
        with breaker.guard(): raise OSError
    except OSError: pass

def refused(breaker):
    try:
        with breaker.guard(): return False
    except CircuitOpen as error: return error.state

policy = Policy()
breaker = CircuitBreaker(policy, failures=1, clock=now)
fail(breaker)
now.advance(0.25)
def hang():
    with breaker.guard(): go_on.wait(30)
probe, = threads(1, hang)
while breaker.remaining() is not None: time.sleep(0.001)

def after_the_probe():
    assert breaker.remaining() == 0.0  # its thread is not here
    with breaker.guard(): pass
    assert breaker.state == "closed"
assert collect(fork(after_the_probe)) == 0
assert breaker.remaining() is None

opening = CircuitBreaker(policy, failures=1, clock=now)
policy.slow = True
asker, = threads(1, lambda: fail(opening))
assert asking.wait(10)
def while_the_policy_is_asked():
    policy.slow = False
    assert refused(opening) == "open"
    assert opening.remaining() == 0.25
    now.advance(0.25)
    with opening.guard(): pass
    assert opening.state == "closed"
assert collect(fork(while_the_policy_is_asked)) == 0
assert (opening.state, opening.remaining()) == ("open", 0.0)
now.advance(0.25)
go_on.set()
probe.join(10); asker.join(10)
assert breaker.state == "closed" and opening.state == "half-open"
"""
    )
