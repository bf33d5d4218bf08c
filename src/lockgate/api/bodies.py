"""What people send: the shapes of request bodies, with a limit on every length and count.

These refuse what is not of the right shape; whether it makes sense is for `read_config` and the
service to say. Types are strict (a number in quotes is a text), unknown fields are refused (a
misspelt one would otherwise be a silent default), and no text holds a NUL, which no database
takes. Values are never repeated in an error: one of them may be a password.
"""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from lockgate.api.problems import Refused
from lockgate.model.feed_config import (
    WAL_STOP_BYTES,
    WAL_WARN_BYTES,
    FeedConfig,
    is_url,
    read_config,
)
from lockgate.model.secret import Secret
from lockgate.model.tokens import Role

__all__ = [
    "EndpointBody",
    "FeedBody",
    "MergeBody",
    "MoveBody",
    "SplitBody",
    "TokenBody",
    "WaitBody",
]

_COUNT_MAX: Final = 10_000
_END: Final = "An endpoint's name. An admin may also give a URL."
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")


def _no_nul(secret: SecretStr) -> SecretStr:
    if "\0" in secret.get_secret_value():
        raise ValueError("a NUL is in no address")
    return secret


def _fit(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError("take at most 40 of a-z, 0-9, _ and -, a letter first")
    return name


Name = Annotated[
    str,
    # The pattern only for the description: the words of `_fit` are better than a regex.
    Field(json_schema_extra={"pattern": f"^{_NAME.pattern}$"}),
    AfterValidator(_fit),
]
Text = Annotated[str, Field(min_length=1, max_length=1000, pattern=r"^[^\x00]*$")]
Condition = Annotated[str, Field(min_length=1, max_length=10_000, pattern=r"^[^\x00]*$")]
Address = Annotated[SecretStr, Field(min_length=1, max_length=4096), AfterValidator(_no_nul)]
KeyHash = Annotated[str, Field(pattern=r"^([0-9a-fA-F]{2}){1,8}$")]
"""Its first digits: "80" is the middle of all hashes."""


class _Body(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, hide_input_in_errors=True, allow_inf_nan=False
    )


class EndpointBody(_Body):
    """A database and a name for it."""

    name: Name
    url: Address = Field(examples=["postgres://app:${env:SHOP_PW}@db.example/shop"])

    @property
    def address(self) -> Secret:
        """Where it is; a secret as a whole, since it may hold a password."""
        return Secret(self.url.get_secret_value())


class FixedMaskBody(_Body):
    """The same text in every row."""

    fixed: Annotated[str, Field(max_length=10_000, pattern=r"^[^\x00]*$")]


class FeedBody(_Body):
    """What a feed is to do. The keys are those of a feed's configuration file."""

    name: Name = Field(examples=["shop"])
    source: Address = Field(description=_END, examples=["shop"])
    target: Address = Field(description=_END, examples=["copy"])
    tables: list[Text] = Field(min_length=1, max_length=_COUNT_MAX, examples=[["public.*"]])
    leave_out: list[Text] = Field(default=[], max_length=_COUNT_MAX)
    masks: dict[Text, Literal["hash", "null"] | FixedMaskBody] = Field(
        default={}, max_length=_COUNT_MAX
    )
    rows: dict[Text, Condition] = Field(default={}, max_length=_COUNT_MAX)
    rename: dict[Text, Text] = Field(default={}, max_length=_COUNT_MAX)
    copy_: bool = Field(default=True, alias="copy")
    chunk_rows: int = Field(default=200_000, ge=1, le=100_000_000)
    wal_warn_bytes: int = Field(default=WAL_WARN_BYTES, ge=2**20, le=2**62)
    wal_stop_bytes: int = Field(default=WAL_STOP_BYTES, ge=2**20, le=2**62)
    retention_s: int = Field(default=3600, ge=0, le=10 * 365 * 86_400)
    flush_interval_ms: int = Field(default=200, ge=1, le=60_000)
    decoding_memory_bytes: int = Field(default=512 * 2**20, ge=2**16, le=2**41)

    @property
    def addresses(self) -> tuple[Secret, Secret]:
        """Source and target, which may hold passwords."""
        return Secret(self.source.get_secret_value()), Secret(self.target.get_secret_value())

    def config(self, role: Role) -> FeedConfig:
        """The configuration, sound; UsageError names the key that is not.

        Only an admin may write a URL here. A node looks up the references in a URL and sends what
        it finds to the host that stands beside them: who may choose both reads every secret that
        the node can. So the role is asked for where a configuration is made, and there is no way
        to make one without saying whose it is.
        """
        for key, address in zip(("source", "target"), self.addresses, strict=True):
            if is_url(address) and role is not Role.ADMIN:
                raise Refused(
                    403,
                    "forbidden",
                    f"a URL as {key} needs the role admin, and yours is {role.value}",
                    object_=key,
                    hint="have an admin add the database (lockgate endpoint add NAME URL),"
                    " and give its name",
                )
        document: dict[str, Any] = self.model_dump(by_alias=True, exclude_unset=True)
        source, target = self.addresses
        return read_config(document | {"source": source.reveal(), "target": target.reveal()})


class WaitBody(_Body):
    """How long to wait, and for what."""

    timeout_s: float = Field(default=30.0, ge=0, le=60)
    position: str = Field(
        default="",
        max_length=100,
        pattern=r"^[^\x00]*$",
        description="Empty: all that is committed at the source now.",
    )


class MoveBody(_Body):
    """Where a span is to run."""

    node: Text


class SplitBody(_Body):
    """Where a span is cut, or into how many parts: one of the two."""

    at: list[KeyHash] = Field(default=[], max_length=1000)
    parts: int | None = Field(default=None, ge=2, le=1000)


class MergeBody(_Body):
    """Spans that are neighbours, in their order."""

    spans: list[Text] = Field(min_length=2, max_length=1000)


class TokenBody(_Body):
    """Whom to let in."""

    name: Name
    role: Literal["viewer", "operator", "admin"]

    @property
    def allowed(self) -> Role:
        """As the service has it."""
        return Role(self.role)
