"""On which line of a TOML document a key stands.

`tomllib` forgets where it read what. An error about a key is worth twice as much with its line, so
this walks the document once more and notes every key:

    [masks]                                    ("masks",)                               line 1
    "public.users.email" = { fixed = "x" }     ("masks", "public.users.email")          line 2
                                               ("masks", "public.users.email", "fixed") line 2
    tables = ["a",                             ("masks", "tables"), (…, 0)              line 3
              "b"]                             ("masks", "tables", 1)                   line 4

Only documents that `tomllib` has read are asked about, so this need not refuse anything: on text
that is no TOML it finds fewer lines, and never fails.
"""

import re
from typing import Final

__all__ = ["Path", "line_of", "lines_of", "path_of"]

Path = tuple[str | int, ...]

_STRING: Final = (
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
)
_TOKEN: Final = re.compile(
    rf"(?P<space>[ \t\r]+)|(?P<comment>\#[^\n]*)|(?P<newline>\n)"
    rf"|(?P<string>{_STRING})|(?P<mark>[\[\]{{}}=,.])|(?P<bare>[^\s\[\]{{}}=,.\#\"']+)",
    re.DOTALL,
)
_KEY: Final = re.compile(r'"(?P<quoted>[^"]*)"|\[(?P<index>[0-9]+)\]|(?P<bare>[^.\[\]"]+)')


def line_of(document: str, key: str) -> int | None:
    """The line of a key (`masks."public.users.email"`, `tables[2]`), or of the nearest table
    around it that is written down; None when neither is there."""
    lines, path = lines_of(document), path_of(key)
    for length in range(len(path), 0, -1):
        if line := lines.get(path[:length]):
            return line
    return None


def path_of(key: str) -> Path:
    """The parts of a key as errors name it."""
    return tuple(
        int(part["index"]) if part["index"] else part["quoted"] or part["bare"]
        for part in _KEY.finditer(key)
    )


def lines_of(document: str) -> dict[Path, int]:
    """Every key, table and element of an array, and the line where it is first written."""
    return _Walk(document).lines


class _Walk:
    """One pass over the tokens, with the path of what stands around them."""

    def __init__(self, document: str) -> None:
        self.lines: dict[Path, int] = {}
        self._tokens = _tokens(document)
        self._at = 0
        table: Path = ()
        while kind := self._kind():
            if kind == "newline":
                self._at += 1
            elif kind == "[":
                table = self._header()
            else:
                self._pair(table)

    def _kind(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _header(self) -> Path:
        line = self._tokens[self._at][2]
        self._at += 1
        many = self._kind() == "["
        self._at += many
        path = self._key(())
        if many:
            # [[table]]: the tables of one name are counted as an array's elements are.
            number = 0
            while (*path, number) in self.lines:
                number += 1
            path = (*path, number)
            self.lines[path] = line
        while self._kind() == "]":
            self._at += 1
        return path

    def _pair(self, table: Path) -> None:
        path = self._key(table)
        if self._kind() != "=":
            self._at += 1  # no TOML: go on behind it
            return
        self._at += 1
        self._value(path)

    def _key(self, table: Path) -> Path:
        """Read `a."b.c".d`, and note the path to each of its parts."""
        path = table
        while (kind := self._kind()) in {"bare", "string", "."}:
            _, text, line = self._tokens[self._at]
            if kind != ".":
                path = (*path, text)
                self.lines.setdefault(path, line)
            self._at += 1
        return path

    def _value(self, path: Path) -> None:
        kind = self._kind()
        if kind == "[":
            self._array(path)
        elif kind == "{":
            self._inline(path)
        else:
            # A number or a date may fall into several tokens: 1.5, 1979-05-27 07:32.
            while self._kind() in {"bare", "string", "."}:
                self._at += 1

    def _array(self, path: Path) -> None:
        self._at += 1
        number = 0
        while (kind := self._kind()) not in {"]", ""}:
            if kind in {"newline", ","}:
                self._at += 1
                continue
            before = self._at
            self.lines.setdefault((*path, number), self._tokens[self._at][2])
            self._value((*path, number))
            self._at += self._at == before
            number += 1
        self._at += 1

    def _inline(self, path: Path) -> None:
        self._at += 1
        while (kind := self._kind()) not in {"}", ""}:
            if kind in {"newline", ","}:
                self._at += 1
            else:
                self._pair(path)
        self._at += 1


def _tokens(document: str) -> list[tuple[str, str, int]]:
    """Kind, text (of strings: what they stand for, but for escapes) and line of each token."""
    tokens = []
    line = 1
    for match in _TOKEN.finditer(document):
        text = match.group()
        kind = match.lastgroup or ""
        if kind == "string":
            quotes = 3 if text[:3] in {'"""', "'''"} else 1
            tokens.append((kind, text[quotes:-quotes], line))
        elif kind == "mark":
            tokens.append((text, text, line))
        elif kind in {"bare", "newline"}:
            tokens.append((kind, text, line))
        line += text.count("\n")
    return tokens
