"""`lockgate metastore prepare`: makes, migrates, tells; and refuses well."""

import json
import resource
import sqlite3
import subprocess
from pathlib import Path

import pytest

from lockgate.model.batch import Batch
from lockgate.model.ids import NodeRef
from lockgate.model.records import FenceRecord, node_scope
from lockgate.store.metastore import SqlMetastore
from tests.cli.test_cli import lockgate


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "meta.db"


def prepare(file: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return lockgate("metastore", "prepare", f"sqlite:///{file}", *options)


def test_it_is_made_where_there_is_none_and_left_alone_where_there_is(file: Path) -> None:
    first = prepare(file)
    assert first.returncode == 0
    assert "schema version" in first.stdout
    before = file.read_bytes()
    assert prepare(file).returncode == 0
    assert file.read_bytes() == before


def test_json_tells_what_it_holds(file: Path) -> None:
    with SqlMetastore.open(f"sqlite:///{file}", lease_ms=1_000) as store:
        store.join("a", 0)
        record = FenceRecord("shop", NodeRef("a", 1), 3)
        store.commit(Batch(node_scope("a"), 1, 1, puts=(record,)))
    told = json.loads(prepare(file, "--json").stdout)
    assert told["nodes"] == 1
    assert told["scopes"] == [{"scope": "node:a", "fence": 1, "serial": 1, "records": 1}]


def test_a_newer_one_is_refused_and_untouched(file: Path) -> None:
    prepare(file)
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE lockgate_schema SET version = 999")
    connection.close()
    refused = prepare(file)
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: ")
    assert "hint: " in refused.stderr
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT version FROM lockgate_schema").fetchone() == (999,)
    connection.close()


def test_what_is_no_metastore_is_refused_and_untouched(file: Path) -> None:
    file.write_text("not a database, but somebody's letter")
    refused = prepare(file, "--json")
    assert refused.returncode == 1
    assert json.loads(refused.stdout)["error"]["code"] == "metastore-unreadable"
    assert file.read_text() == "not a database, but somebody's letter"


def test_a_wrong_url_is_wrong_usage_and_shows_no_password() -> None:
    refused = lockgate("metastore", "prepare", "oracle://scott:tiger@db/x")
    assert refused.returncode == 2
    assert "hint: " in refused.stderr
    assert "tiger" not in refused.stdout + refused.stderr


def test_a_full_disk_is_said_and_leaves_nothing_broken(file: Path) -> None:
    """No room to write (here: no file may grow) is an error with a hint, then it works again."""
    full = lockgate(
        "metastore",
        "prepare",
        f"sqlite:///{file}",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2_048, 2_048)),
    )
    assert full.returncode == 1
    assert full.stderr.startswith("error: ")
    assert "Traceback" not in full.stderr
    assert prepare(file).returncode == 0
