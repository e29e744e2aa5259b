"""Circuits: calls are kept away from a service that fails.

Files, each of which imports only from those above it:

- ``_error_rule``: which errors the option ``on`` covers.
- ``_thresholds``: when failures open a circuit.
- ``_states``: the states of a circuit, and what follows each of them.
- ``_blocks``: which ``with`` block of a breaker is left here.
- ``_breaker``: the breaker, which keeps the current state, asks the policy and calls the hooks.

What always holds: a result counts only in the state in which its call was let through. No more
calls than there are places for probes go through a half-open circuit. Nothing here waits.
"""

from __future__ import annotations

from ._breaker import CircuitBreaker as CircuitBreaker
from ._error_rule import as_error_rule as as_error_rule
from ._states import CircuitTicket as CircuitTicket
