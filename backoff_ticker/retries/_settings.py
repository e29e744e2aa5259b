"""What holds for all retries of the process: whether they are active, default hooks and token."""

from __future__ import annotations

from .._validation import safe_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Hooks = tuple[Callable[[Any], object], ...]

HOOKS = ("on_attempt", "on_retry", "on_success", "on_give_up")
"""The options that are hooks, in the order in which a run calls them."""


def as_hooks(name: str, value: object) -> tuple[Callable[..., object], ...] | None:
    """Return one callable, or a list or tuple of them, as a tuple; None if there is none."""
    hooks = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    for hook in hooks:
        if not callable(hook):
            raise TypeError(
                f"{name} must be a callable, a list or tuple of them, or None, "
                f"not {safe_repr(value)}"
            )
    return hooks or None
