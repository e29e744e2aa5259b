"""``python -m backoff_ticker`` is the command ``backoff-ticker``."""

from __future__ import annotations

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
