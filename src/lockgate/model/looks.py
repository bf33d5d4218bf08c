"""Secrets that are known by their look: a password inside a URL, `password=…`, `Bearer …`.

For text of others' that is kept or shown, whoever wrote it. Rather too much is masked than too
little. Who knows secrets themselves masks those too (`api/scrub.py`).
"""

import re
from typing import Final

from lockgate.model.secret import MASK

__all__ = ["OPTION", "REFERENCES", "USER", "by_look"]

USER: Final = r"(?P<user>[a-z][a-z0-9+.-]*://[^\s/?#:@]*)"
_URL: Final = re.compile(USER + r":(?P<word>\S+)@", re.I)
"""Up to the last @, since people do not encode theirs: rather too much than too little."""
OPTION: Final = re.compile(
    r"(?P<key>(?:ssl)?password|passwd|pwd)(?P<is>[\"']?\s*[=:]\s*)"
    r"(?P<word>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\s&;,'\"]+)",
    re.I,
)
_BEARER: Final = re.compile(r"(?P<key>bearer\s+)(?P<word>[\w.~+/=-]{8,})", re.I)
REFERENCES: Final = re.compile(r"(?:\$\{(?:env|file):[^{}]+\})+")


def by_look(text: str) -> str:
    """The text without what looks like a secret."""
    if "://" in text:
        text = _URL.sub(lambda m: f"{m['user']}:{_masked(m['word'])}@", text)
    text = OPTION.sub(lambda m: f"{m['key']}{m['is']}{_masked(m['word'])}", text)
    return _BEARER.sub(lambda m: f"{m['key']}{MASK}", text)


def _masked(word: str) -> str:
    """References say where a secret is, not what it is: they are shown as written."""
    return word if REFERENCES.fullmatch(word) else MASK
