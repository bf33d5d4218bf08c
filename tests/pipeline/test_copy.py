"""Tables copied by real Spark tasks while people write to them: every row once, exactly."""

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlparse

import msgspec
import psycopg
import pytest

from lockgate.endpoints.postgres.copy.items import CopyItem, CopyPart
from lockgate.endpoints.postgres.copy.plan import plan_edges
from lockgate.endpoints.postgres.copy.snapshot import held_snapshot
from lockgate.endpoints.postgres.copy.survey import survey
from lockgate.endpoints.postgres.copy.task import copy_chunks
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.feed_config import Mask, MaskKind
from lockgate.model.feed_status import CopyProgress
from lockgate.model.floors import Refusal
from lockgate.model.ids import Token
from lockgate.model.spans import KeyRange, Lineage, SpanSpec
from lockgate.model.tables import TableName
from lockgate.pipeline.copy import CopyOrder, CopyOutcome, copy_spans
from lockgate.pipeline.jobs import Interrupted, interrupt
from lockgate.pipeline.session import Spark
from tests.support.copies import TOKEN, Scene, scene_of
from tests.support.databases import fresh_database
from tests.support.waiting import until

# For each kind of key: the columns, which of them are the key, and the key of row number {n}.
KEYS = {
    "int": ("id int PRIMARY KEY", "id", "{n}"),
    "sparse": ("id bigint PRIMARY KEY", "id", "{n}::bigint * {n} * 100000"),
    "words": ("id text PRIMARY KEY", "id", "md5({n}::text) || chr(39) || chr(228)"),
    "padded": ("id char(12) PRIMARY KEY", "id", "'k' || {n}"),
    "uuids": ("id uuid PRIMARY KEY", "id", "md5({n}::text)::uuid"),
    "numbers": ("id numeric(12,3) PRIMARY KEY", "id", "{n} / 7.0"),
    "floats": ("id float8 PRIMARY KEY", "id", "sqrt({n})"),
    "times": (
        "id timestamptz PRIMARY KEY",
        "id",
        "'2001-01-01'::timestamptz + {n} * '7 s'::interval",
    ),
    "days": ("id date PRIMARY KEY", "id", "'4713-01-01 BC'::date + {n} * 9"),
    "bytes": ("id bytea PRIMARY KEY", "id", "sha256({n}::text::bytea)"),
    "pairs": ("a int, b text, PRIMARY KEY (b, a)", "a, b", "{n}, ({n} % 17)::text"),
    "moods": (
        "m mood, n int, PRIMARY KEY (m, n)",
        "m, n",
        "('{{sad,ok,glad}}'::mood[])[{n} % 3 + 1], {n}",
    ),
    "Odd Names": ('"a""B" int PRIMARY KEY', '"a""B"', "{n}"),
}
ROWS = 900


def _ddl() -> Iterator[str]:
    yield "CREATE TYPE mood AS ENUM ('sad', 'ok', 'glad')"
    for name, (columns, _, _) in KEYS.items():
        yield f'CREATE TABLE "{name}" ({columns}, v int, w text)'
    yield "CREATE TABLE keyless (v int, w text)"
    yield "ALTER TABLE keyless REPLICA IDENTITY FULL"
    yield "CREATE TABLE parted (id int, v int, w text, PRIMARY KEY (id, v)) PARTITION BY RANGE (v)"
    for n in range(3):
        yield f"CREATE TABLE parted_{n} PARTITION OF parted FOR VALUES FROM ({n}00) TO ({n + 1}00)"


def _fill(scene: Scene) -> None:
    series = f"FROM generate_series(1, {ROWS}) n"
    for name, (_, columns, key) in KEYS.items():
        scene.stream.execute(
            f'INSERT INTO "{name}" ({columns}, v, w) '
            f"SELECT {key.format(n='n')}, n % 7, repeat('w', n % 50) {series}"
        )
    scene.stream.execute(f"INSERT INTO keyless SELECT n % 300, 'w' || n {series}")
    scene.stream.execute(f"INSERT INTO parted SELECT n, n % 300, 'w' || n {series}")
    scene.stream.execute("ANALYZE")


def _write(connection: psycopg.Connection, rng: random.Random, fresh: Iterator[int]) -> None:
    """One transaction on all tables: rows come, change, move to other keys and go, anywhere."""
    with connection.transaction():
        for name, (_, columns, key) in KEYS.items():
            table = f'"{name}"'
            new = key.format(n=next(fresh))
            connection.execute(f"INSERT INTO {table} ({columns}, v, w) SELECT {new}, 0, 'new'")
            some = f"(SELECT ctid FROM {table} ORDER BY random() LIMIT 1)"
            connection.execute(f"UPDATE {table} SET v = v + 1 WHERE ctid = {some}")
            connection.execute(f"DELETE FROM {table} WHERE ctid = {some}")
            moved = key.format(n=next(fresh))
            connection.execute(
                f"UPDATE {table} SET ({columns}) = (SELECT {moved}) WHERE ctid = {some}"
                if "," in columns
                else f"UPDATE {table} SET {columns} = (SELECT {moved}) WHERE ctid = {some}"
            )
        number = next(fresh)
        connection.execute(f"INSERT INTO keyless VALUES ({number}, 'new')")
        connection.execute(f"UPDATE keyless SET w = 'x{number}' WHERE v = {rng.randrange(300)}")
        connection.execute(f"DELETE FROM keyless WHERE v = {rng.randrange(300)}")
        connection.execute(f"INSERT INTO parted VALUES ({number}, {number % 300}, 'new')")
        connection.execute(
            f"UPDATE parted SET v = (v + 101) % 300 WHERE id = {rng.randrange(ROWS)}"
        )
        connection.execute(f"DELETE FROM parted WHERE id = {rng.randrange(ROWS)}")


@contextmanager
def _writers(url: str, count: int = 2) -> Iterator[Callable[[], int]]:
    """People at work until the end of the block; how many transactions they have made."""
    over = threading.Event()
    made = [0] * count
    failed: list[BaseException] = []

    def work(which: int) -> None:
        rng = random.Random(which)
        fresh = iter(range(10_000 + which, 10_000_000, count))
        try:
            with psycopg.connect(url, autocommit=True) as connection:
                while not over.is_set():
                    try:
                        _write(connection, rng, fresh)
                    except (psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation):
                        continue
                    made[which] += 1
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(which,)) for which in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield lambda: sum(made)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not failed, failed


@pytest.fixture
def scene(pg18: EmbeddedPostgres, pg16: EmbeddedPostgres) -> Iterator[Scene]:
    """All kinds of keys, from one server to an older one."""
    with (
        fresh_database(pg18) as source,
        fresh_database(pg16) as target,
        scene_of(source, target, *_ddl()) as scene,
    ):
        _fill(scene)
        scene.begin()
        yield scene


@pytest.fixture
def plain(pg18: EmbeddedPostgres) -> Iterator[Scene]:
    """Two tables, 1,000 rows each, both databases on one server."""
    ddl = [f"CREATE TABLE {name} (id int PRIMARY KEY, v text)" for name in ("one", "two")]
    with (
        fresh_database(pg18) as source,
        fresh_database(pg18) as target,
        scene_of(source, target, *ddl) as scene,
    ):
        for name in ("one", "two"):
            scene.stream.execute(
                f"INSERT INTO {name} SELECT n, 'v' || n FROM generate_series(1, 1000) n"
            )
        scene.stream.execute("ANALYZE")
        scene.begin()
        yield scene


def _copy(spark: Spark, scene: Scene, token: Token = TOKEN, **more: object) -> list[CopyOutcome]:
    options = {"chunk_rows": 200} | more
    return copy_spans(
        spark,
        scene.feed,
        scene.source,
        scene.target,
        scene.orders(token),
        "copy",
        **options,  # type: ignore[arg-type]
    )


def _until_more(written: Callable[[], int]) -> None:
    then = written()
    until(lambda: written() >= then + 20, 60)


def _clean(outcomes: Sequence[CopyOutcome]) -> None:
    assert [o for o in outcomes if o.refusal or o.error] == []


def test_every_kind_of_key_is_copied_under_writes(spark: Spark, scene: Scene) -> None:
    """C10: in front of the cursor and behind it."""
    with _writers(scene.source.to_wire().decode()) as written:
        outcomes = _copy(spark, scene)
        until(lambda: written() >= 20, 60)
    _clean(outcomes)
    assert all(len(outcome.snapshots) == 1 for outcome in outcomes)
    many = [o.span for o in outcomes if len(scene.sink.chunks(scene.feed, o.span)) > 1]
    assert len(many) >= len(KEYS)
    scene.catch_up(outcomes)
    scene.assert_equal()


def _first_half(scene: Scene) -> None:
    """What a run does before it is killed: some chunks of every table, under its own snapshot."""
    orders = scene.orders()
    tables = survey(scene.source, scene.target, scene.feed, orders)
    parts: list[CopyPart] = []
    for order in orders:
        known = tables[order.selection.table]
        edges = plan_edges(scene.here, known.table, known.size, chunk_rows=200, slots=2)
        chunks = scene.sink.plan_chunks(scene.feed, order.span.id, order.token, edges)
        assert isinstance(chunks, list)
        half = random.Random(1).sample(chunks, len(chunks) // 2)
        parts += [CopyPart(order.span.id, order.token, known.table, chunk) for chunk in half]
    with held_snapshot(scene.source, scene.feed, []) as held:
        item = CopyItem(
            scene.feed,
            scene.source.to_wire(),
            scene.target.to_wire(),
            held.id,
            held.text,
            tuple(parts),
        )
        receipts = copy_chunks(item)
    assert all(receipt.landed for receipt in receipts), receipts


def test_a_copy_goes_on_under_a_second_snapshot(spark: Spark, scene: Scene) -> None:
    """C10: after a kill, at the chunk; the stream knows which snapshot each row is of."""
    with _writers(scene.source.to_wire().decode()) as written:
        _first_half(scene)
        _until_more(written)
        scene.claim(Token(2, 1, 1))
        outcomes = _copy(spark, scene, Token(2, 1, 1))
        _until_more(written)
    _clean(outcomes)
    two = {outcome.span for outcome in outcomes if len(outcome.snapshots) == 2}
    assert two == {scene.span(name).id for name in scene.definitions if name.name != "keyless"}
    scene.catch_up(outcomes, Token(2, 1, 1))
    scene.assert_equal()


def test_what_has_landed_is_not_copied_again(spark: Spark, plain: Scene) -> None:
    first = _copy(spark, plain)
    again = _copy(spark, plain)
    _clean([*first, *again])
    assert [o.snapshots for o in again] == [o.snapshots for o in first]
    assert [o.rows for o in again] == [1000, 1000]
    assert all(o.settled >= f.settled for o, f in zip(again, first, strict=True))
    plain.assert_equal()


def test_progress_is_told_and_ends_at_all_rows(spark: Spark, plain: Scene) -> None:
    told: list[CopyProgress] = []
    _clean(_copy(spark, plain, report=told.append))
    assert told[-1].rows_done == told[-1].rows_total == 2000
    assert told[-1].percent == 100.0


def test_a_stale_owner_copies_nothing(spark: Spark, plain: Scene) -> None:
    plain.claim(Token(2, 1, 1))
    outcomes = _copy(spark, plain, TOKEN)
    assert [o.refusal for o in outcomes] == [Refusal.NEWER, Refusal.NEWER]
    assert plain.there.execute("SELECT count(*) FROM one").fetchone() == (0,)


def test_an_owner_that_is_followed_in_the_middle_stops(spark: Spark, plain: Scene) -> None:
    """The plan is recorded and the rest not copied: the new owner takes it up."""
    orders = plain.orders()
    for order in orders:
        plain.sink.plan_chunks(
            plain.feed, order.span.id, TOKEN, [(None, ("500",)), (("500",), None)]
        )
    plain.claim(Token(2, 1, 1))
    assert {o.refusal for o in _copy(spark, plain, TOKEN)} == {Refusal.NEWER}
    _clean(_copy(spark, plain, Token(2, 1, 1)))
    plain.assert_equal()


def test_a_table_that_the_target_lost_fails_alone(spark: Spark, plain: Scene) -> None:
    plain.there.execute("DROP TABLE two")
    outcomes = {o.span: o for o in _copy(spark, plain)}
    lost = outcomes["s-two"].error
    assert lost is not None
    assert (lost.code, lost.retryable) == ("object-missing", False)
    assert "public.two" in lost.object
    assert outcomes["s-one"].error is None
    assert plain.there.execute("SELECT count(*) FROM one").fetchone() == (1000,)


def test_rows_that_the_target_refuses_name_the_constraint(spark: Spark, plain: Scene) -> None:
    plain.there.execute("ALTER TABLE two ADD CHECK (id <> 700)")
    outcomes = {o.span: o for o in _copy(spark, plain)}
    error = outcomes["s-two"].error
    assert error is not None
    assert error.code == "data-refused"
    assert "two_id_check" in error.cause
    chunks = plain.sink.chunks(plain.feed, "s-two")
    assert [chunk.done for chunk in chunks].count(False) == 1  # the others have landed
    assert outcomes["s-two"].rows == sum(chunk.rows for chunk in chunks if chunk.done) > 0
    plain.there.execute("ALTER TABLE two DROP CONSTRAINT two_id_check")
    _clean(_copy(spark, plain))
    plain.assert_equal()


def test_columns_are_masked_and_left_out_and_rows_filtered(spark: Spark, plain: Scene) -> None:
    orders = [
        msgspec.structs.replace(
            order,
            selection=msgspec.structs.replace(
                order.selection,
                masks={"v": Mask(MaskKind.HASH)},
                row_filter="id % 10 = 0 AND v <> '%s'",
            ),
        )
        for order in plain.orders()
    ]
    outcomes = copy_spans(
        spark, plain.feed, plain.source, plain.target, orders, "copy", chunk_rows=200
    )
    _clean(outcomes)
    assert [o.rows for o in outcomes] == [100, 100]
    found = plain.there.execute("SELECT id, v FROM one ORDER BY id LIMIT 1").fetchone()
    hashed = plain.here.execute("SELECT encode(sha256('v10'), 'hex')").fetchone()
    assert hashed is not None
    assert found == (10, hashed[0])


def test_a_trigger_that_discards_rows_is_named(spark: Spark, plain: Scene) -> None:
    plain.there.execute(
        "CREATE FUNCTION drop_it() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
    )
    plain.there.execute(
        "CREATE TRIGGER t BEFORE INSERT ON one FOR EACH ROW WHEN (NEW.id = 7) "
        "EXECUTE FUNCTION drop_it()"
    )
    _clean([o for o in _copy(spark, plain) if o.span == "s-two"])
    assert plain.there.execute("SELECT count(*) FROM one").fetchone() == (1000,)
    plain.there.execute("TRUNCATE one; TRUNCATE two")
    plain.there.execute("ALTER TABLE one ENABLE ALWAYS TRIGGER t")
    plain.there.execute("UPDATE lockgate.chunks SET done = false, snapshot = NULL")
    error = _copy(spark, plain)[0].error
    assert error is not None
    chunk = plain.sink.chunks(plain.feed, "s-one")[0]
    assert chunk.high is not None
    rows = int(chunk.high[0]) - 1
    assert error.what == f"the target kept {rows - 1} of {rows} rows"
    assert "ALWAYS" in error.hint


def test_a_table_that_is_rewritten_meanwhile_is_read_again(spark: Spark, plain: Scene) -> None:
    """To the snapshot it would look empty."""
    orders = plain.orders()
    tables = survey(plain.source, plain.target, plain.feed, orders)
    known = tables[TableName("public", "one")]
    chunks = plain.sink.plan_chunks(plain.feed, "s-one", TOKEN, [(None, None)])
    assert isinstance(chunks, list)
    with held_snapshot(plain.source, plain.feed, known.parts) as held:
        plain.stream.execute("ALTER TABLE one ALTER v TYPE varchar(50)")
        plain.stream.execute("ALTER TABLE one ALTER id TYPE bigint")
        table = msgspec.structs.replace(known.table, storage=tuple(held.storage.items()))
        part = CopyPart("s-one", TOKEN, table, chunks[0])
        wires = plain.source.to_wire(), plain.target.to_wire()
        (receipt,) = copy_chunks(CopyItem(plain.feed, *wires, held.id, held.text, (part,)))
    assert receipt.error is not None
    assert (receipt.error.code, receipt.error.retryable) == ("table-rewritten", True)
    assert plain.there.execute("SELECT count(*) FROM one").fetchone() == (0,)
    _clean(_copy(spark, plain))
    assert plain.there.execute("SELECT count(*) FROM one").fetchone() == (1000,)


def test_a_span_that_is_split_in_its_copy_goes_on_in_shares(spark: Spark, plain: Scene) -> None:
    """What has landed stays; of the other chunks each new span copies the keys that are its own."""
    _first_half(plain)
    before = plain.there.execute("SELECT count(*) FROM one").fetchone()
    halves = KeyRange().divided((b"\x80",))
    shares = tuple(
        SpanSpec(f"share{number}", TableName("public", "one").id, keys)
        for number, keys in enumerate(halves)
    )
    lineage = Lineage(("s-one",), shares)
    after = Token(2, 1, 1)
    for share in shares:
        found = plain.sink.claim(plain.feed, share, after, lineage, None)
        assert isinstance(found, tuple), found
    selection = plain.orders()[0].selection
    outcomes = copy_spans(
        spark,
        plain.feed,
        plain.source,
        plain.target,
        [CopyOrder(share, after, selection) for share in shares],
        "shares",
    )
    _clean(outcomes)
    assert before is not None
    assert 0 < before[0] < 1000
    assert sum(outcome.rows for outcome in outcomes) == 1000
    here = plain.here.execute("SELECT * FROM one ORDER BY id").fetchall()
    assert plain.there.execute("SELECT * FROM one ORDER BY id").fetchall() == here


def test_a_merge_with_a_span_whose_copy_is_over_copies_the_others_keys(
    spark: Spark, plain: Scene
) -> None:
    shares = tuple(
        SpanSpec(f"share{number}", TableName("public", "one").id, keys)
        for number, keys in enumerate(KeyRange().divided((b"\x80",)))
    )
    again = SpanSpec("again", TableName("public", "one").id)
    selection = plain.orders()[0].selection
    ends = (plain.feed, plain.source, plain.target)
    first, second = Token(2, 1, 1), Token(3, 1, 1)
    plain.sink.claim(plain.feed, shares[0], first, Lineage(("s-one",), shares), None)
    (low,) = copy_spans(spark, *ends, [CopyOrder(shares[0], first, selection)], "low")
    _clean([low])
    assert 0 < low.rows < 1000
    assert plain.sink.mark_built(plain.feed, "share0", first) is None
    assert plain.sink.forget_chunks(plain.feed, "share0", first) is None
    merge = Lineage(("share0", "share1"), (again,))
    plain.sink.claim(plain.feed, again, second, merge, None)
    (rest,) = copy_spans(spark, *ends, [CopyOrder(again, second, selection)], "rest")
    _clean([rest])
    assert rest.rows == 1000 - low.rows
    assert len(rest.snapshots) == 2
    here = plain.here.execute("SELECT * FROM one ORDER BY id").fetchall()
    assert plain.there.execute("SELECT * FROM one ORDER BY id").fetchall() == here


def test_a_copy_that_is_interrupted_is_taken_up_later(spark: Spark, plain: Scene) -> None:
    failed: list[BaseException] = []

    def run() -> None:
        try:
            _copy(spark, plain)
        except BaseException as error:
            failed.append(error)

    for order in plain.orders():
        edges = [(None, ("500",)), (("500",), None)]
        plain.sink.plan_chunks(plain.feed, order.span.id, TOKEN, edges)
    with psycopg.connect(plain.target.to_wire().decode()) as holder:
        holder.execute("LOCK TABLE two")
        thread = threading.Thread(target=run)
        thread.start()
        waiting = "SELECT FROM pg_locks WHERE NOT granted AND relation = 'two'::regclass"
        until(lambda: holder.execute(waiting).fetchall(), 60)
        assert interrupt(spark, "copy")
        thread.join(60)
    assert isinstance(failed[0], Interrupted)
    _clean(_copy(spark, plain))
    plain.assert_equal()


def test_a_password_is_not_in_what_spark_writes_down(spark: Spark, plain: Scene) -> None:
    """S3."""
    _clean(_copy(spark, plain))
    directory = Path(urlparse(spark.options.settings["spark.eventLog.dir"]).path)
    logs = [path for path in directory.rglob("*") if path.is_file()]
    text = "".join(path.read_text("utf-8", "replace") for path in logs) + spark.log_tail(10_000)
    assert "MapInArrow" in text
    assert plain.target.password.reveal() not in text


def test_values_that_have_no_binary_form_arrive_as_text(
    spark: Spark, pg18: EmbeddedPostgres, pg16: EmbeddedPostgres
) -> None:
    """An oid is another one elsewhere: what it names must travel."""
    with (
        fresh_database(pg18) as source,
        fresh_database(pg16) as target,
        scene_of(
            source,
            target,
            "CREATE TABLE named (id int PRIMARY KEY, t regclass, n numeric)",
            'CREATE TABLE "it\'s" (id int PRIMARY KEY)',
        ) as scene,
    ):
        scene.stream.execute(
            "INSERT INTO named VALUES (1, 'named', 'NaN'), (2, '\"it''s\"', 1.50), (3, NULL, NULL)"
        )
        scene.begin()
        _clean(_copy(spark, scene))
        scene.assert_equal()
