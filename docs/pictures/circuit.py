"""The states of a circuit: what moves it from one to the next, and a run of real calls."""

from backoff_ticker import CircuitBreaker, CircuitOpen, CircuitState, ExponentialBackOff
from backoff_ticker.testing import VirtualClock
from svg import WIDTH, Picture

TITLE = "The states of a circuit, and what becomes of calls in an outage"
EVERY, LATENCY, DOWN, UP, END = 2.0, 0.5, 10.0, 46.0, 74.0
"""Seconds."""

COLOURS = {
    CircuitState.CLOSED: "good",
    CircuitState.OPEN: "bad",
    CircuitState.HALF_OPEN: "thread",
}
BOXES = {
    CircuitState.CLOSED: (10, "calls go through"),
    CircuitState.OPEN: (187, "calls are refused"),
    CircuitState.HALF_OPEN: (364, "only probes go"),
}
BOX, HIGH, BOX_Y = 106, 50, 56

HEIGHT, STRIP = 356, 226
SCALE = (WIDTH - 36) / END


ANSWERED, FAILED, REFUSED = "answered", "failed", "refused at once"


class Course:
    """What happened: when each state began, and when calls that ended the same way did."""

    def __init__(self) -> None:
        self.states = [(0.0, CircuitState.CLOSED)]
        self.calls: dict[str, list[float]] = {ANSWERED: [], FAILED: [], REFUSED: []}


def data() -> Course:
    """Return what happens to a call every two seconds."""
    course = Course()
    with VirtualClock(auto=True) as clock:
        breaker = CircuitBreaker(
            ExponentialBackOff(8, randomization_factor=0),
            failures=3,
            successes=2,
            on_change=lambda _old, new, _of: course.states.append((clock.monotonic(), new)),
        )
        time = 0.0
        while time < END:
            clock.sleep(time - clock.monotonic())
            course.calls[_call(clock, breaker)].append(time)
            time += EVERY
    return course


def _answer(clock: VirtualClock) -> None:
    is_down = DOWN <= clock.monotonic() < UP
    clock.sleep(LATENCY)
    if is_down:
        raise ConnectionError


def _call(clock: VirtualClock, breaker: CircuitBreaker) -> str:
    try:
        breaker(_answer)(clock)
    except CircuitOpen:
        return REFUSED
    except ConnectionError:
        return FAILED
    return ANSWERED


def _x(time: float) -> float:
    return 18 + time * SCALE


def draw(picture: Picture, data: Course) -> None:
    """Draw the states, and the run below."""
    _diagram(picture)
    _run(picture, data)


def _diagram(picture: Picture) -> None:
    for state, (x, explained) in BOXES.items():
        picture.rect(x, BOX_Y, BOX, HIGH, "panel", radius=8, edge=COLOURS[state])
        picture.text(
            x + BOX / 2, BOX_Y + 21, state, COLOURS[state], size=14, anchor="middle", bold=True
        )
        picture.text(x + BOX / 2, BOX_Y + 39, explained, size=11, anchor="middle")
    closed, opened, half = (x for x, _ in BOXES.values())
    gap, middle = opened - closed - BOX, BOX_Y + HIGH / 2
    _label(picture, opened - gap / 2, middle - 22, "too many", "failures")
    picture.arrow([(closed + BOX + 4, middle), (opened - 4, middle)], "ink")
    _label(picture, half - gap / 2, middle - 22, "its delay", "is over")
    picture.arrow([(opened + BOX + 4, middle), (half - 4, middle)], "ink")
    top, bottom = BOX_Y - 5, BOX_Y + HIGH + 5
    picture.arrow(
        [(half + BOX / 2, top), (half + 20, 16), (closed + BOX - 20, 16), (closed + BOX / 2, top)],
        "ink",
        curved=True,
    )
    picture.text(WIDTH / 2, 18, "enough probes succeed", anchor="middle")
    picture.arrow(
        [
            (half + BOX / 2, bottom),
            (half + 40, bottom + 30),
            (opened + BOX - 40, bottom + 30),
            (opened + BOX / 2, bottom),
        ],
        "ink",
        curved=True,
    )
    picture.text(half - gap / 2, bottom + 38, "a probe fails", anchor="middle")


def _label(picture: Picture, x: float, y: float, *texts: str) -> None:
    for number, text in enumerate(texts):
        picture.text(x, y + number * 14, text, anchor="middle")


def _run(picture: Picture, data: Course) -> None:
    y = STRIP
    picture.text(10, y - 38, "What becomes of a call every 2 s", size=13, bold=True)
    picture.text(
        10, y - 20, "Three failures in a row open the circuit, two probes close it.", "faint"
    )
    ends = [*(time for time, _ in data.states[1:]), END]
    for (begin, state), end in zip(data.states, ends, strict=True):
        picture.rect(_x(begin), y, (end - begin) * SCALE, 20, COLOURS[state])
        if (end - begin) * SCALE > 50:
            picture.text(_x((begin + end) / 2), y + 14, state, "paper", anchor="middle", bold=True)
    y += 36
    picture.rect(_x(DOWN), y - 10, (UP - DOWN) * SCALE, 36, "bad", opacity=0.12)
    picture.text(_x((DOWN + UP) / 2), y + 22, "the service is down", "bad", anchor="middle")
    picture.dots([(_x(time), y) for time in data.calls[ANSWERED]], "good", size=7)
    picture.dots([(_x(time), y) for time in data.calls[REFUSED]], "wait", size=5)
    picture.crosses([(_x(time), y) for time in data.calls[FAILED]])
    picture.seconds(y + 44, range(0, 71, 10), _x)
    y = HEIGHT - 14
    picture.dots([(18, y - 4)], "good", size=7)
    picture.text(28, y, ANSWERED, size=13)
    picture.crosses([(130, y - 4)])
    picture.text(142, y, FAILED, size=13)
    picture.dots([(220, y - 4)], "wait", size=5)
    picture.text(230, y, REFUSED, size=13)
