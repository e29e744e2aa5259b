"""Schedules as texts."""

from __future__ import annotations

import asyncio
import linecache
from itertools import groupby
from pathlib import Path
from traceback import StackSummary
from typing import TYPE_CHECKING

from ..._validation import safe_repr
from .._reports import short_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType

    Step = tuple[str, str, int]
    """Who; a file and a line (less than 0: from its middle on), or what happened and 0."""

_HERE = str(Path(__file__).parent)
_ENDS = 2  # how many steps are told before and after a switch, and what is more than a line
_TOLD = 10  # how many turns, rows of one and frames are told at the beginning, and at the end


def _is_inside(file: str) -> bool:
    return file.startswith(_HERE) or Path(file).name == "threading.py"


def stack_of(frames: Iterable[tuple[FrameType, int]]) -> str:
    """Return the lines of a stack, but for what belongs to the exploration and to ``threading``."""
    lines = [
        f"\n    {short_name(frame.filename)}:{frame.lineno} {frame.name}: {frame.line}"
        for frame in StackSummary.extract(frames)
        if not _is_inside(frame.filename)
    ]
    return "".join(_cut(lines, "\n    ... {} more calls"))


def waited_for(stack: Iterable[tuple[FrameType, int]], what: str) -> str:
    """Return what of the standard library waits, such as ``Queue.get()``, or else ``what``.

    The stack begins with the innermost call.
    """
    for frame, _ in stack:
        module = frame.f_globals.get("__name__", "")
        if frame.f_code.co_filename.startswith(_HERE):
            continue
        if module.partition(".")[0] not in {"threading", "queue", "concurrent", "asyncio"}:
            break
        name = frame.f_code.co_qualname
        if not name.startswith(("_", "Thread.")) and not frame.f_code.co_name.startswith("__"):
            what = f"{name}()"
    return what


def tasks_of(stack: Iterable[tuple[FrameType, int]]) -> Iterator[tuple[str, str]]:
    """Return the name of each task of the loop that runs in a stack, and where it waits."""
    loops = [frame.f_locals["self"] for frame, _ in stack if frame.f_code.co_name == "run_forever"]
    tasks = [(task.get_name(), task) for loop in loops for task in asyncio.all_tasks(loop)]
    for name, task in sorted(tasks, key=lambda named: (len(named[0]), named[0])):
        frames, coroutine = [], task.get_coro()
        while (frame := getattr(coroutine, "cr_frame", None)) is not None:
            frames.append((frame, frame.f_lineno))
            coroutine = getattr(coroutine, "cr_await", None)
        waiter = getattr(task, "_fut_waiter", None)
        what = waiter.get_name() if isinstance(waiter, asyncio.Task) else "a future"
        yield name, f"{waited_for(reversed(frames), what)}{stack_of(frames)}"


def shortened(error: BaseException | None) -> BaseException | None:
    """Return the error, with a traceback that begins where the exploration has called."""
    if error is None:
        return None
    trace = error.__traceback__
    while trace and _is_inside(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return error.with_traceback(trace)


def told(story: Iterable[Step]) -> str:
    """Return what happened, with each turn of a member as one paragraph."""
    turns = ["\n".join(_turn(*turn)) for turn in groupby(story, key=lambda step: step[0])]
    return "\n".join(_cut(turns, "  ... {} more turns"))


def _turn(name: str, turn: Iterable[Step]) -> list[str]:
    rows = []
    steps = [(file, line) for _, file, line in turn]
    # The middle of a line is told only where a switch came before.
    whole = [*steps[:1], *(step for step in steps[1:] if step[1] >= 0)]
    steps = [step for step, _ in groupby(whole)]
    marks = [number for number, (_, line) in enumerate(steps) if not line]
    around, ends = range(-_ENDS, _ENDS + 1), (-1, len(steps))
    near = {mark + distance for mark in (*ends, *marks) for distance in around}
    for is_near, group in groupby(enumerate(steps), key=lambda step: step[0] in near):
        told_or_not = [_row(*step) for _, step in group]
        if not is_near and len(told_or_not) > 1:
            told_or_not = [f"... {len(told_or_not)} more lines"]
        rows += [f"    {row}" for row in told_or_not]
    return [f"  {name}", *_cut(rows, "    ... {} more")]


def _cut(texts: list[str], left_out: str) -> list[str]:
    between = len(texts) - 2 * _TOLD
    if between > 1:
        texts[_TOLD:-_TOLD] = [left_out.format(between)]
    return texts


def _row(file: str, line: int) -> str:
    if not line:
        return f"({file})"
    place, text = f"{short_name(file)}:{abs(line)}", linecache.getline(file, abs(line)).strip()
    return f"{place:24} {text}{' (continued)' * (line < 0)}".rstrip()


def as_text(deviations: Iterable[tuple[int, int]]) -> str:
    """Return a schedule as a short text: ``"12:1 40:0"`` for member 1 at decision 12, then 0."""
    return " ".join(f"{number}:{member}" for number, member in deviations)


def from_text(text: str) -> tuple[tuple[int, int], ...]:
    """Return the schedule of such a text; a ``TypeError`` or ``ValueError`` if it is none."""
    expected = "replay must be the text of a failure, such as '12:1 40:0', not"
    if not isinstance(text, str):
        raise TypeError(f"{expected} {safe_repr(text)}")
    try:
        pairs = [pair.split(":") for pair in text.split()]
        return tuple((int(number), int(member)) for number, member in pairs)
    except ValueError:
        raise ValueError(f"{expected} {safe_repr(text)}") from None
