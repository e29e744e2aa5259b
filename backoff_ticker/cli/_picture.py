"""The small picture beside the table of delays: a bar for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._delays import Delay

_BLOCKS = ("\u2588", "\u2591", "\u2503")
_ASCII = ("=", "-", "|")


class Picture:
    """Bars on one scale, from 0 to the greatest delay, which must be > 0.

    Args:
        delays: What will be drawn.
        width: Columns.
        ascii_only: Whether the output can show nothing but ASCII.
    """

    def __init__(self, delays: Sequence[Delay], width: int, *, ascii_only: bool) -> None:
        self._scale = max(delay.greatest for delay in delays)
        self._width = width
        self._least, self._greatest, self._drawn = _ASCII if ascii_only else _BLOCKS

    def legend(self) -> Text:
        """Return what the signs mean."""
        return Text(f"{self._least} least  {self._drawn} drawn  {self._greatest} greatest")

    def bar(self, delay: Delay) -> Text:
        """Return a bar up to the greatest delay: filled to the least, a mark at the drawn one."""
        least, greatest = self._columns(delay.least), max(self._columns(delay.greatest), 1)
        mark = min(int(delay.drawn / self._scale * self._width), greatest - 1)
        text = Text(self._least * least + self._greatest * (greatest - least), style="blue")
        return text[:mark] + Text(self._drawn, style="bold yellow") + text[mark + 1 :]

    def _columns(self, seconds: float) -> int:
        return round(seconds / self._scale * self._width)
