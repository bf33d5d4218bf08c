"""A password shows nowhere: not in files, logs, metrics, answers, or what Spark keeps (S3)."""

import logging
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from lockgate.model.errors import LockgateError
from lockgate.model.feed_config import read_config
from lockgate.node.service import NodeService
from tests.support.feeds import LEVEL_S, Pair
from tests.support.waiting import until

ALLOWED = {"metastore.db", "metastore.db-wal"}
"""Where it was written on purpose: people gave it there, and nobody else may read it."""


def _password(url: str) -> str:
    found = urlsplit(url).password
    assert found
    assert len(found) > 8, "too short to be told from other texts"
    return found


def _contents(folder: Path) -> Iterator[bytes]:
    return (path.read_bytes() for path in folder.rglob("*") if path.is_file())


def _found_in_files(secret: str, *folders: Path) -> list[str]:
    return [
        str(path)
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ALLOWED and secret.encode() in path.read_bytes()
    ]


def test_a_password_shows_nowhere(
    service: NodeService, pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    node = service
    caplog.set_level(logging.DEBUG, "lockgate")
    said: list[object] = [node.endpoints()]
    pair.at_source(
        "CREATE TABLE a (id int PRIMARY KEY, v int)",
        "INSERT INTO a SELECT n, n FROM generate_series(1, 1000) n",
    )
    document = {"name": "feed", "source": "shop", "target": "copy", "tables": ["public.*"]}
    config = read_config(document)
    said.append(node.plan_feed(config))
    said.append(node.create_feed(config, "me"))
    assert node.wait_feed("feed", LEVEL_S).level
    pair.at_target("ALTER TABLE a ADD CHECK (v < 5000)")
    pair.at_source("UPDATE a SET v = 9000 WHERE id = 7")
    until(lambda: node.feed("feed").error != "", 60.0)
    said += [node.feed("feed"), node.feed_tables("feed"), node.test_endpoint("shop")]
    with pytest.raises(LockgateError) as caught:
        node.create_feed(read_config({**document, "name": "more", "tables": ["no.such"]}), "me")
    said += [caught.getrepr(style="long", showlocals=True), caught.value.as_dict()]
    said += [node.endpoints(), node.nodes(), node.history("", None, 100), node.metrics().decode()]
    node.stop()
    events = Path(urlsplit(pair.spark.options.settings["spark.eventLog.dir"]).path)
    assert b"SparkListenerJobEnd" in b"".join(_contents(events)), "there is no log to look into"
    for secret in (_password(pair.source), _password(pair.target)):
        assert secret not in repr(said)
        assert secret not in caplog.text
        assert any(secret.encode() in each for each in _contents(pair.home)), "nothing was planted"
        assert _found_in_files(secret, pair.home, events) == []
