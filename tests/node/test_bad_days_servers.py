"""C12: a server goes away in the middle of it, and comes back. The feed goes on by itself."""

import pytest

from lockgate.demo.shop import open_shop
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from tests.support.bad_days import (
    SOON_S,
    chunks_done,
    gone,
    held,
    prepare,
    until_normal,
    until_warned,
)
from tests.support.feeds import Pair, level
from tests.support.waiting import until

SHOP = ("public.customers", "public.orders", "public.visits")
Servers = tuple[EmbeddedPostgres, EmbeddedPostgres]


@pytest.mark.parametrize("how", ["kill", "immediate", "fast"])
def test_the_source_goes_away_while_changes_come(
    fragile: Servers, fragile_pair: Pair, how: str
) -> None:
    pair = fragile_pair
    open_shop(pair.source, 200)
    with pair.running() as runner:
        level(runner)
        pair.at_source("UPDATE orders SET total = total + 1")
        with gone(fragile[0], how):
            error = until_warned(runner)
            assert f"127.0.0.1:{fragile[0].port}" in error
        pair.at_source(
            "DELETE FROM orders WHERE id % 3 = 0", "INSERT INTO visits (page) VALUES ('x')"
        )
        level(runner)
        pair.assert_equal(*SHOP)
        until_normal(runner)


def test_the_target_goes_away_while_changes_are_applied(
    fragile: Servers, fragile_pair: Pair
) -> None:
    pair = fragile_pair
    open_shop(pair.source, 200)
    with pair.running() as runner:
        level(runner)
        with held(pair.target, "public.orders") as lock:
            pair.at_source("UPDATE orders SET total = total + 1", "DELETE FROM visits")
            lock.until_waited_for()
            with gone(fragile[1], "kill"):
                error = until_warned(runner)
                assert f"127.0.0.1:{fragile[1].port}" in error
        pair.at_source("UPDATE orders SET total = total * 2")
        level(runner)
        pair.assert_equal(*SHOP)
        until_normal(runner)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_server_goes_away_while_rows_are_copied(
    fragile: Servers, fragile_pair: Pair, side: str
) -> None:
    """C10, C12: what is left is copied under another snapshot, and writes meet both."""
    pair = fragile_pair
    open_shop(pair.source, 2_000)
    prepare(pair, chunk_rows=200)
    server = fragile[0] if side == "source" else fragile[1]
    with held(pair.target, "public.orders") as lock, pair.running(chunk_rows=200) as runner:
        lock.until_waited_for()
        assert lock.hold_chunks("public.orders")
        done = until(lambda: chunks_done(pair, "public.orders"), SOON_S)
        pair.at_source("UPDATE orders SET total = -1 WHERE id % 5 = 0")
        with gone(server, "kill"):
            lock.release()
            error = until_warned(runner)
            assert f"127.0.0.1:{server.port}" in error
        pair.at_source("DELETE FROM orders WHERE id % 7 = 0", "UPDATE orders SET total = total - 1")
        level(runner)
        pair.assert_equal(*SHOP)
        until_normal(runner)
    assert len(done) < 10


def test_both_servers_go_away_at_once(fragile: Servers, fragile_pair: Pair) -> None:
    pair = fragile_pair
    open_shop(pair.source, 200)
    with pair.running() as runner:
        level(runner)
        with gone(fragile[0], "kill"), gone(fragile[1], "kill"):
            until_warned(runner)
        pair.at_source("UPDATE orders SET total = total + 1")
        level(runner)
        pair.assert_equal(*SHOP)
        until_normal(runner)
