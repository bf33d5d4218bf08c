"""Bad days of one table of a lake, on a real server: said of that table alone, nothing is lost.

Damage and deletion by hand: tests/node/service/test_lake_resync.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.errors import LockgateError
from lockgate.model.lake_documents import LakeTableDocument
from soak.nodes import LOCKGATE, Cluster, NodeServer
from tests.support.bad_days import SmallDisk, small_disk
from tests.support.databases import fresh_database
from tests.support.lake_feeds import Shore
from tests.support.typed import typed
from tests.support.waiting import until

SOON_S = 180.0
SOUND = "public.sound"
_CAPABILITIES = "-dac_override,-dac_read_search"


class Served:
    """A server with a Spark of its own, and a feed of all tables into a lake."""

    def __init__(self, node: NodeServer, shore: Shore) -> None:
        self.shore = shore
        self.run = typed(node)
        self.client = node.client()
        self.make("sound")
        self.client.endpoints.add("shop", shore.source)
        self.client.endpoints.add("lake", shore.address)
        self.client.feeds.create(
            "feed", source="shop", target="lake", tables=["public.*"], flush_interval_ms=50
        )
        until(lambda: self.has_all(SOUND), SOON_S, every_s=0.1)
        until(lambda: self.client.lakes.show("lake").role == "leader", SOON_S)

    def make(self, name: str) -> None:
        self.shore.at_source(
            f"CREATE TABLE {name} (id int PRIMARY KEY, n int)",
            f"INSERT INTO {name} SELECT n, 0 FROM generate_series(1, 100) n",
        )

    def bring(self, name: str) -> None:
        """A table into the lake, with rows in stable and changes over them."""
        self.make(name)
        until(lambda: self.has_all(f"public.{name}"), SOON_S, every_s=0.1)
        assert self.client.lakes.drain("lake", f"public.{name}").verdict == "done"
        self.write(name)
        until(lambda: self.has_all(f"public.{name}"), SOON_S, every_s=0.1)

    def write(self, *names: str) -> None:
        for name in names:
            self.shore.at_source(
                f"UPDATE {name} SET n = n + 1 WHERE id % 3 = 0",
                f"DELETE FROM {name} WHERE id = (SELECT min(id) FROM {name})",
                f"INSERT INTO {name} SELECT max(id) + 1, 0 FROM {name}",
            )

    def has_all(self, table: str) -> bool:
        """Whether readers see what the source has."""
        shore = self.shore
        return shore.can_be_read(table) and shore.in_lake(table) == shore.at_home(table)

    def shown(self, table: str) -> LakeTableDocument:
        return self.client.lakes.status("lake", table)

    def trouble(self, table: str) -> str:
        """What the feed says of it."""
        [found] = [one for one in self.client.feeds.tables("feed") if one.table == table]
        return " ".join(span.error for span in found.spans)

    def refused_drain(self, table: str) -> tuple[str, str]:
        """What is said to whoever wants it drained."""
        code, document = self.run("lake", "drain", "lake", table)
        assert code == 1, document
        return document["error"]["what"], document["error"]["hint"]


@pytest.fixture(scope="module")
def served(
    pg16: EmbeddedPostgres, pg18: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with (
        fresh_database(pg16) as source,
        fresh_database(pg18) as metastore,
        Cluster(folder, metastore, "local[2]", launcher=(*_without_privileges(), *LOCKGATE)) as it,
    ):
        shore = Shore(source, folder / "lake", folder, None)
        yield Served(it.start("one"), shore)


def _without_privileges() -> tuple[str, ...]:
    """To root no permission is lost, unless it gave that up."""
    if os.geteuid():
        return ()
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("root needs setpriv to be denied anything")
    return setpriv, "--inh-caps", _CAPABILITIES, "--bounding-set", _CAPABILITIES


# --- what hurts a table, and what mends it --------------------------------------------------------


@contextlib.contextmanager
def full(disk: SmallDisk) -> Iterator[None]:
    disk.fill()
    try:
        yield
    finally:
        disk.clear()


@contextlib.contextmanager
def forbidden(incarnation: Path) -> Iterator[None]:
    folders = [incarnation, *(path for path in incarnation.rglob("*") if path.is_dir())]
    for path in folders:
        path.chmod(0o555)
    try:
        yield
    finally:
        for path in folders:
            path.chmod(0o755)


@contextlib.contextmanager
def rewritten_by_another(layer: Path) -> Iterator[None]:
    """Rows were taken, and are put back as the hint says."""
    table = DeltaTable(layer)
    before = table.version()
    table.delete()
    assert table.version() == before + 1
    try:
        yield
    finally:
        DeltaTable(layer).restore(before)


# --- and what is seen of it -----------------------------------------------------------------------


def suffers(served: Served, name: str, what: str, hint: str, *, lands: bool = False) -> None:
    """It is hurt: it is said of that table alone, and the other one receives and is drained."""
    hurt = f"public.{name}"
    before = served.shore.table(SOUND).stable.look().position
    served.write(name, "sound")
    if not lands:
        until(lambda: what in served.trouble(hurt), SOON_S, every_s=0.1)
    until(lambda: served.has_all(SOUND), SOON_S, every_s=0.1)
    assert served.client.lakes.drain("lake", SOUND).verdict == "done"
    assert served.shore.table(SOUND).stable.look().position > before

    told = served.refused_drain(hurt)
    assert what in told[0]
    assert hint in told[1]
    # Nobody knows how it was last looked at: a survey or a drain may have been before.
    until(lambda: what in served.shown(hurt).error, SOON_S, every_s=0.1)
    code, status = served.run("lake", "status", "lake", hurt)
    assert code == 0
    assert what in status["error"]
    assert hint in " ".join(status["next_steps"])
    code, listed = served.run("lake", "list", "lake")
    assert code == 0
    assert {one["table"] for one in listed["items"] if one["error"]} == {hurt}
    assert not served.trouble(SOUND)


def recovers(served: Served, name: str) -> None:
    """It is mended: it goes on with all that was committed meanwhile."""
    hurt = f"public.{name}"
    until(lambda: served.has_all(hurt), SOON_S, every_s=0.1)
    until(lambda: _drained(served, hurt), SOON_S, every_s=0.1)
    served.write(name, "sound")
    for table in (hurt, SOUND):
        until(lambda one=table: served.has_all(one), SOON_S, every_s=0.1)  # type: ignore[misc]
    assert served.client.lakes.drain("lake", hurt).verdict == "done"
    served.shore.assert_equal(hurt, SOUND)
    until(lambda: not served.shown(hurt).error and not served.trouble(hurt), SOON_S, every_s=0.1)


def _drained(served: Served, table: str) -> bool:
    with contextlib.suppress(LockgateError):  # it may be as it was for one more look
        return served.client.lakes.drain("lake", table).verdict in ("done", "nothing-to-do")
    return False


def test_a_full_disk_holds_up_its_table_alone(served: Served) -> None:
    folder = Path(Lake(served.shore.root).place("public.full_one", 1).url).parent
    with small_disk(folder, "8m") as disk:
        served.bring("full_one")
        with full(disk):
            suffers(served, "full_one", "storage is full", "free some space")
        recovers(served, "full_one")


def test_a_lost_permission_holds_up_its_table_alone(served: Served) -> None:
    served.bring("forbidden")
    with forbidden(Path(served.shore.table("public.forbidden").place.url)):
        suffers(served, "forbidden", "may not be used", "let the account")
    recovers(served, "forbidden")


@pytest.mark.parametrize("layer", ["stable", "ingest"])
def test_a_commit_of_another_program_holds_up_its_table_alone(served: Served, layer: str) -> None:
    """In stable, what comes from the source still lands in ingest."""
    name = f"foreign_{layer}"
    served.bring(name)
    table = served.shore.table(f"public.{name}")
    place = (table.stable if layer == "stable" else table.ingest).place
    with rewritten_by_another(Path(place.url)):
        in_stable = layer == "stable"
        suffers(served, name, "another program has changed", "restore it", lands=in_stable)
    recovers(served, name)
