"""A feed as people and scripts see it: the documents of `feed status`, `feed tables` and kin.

Plain frozen dataclasses, as in `documents.py`: the HTTP interface describes them in its OpenAPI,
and the client reads them back.
"""

from dataclasses import dataclass

from lockgate.model.feeds import FeedState
from lockgate.model.ids import Epoch, FeedId


@dataclass(frozen=True)
class CopyProgress:
    """How far the first copy of the rows has come."""

    rows_done: int = 0
    rows_total: int = 0
    """An estimate by the source's statistics until all is copied."""
    percent: float = 0.0
    eta_s: float | None = None


@dataclass(frozen=True)
class FeedStatus:
    """What holds now, and what can be done next."""

    name: FeedId
    state: FeedState
    epoch: Epoch
    owner: str
    """The node whose maintainer owns the feed; empty while nobody does."""
    resolved: str
    """Everything up to here is captured."""
    checkpoint: str
    """Everything up to here is applied."""
    lag_s: float | None
    """Age of the oldest captured change that is not applied yet; 0 when there is none."""
    tables: int
    spans: int
    copy: CopyProgress
    rows_applied: int = 0
    error: str = ""
    next_steps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What people should know although nothing is wrong."""
    source: str = ""
    """The endpoint's name, or a URL without its secrets."""
    target: str = ""


@dataclass(frozen=True)
class FeedSpan:
    """A span: a key range of one table, the unit of scheduling."""

    span: str
    table: str
    low: str
    """The least key hash, in hex; empty: from the beginning."""
    high: str
    """The first key hash that is not in it; empty: to the end."""
    node: str
    """Where its dispatcher runs; empty while it has none."""
    state: str
    """`absent`, `starting`, `copying`, `running`, `blocked` (before a DDL), `held`, `retrying`."""
    position: str
    """Everything of it up to here is applied; empty while that is not known."""
    operator: str = ""
    """The change of placement that is under way: add, remove, move, split or merge."""
    error: str = ""


@dataclass(frozen=True)
class FeedTable:
    """A table of a feed, by its name at the source."""

    table: str
    target: str
    spans: tuple[FeedSpan, ...]
    state: str
    """`copying`, `running`, or the worst state of its spans."""
    checkpoint: str
    error: str = ""


@dataclass(frozen=True)
class PlannedTable:
    """What would become of one table."""

    table: str
    target: str
    columns: tuple[str, ...]
    left_out: tuple[str, ...]
    masked: tuple[str, ...]
    key: tuple[str, ...]
    """Empty: it has none, and is replicated under its full replica identity."""
    rows: str
    """The condition on its rows; empty: all of them."""
    rows_estimated: int
    exists: bool
    """It is there at the target already."""


@dataclass(frozen=True)
class FeedPlan:
    """What creating a feed would make, and what stands in its way."""

    name: FeedId
    tables: tuple[PlannedTable, ...]
    makes: tuple[str, ...]
    """Everything that would be made at the endpoints, one line each."""
    findings: tuple["FindingDocument", ...]


@dataclass(frozen=True)
class FindingDocument:
    """One thing that was looked at, at an endpoint."""

    severity: str
    """`ok`, `warning` or `error`."""
    code: str
    what: str
    object: str
    hint: str = ""
