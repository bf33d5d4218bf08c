"""C12: a disk is full. The feed says so, waits, and goes on when there is room; nothing is lost."""

from pathlib import Path

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from tests.support.bad_days import SOON_S, small_disk, tablespace, until_normal, until_warned
from tests.support.feeds import Pair, level
from tests.support.waiting import until

# Random bytes, because the files are compressed.
_NOISE = (
    "INSERT INTO noise SELECT n, decode(string_agg(md5(random()::text), ''), 'hex') "
    "FROM generate_series({}, {}) n, generate_series(1, 64) GROUP BY n"
)
_TABLE = "CREATE TABLE noise (id int PRIMARY KEY, v bytea)"


def test_the_change_logs_disk_is_full(pair: Pair) -> None:
    pair.at_source(_TABLE, _NOISE.format(1, 10))
    with small_disk(pair.home / "changelog", "1m") as disk, pair.running() as runner:
        level(runner)
        pair.at_source(_NOISE.format(11, 3000))
        error = until_warned(runner, "no room left for the change log")
        assert str(disk.path) in error
        assert any("free some space" in step for step in runner.status().next_steps)
        pair.at_source("UPDATE noise SET v = '' WHERE id <= 5", "DELETE FROM noise WHERE id = 6")
        disk.resize("64m")
        level(runner)
        pair.assert_equal("public.noise")
        until_normal(runner)


def test_the_metastores_disk_is_full(pair: Pair, tmp_path: Path) -> None:
    """A node that cannot renew its lease stops, and begins a new life when it can."""
    pair.at_source(_TABLE, _NOISE.format(1, 10))
    with small_disk(pair.home, "4m") as disk:
        log = tmp_path / "log"
        log.mkdir()
        (pair.home / "changelog").symlink_to(log)
        with pair.running() as runner:
            level(runner)
            epoch = runner.status().epoch
            disk.fill()
            pair.at_source(_NOISE.format(11, 20))
            until_warned(runner, "metastore", str(pair.home))
            until(lambda: not runner.status().epoch, SOON_S)  # the lease has run out
            pair.at_source("DELETE FROM noise WHERE id = 6")
            until_warned(runner, "metastore", str(pair.home))
            disk.clear()
            level(runner)
            pair.assert_equal("public.noise")
            until_normal(runner)
            assert runner.status().epoch > epoch


def test_the_targets_disk_is_full(pair: Pair, pg18: EmbeddedPostgres) -> None:
    """A tablespace stands for the disk, so that the server itself can go on."""
    pair.at_source(_TABLE)
    with small_disk(pg18.directory / "space", "2m") as disk, pair.running() as runner:
        level(runner)
        with tablespace(pg18, disk.path):
            pair.at_target("ALTER TABLE noise SET TABLESPACE small")
            pair.at_source(_NOISE.format(1, 3000))
            until_warned(runner, "disk is full", "public.noise")
            disk.resize("64m")
            level(runner)
            pair.assert_equal("public.noise")
            until_normal(runner)
            pair.at_target("DROP TABLE noise")
