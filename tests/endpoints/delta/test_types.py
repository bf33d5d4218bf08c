"""Which Delta types columns become, what is refused, and that decimals go there and back."""

import pyarrow as pa
import pytest

from lockgate.endpoints.delta.types import (
    ColumnRefused,
    KeyRequired,
    from_lake,
    lake_schema,
    to_lake,
)
from lockgate.endpoints.postgres.types import Unrepresentable
from lockgate.model.tables import Column, TableName, TableShape

NAME = TableName("public", "t")


def shape(*columns: Column, key: tuple[str, ...] = ("id",)) -> TableShape:
    return TableShape(NAME, (Column("id", "bigint", 20), *columns), key)


def kind_of(type_: str, number: int) -> pa.DataType:
    return lake_schema(shape(Column("c", type_, number))).field("c").type


@pytest.mark.parametrize(
    ("type_", "number", "kind"),
    [
        ("numeric(1,0)", 1700, pa.decimal128(1, 0)),
        ("numeric(12,4)", 1700, pa.decimal128(12, 4)),
        ("numeric(38,38)", 1700, pa.decimal128(38, 38)),
        ("numeric(39,2)", 1700, pa.string()),
        ("numeric(3,5)", 1700, pa.string()),
        ("numeric(5,-2)", 1700, pa.string()),
        ("numeric", 1700, pa.string()),
        ("public.money_sum", 1700, pa.string()),
        ("numeric(8,2)[]", 1231, pa.string()),
        ("smallint", 21, pa.int16()),
        ("date", 1082, pa.date32()),
        ("timestamp(3) without time zone", 1114, pa.timestamp("us")),
        ("timestamp with time zone", 1184, pa.timestamp("us", "UTC")),
        ("jsonb", 3802, pa.string()),
    ],
)
def test_the_type_in_the_lake(type_: str, number: int, kind: pa.DataType) -> None:
    assert kind_of(type_, number) == kind


def test_every_column_may_be_null() -> None:
    columns = (Column("c", "integer", 23, nullable=False),)
    assert all(field.nullable for field in lake_schema(shape(*columns)))


def test_a_column_that_is_kept_as_text_is_the_text() -> None:
    columns = shape(Column("n", "numeric(4,1)", 1700), Column("d", "date", 1082))
    schema = lake_schema(columns, texts={"n", "d"})
    days = pa.array([0, 2**31 - 1, -(2**31), None], pa.int32()).cast(pa.date32())
    texts = pa.array(["1.5", "NaN", None, "0.0"])
    found = to_lake([pa.array([1, 2, 3, 4]), texts, days], columns, schema)
    assert found["n"].to_pylist() == ["1.5", "NaN", None, "0.0"]
    assert found["d"].to_pylist() == ["1970-01-01", "infinity", "-infinity", None]
    back = from_lake(found["d"], columns.columns[2])
    assert back.cast(pa.int32()).to_pylist() == days.cast(pa.int32()).to_pylist()


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_is_refused_by_column(value: str) -> None:
    columns = shape(Column("Sum", "numeric(4,1)", 1700))
    with pytest.raises(Unrepresentable, match=r'public\.t\."Sum"') as refused:
        to_lake([pa.array([1, 2]), pa.array(["1.5", value])], columns)
    assert "mask the column" in refused.value.hint


def test_a_value_of_another_type_than_the_lakes_is_refused_by_column() -> None:
    columns = shape(Column("c", "integer", 23))
    narrow = pa.schema([("id", pa.int64()), ("c", pa.int16())])
    with pytest.raises(Unrepresentable, match=r"public\.t\.c"):
        to_lake([pa.array([1]), pa.array([70_000], pa.int32())], columns, narrow)


def test_decimals_come_back_as_they_were_written() -> None:
    column = Column("c", "numeric(38,8)", 1700)
    texts = ["0.00000001", "0.00000000", "-0.00000123", "-12345678901234567890.00000001", None]
    values = pa.array(["9.99999999", *texts]).slice(1)
    found = to_lake([pa.array(range(5)), values], shape(column))
    assert found.schema.field("c").type == pa.decimal128(38, 8)
    assert from_lake(found["c"], column).to_pylist() == texts


def test_whole_decimals_come_back_as_they_were_written() -> None:
    column = Column("c", "numeric(38,0)", 1700)
    texts = ["9" * 38, "-" + "9" * 38, "0", None]
    found = to_lake([pa.array(range(4)), pa.array(texts)], shape(column))
    assert from_lake(found["c"], column).to_pylist() == texts


def test_a_table_without_a_key_is_refused() -> None:
    with pytest.raises(KeyRequired, match=r"public\.t"):
        lake_schema(shape(key=()))


def test_names_that_differ_in_case_alone_are_refused() -> None:
    with pytest.raises(ColumnRefused, match=r'public\.t\."ID"'):
        lake_schema(shape(Column("ID", "integer", 23)))


def test_names_of_ours_are_refused() -> None:
    with pytest.raises(ColumnRefused, match="_lockgate_op"):
        lake_schema(shape(Column("_lockgate_op", "text", 25)))
