"""What logs and reprs show of errors, and of texts from outside: no secrets, no control characters.

Of a request they show the method, the host, the path and the status; never its query, headers,
cookies and credentials, which clients put into the errors that they raise.
"""

from __future__ import annotations

from ._validation import safe_repr

_LONGEST = 200
_OF_A_REQUEST = ("headers", "request", "request_info", "response")


def type_name(error: BaseException) -> str:
    """Return an error's class with its public module, if any, such as ``httpx.ReadTimeout``."""
    kind = type(error)
    module, _, _ = kind.__module__.partition("._")
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def escaped(text: str) -> str:
    """Return a text with its control characters written as in a ``repr``."""
    return text if text.isprintable() else repr(text)[1:-1]


def shown_text(text: str) -> str:
    """Return a text of an error, escaped and cut, without users, passwords and queries of URLs."""
    text = escaped(_public(text))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def shown_error(error: BaseException) -> str:
    """Return the class of an error with its texts and numbers, as its ``repr`` has them, but cut.

    Anything else that it holds, such as a request, is shown as its type. If it has a ``repr`` of
    its own, and no request, that is shown.
    """
    try:
        text = _shown(error)
    except Exception:  # such as a ``repr`` that fails, or a cycle
        text = type(error).__name__
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _shown(value: object) -> str:
    if isinstance(value, BaseException):
        return _shown_inside(value)
    if isinstance(value, str):
        return repr(_public(value))
    if value is None or isinstance(value, (int, float)):
        return safe_repr(value)
    if type(value) in {list, tuple}:
        return f"({', '.join(map(_shown, value))})"  # type: ignore[call-overload]
    return f"<{type(value).__name__}>"


def _shown_inside(error: BaseException) -> str:
    kind = type(error)
    writer = next(cls for cls in kind.__mro__ if "__repr__" in vars(cls))
    if writer.__module__ == "builtins" or vars(writer)["__repr__"] is shown_error:
        return f"{kind.__name__}({', '.join(map(_shown, error.args))})"
    if not any(hasattr(error, name) for name in _OF_A_REQUEST):
        return escaped(_public(repr(error)))
    status = getattr(error, "status", None)
    return f"{kind.__name__}({f'status={status}' if isinstance(status, int) else ''})"


def _public(text: str) -> str:
    """Return a text without what may be secret in it."""
    import re

    # An error of a client may quote the header or cookie that it refuses.
    text = re.sub("(?is)(header|cookie).+", r"\1...", text)
    return " ".join(map(_public_word, text.split(" ")))


def _public_word(word: str) -> str:
    before, at, after = word.rpartition("@")
    if at and "//" in before:
        word = f"{before.partition('//')[0]}//{after}"
    word, mark, query = word.partition("?")
    return f"{word}{mark}{'...' if query else ''}"
