"""The standard library inside a virtual clock: its threads, pools and loops are participants.

- ``_install``: puts the replacements in place and takes them away.
- ``_threads``: ``threading.Thread``; ``_futures``: the waits for ``concurrent.futures.Future``.
- ``_pools``: the jobs of ``ThreadPoolExecutor``.
- ``_conditions``: waits in ``threading`` and ``queue``; ``_time_module``: the module ``time``.
- ``_helpers``: threads of other packages that wait for work; ``ProcessPoolExecutor``.
- ``_loops``: asyncio's event loops; ``_loop_timers``: the timers of one loop.
- ``_subprocesses``: the processes that those start; ``_sockets``: sockets that send at once.
- ``_foreign_loops``: event loops that are not asyncio's.

Every replacement looks up the virtual clock of the calling thread, and does what the original does
if there is none. So nothing changes for threads outside a clock.
"""
