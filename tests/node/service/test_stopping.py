"""A node that is asked to stop does so, whatever the metastore says."""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from lockgate.model.server_config import ServerConfig
from lockgate.node.service import NodeService


def test_a_node_closes_what_it_has_when_its_lease_cannot_be_given_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = NodeService(ServerConfig(home=str(tmp_path), node="one"))
    node.start("http://127.0.0.1:1")
    with closing(sqlite3.connect(tmp_path / "metastore.db", timeout=30)) as raw:
        raw.execute("DROP TABLE nodes")
    with caplog.at_level(logging.WARNING, "lockgate.node"):
        node.stop()
    assert node._spark._closed
    assert "runs out by itself" in caplog.text
