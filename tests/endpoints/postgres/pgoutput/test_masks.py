"""Masked values never travel; what takes their place does."""

import hashlib
from typing import Any

from lockgate.endpoints.postgres.pgoutput.decoder import Decoder
from lockgate.endpoints.postgres.pgoutput.relations import (
    Mask,
    MaskKind,
    Relation,
    RelationColumn,
    TablePlan,
)
from lockgate.model.tables import Column, Identity, TableName, TableShape
from tests.support import pgoutput_bytes as pg
from tests.support.pgoutput_reference import Change

DDL = TableName("lockgate", "ddl")
NAMES = ("id", "card", "born", "note")
TYPES = (20, 25, 1082, 25)
COLUMNS = tuple(Column(name, "", oid) for name, oid in zip(NAMES, TYPES, strict=True))
TABLE = TableName("shop", "people")

HASH, NULL, FIXED = Mask(MaskKind.HASH), Mask(MaskKind.NULL), Mask(MaskKind.FIXED, "xx")


def decoded(masks: dict[str, Mask], *messages: bytes, identity: Identity = Identity.KEY) -> Any:
    full = identity is Identity.FULL
    columns = (RelationColumn(n, t, -1, full) for n, t in zip(NAMES, TYPES, strict=True))
    relation = Relation(1, TABLE, "d", tuple(columns))
    shape = TableShape(TABLE, COLUMNS, ("id",), identity)
    stream = [pg.begin(8), pg.relation(relation), *messages, pg.commit(8, 48)]
    plan = TablePlan(shape, masks)
    return Decoder(DDL, lambda _: plan, 1).decode(*pg.joined(stream))


def changes(masks: dict[str, Mask], *messages: bytes, **more: Any) -> list[Change]:
    return pg.changes_of(decoded(masks, *messages, **more))


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_masked_column_travels_as_text() -> None:
    result = decoded({"born": NULL, "id": HASH}, pg.insert(1, ["1", "a", "2024-01-01", None]))
    [(shape, batch)] = result.batches
    types = {column.name: (column.type, column.type_id) for column in shape.columns}
    assert types == {"id": ("text", 25), "card": ("", 25), "born": ("text", 25), "note": ("", 25)}
    assert {
        field.name: str(field.type) for field in batch.schema.field("new").type
    } == dict.fromkeys(NAMES, "string")
    assert str(batch.schema.field("old").type) == "struct<id: string>"


def test_a_hash_is_of_the_text_and_no_value_stays_none() -> None:
    rows = [["1", "ä", "infinity", None], ["2", "ä", None, ""], ["3", None, "2024-01-01", None]]
    found = changes({"card": HASH, "born": HASH}, *(pg.insert(1, row) for row in rows))
    assert [each.new for each in found] == [
        {"id": 1, "card": sha("ä"), "born": sha("infinity"), "note": None},
        {"id": 2, "card": sha("ä"), "born": None, "note": ""},
        {"id": 3, "card": None, "born": sha("2024-01-01"), "note": None},
    ]


def test_a_hashed_key_is_hashed_in_both_images() -> None:
    [found] = changes({"id": HASH}, pg.update(1, ["2", None, None, None], ["1", None, None, None]))
    assert (found.new or {})["id"] == sha("2")
    assert found.old == {"id": sha("1")}


def test_a_fixed_text_and_null_are_the_same_in_every_row() -> None:
    messages = [
        pg.insert(1, ["1", "secret", "2024-01-01", "n"]),
        pg.update(1, ["1", pg.UNCHANGED, pg.UNCHANGED, pg.UNCHANGED]),
        pg.delete(1, ["1", "secret", "2024-01-01", "n"], b"O"),
    ]
    masks = {"card": FIXED, "born": NULL}
    first, second, third = changes(masks, *messages, identity=Identity.FULL)
    masked = {"id": 1, "card": "xx", "born": None}
    assert first.new == {**masked, "note": "n"}
    assert second.new == {**masked, "note": None}
    # Nothing is missing where every row has the same.
    assert second.unchanged == {"note"}
    assert third.new is None
    assert third.old == {**masked, "note": "n"}


def test_a_hashed_value_that_was_not_sent_is_marked() -> None:
    [found] = changes({"card": HASH}, pg.update(1, ["1", pg.UNCHANGED, None, None]))
    assert found.unchanged == {"card"}
    assert (found.new or {})["card"] is None


def test_a_secret_is_nowhere_in_what_was_decoded() -> None:
    messages = [pg.insert(1, [str(n), "4111-1111", "1970-01-02", None]) for n in range(50)]
    result = decoded({"card": FIXED, "born": HASH}, *messages)
    for _, batch in result.batches:
        assert b"4111" not in batch.serialize().to_pybytes()
