"""C1: every type arrives as it is, in binary form and as text, on an older server too.

Each type is a table of its own, so this is also a run with many small tables.
"""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from lockgate.endpoints.postgres.copy.survey import survey
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.schema.identifiers import identifier
from lockgate.model.tables import TableName
from lockgate.pipeline.copy import copy_spans
from lockgate.pipeline.session import Spark
from tests.endpoints.postgres.sink.test_types import KINDS, TYPES
from tests.support.copies import Scene, scene_of
from tests.support.databases import fresh_database

TEXT_ONLY = {"tsquery", "xml", "interval"}
"""The types of the list that do not travel in binary form, or not to this older server."""


@pytest.fixture(params=["", "regclass"], ids=["binary", "text"])
def scene(
    request: pytest.FixtureRequest, pg18: EmbeddedPostgres, pg16: EmbeddedPostgres
) -> Iterator[Scene]:
    """With a column beside it that has no binary form, a whole table travels as text."""
    beside = f", beside {request.param}" if request.param else ""
    tables = [
        f"CREATE TABLE t{number} (id bigint PRIMARY KEY, c {kind.type}{beside})"
        for number, kind in enumerate(KINDS)
    ]
    with (
        fresh_database(pg18) as source,
        fresh_database(pg16) as target,
        scene_of(source, target, TYPES, *tables) as scene,
    ):
        for number, kind in enumerate(KINDS):
            for key, literal in enumerate([*kind.values, None]):
                scene.stream.execute(f"INSERT INTO t{number} (id, c) VALUES (%s, %s)", key, literal)
        scene.begin()
        yield scene


def _printed(connection: psycopg.Connection, name: TableName) -> list[bytes]:
    with connection.cursor().copy(sql.SQL("COPY {} TO STDOUT").format(identifier(name))) as copy:
        return sorted(map(bytes, copy))


@pytest.mark.parametrize("value", ["infinity", "-infinity"])
def test_an_infinite_interval_is_refused_where_it_is_not_known(
    spark: Spark, pg18: EmbeddedPostgres, pg16: EmbeddedPostgres, value: str
) -> None:
    with (
        fresh_database(pg18) as source,
        fresh_database(pg16) as target,
        scene_of(source, target, "CREATE TABLE t (id int PRIMARY KEY, c interval)") as scene,
    ):
        scene.stream.execute("INSERT INTO t VALUES (1, %s)", value)
        scene.begin()
        orders = scene.orders()
        [outcome] = copy_spans(spark, scene.feed, scene.source, scene.target, orders, "types")
        assert scene.there.execute("SELECT * FROM t").fetchall() == []
        assert outcome.error is not None
        assert value in str(outcome.error)


def test_every_type_arrives(spark: Spark, scene: Scene, request: pytest.FixtureRequest) -> None:
    known = survey(scene.source, scene.target, scene.feed, scene.orders())
    for number, kind in enumerate(KINDS):
        binary = "binary" in request.node.name and kind.type not in TEXT_ONLY
        assert known[TableName("public", f"t{number}")].table.binary is binary, kind
    outcomes = copy_spans(spark, scene.feed, scene.source, scene.target, scene.orders(), "types")
    assert [o for o in outcomes if o.error or o.refusal] == []
    scene.there.execute("SET TimeZone = 'UTC'; SET extra_float_digits = 3; SET lc_monetary = 'C'")
    for name in scene.definitions:
        assert _printed(scene.there, name) == _printed(scene.here, name), name
