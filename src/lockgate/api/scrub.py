"""Takes secrets out of texts that leave: problem documents, error texts in answers, log lines.

The service promises that nothing it returns holds a secret. This is the second net, for what
others put into their errors: a driver that quotes the address it could not read, a server that
repeats a statement. It knows secrets in two ways:

    by their look    a password inside a URL, `password=…`, `Bearer …`
    by themselves    passwords of URLs that came in through this interface (`learn`), in every
                     spelling: as written, percent-decoded, escaped as in JSON or in a repr

Names are left alone: a feed may be called what a careless password is, and a status must still
say which feed it is about. Passwords of fewer than four characters are known by their look only;
replacing every "a" in an error would hide the error and tell the password.
"""

import dataclasses
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from lockgate.model.looks import OPTION, REFERENCES, USER, by_look
from lockgate.model.secret import MASK, Secret

__all__ = ["Scrubber"]

T = TypeVar("T")

_EXACT: Final = re.compile(USER + r":(?P<word>[^@/]+)@", re.I)
_WHOLE: Final = re.compile(USER + r":(?P<word>.+)@", re.I | re.S)
_SHORTEST: Final = 4
_KNOWN_MAX: Final = 1024

_TEXTS: Final = frozenset(
    {
        *("error", "what", "detail", "hint", "cause", "makes", "outcome", "next_steps", "notes"),
        "failed",
    }
)
"""Fields of documents that may repeat what somebody else said."""
_ADDRESSES: Final = frozenset({"url", "source", "target", "address"})
"""Fields that hold a name or an address: there, secrets are known by their look alone."""


class Scrubber:
    """Knows the secrets of one process. From many threads."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[Secret, None] = OrderedDict()
        self._spelled: tuple[str, ...] = ()
        for secret in secrets:
            self.learn(secret)

    def learn(self, address: Secret) -> None:
        """Remember the passwords in an address, the latest thousand of them."""
        found = _passwords(address.reveal())
        with self._lock:
            for word in found:
                self._known[word] = None
                self._known.move_to_end(word)
            while len(self._known) > _KNOWN_MAX:
                self._known.popitem(last=False)
            if found:
                spelled = {s for word in self._known for s in _spellings(word.reveal())}
                # The longest first: a password may be the beginning of another.
                self._spelled = tuple(sorted(spelled, key=len, reverse=True))

    def text(self, text: str) -> str:
        """The text without secrets."""
        for word in self._spelled:
            text = text.replace(word, MASK)
        return by_look(text)

    def document(self, value: T) -> T:
        """The document, with its texts and addresses scrubbed and its names as they are."""
        cleaned: T = self._cleaned(value)
        return cleaned

    def fields(self, value: Any) -> Any:
        """Any value of a log line, all texts in it scrubbed."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bytes):
            return self.text(value.decode("utf-8", "replace"))
        if isinstance(value, dict):
            return {self.fields(key): self.fields(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.fields(inner) for inner in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        return self.text(str(value))

    def _cleaned(self, value: Any, name: str = "") -> Any:
        if isinstance(value, str):
            if name in _TEXTS:
                return self.text(value)
            return by_look(value) if name in _ADDRESSES else value
        if isinstance(value, list | tuple):
            return type(value)(self._cleaned(inner, name) for inner in value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            changed = {
                field.name: cleaned
                for field in dataclasses.fields(value)
                if (cleaned := self._cleaned(old := getattr(value, field.name), field.name)) != old
            }
            return dataclasses.replace(value, **changed) if changed else value
        return value


def _passwords(address: str) -> list[Secret]:
    found = [match["word"] for shape in (_EXACT, _WHOLE) for match in shape.finditer(address)]
    found += [match["word"].strip("'\"") for match in OPTION.finditer(address)]
    both = [spelled for word in found for spelled in (word, unquote(word))]
    return [
        Secret(word)
        for word in both
        if len(word) >= _SHORTEST and not REFERENCES.fullmatch(word) and word != MASK
    ]


def _spellings(word: str) -> set[str]:
    return {
        word,
        repr(word)[1:-1],
        json.dumps(word)[1:-1],
        json.dumps(word, ensure_ascii=False)[1:-1],
    }
