"""What the guide to lake tables says of reading is run as it stands there."""

import re
from pathlib import Path

import pyarrow as pa
import pytest

from lockgate.endpoints.delta.changes import OP, POSITION, PUT, SEQ, ingest_schema
from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.pipeline.session import Spark
from tests.support.lakes import DISPATCHER, LEADER

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "lake.md").read_text("utf-8")
ROWS = pa.schema([("id", pa.int64()), ("state", pa.string()), ("total", pa.int64())])
READING = ("Reading with Spark", "Changes as a stream")


def _snippets() -> list[str]:
    parts = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", GUIDE, re.MULTILINE | re.DOTALL))
    return [
        code for name in READING for code in re.findall(r"```python\n(.*?)```", parts[name], re.S)
    ]


def test_every_snippet_runs(
    spark: Spark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Lake(Place(str(tmp_path / "lake"), "lake")).place("public.orders", 5)
    table = LayeredTable.create(place, "h", ROWS, ["id"], LEADER, DISPATCHER, 5, settled=5)
    for n, state in enumerate(("new", "paid", "sent"), 1):
        rows = [
            {"id": i, "state": state, "total": i * n, POSITION: n * 10, SEQ: n * 10 + i, OP: PUT}
            for i in range(1, 4)
        ]
        table.land(DISPATCHER, pa.Table.from_pylist(rows, schema=ingest_schema(ROWS)), n * 10)
        if n == 1:
            table.drain(LEADER)
    snippets = _snippets()
    assert len(snippets) == 7
    names: dict[str, object] = {}
    for code in snippets:
        exec(code.replace("/data/", f"{tmp_path}/"), names)
    said = capsys.readouterr().out
    assert "3 rows, and since then 0 changes" in said
    assert re.search(r"\| *sent\| *3\|", said), "the view"
    assert names["name"] == "public_orders"
