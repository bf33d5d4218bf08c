"""What tells a source from others: every role may ask, and every database has its own."""

import psycopg

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.source.identity import identity
from tests.support.databases import fresh_database


def test_a_database_is_known_whoever_asks_and_from_every_other(
    pg16: EmbeddedPostgres, pg18: EmbeddedPostgres
) -> None:
    found = set()
    for server in (pg16, pg18):
        with (
            fresh_database(server) as one,
            fresh_database(server) as two,
            psycopg.connect(one) as connection,
            psycopg.connect(two) as another,
        ):
            found |= {identity(connection), identity(another)}
            connection.execute("CREATE ROLE nobody_much")
            connection.execute("SET LOCAL ROLE nobody_much")
            assert identity(connection) in found
            connection.execute("RESET ROLE")
            connection.execute("REVOKE EXECUTE ON FUNCTION pg_control_system FROM PUBLIC")
            connection.execute("SET LOCAL ROLE nobody_much")
            assert identity(connection) == ""
            connection.rollback()
    assert len(found) == 4
