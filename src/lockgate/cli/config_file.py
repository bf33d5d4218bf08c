"""Configuration files: read, joined with what options say, and errors with the line and the key.

    error: wal_warn_bytes: a number is out of range (shop.toml, line 12)

The readers of configurations (`model.feed_config`, `model.server_config`) name the key that is
wrong; so does a node that refuses one. Here the key gets its place: the line of the file where it
stands, or the option that said it.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from lockgate.model.errors import UsageError
from lockgate.model.toml_lines import line_of, lines_of, path_of

__all__ = ["Written", "read"]

_TOML_LINE: Final = re.compile(r" \(at line (?P<line>\d+), column \d+\)$")


class Written:
    """A configuration as a person gave it: a file, options, or both. Options win."""

    def __init__(self, file: Path | None, text: str, document: dict[str, Any]) -> None:
        self.document = document
        self._file = file
        self._text = text
        self._options: dict[str, str] = {}

    def say(self, key: str, value: object, option: str) -> None:
        """What an option says about a key (`tls.cert`); nothing, when its value is None."""
        if value is None:
            return
        *tables, last = key.split(".")
        place = self.document
        for table in tables:
            inner = place.get(table)
            # What is no table is refused when it is read; until then it is left alone.
            place = inner if isinstance(inner, dict) else place.setdefault(table, {})
            if not isinstance(place, dict):
                return
        place[last] = value
        self._options[key] = option

    @contextmanager
    def located(self, options: Mapping[str, str] | None = None) -> Iterator[None]:
        """UsageErrors about a key of the configuration say where it was said. `options` are those
        that could have said a key which nobody said."""
        try:
            yield
        except UsageError as error:
            raise self._placed(error, options or {}) from None

    def _placed(self, error: UsageError, options: Mapping[str, str]) -> UsageError:
        key, path = error.object, path_of(error.object)
        for said, option in self._options.items():
            if path_of(said) == path[: len(path_of(said))]:
                return _with(error, error.what, option)
        if self._file is None:
            return _with(error, error.what, options[key]) if key in options else error
        line = line_of(self._text, key)
        if line is None and key not in options:
            return error  # it is about something else
        missing = key in options and path not in lines_of(self._text)
        hint = f"{error.hint}, or give {options[key]}" if missing else error.hint
        place = f"{self._file}, line {line}" if line else str(self._file)
        return _with(error, f"{key}: {error.what}", place, hint)


def read(file: Path | None) -> Written:
    """The file's document; without a file, an empty one."""
    if file is None:
        return Written(None, "", {})
    import tomllib

    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "the configuration cannot be read",
            object_=str(file),
            hint="write a TOML file; docs/guides/feeds.md shows one",
            operation="read the configuration",
            cause=error.strerror if isinstance(error, OSError) else "it is not in UTF-8",
        ) from error
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        why = str(error)
    else:
        return Written(file, text, document)
    found = _TOML_LINE.search(why)
    # At the end of the document tomllib names no line.
    line = int(found["line"]) if found else text.count("\n") + 1
    raise UsageError(
        f"this is not TOML: {_TOML_LINE.sub('', why).removesuffix(' (at end of document)')}",
        object_=f"{file}, line {line}",
        hint="texts stand in quotes, and a key stands before every =",
        operation="read the configuration",
    )


def _with(error: UsageError, what: str, object_: str, hint: str | None = None) -> UsageError:
    return UsageError(
        what,
        object_=object_,
        hint=error.hint if hint is None else hint,
        operation=error.operation,
        cause=error.cause,
    )
