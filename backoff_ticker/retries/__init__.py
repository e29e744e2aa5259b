"""Retries: an operation called again, as a policy says, until it succeeds or nothing more is due.

``_rules`` holds the options, checked; ``_run`` decides what follows a failure, ``_ending`` what is
raised at the end; ``_script`` is the order of things in one run, which ``_play`` plays. The faces
are thin: ``_drive`` for calls, ``_loop`` and ``_attempt`` for blocks.
"""
