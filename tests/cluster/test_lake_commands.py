"""The life of a table in a lake, by the commands that people type, against a real server."""

from pathlib import Path
from typing import Any

import psycopg

from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.files import live_files
from lockgate.endpoints.delta.lake import STABLE, Lake
from lockgate.endpoints.delta.place import Place
from lockgate.model.lake_documents import LakeTableDocument
from soak.nodes import Cluster
from tests.support.feeds import LEVEL_S, Pair
from tests.support.typed import typed
from tests.support.waiting import until

SOON_S = 120.0
ORDERS = "public.orders"
WEIRD = 'public."We/ird"'


def at_source(pair: Pair, *statements: str) -> None:
    with psycopg.connect(pair.source) as connection:
        for statement in statements:
            connection.execute(statement)


def test_a_table_is_fed_drained_handed_over_and_dropped_by_commands(
    nodes: Cluster, ends: Pair, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    node = nodes.start("one")
    run, client = typed(node), node.client()
    at_source(
        ends,
        "CREATE TABLE orders (id int PRIMARY KEY, v text)",
        'CREATE TABLE "We/ird" (id int PRIMARY KEY)',
        "INSERT INTO orders SELECT n, 'v' || n FROM generate_series(1, 100) n",
        'INSERT INTO "We/ird" VALUES (1)',
    )

    def good(*words: str) -> Any:
        code, document = run(*words)
        assert code == 0, (words, document)
        return document

    def shown() -> dict[str, LakeTableDocument]:
        return {one.table: one for one in client.lakes.list("lake")}

    def level() -> None:
        good("feed", "wait", "feed", "--timeout", str(LEVEL_S))

    good("endpoint", "add", "shop", ends.source)
    good("endpoint", "add", "lake", f"delta:{lake}")
    good("feed", "create", "feed", "--from", "shop", "--to", "lake", "--tables", "public.*")
    level()
    at_source(ends, "UPDATE orders SET v = 'new' WHERE id <= 10", "DELETE FROM orders WHERE id = 9")
    level()
    until(lambda: len(shown()) == 2 and shown()[ORDERS].ingest_rows > 0, SOON_S, every_s=0.1)

    listed = good("lake", "list", "lake")
    assert (listed["role"], listed["tables"]) == ("leader", 2)
    assert {one["table"] for one in listed["items"]} == {ORDERS, WEIRD}

    assert good("lake", "drain", "lake", ORDERS)["verdict"] == "done"
    until(lambda: shown()[ORDERS].stable_rows == 99, SOON_S, every_s=0.1)
    drained = good("lake", "status", "lake", ORDERS)
    assert (drained["state"], drained["ingest_rows"]) == ("live", 0)
    # Nothing more comes to it: what was drained is out of ingest all the same.
    stable = _bytes_of_stable(lake, ORDERS)
    assert stable > 0
    until(lambda: shown()[ORDERS].size_bytes == stable, SOON_S, every_s=0.1)
    good("lake", "drain", "lake")

    at_source(ends, "INSERT INTO orders VALUES (1000, 'late')")
    level()
    code, refused = run("lake", "step-down", "lake")
    assert (code, refused["error"]["code"]) == (1, "conflict")
    assert good("lake", "step-down", "lake", "--flush")["verdict"] == "done"
    until(lambda: client.lakes.show("lake").leader == "", SOON_S, every_s=0.1)
    code, refused = run("lake", "drain", "lake")
    assert (code, refused["error"]["code"]) == (1, "conflict")
    assert good("lake", "step-up", "lake")["verdict"] == "done"
    assert good("lake", "step-up", "lake")["verdict"] == "nothing-to-do"

    code, refused = run("lake", "drop", "lake", ORDERS)
    assert (code, refused["error"]["code"]) == (1, "conflict"), "a feed writes to it"
    good("feed", "remove", "feed")
    assert good("lake", "drop", "lake", ORDERS, "--wait", "60")["verdict"] == "done"
    assert good("lake", "status", "lake", ORDERS)["state"] == "dead"
    assert good("lake", "drop", "lake", ORDERS)["verdict"] == "nothing-to-do"
    assert good("lake", "drop", "lake", WEIRD, "--wait", "60")["verdict"] == "done"
    assert not [each for each in (ORDERS, WEIRD) if _is_live(lake, each)]

    said = [(one["verb"], one["detail"]) for one in good("history", "lake")["items"]]
    assert said.count(("lake drop", ORDERS)) == 3
    assert ("lake step-down", "") in said
    code, missing = run("lake", "status", "lake", "public.nobody")
    assert (code, missing["error"]["code"]) == (1, "not-found")


def _bytes_of_stable(lake: Path, table: str) -> int:
    stable = FencedTable.open(Lake(Place(str(lake), "lake")).live(table).child(STABLE))
    return sum(file.bytes for file in live_files(stable.handle))


def _is_live(lake: Path, table: str) -> bool:
    found = Lake(Place(str(lake), "lake"))
    places = [found.place(table, number) for number in found.incarnations(table)]
    return any(not FencedTable.open(place.child(STABLE)).look().dead for place in places)
