"""The story of a feed on one node, scraped at its turns, with everything that was logged.

It is told once: most of its time goes by until Spark has copied and applied.
"""

import json
import logging
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from lockgate.api.scrub import Scrubber
from lockgate.api.server import serve
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.feed_config import read_config
from lockgate.model.feeds import FeedState
from lockgate.model.secret import Secret
from lockgate.model.server_config import ServerConfig
from lockgate.model.tokens import Role
from lockgate.node.service import NodeService
from lockgate.pipeline.session import Spark
from tests.support.databases import fresh_database
from tests.support.feeds import LEVEL_S, Pair
from tests.support.logged import logged
from tests.support.scrapes import Scrape
from tests.support.waiting import until

WAIT_S = 120.0


@dataclass
class Story:
    """What was seen and what was said."""

    secrets: tuple[str, ...]
    """Passwords of both databases, and the token that scrapes."""
    scrapes: dict[str, Scrape] = field(default_factory=dict)
    log: str = ""

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.splitlines()]

    def line(self, event: str) -> dict[str, Any]:
        """The first line about this."""
        found = [line for line in self.lines if line["event"] == event]
        assert found, f"nobody said {event!r}"
        return found[0]


@pytest.fixture(scope="session")
def story(
    pg16: EmbeddedPostgres,
    pg18: EmbeddedPostgres,
    spark: Spark,
    tmp_path_factory: pytest.TempPathFactory,
) -> Story:
    """A feed copies, applies, meets a schema change and a row that the target refuses, is paused,
    resumed and removed. The log's scrubber has not learned any password."""
    home = tmp_path_factory.mktemp("telemetry") / "home"
    with (
        fresh_database(pg16) as source,
        fresh_database(pg18) as target,
        logged(Scrubber(), node="one", level=logging.DEBUG) as log,
    ):
        told = Story(tuple(str(urlsplit(url).password) for url in (source, target)))
        _begin(Pair(source, target, home, spark), told)
        told.log = log.getvalue()
    return told


def _begin(shop: Pair, told: Story) -> None:
    shop.at_source(
        "CREATE TABLE a (id int PRIMARY KEY, v text)",
        "CREATE TABLE b (id int PRIMARY KEY, v text)",
        "INSERT INTO a SELECT n, 'v' || n FROM generate_series(1, 500) n",
    )
    config = ServerConfig(home=str(shop.home), node="one", lease_s=10.0)
    node = NodeService(config, spark=shop.spark)
    node.start("http://127.0.0.1:1")
    try:
        node.add_endpoint("shop", Secret(shop.source), "test")
        node.add_endpoint("copy", Secret(shop.target), "test")
        key = node.add_token("prometheus", Role.VIEWER, "test").reveal()
        told.secrets += (key,)
        headers = {"Authorization": f"Bearer {key}"}
        with (
            serve(node, "127.0.0.1:0", answered=node.request_answered) as server,
            httpx.Client(base_url=server.url, headers=headers, timeout=30) as client,
        ):
            _live(node, shop, told, client)
    finally:
        node.stop()


def _live(node: NodeService, shop: Pair, told: Story, client: httpx.Client) -> None:
    def see(moment: str) -> Scrape:
        answer = client.get("/metrics")
        assert answer.status_code == 200
        told.scrapes[moment] = Scrape(answer.text)
        return told.scrapes[moment]

    def level() -> None:
        assert node.wait_feed("feed", LEVEL_S).level

    def state(wanted: FeedState) -> None:
        until(lambda: node.feed("feed").state is wanted, WAIT_S)

    document = {"name": "feed", "source": "shop", "target": "copy", "tables": ["public.*"]}
    node.create_feed(read_config({**document, "flush_interval_ms": 50}), "test")
    level()
    until(lambda: see("copied").all("lockgate_source_retained_wal_bytes"), WAIT_S)

    checkpoint = told.scrapes["copied"].value("lockgate_feed_checkpoint_bytes", feed="feed")
    shop.at_source("UPDATE a SET v = 'new' WHERE id <= 40")
    level()
    # The target has the rows before the node has counted them, and the owner hears of it later.
    until(
        lambda: (
            see("applied").value("lockgate_apply_rows_total") >= 40
            and told.scrapes["applied"].value("lockgate_feed_checkpoint_bytes") > checkpoint
        ),
        WAIT_S,
    )

    shop.at_source("ALTER TABLE a ADD COLUMN w int", "UPDATE a SET w = id WHERE id <= 10")
    level()
    see("altered")

    shop.at_target("ALTER TABLE b ADD CONSTRAINT small CHECK (id < 1000)")
    shop.at_source("INSERT INTO b VALUES (1000, 'too large')")
    state(FeedState.WARNING)
    see("refused")
    shop.at_target("ALTER TABLE b DROP CONSTRAINT small")
    level()
    state(FeedState.NORMAL)
    see("mended")

    node.pause_feed("feed", "test")
    until(lambda: see("paused").value("lockgate_node_feeds_owned") == 0, WAIT_S)
    until(lambda: not see("paused").all("lockgate_feed_spans"), WAIT_S)
    node.resume_feed("feed", "test")
    level()
    see("resumed")
    node.remove_feed("feed", "test")
    see("removed")
