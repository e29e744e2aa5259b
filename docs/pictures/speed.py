"""What a decorated call costs that succeeds at once: the figures of ``docs/speed.md``."""

import re
from pathlib import Path

from svg import Picture

TITLE = "CPU time of a decorated function that succeeds at once, as a multiple of a loop by hand"
PAGE = Path(__file__).parents[1] / "speed.md"

BY_HAND = "a loop by hand"
ROWS = {
    "@retry": "@retry(ZeroBackOff())",
    "google-api-core": "google-api-core",
    "backoff": "backoff",
    "stamina": "stamina",
    "tenacity": "tenacity",
}
"""The label of each bar, and what begins the page's row with its figure."""

LEFT, TOP, ROW, LONGEST = 128, 46, 27, 290
HEIGHT = TOP + ROW * (1 + len(ROWS)) + 8


def data() -> dict[str, float]:
    """Return the multiple of each bar."""
    cells = re.findall(
        r"^\| `?([^`|]+?)`? \| ([\d.]+)x \| [\d.]+x \|$", PAGE.read_text("utf-8"), re.MULTILINE
    )
    figures = {name: float(ratio) for name, ratio in cells}
    return {BY_HAND: 1.0, **{label: figures[name] for label, name in ROWS.items()}}


def draw(picture: Picture, data: dict[str, float]) -> None:
    """Draw a bar for each."""
    picture.text(10, 24, "CPU time of a call that succeeds, a loop by hand = 1", size=14, bold=True)
    unit = LONGEST / max(data.values())
    for number, (label, ratio) in enumerate(data.items()):
        y = TOP + number * ROW
        ours = label == "@retry"
        picture.text(LEFT - 8, y + 14, label, anchor="end", size=13, mono=ours, bold=ours)
        picture.rect(LEFT, y, ratio * unit, 19, "thread" if ours else "wait", radius=1)
        text = f"{ratio:g}x"
        picture.text(LEFT + ratio * unit + 7, y + 14, text, size=13, bold=ours)
