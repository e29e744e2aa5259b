"""Circuits: calls are kept away from a service that fails.

Files, each of which imports only from those above it:

- ``_error_rule``: which errors the option ``on`` covers.
- ``_circuit``: when failures open a circuit; its states, which follow one another; blocks.
- ``_breaker``: the breaker, which keeps the current state, asks the policy and calls the hooks.

What always holds: a result counts only in the state in which its call was let through. No more
calls than there are places for probes go through a half-open circuit. Nothing here waits.
"""

from ._error_rule import (
    as_error_rule as as_error_rule,
    checked_answer as checked_answer,
    rule_for as rule_for,
    rules_by_class as rules_by_class,
)

TYPE_CHECKING = False
if TYPE_CHECKING:  # the facade loads these when they are first used
    from ._breaker import CircuitBreaker as CircuitBreaker
    from ._circuit import CircuitGuard as CircuitGuard, CircuitTicket as CircuitTicket
