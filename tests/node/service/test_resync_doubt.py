"""A resync whose outcome nobody heard: the rows may be gone, and come back all the same."""

from contextlib import suppress

import pytest

from lockgate.endpoints.postgres.copy import anew
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.errors import LockgateError
from lockgate.model.feed_config import read_config
from lockgate.model.secret import Secret
from lockgate.model.server_config import ServerConfig
from lockgate.node.service import NodeService
from tests.support.feeds import LEVEL_S, Pair
from tests.support.proxy import FaultProxy
from tests.support.waiting import until

COUNT = "SELECT count(*), sum(v) FROM a"


@pytest.mark.parametrize("landed", [True, False])
def test_rows_that_a_lost_commit_has_emptied_are_copied(
    pair: Pair, pg18: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch, landed: bool
) -> None:
    pair.at_source(
        "CREATE TABLE a (id int PRIMARY KEY, v int)",
        "INSERT INTO a SELECT n, n FROM generate_series(1, 1000) n",
    )
    node = NodeService(ServerConfig(home=str(pair.home), node="one", lease_s=3.0), spark=pair.spark)
    with FaultProxy(pg18.host, pg18.port) as proxy:
        target = pair.target.replace(f":{pg18.port}/", f":{proxy.port}/")
        emptied = anew.empty

        def empty(*args: object) -> None:
            emptied(*args)  # type: ignore[arg-type]
            if not proxy.hits:
                proxy.cut_at(b"COMMIT", forward=landed)

        node.start("http://127.0.0.1:1")
        try:
            node.add_endpoint("shop", Secret(pair.source), "test")
            node.add_endpoint("copy", Secret(target), "test")
            wanted = {"name": "feed", "source": "shop", "target": "copy", "tables": ["public.*"]}
            node.create_feed(read_config(wanted), "test")
            assert node.wait_feed("feed", LEVEL_S).level
            with monkeypatch.context() as patch:
                patch.setattr(anew, "empty", empty)
                with suppress(LockgateError):  # or it went well when it was tried again
                    node.resync_table("feed", "public.a", "test")
                assert proxy.hits == 1
            pair.at_source("UPDATE a SET v = v + 1")
            expected = pair.ask_source(COUNT)
            until(lambda: pair.ask_target(COUNT) == expected, LEVEL_S, 0.1)
            assert node.wait_feed("feed", LEVEL_S).level
            pair.assert_equal("public.a")
        finally:
            node.stop()
