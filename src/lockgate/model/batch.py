"""How the metastore is written: fenced, numbered batches.

Each scope has one row: the *fence* of its owner and the *serial* of the last batch that
landed. A batch lands only when the fence is still the writer's and its serial is the next
one, all or nothing. From this follow the four answers:

- `Landed`: it is durable. Also the answer to a batch that had landed before: the serial
  tells, so a repeated batch is never written twice.
- `Refused`: the fence has moved on; the writer is stale and must stop.
- `NotLanded`: this attempt certainly did not land and never will. If no earlier attempt is
  in doubt, the writer may change its mind and use the serial for something else.
- `Unknown`: it may have landed, or may still land. Only the *same* batch may be sent under
  that serial again, until it is known to have landed or is refused; that a later attempt did
  not land says nothing about the earlier one.
"""

from lockgate.model.ids import Millis, NodeRef, Term
from lockgate.model.records import Record, RecordKey, Scope
from lockgate.model.value import Value


class Raise(Value, frozen=True):
    """Hand a scope to a new owner: its fence goes from exactly `old` to `new`, which is higher."""

    scope: Scope
    old: int
    new: int


class Batch(Value, frozen=True):
    """What one owner wants durable together. Deletes come before puts; raises are checked first."""

    scope: Scope
    fence: int
    serial: int
    puts: tuple[Record, ...] = ()
    deletes: tuple[RecordKey, ...] = ()
    raises: tuple[Raise, ...] = ()


class Landed(Value, frozen=True):
    """The batch is durable."""

    scope: Scope
    serial: int


class Refused(Value, frozen=True):
    """The scope has another owner, or a raise did not start from where the scope stands."""

    scope: Scope
    serial: int
    fence: int


class NotLanded(Value, frozen=True):
    """This attempt has no effect and never will have."""

    scope: Scope
    serial: int
    why: str = ""


class Unknown(Value, frozen=True):
    """This attempt may or may not have its effect, now or later."""

    scope: Scope
    serial: int
    why: str = ""


class Loaded(Value, frozen=True):
    """All records of a scope, with its fence and serial, read at one moment."""

    scope: Scope
    fence: int
    serial: int
    records: tuple[Record, ...]


class LoadFailed(Value, frozen=True):
    """The scope could not be read; nothing is known."""

    scope: Scope
    why: str = ""


class Member(Value, frozen=True, array_like=True):
    """A node whose lease is running, as the metastore's clock has it."""

    ref: NodeRef
    draining: bool = False


class Leader(Value, frozen=True, array_like=True):
    """The coordinator, by the metastore's word."""

    ref: NodeRef
    term: Term


class Joined(Value, frozen=True):
    """A node has a new life, under a lease that counts from `asked_at` of the node's clock."""

    ref: NodeRef
    asked_at: Millis


class JoinFailed(Value, frozen=True):
    """The node could not join, or it is not known whether it did; either way it asks again."""

    why: str = ""


class Renewed(Value, frozen=True):
    """The lease runs on, and with it what the metastore says of the cluster."""

    ref: NodeRef
    asked_at: Millis
    members: tuple[Member, ...]
    leader: Leader | None


class RenewFailed(Value, frozen=True):
    """The lease may not have been renewed. It still runs until its old end."""

    ref: NodeRef
    why: str = ""


class LeaseLost(Value, frozen=True):
    """The metastore knows this life of the node no more."""

    ref: NodeRef
