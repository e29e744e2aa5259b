"""Back-off policies: how long to wait before the next attempt, or to give up.

One file a family. All of them keep the contract of ``BackOff``: ``next_backoff()``, ``reset()``,
readable fields. A policy object may be shared, because whoever runs it runs a copy of its own.
"""
