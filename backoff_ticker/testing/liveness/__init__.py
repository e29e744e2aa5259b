"""Real time behind a virtual clock: no test hangs, and failures say what is stuck, and where.

- ``_watchdog``: a daemon thread that makes the kernel check every 10 ms.
- ``_stall_detector``: whether the participants that have a turn only wait for each other.
- ``_settle_timeout``: whether a step or a wait has taken too long.
- ``_external_waits``: whether a thread inside ``idle()``, or a loop's file descriptor, has news.
- ``_main_thread_interrupt``: raises an error in the main thread, whatever it waits for.
- ``_reports``: the texts of failures.

These modules judge; the kernel acts. All of them run in commands of the kernel, except the
watchdog's thread and the signal handler.
"""
