"""The log at the source: in order with rows, harmless to users, shared, gone without a trace."""

import threading
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from lockgate.endpoints.postgres.ddl.changes import chooser, interpret
from lockgate.endpoints.postgres.ddl.functions import VERSION
from lockgate.endpoints.postgres.ddl.log import (
    add_capture,
    install,
    installed_version,
    remains,
    remove_capture,
    stragglers,
    trim,
)
from lockgate.model.errors import EndpointBusy, MissingPrivilege
from lockgate.model.tables import TableName
from tests.endpoints.postgres.ddl.rig import FEED, PUBLICATION, Rig, config
from tests.endpoints.postgres.ddl.test_following import SETUP
from tests.support.waiting import until


def published(connection: psycopg.Connection, publication: str = PUBLICATION) -> set[str]:
    found = connection.execute(
        "SELECT schemaname || '.' || tablename FROM pg_publication_tables WHERE pubname = %s",
        (publication,),
    )
    return {row[0] for row in found}


# --- in order with the rows ---------------------------------------------------------------------


@pytest.fixture
def slot(follower: Rig) -> Iterator[str]:
    """A slot from the set-up on."""
    follower.begin(SETUP)
    name = "order_of_things"
    follower.source.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (name,))
    yield name
    follower.source.execute("SELECT pg_drop_replication_slot(%s)", (name,))


def sent(connection: psycopg.Connection, slot: str) -> list[str]:
    """The stream as words: `insert table`, in order; the log's rows with their tags."""
    names: dict[int, str] = {}
    words: list[str] = []
    rows = connection.execute(
        "SELECT data FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL, "
        "'proto_version', '1', 'publication_names', %s)",
        (slot, PUBLICATION),
    )
    for (data,) in rows:
        kind, oid = data[:1], int.from_bytes(data[1:5], "big")
        if kind == b"R":
            names[oid] = data[5:].split(b"\0")[1].decode()
        elif kind in b"IUDT":
            words.append(f"{kind.decode()} {names.get(oid, '')}".strip())
    return words


def test_schema_changes_arrive_between_the_rows_of_their_transaction(
    follower: Rig, slot: str
) -> None:
    follower.source.execute(
        "BEGIN; INSERT INTO item (id, name) VALUES (10, 'a');"
        "ALTER TABLE item ADD COLUMN extra integer; INSERT INTO item (id, name) VALUES (11, 'b');"
        "CREATE TABLE fresh (id integer PRIMARY KEY); INSERT INTO fresh VALUES (1);"
        "SAVEPOINT s; ALTER TABLE item DROP COLUMN extra; ROLLBACK TO s;"
        "INSERT INTO item (id, name) VALUES (12, 'c'); COMMIT"
    )
    assert sent(follower.source, slot) == [
        *("I item", "I ddl_log", "I item", "I ddl_log", "I fresh", "I item"),
    ]


def test_the_first_row_of_a_new_partition_is_captured(follower: Rig, slot: str) -> None:
    follower.source.execute(
        "BEGIN; CREATE TABLE part_jp PARTITION OF part FOR VALUES IN ('jp');"
        "INSERT INTO part VALUES (1, 'jp'); COMMIT"
    )
    assert sent(follower.source, slot) == ["I ddl_log", "I part"]


def test_a_new_table_without_a_key_can_be_updated_by_its_users(follower: Rig, slot: str) -> None:
    follower.source.execute(
        "CREATE TABLE fresh (id integer); INSERT INTO fresh VALUES (1);"
        "UPDATE fresh SET id = 2; DELETE FROM fresh;"
        "CREATE TABLE split (id integer) PARTITION BY RANGE (id);"
        "CREATE TABLE split_1 PARTITION OF split FOR VALUES FROM (1) TO (9);"
        "INSERT INTO split VALUES (1); UPDATE split SET id = 2"
    )
    rows = [word for word in sent(follower.source, slot) if "ddl_log" not in word]
    assert rows == ["I fresh", "U fresh", "D fresh", "I split", "U split"]


def test_a_partition_truncated_alone_stops_the_feed(follower: Rig, slot: str) -> None:
    follower.source.execute("BEGIN; TRUNCATE part; INSERT INTO part VALUES (1, 'de'); COMMIT")
    assert follower.step() is None
    follower.source.execute("TRUNCATE part_us")
    assert follower.step() is None
    follower.source.execute("TRUNCATE part_eu, part; TRUNCATE item")
    assert follower.step() is None
    follower.source.execute("INSERT INTO part VALUES (1, 'de'), (2, 'us')")
    follower.source.execute(
        "BEGIN; TRUNCATE part; INSERT INTO part VALUES (1, 'de'); TRUNCATE part_eu; COMMIT"
    )
    step = follower.step()
    assert step is not None
    assert step.unsupported is not None
    assert "public.part_eu was truncated alone" in step.unsupported[1].why
    follower.step("CREATE TABLE part_jp PARTITION OF part FOR VALUES IN ('jp')")
    follower.source.execute("INSERT INTO part VALUES (3, 'jp')")
    follower.source.execute("SET session_replication_role = replica; TRUNCATE part_jp")
    step = follower.step()
    assert step is not None
    assert step.unsupported is not None
    assert "public.part_jp" in step.unsupported[1].why


def test_children_follow_what_they_inherit(follower: Rig) -> None:
    follower.begin(
        "CREATE TABLE parent (id integer PRIMARY KEY, n integer); INSERT INTO parent VALUES (1, 1);"
        "CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent);"
    )
    step = follower.follow("ALTER TABLE parent ADD COLUMN x text, ALTER COLUMN n TYPE bigint")
    assert sorted(str(table.now) for table in step.tables) == ["public.child", "public.parent"]
    for name in ("parent", "child"):
        found = follower.target.execute(
            sql.SQL("SELECT x, pg_typeof(n)::text FROM {} UNION ALL SELECT NULL, 'bigint'").format(
                sql.Identifier(name)
            )
        )
        assert set(found.fetchall()) == {(None, "bigint")}
    step = follower.step("ALTER TABLE parent ALTER COLUMN n TYPE bigint USING n + 1")
    assert step is not None
    assert step.unsupported is not None


def test_a_table_tells_whole_rows_only_as_long_as_it_has_no_key(follower: Rig) -> None:
    def identity() -> str:
        found = follower.source.execute(
            "SELECT relreplident::text FROM pg_class WHERE oid = 'item'::regclass"
        ).fetchone()
        assert found is not None
        return str(found[0])

    follower.begin(SETUP)
    follower.source.execute("ALTER TABLE item DROP CONSTRAINT item_pkey")
    assert identity() == "f"
    follower.source.execute(
        "UPDATE item SET n = 3 WHERE id = 1; ALTER TABLE item ADD PRIMARY KEY (id)"
    )
    assert identity() == "d"
    follower.source.execute("ALTER TABLE item DROP CONSTRAINT item_pkey")
    follower.source.execute(sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(PUBLICATION)))
    remove_capture(follower.source, PUBLICATION)
    assert identity() == "d"


def test_patterns_mean_at_the_source_what_they_mean_here(follower: Rig) -> None:
    follower.config = config(
        tables=("public.*", "!public.tmp_?", '"We.ird*"."*"', "app.o[x]*", "ap+.(a|b)")
    )
    follower.begin(SETUP)
    takes = ("public.tmp_10", 'public."a\nb"', '"We.ird*"."*"', 'app."o[x]y"', '"ap+"."(a|b)"')
    leaves = ("public.tmp_1", '"We.irdo"."*"', "app.ox", "app.a", '"We.ird*".a')
    follower.source.execute('CREATE SCHEMA app; CREATE SCHEMA "ap+"; CREATE SCHEMA "We.ird*";')
    follower.source.execute('CREATE SCHEMA "We.irdo"')
    before = published(follower.source)
    for name in (*takes, *leaves):
        follower.source.execute(f"CREATE TABLE {name} (id integer PRIMARY KEY)")
    new = follower.source.execute(
        "SELECT string_agg(quote_ident(schemaname) || '.' || quote_ident(tablename), ' ') "
        "FROM pg_publication_tables WHERE schemaname || '.' || tablename <> ALL (%s)",
        (list(before),),
    ).fetchone()
    assert new is not None
    assert set(new[0].split(" ")) == set(takes)
    step = interpret(follower.logged(), chooser(follower.config))
    assert step is not None
    assert len(step.creates) == len(takes)


def test_a_row_filter_goes_with_a_new_table(follower: Rig) -> None:
    follower.config = config(rows={"public.filtered_*": "region = 'eu' AND id > 3"})
    follower.begin(SETUP)
    follower.source.execute(
        "CREATE TABLE filtered_1 (id integer, region text, PRIMARY KEY (id, region))"
    )
    found = follower.source.execute(
        "SELECT rowfilter FROM pg_publication_tables WHERE tablename = 'filtered_1'"
    ).fetchone()
    assert found == ("((region = 'eu'::text) AND (id > 3))",)


# --- harmless to users --------------------------------------------------------------------------


def test_a_user_without_any_rights_on_the_log_alters_his_tables(follower: Rig) -> None:
    follower.begin(SETUP)
    follower.source.execute(
        "DROP ROLE IF EXISTS owner_; CREATE ROLE owner_; ALTER TABLE item OWNER TO owner_;"
        "GRANT CREATE, USAGE ON SCHEMA public TO owner_"
    )
    try:
        follower.source.execute("SET ROLE owner_")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            follower.source.execute("SELECT * FROM lockgate.ddl_log")
        follower.source.execute(
            "SET search_path = public; CREATE TEMP TABLE pg_class (oid oid);"
            "ALTER TABLE item ADD COLUMN extra date DEFAULT '2020-01-02';"
            "CREATE TABLE mine (id integer)"
        )
        follower.source.execute("RESET ROLE; RESET search_path; DROP TABLE pg_temp.pg_class")
        rows = follower.logged()
        assert [row.failed for row in rows] == [False, False]
        assert "public.mine" in published(follower.source)
    finally:
        follower.source.execute("RESET ROLE; DROP OWNED BY owner_; DROP ROLE owner_")


def test_what_cannot_be_logged_stops_the_feed_and_not_the_user(follower: Rig) -> None:
    follower.begin(SETUP)
    follower.source.execute("DROP FUNCTION lockgate.ddl_watch(jsonb)")
    follower.source.execute("ALTER TABLE item ADD COLUMN extra integer")
    step = follower.step()
    assert step is not None
    assert step.unsupported is not None
    assert "could not be logged" in step.unsupported[1].why
    assert "ALTER TABLE item ADD COLUMN extra" in step.statement
    assert step.ddl(1).every_table
    columns = follower.source.execute("SELECT * FROM item LIMIT 0").description
    assert columns is not None
    assert "extra" in [column.name for column in columns]


def test_without_even_the_log_the_user_is_warned_and_goes_on(follower: Rig) -> None:
    follower.begin(SETUP)
    follower.source.execute("ALTER TABLE lockgate.ddl_log RENAME TO ddl_log_gone")
    warned: list[str | None] = []
    follower.source.add_notice_handler(lambda said: warned.append(said.message_primary))
    follower.source.execute("ALTER TABLE item ADD COLUMN extra integer")
    assert [said for said in warned if said and "Lockgate could not log this ALTER TABLE" in said]


def test_a_lost_publication_stops_its_own_feed_alone(follower: Rig) -> None:
    follower.begin(SETUP)
    follower.source.execute("CREATE PUBLICATION other_pub FOR TABLE item")
    add_capture(follower.source, "other", "other_pub", ["public.*"])
    follower.source.execute("DROP PUBLICATION other_pub")
    follower.source.execute("CREATE TABLE fresh (id integer PRIMARY KEY)")
    rows = follower.logged()
    mine = interpret(rows, follower.choose, feed=FEED)
    other = interpret(rows, follower.choose, feed="other")
    assert mine is not None
    assert mine.unsupported is None
    assert [str(name) for name in mine.creates] == ["public.fresh"]
    assert other is not None
    assert other.unsupported is not None


def test_a_cancelled_statement_stays_cancelled(follower: Rig) -> None:
    """The trigger catches errors, and a cancel is none of those that it may swallow."""
    follower.begin(SETUP)
    follower.source.execute(
        "CREATE OR REPLACE FUNCTION lockgate.ddl_matches(patterns jsonb, schema text, name text) "
        "RETURNS boolean LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(60); RETURN true; END'"
    )
    with pytest.raises(psycopg.errors.QueryCanceled):
        follower.source.execute("SET statement_timeout = 100; CREATE TABLE fresh (id integer)")
    found = follower.source.execute("SELECT to_regclass('public.fresh')").fetchone()
    assert found == (None,)


def test_sessions_that_play_a_replica_are_logged_too(follower: Rig) -> None:
    follower.begin(SETUP)
    follower.source.execute("SET session_replication_role = replica; ALTER TABLE item ADD x1 int")
    assert len(follower.logged()) == 1


def test_what_lockgate_itself_changed_is_marked(follower: Rig) -> None:
    follower.begin(SETUP)
    with follower.source.transaction():
        follower.source.execute("SELECT set_config('lockgate.feed', 'back', true)")
        follower.source.execute("ALTER TABLE item ADD COLUMN extra integer")
    assert [row.objects.by for row in follower.logged()] == ["back"]


# --- put there, shared, taken away --------------------------------------------------------------


def state(connection: psycopg.Connection) -> set[tuple[str, str]]:
    """All that a removal could leave."""
    found = connection.execute(
        "SELECT 'relation', oid::regclass::text FROM pg_class WHERE oid >= 16384 "
        "AND relkind IN ('r', 'S') UNION ALL SELECT 'function', oid::regprocedure::text "
        "FROM pg_proc WHERE oid >= 16384 UNION ALL SELECT 'trigger', evtname FROM pg_event_trigger "
        "UNION ALL SELECT 'schema', nspname FROM pg_namespace WHERE nspname !~ '^pg_' "
        "UNION ALL SELECT 'type', typname FROM pg_type WHERE oid >= 16384 "
        "UNION ALL SELECT 'trigger', tgname FROM pg_trigger WHERE NOT tgisinternal"
    )
    return {(kind, name) for kind, name in found}


def test_the_last_feed_takes_everything_with_it(each: Rig) -> None:
    each.source.execute(SETUP)
    clean = state(each.source)
    assert install(each.source) == install(each.source) == VERSION
    for feed in ("one", "two"):
        each.source.execute(f"CREATE PUBLICATION {feed} FOR TABLE item, part")
        add_capture(each.source, feed, feed, ["public.*"])
    each.source.execute("CREATE TABLE fresh (id integer PRIMARY KEY)")
    assert published(each.source, "one") == published(each.source, "two")
    each.source.execute("DROP PUBLICATION one")
    assert remove_capture(each.source, "one") is False
    assert len(remains(each.source)) > 10
    each.source.execute("CREATE TABLE fresher (id integer PRIMARY KEY)")
    assert {"public.fresh", "public.fresher"} < published(each.source, "two")
    each.source.execute("DROP PUBLICATION two; DROP TABLE fresh, fresher")
    assert remove_capture(each.source, "two") is True
    assert remove_capture(each.source, "two") is True
    assert remains(each.source) == []
    assert state(each.source) == clean


def test_what_others_keep_in_the_schema_stays(follower: Rig) -> None:
    install(follower.source)
    follower.source.execute("CREATE TABLE lockgate.progress (feed text)")
    assert remove_capture(follower.source, "any") is True
    assert remains(follower.source) == []
    assert follower.source.execute("SELECT count(*) FROM lockgate.progress").fetchone() == (0,)


def test_a_schema_that_was_there_before_stays(follower: Rig) -> None:
    follower.source.execute("CREATE SCHEMA lockgate")
    install(follower.source)
    remove_capture(follower.source, "any")
    assert ("schema", "lockgate") in state(follower.source)


def test_a_log_that_was_damaged_is_mended(follower: Rig) -> None:
    follower.begin(SETUP)
    follower.source.execute("DROP EVENT TRIGGER lockgate_ddl_end; DROP FUNCTION lockgate.ddl_roots")
    install(follower.source)
    follower.source.execute("ALTER TABLE item ADD COLUMN extra integer")
    assert [row.failed for row in follower.logged()] == [False]


def test_a_table_that_somebody_holds_is_left_for_later(follower: Rig) -> None:
    follower.begin(SETUP)
    follower.source.execute(sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(PUBLICATION)))
    dsn, password = follower.source.info.dsn, follower.source.info.password
    with psycopg.connect(dsn, password=password) as busy:
        busy.execute("INSERT INTO part VALUES (9, 'us')")
        assert remove_capture(follower.source, PUBLICATION) is True
        assert "trigger lockgate_truncated on part_us" in remains(follower.source)
        busy.execute("TRUNCATE part_us")
        busy.commit()
    assert remove_capture(follower.source, PUBLICATION) is True
    assert remains(follower.source) == []


def test_a_partition_that_somebody_holds_puts_the_set_up_off(follower: Rig) -> None:
    follower.source.execute(SETUP)
    install(follower.source)
    dsn, password = follower.source.info.dsn, follower.source.info.password
    with psycopg.connect(dsn, password=password) as busy:
        busy.execute("INSERT INTO part VALUES (9, 'us')")
        follower.source.execute("CREATE PUBLICATION p FOR TABLE part")
        with pytest.raises(EndpointBusy):
            add_capture(follower.source, FEED, "p", ["public.*"])
    assert "lockgate.ddl_log" not in published(follower.source, "p")
    add_capture(follower.source, FEED, "p", ["public.*"])
    assert "trigger lockgate_truncated on part_us" in remains(follower.source)


def test_a_newer_version_is_left_as_it_is(follower: Rig) -> None:
    install(follower.source)
    follower.source.execute("UPDATE lockgate.ddl_version SET version = version + 1")
    assert install(follower.source) == VERSION + 1
    assert installed_version(follower.source) == VERSION + 1


def test_without_the_right_to_event_triggers_nothing_is_left(follower: Rig) -> None:
    follower.source.execute("DROP ROLE IF EXISTS log_maker; CREATE ROLE log_maker")
    database = sql.Identifier(follower.source.info.dbname)
    follower.source.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO log_maker").format(database))
    clean = state(follower.source)
    try:
        follower.source.execute("SET ROLE log_maker")
        with pytest.raises(MissingPrivilege, match="event triggers") as refused:
            install(follower.source)
        assert "superuser" in refused.value.hint
    finally:
        follower.source.execute("RESET ROLE; DROP OWNED BY log_maker; DROP ROLE log_maker")
    assert state(follower.source) == clean


def test_tables_of_transactions_that_did_not_see_the_capture_are_found(
    follower: Rig,
) -> None:
    with psycopg.connect(follower.source.info.dsn, password=follower.source.info.password) as early:
        early.execute("CREATE TABLE missed (id integer PRIMARY KEY)")
        follower.begin(SETUP)
        assert stragglers(follower.source, PUBLICATION) == []
        early.commit()
    assert stragglers(follower.source, PUBLICATION) == [TableName("public", "missed")]


def test_the_log_does_not_grow_for_ever(follower: Rig) -> None:
    follower.begin(SETUP)
    for number in range(6):
        follower.source.execute(
            sql.SQL("ALTER TABLE item ADD COLUMN {} integer").format(sql.Identifier(f"c{number}"))
        )
    assert trim(follower.source, keep=2) == 4
    assert len(follower.logged()) == 2


def test_a_table_and_its_type_changed_at_once_are_both_remembered(follower: Rig) -> None:
    """A change of a type waits for no table: only the log's own record makes them take turns."""
    follower.begin(SETUP)
    dsn, password = follower.source.info.dsn, follower.source.info.password
    with (
        psycopg.connect(dsn, password=password) as one,
        psycopg.connect(dsn, password=password, autocommit=True) as two,
    ):
        one.execute("ALTER TABLE item ADD COLUMN extra integer")
        late = threading.Thread(target=two.execute, args=("ALTER TYPE mood ADD VALUE 'new'",))
        late.start()
        pid = two.info.backend_pid
        until(
            lambda: (
                follower.source.execute("SELECT pg_blocking_pids(%s)", (pid,)).fetchone() != ([],)
            )
        )
        one.commit()
        late.join(10)
    follower.write(follower.step() or pytest.fail("nothing was logged"))
    follower.assert_equal()
    follower.follow("ALTER TABLE item ALTER COLUMN extra SET DEFAULT 4")
    assert [str(change) for change in follower.steps[-1].tables[0].changes] == [
        "SetDefault(column='extra', expression='4')"
    ]


def test_new_tables_of_two_users_at_once_both_arrive(follower: Rig) -> None:
    """Adding to a publication takes a lock until the end: the second user waits for the first."""
    follower.begin(SETUP)
    dsn, password = follower.source.info.dsn, follower.source.info.password
    with (
        psycopg.connect(dsn, password=password) as one,
        psycopg.connect(dsn, password=password, autocommit=True) as two,
    ):
        one.execute("CREATE TABLE first (id integer PRIMARY KEY)")
        pid = two.info.backend_pid
        late = threading.Thread(
            target=two.execute, args=("CREATE TABLE second (id int PRIMARY KEY)",)
        )
        late.start()
        until(
            lambda: (
                not late.is_alive()
                or follower.source.execute("SELECT pg_blocking_pids(%s)", (pid,)).fetchone()
                != ([],)
            )
        )
        one.commit()
        late.join(10)
    assert {"public.first", "public.second"} < published(follower.source)
