"""Where a lake is: `delta:/srv/lake`, `delta:s3://bucket/prefix?aws_region=…`.

What an object store wants to know follows the question mark, named as delta-rs names it (`place`).
As in other addresses, references to secrets (`${env:…}`, `${file:…}`) are kept as written and
looked up when somebody goes there; of what is written out, people are shown what is no secret.
"""

import re
from typing import Final

import msgspec

from lockgate.endpoints.delta.place import S3, Place
from lockgate.endpoints.secrets import only_references, resolve
from lockgate.model.errors import UsageError
from lockgate.model.secret import MASK, Secret

__all__ = ["LakeUrl", "is_lake"]

_SCHEME: Final = "delta:"
_HINT: Final = "write delta:/path/of/the/lake, or delta:s3://bucket/prefix?aws_region=…"
_PLAIN: Final = frozenset(
    {
        "aws_endpoint_url",
        "aws_endpoint",
        "aws_allow_http",
        "aws_region",
        "aws_virtual_hosted_style_request",
    }
)
"""Settings that are no secret."""
_SECRET: Final = frozenset({"aws_access_key_id", "aws_secret_access_key", "aws_session_token"})
_SHAPE: Final = re.compile(r"delta:(?P<where>[^?]+)(?:\?(?P<query>.*))?", re.DOTALL)


def is_lake(text: str | Secret) -> bool:
    """True when the text is to be an address of a lake."""
    return (text.reveal() if isinstance(text, Secret) else text).startswith(_SCHEME)


class LakeUrl(msgspec.Struct, frozen=True):
    """An address, as written. Made by `parse`."""

    where: str
    options: tuple[tuple[str, Secret], ...] = ()

    @classmethod
    def parse(cls, text: str | Secret) -> "LakeUrl":
        """The address that a text stands for; UsageError, quoting nothing, when it is none."""
        match = _SHAPE.fullmatch(text.reveal() if isinstance(text, Secret) else text)
        if match is None:
            raise _wrong("this is no address of a lake")
        where = match["where"].rstrip("/")
        if where.startswith("//"):  # delta:///srv/lake
            where = "/" + where.lstrip("/")
        if not where.startswith(("/", *S3)) or "\0" in where or "/../" in f"{where}/":
            raise _wrong("a lake is an absolute directory, or a prefix of an object store")
        pairs = [part.partition("=") for part in (match["query"] or "").split("&") if part]
        for name, _, _ in pairs:
            if name not in _PLAIN | _SECRET:
                raise _wrong("an address of a lake has no such setting")
        return cls(where, tuple((name, Secret(value)) for name, _, value in pairs))

    @property
    def label(self) -> str:
        """For people."""
        return f"{_SCHEME}{self.where}"

    @property
    def text(self) -> str:
        """The address as written, with `***` in the place of secrets that are written out."""
        shown = [f"{name}={_shown(name, value.reveal())}" for name, value in self.options]
        return self.label + (f"?{'&'.join(shown)}" if shown else "")

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"LakeUrl({self.text!r})"

    def place(self) -> Place:
        """Where that is, references looked up."""
        settings = {name: Secret(resolve(value.reveal())) for name, value in self.options}
        return Place(self.where, self.label, settings)


def _shown(name: str, value: str) -> str:
    return value if name in _PLAIN or only_references(value) else MASK


def _wrong(what: str) -> UsageError:
    return UsageError(what, object_="URL", hint=_HINT, operation="read an address")
