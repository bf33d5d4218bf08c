"""What a feed takes of a table that the stream describes: which columns, behind which masks.

The stream names types by number. What a number means is asked of the source's catalog once: a
type's number never comes to mean another type. So a shape is made from what the stream says at
that very moment, and not from what the table has become since.
"""

from collections.abc import Collection

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.pgoutput.relations import Relation, TablePlan
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.feed_config import FeedConfig
from lockgate.model.ids import TableId
from lockgate.model.selection import plan_for
from lockgate.model.tables import Column, Identity, TableShape

__all__ = ["RelationPlans"]

_FULL, _NOTHING = "f", "n"
_PATH = {"search_path": "pg_catalog, pg_temp"}
"""Types of users are told with their schemas, as everywhere else."""

_TYPES = """
WITH RECURSIVE base AS (
    SELECT t.oid AS asked, t.oid, t.typtype, t.typbasetype FROM pg_type t WHERE t.oid = ANY (%s)
    UNION ALL
    SELECT b.asked, t.oid, t.typtype, t.typbasetype
    FROM base b JOIN pg_type t ON t.oid = b.typbasetype WHERE b.typtype = 'd'
)
SELECT w.id, w.modifier, format_type(w.id, w.modifier),
       (SELECT b.oid FROM base b WHERE b.asked = w.id AND b.typtype <> 'd')
FROM unnest(%s::oid[], %s::int[]) AS w(id, modifier)
"""


class RelationPlans:
    """Answers the decoder: what is wanted of this relation?"""

    def __init__(
        self,
        source: PostgresUrl,
        config: FeedConfig,
        shapes: dict[TableId, TableShape],
        numbers: Collection[int] | None = None,
    ) -> None:
        """`shapes` are known shapes, for the keys of tables that send whole rows. `numbers`, where
        given, are the lasting numbers of all tables that are taken, whatever they are called."""
        self._source = source
        self._config = config
        self._shapes = shapes
        self._numbers = numbers
        self._types: dict[tuple[int, int], tuple[str, int]] = {}

    def __call__(self, relation: Relation) -> TablePlan | None:
        """The plan for a relation; None when the feed does not take the table."""
        if self._numbers is not None and relation.oid not in self._numbers:
            return None
        key = self._key(relation)
        names = [column.name for column in relation.columns]
        selection = plan_for(self._config, relation.table, names, key)
        if selection is None:
            return None
        self._learn(relation)
        columns = tuple(
            Column(column.name, *self._types[column.type_id, column.modifier])
            for column in relation.columns
            if column.name not in selection.left_out
        )
        shape = TableShape(
            relation.table, columns, key, _IDENTITIES.get(relation.identity, Identity.KEY)
        )
        return TablePlan(shape, selection.masks)

    def _key(self, relation: Relation) -> tuple[str, ...]:
        """By which columns the stream identifies a row, in the table's order of columns."""
        if relation.identity == _NOTHING:
            return ()
        if relation.identity != _FULL:
            return tuple(column.name for column in relation.columns if column.key)
        known = self._shapes.get(relation.table.id)
        wanted = set(known.key) if known is not None else set()
        found = tuple(column.name for column in relation.columns if column.name in wanted)
        return found if len(found) == len(wanted) else ()

    def _learn(self, relation: Relation) -> None:
        asked = {(column.type_id, column.modifier) for column in relation.columns}
        new = sorted(asked - self._types.keys())
        if not new:
            return
        ids = [id_ for id_, _ in new]
        with (
            connect(self._source, purpose="types", autocommit=True, options=_PATH) as connection,
            faults(object_=self._source.label, operation="look up types"),
        ):
            rows = connection.execute(_TYPES, (ids, ids, [modifier for _, modifier in new]))
            for id_, modifier, text, base in rows:
                self._types[id_, modifier] = (text, base or id_)


_IDENTITIES = {_FULL: Identity.FULL, _NOTHING: Identity.NOTHING}
