"""The same tables where the driver is elsewhere: through Spark Connect."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from tests.lake.conftest import TABLE
from tests.support import lake_errand
from tests.support.lake_errand import SECRET, TWICE, Found
from tests.support.lakes import DELETE, DISPATCHER, LEADER, PUT, ROWS, Writer
from tests.support.spark import ROOT
from tests.support.spark_servers import connect_server

pytestmark = pytest.mark.slow


def _twice(root: Place) -> list[list[Any]]:
    """Make the table whose changes are there twice, and say its rows."""
    place = Lake(root).place(TWICE, 1)
    key = ["id", "part"]
    table = LayeredTable.create(place, "h", ROWS, key, LEADER, DISPATCHER, 1, settled=1)
    writer = Writer(table)
    writer.put(1, 2, 3)
    table.drain(LEADER)
    writer.land((PUT, 1, "a", 1), (PUT, 2, "a", 2), (PUT, 1, "a", 3), (DELETE, 3, "a", None))
    again = table.changes(table.snapshot())
    table.land(DISPATCHER, again, writer.position + 10)
    assert len(table.snapshot().ingest) == 2
    return sorted([*of, v] for of, v in writer.rows.items())


def test_a_table_and_its_changelog_are_read_through_spark_connect(
    root: Place, writer: Writer, tmp_path: Path
) -> None:
    writer.put(1, 2, v=1)
    writer.table.drain(LEADER)
    writer.land((PUT, 1, "a", 9), (PUT, 1, "a", 2), (DELETE, 2, "a", None), (PUT, 3, "a", None))
    twice = _twice(root)
    checkpoint = str(tmp_path / "checkpoint")
    with connect_server(tmp_path) as master:
        done = subprocess.run(
            [sys.executable, "-m", lake_errand.__name__, master, root.url, TABLE, checkpoint],
            capture_output=True,
            check=False,
            cwd=ROOT,
            timeout=400,
        )
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    found = msgspec.json.decode(done.stdout, type=Found)
    now = [[1, "a", 2], [3, "a", None]]
    assert found == Found(
        read=now,
        then=[[1, "a", 1], [2, "a", 1]],
        source=now,
        twice=twice,
        streamed=[
            ["update", 30, 1, 9],
            ["update", 40, 9, 2],
            ["delete", 50, 1, None],
            ["insert", 60, None, None],
        ],
    )
    # S3: neither the server's log nor its record of events shows what the store's options hold.
    logs = [tmp_path / "connect.log", *(tmp_path / "events").rglob("*")]
    text = "".join(log.read_text("utf-8", "replace") for log in logs if log.is_file())
    assert "SparkListenerConnectOperationStarted" in text
    assert SECRET not in text
