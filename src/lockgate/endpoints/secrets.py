"""References to secrets inside URLs: `${env:NAME}` and `${file:/path}`.

A reference is looked up at the moment of use and never before: what is stored, sent to a Spark
task or shown is the reference itself, a rotated secret is found without a restart, and a machine
without the secret says which one it lacks. The text around references is percent-encoded as in
any URL; what a reference stands for is taken as it is, so nobody encodes a password in a file.
`%24{…}` is a dollar sign and no reference.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote_to_bytes

from lockgate.model.errors import UsageError

__all__ = ["REFERENCE", "only_references", "references", "resolve"]

REFERENCE: Final = re.compile(r"\$\{(?:env:[^{}\s]+|file:/[^{}]+)\}")
"""One reference, as it stands in a URL."""

_FILE_BYTES_MAX: Final = 64 * 1024
"""A secret is no bigger; a reference to a device or a dump is a mistake."""


def references(text: str) -> list[str]:
    """Every reference in the text, in order."""
    return REFERENCE.findall(text)


def only_references(text: str) -> bool:
    """True when the text holds references and not a character of a secret itself."""
    return bool(text) and not REFERENCE.sub("", text)


def resolve(text: str, environ: Mapping[str, str] | None = None) -> str:
    """The text with percent-encoding and references replaced by what they stand for."""
    parts: list[str] = []
    end = 0
    for match in REFERENCE.finditer(text):
        parts += [_decoded(text[end : match.start()]), _looked_up(match.group(), environ)]
        end = match.end()
    parts.append(_decoded(text[end:]))
    return "".join(parts)


def _decoded(text: str) -> str:
    try:
        return unquote_to_bytes(text).decode("utf-8")
    except UnicodeDecodeError:
        why = "a percent-encoded part of a URL is not UTF-8"  # and is quoted nowhere
    raise UsageError(why, object_="", hint="encode the characters of UTF-8: ä is %C3%A4")


def _looked_up(reference: str, environ: Mapping[str, str] | None) -> str:
    kind, _, name = reference[2:-1].partition(":")
    if kind == "env":
        value = (os.environ if environ is None else environ).get(name)
        if value is None:
            raise UsageError(
                "the environment variable of a reference is not set",
                object_=reference,
                hint=f"set {name} for every process of Lockgate, on every machine that runs one",
            )
        return value
    try:
        with Path(name).open("rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)
        if len(content) > _FILE_BYTES_MAX:
            raise ValueError(f"more than {_FILE_BYTES_MAX} bytes")
        # Editors and `echo` end a file with a newline, which is no part of the secret.
        return content.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        why = "it is not UTF-8 text"  # the decoder's own error quotes the bytes
    except OSError as error:
        why = error.strerror or type(error).__name__
    except ValueError as error:
        why = str(error)
    raise UsageError(
        "the file of a reference cannot be read",
        object_=reference,
        hint="see that the file is there and readable on every machine that runs Lockgate",
        cause=why,
    )
