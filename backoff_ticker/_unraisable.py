"""Reports errors through ``sys.unraisablehook`` where no caller can receive them."""

from __future__ import annotations

import sys
from types import SimpleNamespace

from ._validation import safe_repr


def report(error: BaseException, message: str, source: object) -> None:
    """Report an error of user code that no caller can receive; raises nothing itself.

    A hook that somebody has set is called. The default one accepts only the interpreter's own
    records: instead of it, this writes the message and the ``repr`` of ``source``.
    """
    hook = sys.unraisablehook
    try:
        if hook is not sys.__unraisablehook__:
            hook(
                SimpleNamespace(
                    exc_type=type(error),
                    exc_value=error,
                    exc_traceback=error.__traceback__,
                    err_msg=message,
                    object=source,
                )
            )
        elif sys.stderr is not None:
            import traceback

            lines = traceback.format_exception(error)
            sys.stderr.write(f"{message}: {safe_repr(source)}\n{''.join(lines)}")
    except BaseException:  # noqa: S110 - as in the interpreter: nobody else can be told
        pass
