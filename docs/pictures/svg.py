"""Write the pictures: SVG as text, which comes out the same with every version of Python.

A picture is 480 units wide. Pages show it at 640 pixels, phones at about 350: no text is smaller
than 11 units. Colours mean the same in every picture:

- ``thread``: what happens in a thread, and work in general.
- ``loop``: what happens in an event loop.
- ``bad``: failures, and what is lost.
- ``good``: successes.
- ``wait``: waiting.

A picture may move, by CSS within it. Without its animations it is complete: so it is shown where
nothing moves, such as on paper or to people who have asked their system for less motion.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any

Point = tuple[float, float]

WIDTH = 480
"""Units."""

SHOWN = 640
"""Pixels."""

SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace"

# Told apart by colour-blind people too: red is darker than green on light pages and on dark ones.
THEMES = {
    "light": {
        "ink": "#1f2328",
        "faint": "#59636e",
        "line": "#d1d9e0",
        "panel": "#f3f5f7",
        "paper": "#ffffff",
        "thread": "#0b5cb0",
        "loop": "#c88500",
        "bad": "#a80f38",
        "good": "#088a6b",
        "wait": "#7d8894",
    },
    "dark": {
        "ink": "#e6edf3",
        "faint": "#9ea7b1",
        "line": "#3a424b",
        "panel": "#20262d",
        "paper": "#131416",
        "thread": "#4f9cf0",
        "loop": "#f0b035",
        "bad": "#f8506e",
        "good": "#4fe0b5",
        "wait": "#717b86",
    },
}


class Picture:
    """Collects what is drawn. Colours are names of ``THEMES``."""

    def __init__(self, theme: str, height: float, title: str) -> None:
        self.colours = THEMES[theme]
        self.parts: list[str] = []
        self.height, self.title = height, title
        if theme == "light":  # pages that know no dark variant show this one on any background
            self.rect(0, 0, WIDTH, height, "paper", radius=6)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        colour: str = "ink",
        *,
        size: int = 12,
        anchor: str = "start",
        mono: bool = False,
        bold: bool = False,
    ) -> None:
        """Write text whose base line is at ``y``."""
        more = f' text-anchor="{anchor}"' if anchor != "start" else ""
        more += f' font-family="{MONO}"' if mono else ""
        more += ' font-weight="600"' if bold else ""
        fill = self.colours[colour]
        self.parts.append(
            f'<text x="{at(x)}" y="{at(y)}" fill="{fill}" font-size="{size}"{more}>'
            f"{escape(text, quote=False)}</text>"
        )

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        colour: str,
        *,
        radius: float = 0,
        opacity: float = 1.0,
        edge: str | None = None,
    ) -> None:
        """Fill a rectangle; with ``edge``, draw its outline in that colour."""
        more = f' rx="{radius}"' if radius else ""
        more += f' fill-opacity="{opacity}"' if opacity < 1.0 else ""
        more += f' stroke="{self.colours[edge]}" stroke-width="1.5"' if edge else ""
        self.parts.append(
            f'<rect x="{at(x)}" y="{at(y)}" width="{at(width)}" height="{at(height)}" '
            f'fill="{self.colours[colour]}"{more}/>'
        )

    def path(
        self,
        d: str,
        colour: str,
        *,
        width: float = 1.0,
        dash: str = "",
        fill: bool = False,
        opacity: float = 1.0,
    ) -> None:
        """Draw a line along ``d``, or fill what it encloses."""
        shade = self.colours[colour]
        if fill:
            how = f'fill="{shade}"'
            how += f' fill-opacity="{opacity}"' if opacity < 1.0 else ""
        else:
            how = f'fill="none" stroke="{shade}" stroke-width="{width}"'
            how += ' stroke-linecap="round" stroke-linejoin="round"'
            how += f' stroke-opacity="{opacity}"' if opacity < 1.0 else ""
            how += f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<path d="{d}" {how}/>')

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str, **how: Any) -> None:
        """Draw a straight line."""
        self.path(f"M{at(x1)} {at(y1)}L{at(x2)} {at(y2)}", colour, **how)

    def lines(self, points: Iterable[Point], colour: str, **how: Any) -> None:
        """Draw a line through points, or fill what it encloses."""
        self.path("M" + "L".join(f"{at(x)} {at(y)}" for x, y in points), colour, **how)

    def dots(
        self, points: Iterable[Point], colour: str, *, size: float = 5.0, opacity: float = 1.0
    ) -> None:
        """Draw round dots."""
        d: list[str] = []
        before = 0.0, 0.0
        for point in points:
            x, y = round(point[0], 1), round(point[1], 1)
            d.append(f"m{at(x - before[0])} {at(y - before[1])}h0".replace(" -", "-"))
            before = x, y
        self.path("".join(d), colour, width=size, opacity=opacity)

    def crosses(
        self,
        points: Iterable[Point],
        colour: str = "bad",
        *,
        size: float = 4.0,
        width: float = 2.0,
    ) -> None:
        """Draw crosses."""
        s, d = at(size), at(2 * size)
        marks = (f"M{at(x)} {at(y)}m-{s}-{s}l{d} {d}m-{d} 0l{d}-{d}" for x, y in points)
        self.path("".join(marks), colour, width=width)

    def arrow(self, points: Sequence[Point], colour: str, *, curved: bool = False) -> None:
        """Draw a line with a head at its end; curved: a start, two control points and an end."""
        first, *others = (f"{at(x)} {at(y)}" for x, y in points)
        self.path(f"M{first}{'C' if curved else 'L'}{' '.join(others)}", colour, width=1.5)
        (x0, y0), (x, y) = points[-2:]
        length = ((x - x0) ** 2 + (y - y0) ** 2) ** 0.5
        ux, uy = (x - x0) / length, (y - y0) / length
        head = [(x, y), *((x - 7 * ux + s * uy, y - 7 * uy - s * ux) for s in (3.5, -3.5))]
        self.lines([*head, head[0]], colour, fill=True)

    def seconds(self, y: float, times: Iterable[int], place: Callable[[float], float]) -> None:
        """Write times below a diagram: ``place`` turns one into an abscissa."""
        for time in times:
            self.text(place(time), y, f"{time} s", "faint", size=11, anchor="middle")

    @contextmanager
    def group(
        self, name: str, *, clip: str | None = None, seen_at_rest: bool = True
    ) -> Iterator[None]:
        """Let rules for ``name`` move what the block draws; ``clip`` names a ``clip()``."""
        more = f' clip-path="url(#{clip})"' if clip else ""
        more += "" if seen_at_rest else ' opacity="0"'
        self.parts.append(f'<g class="{name}"{more}>')
        yield
        self.parts.append("</g>")

    def clip(self, name: str, x: float, y: float, width: float, height: float) -> None:
        """Define a rectangle outside of which a group is not seen. Rules for the name move it."""
        self.parts.append(
            f'<clipPath id="{name}"><rect class="{name}" x="{at(x)}" y="{at(y)}" '
            f'width="{at(width)}" height="{at(height)}"/></clipPath>'
        )

    def motion(self, rules: str) -> None:
        """Add rules of CSS that move what groups and clips name, where motion is welcome."""
        self.parts.append(
            "<style>@media screen and (prefers-reduced-motion:no-preference){\n"
            f"{rules.strip()}\n}}</style>"
        )

    def svg(self) -> str:
        """Return the file's content."""
        shown = at(self.height * SHOWN / WIDTH)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{SHOWN}" height="{shown}" '
            f'viewBox="0 0 {WIDTH} {at(self.height)}" font-family="{SANS}" role="img">'
        )
        title = f"<title>{escape(self.title, quote=False)}</title>"
        return "\n".join([head, title, *self.parts, "</svg>"]) + "\n"


def at(number: float) -> str:
    """Return a coordinate, to a tenth of a unit."""
    text = f"{number:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text
