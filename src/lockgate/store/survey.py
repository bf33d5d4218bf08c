"""What a metastore holds, in numbers: for people who look after it."""

import sqlalchemy as sa

from lockgate.model.value import Value
from lockgate.store.migrations import NEWEST
from lockgate.store.tables import nodes, records, scopes

__all__ = ["ScopeSurvey", "Survey", "survey"]


class ScopeSurvey(Value, frozen=True):
    """One scope: whose it is, how often it was written, how much is in it."""

    scope: str
    fence: int
    serial: int
    records: int


class Survey(Value, frozen=True):
    """One metastore."""

    metastore: str
    schema_version: int
    nodes: int
    """That ever joined."""
    scopes: tuple[ScopeSurvey, ...]


def survey(connection: sa.Connection, label: str) -> Survey:
    """Count, at one moment. Whoever opened the metastore has brought it to the newest schema."""
    held = (
        sa.select(records.c.scope, sa.func.count().label("held"))
        .group_by(records.c.scope)
        .subquery()
    )
    rows = connection.execute(
        sa.select(scopes.c.scope, scopes.c.fence, scopes.c.serial, held.c.held)
        .select_from(scopes.outerjoin(held, held.c.scope == scopes.c.scope))
        .order_by(scopes.c.scope)
    )
    found = tuple(ScopeSurvey(scope, fence, serial, n or 0) for scope, fence, serial, n in rows)
    joined = connection.execute(sa.select(sa.func.count()).select_from(nodes)).scalar_one()
    return Survey(label, NEWEST, joined, found)
