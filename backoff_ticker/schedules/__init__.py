"""Schedules: many keys that fall due at times of their own, and few workers.

Files, each of which imports only from those above it:

- ``_keys``: which keys wait and until when, which a worker has; groups and grids.
- ``_rules``: what follows the work of a key: failures, delays, who is told.
- ``_job``: the key that a worker has, and its block.
- ``_core``: the owner of the keys; taking a job; what readers wait for.
- ``_schedule``: ``Schedule``: what users call, and how workers wait.

What always holds: a key is with one worker at a time, and no key is lost, however its worker ends.
Code of the user (keys, policies, hooks) never runs in a change.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # the facade loads these when they are first used
    from ._schedule import Schedule as Schedule
