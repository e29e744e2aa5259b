"""Retries: an operation called again, as a policy says, until it succeeds or nothing more is due.

``_rules`` holds the options, checked; ``_run`` decides what follows a failure, purely; ``_script``
is the order of things in one run. The faces are thin: ``_drive`` for calls, ``_loop`` for blocks.
"""
