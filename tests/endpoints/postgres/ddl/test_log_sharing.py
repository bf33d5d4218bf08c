"""Feeds share the log of a source: whose part is whose does not depend on what they are called."""

import threading

import psycopg

from lockgate.endpoints.postgres.ddl.log import add_capture, install, remains, remove_capture
from tests.endpoints.postgres.ddl.rig import FEED, Rig
from tests.endpoints.postgres.ddl.test_following import SETUP
from tests.support.waiting import until

BY_NAME = (
    "ALTER TABLE lockgate.ddl_captures DROP CONSTRAINT ddl_captures_pkey, ADD PRIMARY KEY (feed)"
)
"""As the log was once: feeds of one name overwrote each other."""


def _captured(connection: psycopg.Connection) -> list[str]:
    found = connection.execute("SELECT publication FROM lockgate.ddl_captures ORDER BY 1")
    return [publication for (publication,) in found]


def _joined(rig: Rig, *publications: str) -> None:
    """Feeds of one name, of two installations or one after the other."""
    rig.source.execute(SETUP)
    install(rig.source)
    for publication in publications:
        rig.source.execute(f"CREATE PUBLICATION {publication} FOR TABLE item")
        add_capture(rig.source, FEED, publication, ["public.*"])


def _has_fresh(rig: Rig, publication: str) -> bool:
    found = rig.source.execute(
        "SELECT 1 FROM pg_publication_tables WHERE pubname = %s AND tablename = 'fresh'",
        (publication,),
    )
    return found.fetchone() is not None


def test_feeds_of_one_name_do_not_take_each_other_s_place(follower: Rig) -> None:
    _joined(follower, "here", "there")
    assert _captured(follower.source) == ["here", "there"]
    follower.source.execute("CREATE TABLE fresh (id integer PRIMARY KEY)")
    assert _has_fresh(follower, "here")
    assert _has_fresh(follower, "there")


def test_who_goes_takes_nothing_from_a_feed_of_the_same_name(follower: Rig) -> None:
    _joined(follower, "anew")
    assert remove_capture(follower.source, "former") is False
    follower.source.execute("CREATE TABLE fresh (id integer PRIMARY KEY)")
    assert _has_fresh(follower, "anew")


def test_a_log_that_the_last_feed_took_away_meanwhile_is_there_again(follower: Rig) -> None:
    """Between the set-up's installing and its joining, somebody left."""
    follower.source.execute(SETUP)
    install(follower.source)
    assert remove_capture(follower.source, "former") is True
    follower.source.execute("CREATE PUBLICATION anew FOR TABLE item")
    add_capture(follower.source, FEED, "anew", ["public.*"])
    follower.source.execute("CREATE TABLE fresh (id integer PRIMARY KEY)")
    assert _has_fresh(follower, "anew")


def test_a_log_that_knew_feeds_by_name_is_taken_over(follower: Rig) -> None:
    _joined(follower, "former")
    follower.source.execute(BY_NAME)
    follower.source.execute("CREATE PUBLICATION anew FOR TABLE item")
    add_capture(follower.source, FEED, "anew", ["public.*"])
    assert _captured(follower.source) == ["anew", "former"]
    follower.source.execute("DROP PUBLICATION anew, former")
    assert remove_capture(follower.source, "former") is False
    assert remove_capture(follower.source, "anew") is True
    assert remains(follower.source) == []


def test_ddl_that_runs_while_the_last_feed_leaves_goes_through(follower: Rig) -> None:
    """Its trigger has begun, and finds neither tables nor functions once it may look."""
    _joined(follower, "alone")
    with _session(follower) as user:
        alter = "ALTER TABLE item ADD COLUMN extra integer"
        altering = threading.Thread(target=user.execute, args=(alter,))
        with follower.source.transaction():
            assert remove_capture(follower.source, "alone") is True
            altering.start()
            until(lambda: _waits(follower, user))
        altering.join()
    found = follower.source.execute("SELECT * FROM item LIMIT 0").description
    assert found is not None
    assert "extra" in [column.name for column in found]


def _waits(rig: Rig, user: psycopg.Connection) -> bool:
    found = rig.source.execute(
        "SELECT wait_event_type FROM pg_stat_activity WHERE pid = %s", (user.info.backend_pid,)
    )
    return found.fetchone() == ("Lock",)


def _session(rig: Rig) -> psycopg.Connection:
    return psycopg.connect(rig.source.info.dsn, password=rig.source.info.password)
