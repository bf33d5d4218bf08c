"""What is not pgoutput of the agreed kind is refused, and never read as something else."""

import struct
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from lockgate.endpoints.postgres.pgoutput.decoder import Decoder
from lockgate.endpoints.postgres.pgoutput.malformed import Malformed
from lockgate.endpoints.postgres.pgoutput.relations import Relation, RelationColumn, TablePlan
from lockgate.endpoints.postgres.types import Unrepresentable
from lockgate.model.errors import Terminal
from lockgate.model.tables import Column, TableName, TableShape
from tests.support import pgoutput_bytes as pg

DDL = TableName("lockgate", "ddl")
TABLE = TableName("shop", "people")
COLUMNS = (RelationColumn("id", 23, -1, True), RelationColumn("v", 25, -1, False))
RELATION = Relation(1, TABLE, "d", COLUMNS)
LOG = Relation(2, DDL, "d", (RelationColumn("statement", 25, -1, True),))
SHAPE = TableShape(TABLE, tuple(Column(each.name, "", each.type_id) for each in COLUMNS), ("id",))
ROW = pg.insert(1, ["1", "x"])
BEGIN, COMMIT = pg.begin(8), pg.commit(8, 48)


def decode(*messages: bytes, shape: TableShape = SHAPE) -> Any:
    plan = TablePlan(shape)
    return Decoder(DDL, lambda _: plan, 1).decode(*pg.joined(messages))


def test_the_stream_that_is_broken_below_is_whole() -> None:
    assert decode(BEGIN, pg.relation(RELATION), ROW, COMMIT).rows == 1


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(pg.insert(1, ["1"]), id="too few columns"),
        pytest.param(pg.insert(1, ["1", "x", None]), id="too many columns"),
        pytest.param(ROW[:-1], id="cut off in a value"),
        pytest.param(ROW[:-6], id="cut off before a value"),
        pytest.param(ROW + b"n", id="too long"),
        pytest.param(ROW.replace(b"N", b"K"), id="insert with a key"),
        pytest.param(ROW.replace(b"N", b"X"), id="insert of an unknown form"),
        pytest.param(pg.delete(1, ["1", None], b"N"), id="delete without a key"),
        pytest.param(
            pg.update(1, ["1", "x"], ["1", None]).replace(b"nN", b"nK"), id="update without new"
        ),
        pytest.param(pg.update(1, ["1", "x"], [pg.UNCHANGED, None]), id="old is not whole"),
        pytest.param(ROW.replace(b"t\0\0\0\1x", b"b\0\0\0\1x"), id="binary value"),
        pytest.param(
            ROW.replace(b"t\0\0\0\1x", b"t\xff\xff\xff\xffx"), id="value beyond the buffer"
        ),
        pytest.param(pg.insert(3, ["1", "x"]), id="a table that was never described"),
        pytest.param(pg.insert(2, ["x"]), id="a table that is described later"),
        pytest.param(pg.truncate(3), id="truncate of an unknown table"),
        pytest.param(pg.truncate(1)[:-4], id="truncate that is cut off"),
        pytest.param(b"S" + ROW[1:], id="a message of streaming"),
        pytest.param(BEGIN, id="a transaction in a transaction"),
        pytest.param(pg.commit(9, 48), id="another transaction's end"),
    ],
)
def test_a_broken_message_is_refused(row: bytes) -> None:
    with pytest.raises(Malformed) as caught:
        decode(BEGIN, pg.relation(RELATION), row, pg.relation(LOG), COMMIT)
    assert caught.value.hint


@pytest.mark.parametrize(
    "messages",
    [
        (pg.relation(RELATION), ROW, COMMIT),
        (BEGIN, pg.relation(RELATION), COMMIT, ROW),
        (BEGIN, COMMIT, COMMIT),
        (BEGIN, pg.message(), BEGIN),
    ],
)
def test_what_is_in_no_transaction_is_refused(messages: tuple[bytes, ...]) -> None:
    with pytest.raises(Malformed, match="whole transactions"):
        decode(*messages)


@pytest.mark.parametrize(
    "messages", [(BEGIN[:-1],), (BEGIN, COMMIT[:-1]), (BEGIN, pg.relation(RELATION), ROW[:7])]
)
def test_a_message_that_is_cut_off_is_refused(messages: tuple[bytes, ...]) -> None:
    with pytest.raises(Malformed, match="cut off"):
        decode(*messages)


def test_a_transaction_goes_on_only_where_one_is_open() -> None:
    decoder = Decoder(DDL, lambda _: TablePlan(SHAPE), 1)
    assert decoder.decode(*pg.joined([BEGIN, pg.relation(RELATION)])).open
    assert decoder.decode(*pg.joined([ROW])).open
    assert not decoder.decode(*pg.joined([COMMIT])).open
    with pytest.raises(Malformed, match="whole transactions"):
        decoder.decode(*pg.joined([ROW]))


@pytest.mark.parametrize("cut", [1, 6, 20, -1])
def test_a_relation_that_is_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(Malformed, match="Relation"):
        decode(BEGIN, pg.relation(RELATION)[:cut], COMMIT)


@pytest.mark.parametrize(
    "row", [pg.insert(2, []), pg.insert(2, ["x"])[:-1], pg.insert(2, [pg.UNCHANGED])]
)
def test_a_broken_row_of_ddl_is_refused(row: bytes) -> None:
    with pytest.raises(Malformed):
        decode(BEGIN, pg.relation(LOG), row, COMMIT)


def test_a_column_that_the_stream_does_not_send_is_named() -> None:
    shape = TableShape(TABLE, (*SHAPE.columns, Column("w", "text", 25)), ("id",))
    with pytest.raises(Malformed, match="does not send w"):
        decode(BEGIN, pg.relation(RELATION), shape=shape)


def test_a_value_that_is_not_of_its_type_is_refused_by_name() -> None:
    with pytest.raises(Unrepresentable, match=r"shop\.people\.id"):
        decode(BEGIN, pg.relation(RELATION), pg.insert(1, ["one", "x"]), COMMIT)


@pytest.mark.parametrize("text", ["T", "", "true"])
def test_a_boolean_of_another_form_is_refused(text: str) -> None:
    columns = (RelationColumn("b", 16, -1, True),)
    shape = TableShape(TABLE, (Column("b", "boolean", 16),), ("b",))
    with pytest.raises(Malformed, match=r"shop\.people\.b"):
        decode(
            BEGIN,
            pg.relation(Relation(1, TABLE, "d", columns)),
            pg.insert(1, [text]),
            COMMIT,
            shape=shape,
        )


def test_text_that_is_not_utf8_is_refused_by_name() -> None:
    with pytest.raises(Unrepresentable, match=r"UTF-8 \(shop\.people\.v\)"):
        decode(BEGIN, pg.relation(RELATION), pg.insert(1, ["1", b"\xff"]), COMMIT)


def test_messages_beyond_the_buffer_are_a_mistake_of_the_caller() -> None:
    buffer, starts, ends = pg.joined([BEGIN])
    with pytest.raises(ValueError, match="the buffer"):
        Decoder(DDL, lambda _: None, 1).decode(buffer[:-1], starts, ends)


WHOLE = [BEGIN, pg.relation(RELATION), ROW, pg.update(1, ["2", None], ["1", None]), COMMIT]


@given(st.integers(0, len(b"".join(WHOLE)) - 1), st.integers(1, 255))
@settings(deadline=None, max_examples=300)
def test_a_changed_byte_is_refused_or_changes_a_value_and_nothing_worse(
    place: int, change: int
) -> None:
    buffer, starts, ends = pg.joined(WHOLE)
    broken = bytearray(buffer)
    broken[place] ^= change
    try:
        decoded = Decoder(DDL, lambda _: TablePlan(SHAPE), 1).decode(broken, starts, ends)
    except Terminal:
        return
    for _, batch in decoded.batches:
        batch.validate(full=True)


@given(st.binary(max_size=40))
@settings(deadline=None, max_examples=200)
def test_rows_of_nonsense_are_refused_or_read(nonsense: bytes) -> None:
    row = struct.pack(">cI", b"U", 1) + nonsense
    try:
        decoded = decode(BEGIN, pg.relation(RELATION), row, ROW, COMMIT)
    except Terminal:
        return
    for _, batch in decoded.batches:
        batch.validate(full=True)
