"""The standard library inside a virtual clock: its threads, pools and loops are participants.

- ``_patches``: puts replacements in place and takes them away.
- ``_threads``: ``threading.Thread``, waits in ``threading`` and ``queue``, and for futures.
- ``_pools``: the jobs of executors; ``_time_module``: the module ``time``.
- ``_loops``: asyncio's event loops, their timers, processes and sockets; other loops are refused.

Every replacement looks up the virtual clock of the calling thread, and does what the original does
if there is none. So nothing changes for threads outside a clock.
"""
