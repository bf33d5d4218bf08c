"""A password or token that can be carried anywhere and shown nowhere.

    >>> f"connecting with {Secret('hunter2')}"
    'connecting with ***'

The value leaves only through `reveal()`, which is easy to search for. Every other way out gives
`***` or refuses: str, repr and format, a log record, a debugger's or traceback's view of local
variables, `json` and `msgspec` (with an `enc_hook` of `str`, they write `***`), and pickle.
"""

import hmac
from collections.abc import Callable
from typing import Any, Final, NoReturn, final

__all__ = ["MASK", "Secret"]

MASK: Final = "***"


@final
class Secret:
    """An immutable secret string. Equal secrets compare equal, in constant time."""

    __slots__ = ("_reveal",)

    _reveal: Callable[[], str]

    def __init__(self, value: str) -> None:
        # A closure, not an attribute: tools that print an object's slots find a function here.
        object.__setattr__(self, "_reveal", lambda: value)

    def reveal(self) -> str:
        """The value itself. Hand it to the driver that needs it and keep no copy."""
        return self._reveal()

    def __repr__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self.reveal().encode(), other.reveal().encode())

    def __hash__(self) -> int:
        return hash((Secret, self.reveal()))

    def __bool__(self) -> bool:
        return bool(self.reveal())

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a Secret cannot be changed")

    def __copy__(self) -> "Secret":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "Secret":
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not pickled: send a reference, or reveal() it on purpose")
