"""Reports errors through ``sys.unraisablehook`` where no caller can receive them."""

from __future__ import annotations

import sys

from ._validation import safe_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


class _Unraisable:
    """The argument of a hook, with the attributes of ``sys.UnraisableHookArgs``."""

    __slots__ = ("err_msg", "exc_traceback", "exc_type", "exc_value", "object")

    def __init__(self, error: BaseException, message: str, source: object) -> None:
        self.exc_type: type[BaseException] = type(error)
        self.exc_value: BaseException | None = error
        self.exc_traceback: TracebackType | None = error.__traceback__
        self.err_msg: str | None = message
        self.object: object = source


def report(error: BaseException, message: str, source: object) -> None:
    """Report an error of user code that no caller can receive; raises nothing itself.

    A hook that the program or a test runner has set is called. The default hook accepts only the
    interpreter's own records; if it is in place, this function writes to ``sys.stderr`` itself:
    the message, such as "Exception in a scheduled callback", and the ``repr`` of ``source``.
    """
    hook = sys.unraisablehook
    try:
        if hook is not sys.__unraisablehook__:
            hook(_Unraisable(error, message, source))
        elif sys.stderr is not None:
            import traceback

            lines = traceback.format_exception(error)
            sys.stderr.write(f"{message}: {safe_repr(source)}\n{''.join(lines)}")
    except BaseException:  # noqa: S110 - as in the interpreter: nobody else can be told
        pass
