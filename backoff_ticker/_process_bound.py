"""What belongs to its process: copied it stays itself, and it cannot be pickled."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar, NoReturn, Self

__all__ = ["ProcessBound"]


class ProcessBound:
    """Something that others wait for, and so is one of its kind."""

    __slots__ = ()

    _kind: ClassVar[str]
    """Names it in errors, with its article."""

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self._kind} belongs to its process and cannot be pickled")
