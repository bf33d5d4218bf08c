"""Lines of the node's log: what happened in words, the details in fields.

They go through the standard library's logging, so that a process that configures nothing still
shows warnings, and a library's handler can take them. The message is a `Line`: as text it holds its
fields; whoever renders structured logs (`api.logs`) takes them apart again.
"""

import logging
from typing import Final

__all__ = ["Line", "Lines"]

TEXT_MAX: Final = 2_000
"""Of one field; a server may repeat a whole statement in its error."""


class Line:
    """One moment. Fields are plain values; secrets are a type that prints as `***`."""

    __slots__ = ("event", "fields")

    def __init__(self, event: str, fields: dict[str, object]) -> None:
        self.event = event
        self.fields = {name: _short(value) for name, value in fields.items() if value != ""}

    def __str__(self) -> str:
        if not self.fields:
            return self.event
        details = ", ".join(f"{name}={value}" for name, value in self.fields.items())
        return f"{self.event} ({details})"


class Lines:
    """A logger whose lines have fields, some of them the same in every line."""

    def __init__(self, logger: str, **fields: object) -> None:
        self._logger = logging.getLogger(logger)
        self._fields = fields

    def info(self, event: str, **fields: object) -> None:
        """Something went as it should."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Something is not as it should be, and is being seen to."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Somebody has to act."""
        self._write(logging.ERROR, event, fields)

    def bug(self, event: str, **fields: object) -> None:
        """To be called while the exception is handled: the line has its trace."""
        self._write(logging.ERROR, event, fields, trace=True)

    def _write(
        self, level: int, event: str, fields: dict[str, object], *, trace: bool = False
    ) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, Line(event, {**self._fields, **fields}), exc_info=trace)


def _short(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [_short(each) for each in value]
    text = str(value)
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"
