"""C1: every type arrives as it is, in binary form and as text, on older and newer servers too.

Each type is a table of its own, so this is also a run with many small tables.
"""

from collections.abc import Iterator
from typing import NamedTuple

import psycopg
import pytest
from psycopg import sql

from lockgate.endpoints.postgres.copy.survey import survey
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.schema.identifiers import identifier
from lockgate.model.tables import TableName
from lockgate.pipeline.copy import copy_spans
from lockgate.pipeline.session import Spark
from tests.endpoints.postgres.sink.test_types import EXTENDED, EXTENSIONS, KINDS, TYPES, Kind
from tests.support.copies import Scene, scene_of
from tests.support.databases import fresh_database

TEXT_ONLY = {"tsquery", "xml", "int2vector", "oidvector"}
EVERY = [
    *KINDS,
    # Arrow has no such timestamps, and the copy no Arrow.
    Kind("timestamp", ("294247-01-10 04:00:54.775807", "294276-12-31 23:59:59.999999")),
    Kind("timestamptz", ("294247-01-10 04:00:54.775808+00", "294276-12-31 23:59:59.999999+00")),
]


class Case(NamedTuple):
    """From which version to which, and a type beside each column.

    With a column beside it that has no binary form, a whole table travels as text.
    """

    source: int
    target: int
    beside: str

    @property
    def kinds(self) -> list[Kind]:
        """The types that both sides know."""
        return [kind for kind in EVERY if kind.since <= min(self.source, self.target)]

    def binary(self, kind: Kind) -> bool:
        """The type is to travel in binary form."""
        text = kind.type in TEXT_ONLY or kind.type.startswith(("reg", *EXTENDED))
        older = self.target < 17 <= self.source
        return not (self.beside or text or (older and kind.type.startswith("interval")))


CASES = [
    Case(source, target, beside)
    for source, target in [(18, 16), (16, 18), (18, 18)]
    for beside in ["", "regclass"]
]


def _named(case: Case) -> str:
    return f"{case.source}_to_{case.target}_{'text' if case.beside else 'binary'}"


@pytest.fixture
def scene(case: Case, request: pytest.FixtureRequest) -> Iterator[Scene]:
    beside = f", beside {case.beside}" if case.beside else ""
    tables = [
        f"CREATE TABLE t{number} (id bigint PRIMARY KEY, c {kind.type}{beside})"
        for number, kind in enumerate(case.kinds)
    ]
    with (
        fresh_database(request.getfixturevalue(f"pg{case.source}")) as source,
        fresh_database(request.getfixturevalue(f"pg{case.target}")) as target,
        scene_of(source, target, EXTENSIONS, TYPES, *tables) as scene,
    ):
        for number, kind in enumerate(case.kinds):
            for key, literal in enumerate(kind.literals):
                scene.stream.execute(f"INSERT INTO t{number} (id, c) VALUES (%s, %s)", key, literal)
        scene.there.execute(EXTENSIONS)
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


@pytest.mark.parametrize("case", CASES, ids=_named)
def test_every_type_arrives(spark: Spark, scene: Scene, case: Case) -> None:
    known = survey(scene.source, scene.target, scene.feed, scene.orders())
    for number, kind in enumerate(case.kinds):
        binary = known[TableName("public", f"t{number}")].table.binary
        assert binary is case.binary(kind), kind
    outcomes = copy_spans(spark, scene.feed, scene.source, scene.target, scene.orders(), "types")
    assert [o for o in outcomes if o.error or o.refusal] == []
    scene.there.execute("SET TimeZone = 'UTC'; SET extra_float_digits = 3; SET lc_monetary = 'C'")
    for name in scene.definitions:
        assert _printed(scene.there, name) == _printed(scene.here, name), name


def test_generated_columns_are_computed_and_identities_kept(
    spark: Spark, pg18: EmbeddedPostgres
) -> None:
    with (
        fresh_database(pg18) as source,
        fresh_database(pg18) as target,
        scene_of(
            source,
            target,
            "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY (START 7) PRIMARY KEY, "
            "twice int GENERATED ALWAYS AS (n * 2) STORED, n int, "
            "thrice int GENERATED ALWAYS AS (n * 3) VIRTUAL, "
            "other bigint GENERATED BY DEFAULT AS IDENTITY)",
            "INSERT INTO t (n, other) SELECT n, -n FROM generate_series(1, 100) n",
            "INSERT INTO t (n) VALUES (NULL)",
        ) as scene,
    ):
        scene.begin()
        orders = scene.orders()
        [outcome] = copy_spans(spark, scene.feed, scene.source, scene.target, orders, "types")
        assert outcome.error is None
        scene.assert_equal()
        query = "SELECT count(*), min(id), sum(twice), sum(thrice) FROM t"
        assert scene.there.execute(query).fetchall() == [(101, 7, 10100, 15150)]
