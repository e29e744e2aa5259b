"""What the program and its package are called."""

from __future__ import annotations

PROGRAM = "backoff-ticker"
PACKAGE = "backoff-ticker"
"""As package indexes know it."""
