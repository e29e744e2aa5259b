"""The operation of a retry: what it may be."""

from __future__ import annotations

from .._operation import coroutine_returned
from .._validation import safe_repr
from ..policies import makes_policies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, NoReturn

    Args = tuple[Any, ...]
    Kwargs = Mapping[str, Any]
    Operation = Callable[..., Any]

NO_KWARGS: Kwargs = {}


def require_operation(operation: object) -> None:
    """Raise a TypeError unless ``operation`` can be called, and does not make policies."""
    if not callable(operation):
        raise TypeError(f"operation must be callable, not {safe_repr(operation)}")
    raise_if_makes_policy("operation", operation)


def raise_if_makes_policy(what: str, function: object) -> None:
    """Raise a TypeError for a class of policies or a ``NamedPolicy``, which was not called yet."""
    if makes_policies(function):
        raise TypeError(
            f"{what} needs the function to retry, not {safe_repr(function)}, which makes a policy: "
            "call it, and pass the policy as backoff"
        )


def raise_coroutine_returned(name: str, result: object) -> NoReturn:
    """Raise a TypeError: an operation that is called, not awaited, returned a coroutine."""
    raise coroutine_returned(
        name, result, "decorate an `async def` function, or use retry_call_async() or `async for`"
    )
