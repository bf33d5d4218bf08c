"""Applying items to a real target: what lands, what does not, and what is answered."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import psycopg
import pyarrow.parquet as pq
import pytest
from psycopg import sql

from lockgate.endpoints.postgres.sink.apply import Way, apply, log_of, quieten
from lockgate.model.floors import Refusal
from lockgate.model.ids import Token
from lockgate.model.spans import WHOLE, KeyRange
from lockgate.model.tables import Identity
from tests.endpoints.postgres.sink.place import DDL, SHAPE, TOKEN, Place, Places, started
from tests.support.histories import History, shape_of
from tests.support.roles import role

pytestmark = pytest.mark.usefixtures("rows_max")


def test_inserts_updates_and_deletes_land_together(place: Place) -> None:
    history = started(place)
    history.insert(id=4, name="four\t\\N\n", u=4).update(1, name=None).delete(2).commit()
    receipt = place.apply(history)
    assert place.holds(history)
    assert (receipt.rows, receipt.changes, receipt.missing) == (3, 3, 0)


def test_nothing_lands_twice(place: Place) -> None:
    history = started(place)
    history.insert(id=4).commit()
    item = place.item(2)
    assert apply(item, place.url, read=lambda *_: history.segment()).applied
    again = apply(item, place.url, read=lambda *_: history.segment())
    assert again.refusal is Refusal.MOVED
    assert place.holds(history)


def test_an_older_token_writes_nothing(place: Place) -> None:
    history = started(place)
    history.delete(1).commit()
    place.claim(token=Token(2, 1, 1))
    assert place.try_(history).refusal is Refusal.NEWER
    assert place.holds(history, 1)


def test_segments_are_read_from_files(place: Place, tmp_path: Path) -> None:
    history = History(SHAPE)
    history.insert(id=1, name="a").commit().insert(id=2, name="b").commit()
    paths = []
    for n, (after, to) in enumerate([(1, 2), (0, 1)]):
        paths.append(str(tmp_path / f"{n}.parquet"))
        pq.write_table(history.segment(after, to), paths[-1])
    item = msgspec.structs.replace(place.item(2), segments=tuple(paths))
    assert apply(item, place.url).rows == 2
    assert place.holds(history)


def test_a_batch_without_changes_moves_the_row(place: Place) -> None:
    history = started(place)
    history.commit()
    assert place.apply(history, 2).rows == 0


# --- unique values, keys, kept values -------------------------------------------------------------


def test_two_rows_swap_a_unique_value(place: Place) -> None:
    history = started(place)
    history.update(1, u=None).update(2, u=1).update(1, u=2).commit()
    place.apply(history)
    assert place.holds(history)


def test_a_unique_value_goes_from_a_deleted_row_to_a_new_one(place: Place) -> None:
    history = started(place)
    history.delete(1).insert(id=9, u=1).commit()
    place.apply(history)
    assert place.holds(history)


def test_swapped_rows_keep_their_large_values_and_columns_of_the_target(places: Places) -> None:
    place = places(DDL.replace("u int", "mine text DEFAULT 'd', u int"))
    history = started(place)
    place.admin.execute("UPDATE t SET mine = 'noted' || id")
    history.update(1, unchanged=["big"], u=None).update(2, unchanged=["big"], u=1)
    history.update(1, unchanged=["big"], u=2).insert(id=4).commit()
    place.apply(history)
    assert place.holds(history)
    notes = {key: row[1] for key, row in place.rows("id", "mine").items()}
    assert notes == {1: "noted1", 2: "noted2", 3: "noted3", 4: "d"}


def test_a_row_takes_its_large_value_along_to_another_key(place: Place) -> None:
    history = started(place)
    history.update(1, unchanged=["big"], id=7).update(7, unchanged=["big"], id=8)
    history.update(2, unchanged=["big"], id=1).commit()
    place.apply(history)
    assert place.holds(history)


def test_large_values_that_were_not_sent_stay(place: Place) -> None:
    history = started(place)
    history.update(1, unchanged=["big"], name="x").update(2, big="new").commit()
    place.apply(history)
    assert place.holds(history)


@pytest.mark.parametrize("way", list(Way))
@pytest.mark.parametrize("over", ["text", "varchar(20)", "mood", 'text COLLATE "C"'])
def test_kept_values_of_a_domain_that_refuses_null(places: Places, over: str, way: Way) -> None:
    place = places(
        "CREATE TYPE mood AS ENUM ('B', 'BB', 'BBB', 'new');"
        f"CREATE DOMAIN inner_one AS {over} CHECK (VALUE IS NOT NULL);"
        "CREATE DOMAIN sure AS inner_one NOT NULL;" + DDL.replace("big text", "big sure")
    )
    history = started(place)
    history.update(1, unchanged=["big"], name="x").update(2, big="new").commit()
    history.update(3, unchanged=["big"], u=9).commit()
    place.apply(history, way=way)
    assert place.holds(history)


def test_a_value_that_its_domain_refuses_is_found_beside_kept_ones(places: Places) -> None:
    place = places(
        "CREATE DOMAIN sure AS text NOT NULL CHECK (VALUE <> 'bad');"
        + DDL.replace("big text", "big sure")
    )
    history = started(place)
    history.update(1, unchanged=["big"], name="x").update(2, big="bad").commit()
    receipt = place.try_(history)
    assert receipt.error is not None
    assert receipt.error.object.endswith("row id=2")


# --- truncate -------------------------------------------------------------------------------------


def test_truncate(place: Place) -> None:
    history = started(place)
    history.insert(id=4).truncate().insert(id=1, name="again").commit()
    place.apply(history)
    assert place.holds(history)


def test_truncate_of_a_table_that_others_refer_to(places: Places) -> None:
    place = places(DDL + "; CREATE TABLE child (id bigint REFERENCES t)")
    history = started(place)
    place.admin.execute("INSERT INTO child VALUES (1)")
    history.truncate().insert(id=2).commit()
    place.apply(history)
    assert place.holds(history)


def test_truncate_of_a_split_table_is_each_span_s_own(places: Places) -> None:
    ranges = (KeyRange(b"", b"\x80"), KeyRange(b"\x80", None))
    place = places(ranges=ranges)
    history = History(SHAPE)
    for n in range(20):
        history.insert(id=n, name="\\\t\"'\n" * n)
    history.commit()
    for span in place.spans:
        place.apply(history, 1, span)
    assert place.holds(history)
    history.truncate().insert(id=3, name="x").insert(id=4, name="x").commit()
    place.apply(history, 2, "s1")
    assert 0 < len(place.rows()) < 20
    place.apply(history, 2, "s0")
    assert place.holds(history)


# --- parts ----------------------------------------------------------------------------------------


def test_a_batch_lands_in_parts(place: Place) -> None:
    history = started(place, 30)
    for n in range(1, 11):
        history.update(n, name="x").delete(n + 10).insert(id=n + 100)
    history.commit()
    place.apply(history, parts=3)
    assert place.holds(history)


def test_a_part_that_has_landed_is_not_run_again(place: Place) -> None:
    history = started(place)
    history.insert(id=9).commit()
    place.sink.record_batch(place.feed, "s0", TOKEN, place.floors["s0"], 2, 2)
    first = [place.try_(history, part=part, parts=2) for part in range(2)]
    again = [place.try_(history, part=part, parts=2) for part in range(2)]
    assert sorted(receipt.rows for receipt in first) == [0, 1]
    assert all(receipt.applied and not receipt.rows for receipt in again)


def test_a_part_keeps_no_more_in_memory_than_concerns_it(place: Place) -> None:
    history = started(place, 40)
    history.update(1, id=100).commit()
    logs = [
        log_of(place.item(2, part=part, parts=4), lambda *_: history.segment(1))
        for part in range(4)
    ]
    assert sum(len(log) for log in logs) in {1, 2}
    fresh = place.item(2)
    fresh = msgspec.structs.replace(fresh, floors=((WHOLE, 0),), part=2, parts=4)
    assert 0 < len(log_of(fresh, lambda *_: history.segment())) < 30


def test_what_cannot_be_cut_in_parts_says_so(place: Place) -> None:
    history = started(place)
    history.truncate().commit()
    place.sink.record_batch(place.feed, "s0", TOKEN, place.floors["s0"], 2, 2)
    for part in range(2):
        receipt = place.try_(history, part=part, parts=2)
        assert receipt.error is not None
        assert receipt.error.code == "needs-one-part"
    assert place.holds(history, 1)


# --- tables without a key -------------------------------------------------------------------------

BARE = shape_of("a integer", "b json", "c numeric", key=(), identity=Identity.FULL)


@pytest.fixture
def bare(places: Places) -> Place:
    return places("CREATE TABLE t (a int NOT NULL, b json, c numeric)", BARE)


def texts(place: Place) -> list[tuple[object, ...]]:
    return sorted(place.admin.execute("SELECT a, b::text, c::text FROM t").fetchall(), key=repr)


def expected(history: History) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for row in history.rows), key=repr)


def test_rows_without_a_key_are_counted(bare: Place) -> None:
    history = History(BARE)
    row = {"a": 1, "b": '{"x":  1}', "c": "1.0"}
    for _ in range(3):
        history.insert(**row)
    history.insert(**row | {"c": "1.00"}).insert(**row | {"b": None}).commit()
    bare.apply(history)
    assert texts(bare) == expected(history)
    history.delete_row(history.rows[0]).delete_row(history.rows[0])
    history.update_row(history.rows[-1], b='{"x":1}').insert(a=2).commit()
    receipt = bare.apply(history)
    assert texts(bare) == expected(history)
    assert receipt.missing == 0


def test_of_values_that_are_equal_only_the_one_written_alike_goes(bare: Place) -> None:
    history = History(BARE).insert(a=1, c="1.0").insert(a=1, c="1.00").commit()
    bare.apply(history)
    history.delete_row(history.rows[1]).commit()
    bare.apply(history)
    assert texts(bare) == [(1, None, "1.0")]


# --- target's own ways ----------------------------------------------------------------------------


def test_foreign_keys_and_triggers_do_not_act(places: Places) -> None:
    place = places(
        "CREATE TABLE parent (id int PRIMARY KEY);"
        + DDL.replace("u int", "u int REFERENCES parent")
        + "; CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
        "CREATE TRIGGER no BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION no()"
    )
    history = started(place)
    assert place.holds(history)


def test_identity_and_generated_columns(places: Places) -> None:
    place = places(
        "CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
        "n int GENERATED ALWAYS AS IDENTITY, name text, "
        "shout text GENERATED ALWAYS AS (upper(name)) STORED)",
        shape_of("id bigint", "n integer", "name text"),
    )
    history = History(place.shape).insert(id=5, n=50, name="a").insert(id=6, n=60).commit()
    place.apply(history)
    history.update(5, n=51, name="b").delete(6).insert(id=7, n=70, name="c").commit()
    place.apply(history)
    assert place.holds(history)
    assert place.rows()[5][3] == "B"


ALWAYS = "CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text)"


def test_the_key_of_a_row_changes_also_where_no_update_may_set_it(places: Places) -> None:
    place = places(ALWAYS, shape_of("id bigint", "name text"))
    history = History(place.shape).insert(id=1, name="a").commit()
    place.apply(history)
    history.update(1, id=2).commit()
    place.apply(history)
    assert place.holds(history)


def test_a_key_that_no_update_may_set_is_refused_where_rows_cannot_be_replaced(
    places: Places,
) -> None:
    place = places(ALWAYS, shape_of("id bigint", "name text"))
    history = History(place.shape).insert(id=1, name="a").commit()
    place.apply(history)
    history.update(1, id=2).commit()
    error = place.try_(history, way=Way.ORDERED).error
    assert error is not None
    assert "can only be updated to DEFAULT" in error.cause


def test_partitioned_targets(places: Places) -> None:
    place = places(
        "CREATE TABLE t (id bigint PRIMARY KEY, name text, big text, u int)"
        " PARTITION BY RANGE (id);"
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (100);"
        "CREATE TABLE high PARTITION OF t FOR VALUES FROM (100) TO (1000)"
    )
    history = started(place)
    history.update(1, id=200).update(2, unchanged=["big"], id=300).update(3, name="x").commit()
    place.apply(history)
    assert place.holds(history)
    history.insert(id=5000).commit()
    error = place.try_(history).error
    assert error is not None
    assert "id=5000" in error.object


def test_odd_names(places: Places) -> None:
    shape = shape_of('a"b integer', "Ünï text", "n integer", key=['a"b'])
    place = places('CREATE TABLE t ("a""b" int PRIMARY KEY, "Ünï" text, n int)', shape)
    history = History(shape).insert(**{'a"b': 1, "Ünï": "x", "n": 1}).commit()
    history.update(1, n=2).commit()
    place.apply(history, 1)
    place.apply(history)
    assert place.holds(history)


# --- without the right to keep triggers quiet -----------------------------------------------------


class PlainUser(NamedTuple):
    name: sql.Identifier
    url: str

    def place(self, places: Places, ddl: str = DDL) -> Place:
        """A place that he may write to."""
        place = places(ddl, as_url=self.url)
        schema = sql.Identifier(place.target.schema)
        for right in ("USAGE ON SCHEMA", "ALL ON ALL TABLES IN SCHEMA"):
            grant = sql.SQL("GRANT " + right + " lockgate, {} TO {}")
            place.admin.execute(grant.format(schema, self.name))
        return place


@pytest.fixture
def plain_user(applied: str) -> Iterator[PlainUser]:
    """Somebody who owns nothing but what he is given, and the URL by which he comes."""
    with role(applied) as (name, url):
        yield PlainUser(sql.Identifier(name), url)


def test_rows_that_swap_values_are_changed_one_by_one_where_triggers_act(
    places: Places, plain_user: PlainUser
) -> None:
    ddl = DDL + "; CREATE TABLE child (id bigint REFERENCES t ON DELETE CASCADE)"
    place = plain_user.place(places, ddl)
    history = started(place)
    place.admin.execute("INSERT INTO child VALUES (1), (2)")
    history.update(1, unchanged=["big"], u=None).update(2, u=1).update(1, u=2).commit()
    place.apply(history)
    assert place.holds(history)
    assert place.admin.execute("SELECT count(*) FROM child").fetchone() == (2,)
    history.update(3, unchanged=["big"], id=30).insert(id=3, u=33).commit()
    place.apply(history)
    assert place.holds(history)


def test_the_right_to_keep_triggers_quiet_can_be_granted(
    places: Places, plain_user: PlainUser
) -> None:
    with psycopg.connect(plain_user.url) as session:
        assert not quieten(session)
        assert session.execute("SHOW session_replication_role").fetchone() == ("origin",)
    place = plain_user.place(places)
    grant = sql.SQL("GRANT SET ON PARAMETER session_replication_role TO {}")
    place.admin.execute(grant.format(plain_user.name))
    with psycopg.connect(plain_user.url) as session:
        session.execute("SELECT 1")  # a transaction is open
        assert quieten(session)
        assert session.execute("SHOW session_replication_role").fetchone() == ("replica",)


@pytest.mark.parametrize("way", list(Way))
def test_every_way_comes_to_the_same(place: Place, way: Way) -> None:
    history = started(place)
    history.update(1, unchanged=["big"], name="x").insert(id=4, big="4").commit()
    history.update(4, unchanged=["big"], id=5).delete(2).commit().insert(id=2, u=7).commit()
    place.apply(history, way=way)
    assert place.holds(history)


@pytest.mark.parametrize("way", [None, Way.ORDERED])
def test_a_row_that_changes_spans_takes_a_large_value_along_that_the_log_knows(
    places: Places, way: Way | None
) -> None:
    """By their hashes, 1 belongs to the lower span and 2 to the upper one."""
    place = places(ranges=(KeyRange(b"", b"\x80"), KeyRange(b"\x80", None)))
    history = History(SHAPE).insert(id=1, big="B").commit()
    for span in place.spans:
        place.apply(history, 1, span)
    history.update(1, big="BB").update(1, unchanged=["big"], id=2).commit()
    for span in place.spans:
        place.apply(history, 2, span, way=way)
    assert place.holds(history)


def test_older_servers(database16: str) -> None:
    place = Place(database16, DDL, SHAPE)
    try:
        history = started(place)
        history.update(1, unchanged=["big"], u=None).update(2, u=1).update(1, u=2).commit()
        place.apply(history)
        assert place.holds(history)
        history.truncate().insert(id=1, big="B").commit().update(1, unchanged=["big"], id=2)
        history.commit()
        for to in (3, 4):
            place.apply(history, to)
            assert place.holds(history, to)
    finally:
        place.close()
