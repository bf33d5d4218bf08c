"""What a maintainer asks a node to do with one span. Several travel in one `Requests` message."""

from lockgate.model.ddl import Ddl
from lockgate.model.ids import OperatorId, SpanId, Token
from lockgate.model.positions import Position
from lockgate.model.spans import Birth, Lineage, SpanSpec
from lockgate.model.value import Value


class Create(Value, frozen=True, tag=True):
    """Run this span under this token. For a prepared merge target: the merge is committed, go."""

    spec: SpanSpec
    token: Token
    lineage: Lineage | None = None
    birth: Birth | None = None

    @property
    def span(self) -> SpanId:
        return self.spec.id


class Remove(Value, frozen=True, tag=True):
    """Stop whatever runs this span under a lower token, and obey no lower token any more."""

    span: SpanId
    token: Token


class Prepare(Value, frozen=True, tag=True):
    """Make room for the target of a merge. It starts with a Create of the same token."""

    spec: SpanSpec
    token: Token
    operator: OperatorId

    @property
    def span(self) -> SpanId:
        return self.spec.id


class Hold(Value, frozen=True, tag=True):
    """Apply nothing more for now: a merge is about to take this dispatcher's span."""

    span: SpanId
    token: Token
    operator: OperatorId


class Release(Value, frozen=True, tag=True):
    """The merge that held this dispatcher is off: go on."""

    span: SpanId
    token: Token
    operator: OperatorId


class Write(Value, frozen=True, tag=True):
    """To the trigger dispatcher: everybody concerned stands before this DDL; write it."""

    span: SpanId
    token: Token
    ddl: Ddl
    births: tuple[SpanSpec, ...] = ()


class Pass(Value, frozen=True, tag=True):
    """The DDL at this position is written and recorded: go on behind it."""

    span: SpanId
    token: Token
    position: Position


Request = Create | Remove | Prepare | Hold | Release | Write | Pass
