"""The same tables where the driver is elsewhere: through Spark Connect."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from lockgate.endpoints.delta.place import Place
from tests.lake.conftest import TABLE
from tests.support import lake_errand
from tests.support.lake_errand import SECRET, Found
from tests.support.lakes import DELETE, LEADER, PUT, Writer
from tests.support.spark import ROOT
from tests.support.spark_servers import connect_server

pytestmark = pytest.mark.slow


def test_a_table_and_its_changelog_are_read_through_spark_connect(
    root: Place, writer: Writer, tmp_path: Path
) -> None:
    writer.put(1, 2, v=1)
    writer.table.drain(LEADER)
    writer.land((PUT, 1, "a", 2), (DELETE, 2, "a", None), (PUT, 3, "a", None))
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
        streamed=[["update", 30, 1, 2], ["delete", 40, 1, None], ["insert", 50, None, None]],
    )
    # S3: neither the server's log nor its record of events shows what the store's options hold.
    logs = [tmp_path / "connect.log", *(tmp_path / "events").rglob("*")]
    text = "".join(log.read_text("utf-8", "replace") for log in logs if log.is_file())
    assert "SparkListenerConnectOperationStarted" in text
    assert SECRET not in text
