"""What the program and its package are called."""

from __future__ import annotations

__all__ = ["PACKAGE", "PROGRAM"]

PROGRAM = "backoff-ticker"
PACKAGE = "backoff-ticker"
"""As package indexes know it."""
