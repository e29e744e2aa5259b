"""The standard library inside a virtual clock: its threads, pools and loops are participants.

- ``_patches``: puts replacements in place and takes them away.
- ``_threads``: ``threading.Thread``, waits in ``threading`` and ``queue``, and for futures.
- ``_pools``: the jobs of ``ThreadPoolExecutor``; ``_time_module``: the module ``time``.
- ``_loops``: asyncio's event loops and their timers, and the refusal of other loops.
- ``_processes``: processes of loops and of ``ProcessPoolExecutor``, and sockets.

Every replacement looks up the virtual clock of the calling thread, and does what the original does
if there is none. So nothing changes for threads outside a clock.
"""
