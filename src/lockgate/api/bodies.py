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
from lockgate.model.diffs import DiffOrder
from lockgate.model.feed_config import (
    WAL_STOP_BYTES,
    WAL_WARN_BYTES,
    FeedConfig,
    is_url,
    read_config,
)
from lockgate.model.move_config import MoveConfig, read_move_config
from lockgate.model.moves import Command, Disposal, MoveOrder, Side
from lockgate.model.secret import Secret
from lockgate.model.tokens import Role

__all__ = [
    "DiffBody",
    "EndpointBody",
    "FeedBody",
    "LakeBody",
    "LakeDropBody",
    "LakeStepDownBody",
    "MergeBody",
    "MoveBody",
    "MoveCancelBody",
    "MoveCompleteBody",
    "MoveCreateBody",
    "MoveDiffBody",
    "MoveFlipBody",
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
    defer_indexes: bool = Field(
        default=True, description="Build keys and indexes at the target when the rows are there."
    )
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


class _RequestBody(_Body):
    """Something that may take longer than a request lasts, or that is asked on."""

    request: str = Field(
        default="",
        pattern=r"^([0-9a-f]{16,64})?$",
        description="A name for the request, made up at random. Asked again under the same name, "
        "it is not done twice: whoever asks waits on, or hears the answer again.",
        examples=["5f0c2a9d1e7b4a36"],
    )


class LakeBody(_RequestBody):
    """Something that is asked of a lake, or asked on."""


class LakeDropBody(LakeBody):
    """How a table of a lake is dropped."""

    wait_s: float = Field(
        default=0.0, ge=0, le=86_400, description="For work that is under way for the table."
    )
    force: bool = Field(
        default=False,
        description="Also one that a feed still writes to; never one that is in use.",
    )


class LakeStepDownBody(LakeBody):
    """How a lake is given up."""

    flush: bool = Field(default=False, description="Drain first what is not drained.")


class MoveCreateBody(_Body):
    """Which tables are to move, and where to."""

    name: Name = Field(examples=["shop"])
    source: Name = Field(description="The endpoint that has them.", examples=["old"])
    target: Name = Field(description="The endpoint that gets them.", examples=["new"])
    tables: list[Text] = Field(min_length=1, max_length=_COUNT_MAX, examples=[["public.*"]])
    defer_indexes: bool = Field(
        default=True, description="Build indexes at the target when the rows are there."
    )
    hook: str = Field(
        default="",
        pattern=r"^([a-z][a-z0-9_-]{0,39})?$",
        description="What is run at a flip: a name in the server's configuration.",
    )

    @property
    def config(self) -> MoveConfig:
        """The configuration, sound; UsageError names the key that is not."""
        return read_move_config(self.model_dump())


class _MoveCommandBody(_RequestBody):
    """A command to a move."""

    dry_run: bool = Field(
        default=False, description="Go through the same steps, and change nothing."
    )


class MoveFlipBody(_MoveCommandBody):
    """How the traffic is to change hands."""

    timeout_s: float = Field(
        default=30.0, ge=1, le=3600, description="Writers are blocked for no longer than this."
    )
    max_lag_s: float = Field(
        default=10.0, ge=0, le=86_400, description="Refused when the feed is further behind."
    )

    def order(self, command: Command) -> MoveOrder:
        """The same, as the core has it."""
        return MoveOrder(
            command,
            timeout_ms=round(self.timeout_s * 1000),
            max_lag_ms=round(self.max_lag_s * 1000),
        )


class _MoveEndBody(_MoveCommandBody):
    """How a move is to end."""

    lost: Literal["source", "target"] | None = Field(
        default=None,
        description="The side without the traffic, which is gone for ever: it is not waited for. "
        "Refused while it can be reached.",
    )

    @property
    def lost_side(self) -> Side | None:
        """The same, as the core has it."""
        return None if self.lost is None else Side(self.lost)


class MoveCompleteBody(_MoveEndBody):
    """How a move is to be completed."""

    source_tables: Literal["rename", "drop", "keep"] = Field(
        description="What becomes of them. `rename`: `orders` becomes `_orders_old`."
    )

    @property
    def order(self) -> MoveOrder:
        """The same, as the core has it."""
        disposal = Disposal(self.source_tables)
        return MoveOrder(Command.COMPLETE, disposal=disposal, lost=self.lost_side)


class MoveCancelBody(_MoveEndBody):
    """How a move is to be given up."""

    keep: bool = Field(default=False, description="Keep the target's tables as they are.")

    @property
    def order(self) -> MoveOrder:
        """The same, as the core has it."""
        disposal = Disposal.KEEP if self.keep else Disposal.DROP
        return MoveOrder(Command.CANCEL, disposal=disposal, lost=self.lost_side)


class _DiffBody(_Body):
    """A comparison, or one that is asked for again."""

    id: str = Field(
        default="",
        pattern=r"^([0-9a-f]{8,32})?$",
        description="A name for the diff, made up at random. Asked again under the same name, it "
        "is not run twice.",
        examples=["5f0c2a9d1e"],
    )
    repair: bool = Field(
        default=False, description="Make the target's rows equal. Needs the role admin."
    )


class DiffBody(_DiffBody):
    """What is to be compared: tables of two endpoints, or of a feed."""

    source: str = Field(
        default="", max_length=40, pattern=r"^[^\x00]*$", description="An endpoint's name."
    )
    target: str = Field(
        default="", max_length=40, pattern=r"^[^\x00]*$", description="An endpoint's name."
    )
    tables: list[Text] = Field(
        default=[],
        max_length=_COUNT_MAX,
        description="Patterns, over the source's tables. With a feed: of its tables; none: all.",
        examples=[["public.*"]],
    )
    feed: str = Field(
        default="",
        max_length=40,
        pattern=r"^[^\x00]*$",
        description="The feed between the two: both sides are looked at as of one position, "
        "whoever writes meanwhile. Source and target then go without saying.",
        examples=["shop"],
    )

    @property
    def order(self) -> DiffOrder:
        """The same, as the service has it."""
        return DiffOrder(
            source=self.source,
            target=self.target,
            tables=tuple(self.tables),
            feed=self.feed,
            repair=self.repair,
        )


class MoveDiffBody(_DiffBody):
    """How both sides of a move are compared."""

    resume: bool = Field(
        default=False,
        description="Go on with the move's last diff, which failed, instead of a new one.",
    )


class TokenBody(_Body):
    """Whom to let in."""

    name: Name
    role: Literal["viewer", "operator", "admin"]

    @property
    def allowed(self) -> Role:
        """As the service has it."""
        return Role(self.role)
