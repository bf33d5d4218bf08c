"""A home belongs to one process, and a server's home to servers."""

import stat

import pytest

from lockgate.model.errors import StaleOwner, UsageError
from lockgate.model.server_config import ServerConfig
from lockgate.node.runner import FeedRunner
from lockgate.node.service import NodeService
from tests.support.feeds import QUICK, Pair
from tests.support.waiting import until


def test_a_runner_does_not_run_in_a_servers_home(service: NodeService, pair: Pair) -> None:
    assert service.health().status == "ok"
    with (
        pytest.raises(UsageError, match="server keeps its feeds"),
        FeedRunner(pair.home, pair.config(), spark=pair.spark, core=QUICK),
    ):
        pass


def test_a_server_started_later_on_the_same_home_ends_the_first(
    service: NodeService, pair: Pair
) -> None:
    config = ServerConfig(home=str(pair.home), node="other", lease_s=3.0)
    second = NodeService(config, spark=pair.spark)
    second.start("http://127.0.0.1:1")
    try:
        until(lambda: service.failure is not None, 20.0)
        assert isinstance(service.failure, StaleOwner)
        assert second.health().status == "ok"
    finally:
        second.stop()


def test_what_opens_the_service_is_for_the_owner_alone(service: NodeService, pair: Pair) -> None:
    token = pair.home / "token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert len(token.read_text("utf-8").strip()) >= 32
    assert stat.S_IMODE(pair.home.stat().st_mode) == 0o700
    assert service.tokens()[0].name == "home-one"
