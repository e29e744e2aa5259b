"""Errors that no caller can receive: shown through ``sys.unraisablehook``, never swallowed."""

from __future__ import annotations

import sys

from ._validation import safe_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


class _Unraisable:
    """What a ``sys.unraisablehook`` is given: the attributes of ``sys.UnraisableHookArgs``."""

    __slots__ = ("err_msg", "exc_traceback", "exc_type", "exc_value", "object")

    def __init__(self, error: BaseException, message: str, source: object) -> None:
        self.exc_type: type[BaseException] = type(error)
        self.exc_value: BaseException | None = error
        self.exc_traceback: TracebackType | None = error.__traceback__
        self.err_msg: str | None = message
        self.object: object = source


def report(error: BaseException, message: str, source: object) -> None:
    """Show an error of user code that nobody awaits; raises nothing itself.

    A hook set by the program (or by a test runner) is called with it. The default hook takes
    only the interpreter's own records, so its report is written to ``sys.stderr`` here.

    Args:
        error: What was raised.
        message: What was being done, such as "Exception in a token's callback".
        source: The object concerned; its ``repr`` is shown.
    """
    hook = sys.unraisablehook
    try:
        if hook is not sys.__unraisablehook__:
            hook(_Unraisable(error, message, source))
        elif sys.stderr is not None:
            import traceback

            lines = traceback.format_exception(error)
            sys.stderr.write(f"{message}: {safe_repr(source)}\n{''.join(lines)}")
    except BaseException:  # noqa: BLE001, S110 - there is nobody left to tell, as in the interpreter
        pass
