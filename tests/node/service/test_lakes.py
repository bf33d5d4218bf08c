"""Lakes on a real node: what is drained, dropped and led, and what people are told."""

from pathlib import Path

import polars as pl
import pytest

from lockgate.endpoints.delta.head import LakeHead
from lockgate.endpoints.delta.lake import STABLE, Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import Conflict, NotFound
from lockgate.model.feed_config import FeedConfig, read_config
from lockgate.model.lake_documents import LakeOutcome
from lockgate.model.secret import Secret
from lockgate.node.service import NodeService
from tests.support.feeds import LEVEL_S, Pair
from tests.support.scrapes import Scrape
from tests.support.waiting import until

ORDERS = "public.orders"


@pytest.fixture
def lake(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "lake"), "lake")


@pytest.fixture
def fed(service: NodeService, pair: Pair, lake: Place) -> NodeService:
    """A table that a feed has brought into the lake, and some changes since."""
    service.add_endpoint("lake", Secret(f"delta:{lake.url}"), "test")
    pair.at_source("CREATE TABLE orders (id int PRIMARY KEY, v text)")
    pair.at_source("INSERT INTO orders SELECT n, 'v' || n FROM generate_series(1, 100) n")
    service.create_feed(config(), "test")
    level(service)
    pair.at_source(
        "UPDATE orders SET v = 'changed' WHERE id <= 10", "DELETE FROM orders WHERE id = 20"
    )
    level(service)
    return service


def config(**more: object) -> FeedConfig:
    document = {
        "name": "feed",
        "source": "shop",
        "target": "lake",
        "tables": ["public.*"],
        "flush_interval_ms": 50,
        **more,
    }
    return read_config(document)


def level(service: NodeService) -> None:
    assert service.wait_feed("feed", LEVEL_S).level


def leads(service: NodeService) -> bool:
    return service.lakes.one("lake").role == "leader"


def is_shown(service: NodeService) -> bool:
    return any(each.table == ORDERS for each in service.lakes.one("lake").tables)


def table_of(service: NodeService, lake: Place) -> LayeredTable:
    found = Lake(lake)
    place = found.live(ORDERS)
    return LayeredTable.open(place, found.homes(place)[0])


def over(service: NodeService, ask: object, **more: object) -> LakeOutcome:
    """Ask on until there is a verdict."""
    request = ""
    while True:
        told: LakeOutcome = ask(request=request, **more)  # type: ignore[operator]
        if told.verdict != "under-way":
            return told
        request = told.request


def test_the_first_installation_of_a_lake_leads_it_and_drains_on_demand(
    fed: NodeService, lake: Place
) -> None:
    until(lambda: leads(fed), 60)
    stable = table_of(fed, lake).place.child(STABLE)
    assert pl.read_delta(stable.url).height == 100
    told = over(fed, lambda request: fed.lakes.drain("lake", ORDERS, "me", request))
    assert told.verdict == "done"
    rows = pl.read_delta(stable.url)
    assert rows.height == 99
    assert rows.filter(pl.col("v") == "changed").height == 10
    until(lambda: fed.lakes.table("lake", ORDERS).stable_rows == 99, 60)
    shown = fed.lakes.table("lake", ORDERS)
    assert (shown.state, shown.role, shown.ingest_rows) == ("live", "leader", 0)
    figures = Scrape(fed.metrics().decode())
    assert figures.value("lockgate_lake_role", role="leader") == 1
    assert figures.value("lockgate_lake_stable_rows") == 99
    assert figures.value("lockgate_lake_works_total", kind="drain", outcome="done") >= 1


def test_a_table_that_a_feed_writes_to_is_not_dropped_by_the_way(fed: NodeService) -> None:
    until(lambda: leads(fed), 60)
    with pytest.raises(Conflict, match="feed"):
        fed.lakes.drop("lake", ORDERS, "me")
    until(lambda: is_shown(fed), 60)
    assert fed.lakes.table("lake", ORDERS).state != "dead"


def test_a_table_that_was_not_looked_at_yet_is_said_to_come(
    fed: NodeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fed.lakes._stores.lakes, "shown", lambda _: None)
    with pytest.raises(NotFound) as caught:
        fed.lakes.table("lake", ORDERS)
    assert "the feed feed brings it" in caught.value.hint
    with pytest.raises(NotFound) as caught:
        fed.lakes.table("lake", "public.none")
    assert "lake list" in caught.value.hint


def test_a_feed_goes_on_without_a_table_that_was_dropped_by_force(
    fed: NodeService, pair: Pair, lake: Place
) -> None:
    until(lambda: leads(fed), 60)
    until(lambda: bool(fed.lakes.one("lake").tables), 60)
    told = over(
        fed, lambda request: fed.lakes.drop("lake", ORDERS, "me", force=True, request=request)
    )
    assert told.verdict == "done"
    with pytest.raises(NotFound):
        Lake(lake).live(ORDERS)
    pair.at_source("CREATE TABLE other (id int PRIMARY KEY)", "INSERT INTO other VALUES (1)")
    pair.at_source("INSERT INTO orders VALUES (1000, 'late')")
    level(fed)
    with pytest.raises(NotFound):
        Lake(lake).live(ORDERS)
    assert Lake(lake).live("public.other")


def test_a_resync_brings_a_dropped_table_back_as_another_one(
    fed: NodeService, pair: Pair, lake: Place
) -> None:
    until(lambda: leads(fed), 60)
    until(lambda: bool(fed.lakes.one("lake").tables), 60)
    before = Lake(lake).newest(ORDERS) or 0
    over(fed, lambda request: fed.lakes.drop("lake", ORDERS, "me", force=True, request=request))
    pair.at_source("INSERT INTO orders VALUES (1000, 'late')")
    fed.resync_table("feed", ORDERS, "me")
    until(lambda: (Lake(lake).newest(ORDERS) or 0) > before, 120)
    level(fed)
    assert table_of(fed, lake).read().num_rows == 100


@pytest.mark.parametrize("paused", [True, False])
def test_a_table_that_lost_a_commit_says_so_and_a_resync_helps(
    fed: NodeService, pair: Pair, lake: Place, paused: bool
) -> None:
    """Power was lost, and the file of its newest changes is empty. Nobody can claim it then."""
    until(lambda: leads(fed), 60)
    pair.at_source("CREATE TABLE other (id int PRIMARY KEY)")
    level(fed)
    if paused:
        fed.pause_feed("feed", "me")
    before = Lake(lake).newest(ORDERS) or 0
    ingest = table_of(fed, lake).ingest.place
    max(Path(ingest.url, "_delta_log").glob("*.json")).write_bytes(b"")
    pair.at_source("INSERT INTO orders VALUES (1000, 'late')", "INSERT INTO other VALUES (1)")
    if paused:
        fed.resume_feed("feed", "me")

    def trouble() -> dict[str, str]:
        return {one.table: one.error for one in fed.feed_tables("feed") if one.error}

    until(lambda: "empty" in trouble().get(ORDERS, ""), 60)
    assert list(trouble()) == [ORDERS]
    fed.resync_table("feed", ORDERS, "me")
    until(lambda: (Lake(lake).newest(ORDERS) or 0) > before, 120)
    level(fed)
    assert table_of(fed, lake).read().num_rows == 100


def test_a_removed_feed_leaves_its_table_which_can_then_be_dropped(
    fed: NodeService, lake: Place
) -> None:
    until(lambda: leads(fed), 60)
    until(lambda: fed.remove_feed("feed", "me") is None, 60)
    assert table_of(fed, lake).read().num_rows == 99
    told = over(fed, lambda request: fed.lakes.drop("lake", ORDERS, "me", request=request))
    assert told.verdict == "done"
    with pytest.raises(NotFound):
        Lake(lake).live(ORDERS)


def test_step_down_is_refused_while_changes_wait_and_flushes_when_told(
    fed: NodeService, lake: Place
) -> None:
    until(lambda: leads(fed), 60)
    until(lambda: any(each.ingest_rows for each in fed.lakes.one("lake").tables), 60)
    with pytest.raises(Conflict):
        over(fed, lambda request: fed.lakes.step_down("lake", "me", request=request))
    assert leads(fed)
    told = over(fed, lambda request: fed.lakes.step_down("lake", "me", flush=True, request=request))
    assert told.verdict == "done"
    assert LakeHead(lake, "x").read().leader == ""
    assert pl.read_delta(table_of(fed, lake).place.child(STABLE).url).height == 99
    with pytest.raises(Conflict):
        over(fed, lambda request: fed.lakes.drain("lake", ORDERS, "me", request))
    told = over(fed, lambda request: fed.lakes.step_up("lake", "me", request))
    assert told.verdict in ("done", "nothing-to-do")
    until(lambda: leads(fed), 60)


def test_an_endpoint_that_is_a_database_is_no_lake(service: NodeService) -> None:
    with pytest.raises(Conflict, match="lake"):
        service.lakes.one("copy")
