"""The load that retries put on a service that is down for two minutes.

The figures are those of ``backoff-ticker simulate outage --clients 200 --seed 1 POLICY``.
"""

from backoff_ticker.cli._outage import BREAKER, BUDGET, NO_LIMIT, Outage, Scene, simulate_outage
from backoff_ticker.cli._policy_names import PolicyText
from svg import WIDTH, Picture

TITLE = "An outage without a limit of retries, with a retry budget and with a circuit breaker"
POLICY = "exponential --max-interval 10s --max-retries 4"
SCENE = Scene(
    clients=200, every=10.0, healthy=60.0, outage=120.0, recovery=120.0, latency=0.05, budget=100.0
)
USUAL = SCENE.clients / SCENE.every
MOST = 110
"""Calls a second."""

EXPLAINED = {
    NO_LIMIT: ("max_attempts=5", "{load:.1f} times the usual calls"),
    BUDGET: ("a shared RetryBudget(100)", "{load:.2f} times the usual calls"),
    BREAKER: ("a shared CircuitBreaker()", "{calls} calls in two minutes"),
}

LEFT, TOP, ROW, HIGH = 36, 68, 104, 70
HEIGHT = TOP + 3 * ROW + 12
SCALE = (WIDTH - LEFT - 22) / SCENE.end


def data() -> list[tuple[Outage, list[int]]]:
    """Return what the service got without a limit, with a budget, and with a breaker."""
    policy = PolicyText().convert(POLICY, None, None)
    return list(simulate_outage([policy], SCENE, 1, lambda _share: None))


def _x(time: float) -> float:
    return LEFT + time * SCALE


def draw(picture: Picture, data: list[tuple[Outage, list[int]]]) -> None:
    """Draw a row for each limit."""
    picture.text(10, 22, "Calls a second that reach a service, when its clients make", size=13)
    picture.text(10, 40, "20 requests a second and retry each up to four times.", size=13)
    for number, (row, calls) in enumerate(data):
        y = TOP + number * ROW
        code, explained = EXPLAINED[row.limit]
        picture.text(10, y, code, mono=True, bold=True)
        text = explained.format(load=row.load, calls=row.outage)
        picture.text(20 + 7.3 * len(code), y, text, "faint", size=13)
        _panel(picture, y + 12 + HIGH, row.limit, calls)
    for minute in range(6):
        picture.text(
            _x(minute * 60), HEIGHT - 10, f"{minute} min", "faint", size=11, anchor="middle"
        )


def _panel(picture: Picture, bottom: float, limit: str, calls_in: list[int]) -> None:
    top = bottom - HIGH
    picture.rect(_x(SCENE.healthy), top, SCENE.outage * SCALE, HIGH, "bad", opacity=0.12)
    for calls in (0, 50, 100):
        y = bottom - calls / MOST * HIGH
        picture.line(LEFT, y, _x(SCENE.end), y, "line")
        picture.text(LEFT - 6, y + 4, str(calls), "faint", size=11, anchor="end")
    step = SCENE.end / len(calls_in)
    points = [(_x(0), bottom)]
    for number, calls in enumerate(calls_in):
        y = bottom - calls / step / MOST * HIGH
        points += [(_x(number * step), y), (_x((number + 1) * step), y)]
    picture.lines([*points, (_x(SCENE.end), bottom)], "thread", fill=True)
    if limit != NO_LIMIT:  # there is room
        middle = _x(SCENE.healthy + SCENE.outage / 2)
        picture.text(middle, top + 24, "the service is down", "bad", anchor="middle")
