"""The participants of a virtual clock: what each of them does, whose turn it is, what ends a wait.

These modules hold state and its transitions. They have no locks and make no calls back: the command
queue of the kernel runs one transition at a time.

- ``_participant``: a thread, or the event loop that runs in it, and its state.
- ``_run_queue``: the participants that time waits for, and which of them run.
- ``_timers``: the timers that are pending, in integer nanoseconds.
- ``_parking``: the current time, and how waits begin and end.

Invariant: the transition that ends a wait also queues the participant, so none is ever about to run
without being counted.
"""
