"""Threads under every schedule with few switches: ``explore()``.

- ``_explore``: ``explore()`` and its options; ``_outcome``: what it returns and raises.
- ``_explorer``: which schedules are run, each how long; how a failing one is told.
- ``_search``: the order of schedules, the drawn ones, and how a failing one is shrunk.
- ``_schedule``: one schedule: turns, waits, the time. ``_points``: where turns can change.
- ``_standard_library``: threads, locks, selectors and clocks as parts of a schedule;
  ``_made_before``: locks that were there before it.
- ``_story``: schedules as texts.

``docs/architecture_of_parts.md`` says why it shares no clock with ``VirtualClock``.
"""

from __future__ import annotations

from ._explore import explore as explore
from ._outcome import (
    Exploration as Exploration,
    ScheduleFailure as ScheduleFailure,
    ScheduleStuck as ScheduleStuck,
)
