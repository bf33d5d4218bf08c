"""One line of a file is exchanged, whatever else stands in it, and by the latest keeper only."""

import fcntl
from pathlib import Path

import pytest

from lockgate.endpoints.pgbouncer.ini import exchanged, fenced, line_of, point
from lockgate.model.errors import Conflict, EndpointBusy, ObjectMissing, StaleOwner, Terminal

NEW = "host=new port=5432"

FILES = [
    (b"[databases]\nshop = host=old\n", b"[databases]\nshop = host=new port=5432\n"),
    (b"shop=host=old", b"shop=host=new port=5432"),
    (
        b'\r\n"shop"  =  host=old\r\n',
        b'\r\n"shop"  =  host=new port=5432\r\n',
    ),
    (
        b"[databases]\nshop2 = host=a\n;shop = host=b\nshop = host=old\nworkshop = host=c\n",
        b"[databases]\nshop2 = host=a\n;shop = host=b\nshop = host=new port=5432\n"
        b"workshop = host=c\n",
    ),
    (
        b"[pgbouncer]\nshop = 1\n[ databases ]\n\tshop = \n[users]\nshop = pool_mode=session\n",
        b"[pgbouncer]\nshop = 1\n[ databases ]\n\tshop = host=new port=5432\n[users]\n"
        b"shop = pool_mode=session\n",
    ),
    (
        b"[databases]\n# \xff\xfe no text\nshop = host=old\n",
        b"[databases]\n# \xff\xfe no text\nshop = host=new port=5432\n",
    ),
]


@pytest.mark.parametrize(("before", "after"), FILES, ids=range(len(FILES)))
def test_the_line_is_exchanged_and_nothing_else(before: bytes, after: bytes) -> None:
    assert exchanged(before, "shop", NEW) == after
    assert line_of(after, "shop") == NEW
    assert exchanged(after, "shop", NEW) == after


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"[databases]\n* = host=old\n", ObjectMissing),
        (b"[pgbouncer]\nshop = host=old\n", ObjectMissing),
        (b"", ObjectMissing),
        (b"[databases]\nshop = host=a\nshop = host=b\n", Conflict),
    ],
    ids=["fallback", "section", "empty", "twice"],
)
def test_what_is_not_one_line_is_refused(content: bytes, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        exchanged(content, "shop", NEW)


@pytest.fixture
def ini(tmp_path: Path) -> Path:
    path = tmp_path / "databases.ini"
    path.write_text("shop = host=old\n")
    path.chmod(0o640)
    return path


def test_a_link_stays_a_link(ini: Path) -> None:
    link = ini.with_name("link.ini")
    link.symlink_to(ini)
    assert point(link, "shop", NEW)
    assert link.is_symlink()
    assert ini.read_text() == f"shop = {NEW}\n"
    assert ini.stat().st_mode & 0o777 == 0o640


def test_a_line_that_is_there_already_is_not_written(ini: Path) -> None:
    before = ini.stat().st_ino
    assert not point(ini, "shop", "host=old")
    assert ini.stat().st_ino == before
    assert [path.name for path in ini.parent.iterdir()] == ["databases.ini"]


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(Terminal, match="cannot be read"):
        point(tmp_path / "none.ini", "shop", NEW)


def take(ini: Path, mark: tuple[int, int], database: str = "shop") -> None:
    with fenced(ini, database, mark, 0.1):
        pass


def test_a_former_keeper_of_a_move_is_refused_and_the_same_one_is_not(ini: Path) -> None:
    for keeper in (1, 1, 12, 9_000):
        take(ini, (7, keeper))
    for keeper in (1, 12, 8_999):
        with pytest.raises(StaleOwner):
            take(ini, (7, keeper))
    take(ini, (7, 9_001))


def test_a_move_is_not_held_up_by_what_another_has_left(ini: Path) -> None:
    """Whichever was born first: births of another installation are no greater or lower."""
    take(ini, (9, 5))
    take(ini, (7, 2))
    take(ini, (9, 6))
    for former in [(7, 1), (9, 5)]:
        with pytest.raises(StaleOwner):
            take(ini, former)


def test_databases_have_fences_of_their_own(ini: Path) -> None:
    take(ini, (7, 5))
    take(ini, (3, 1), "other")
    with pytest.raises(StaleOwner):
        take(ini, (7, 4))


def test_who_holds_the_file_is_not_waited_for_for_ever(ini: Path) -> None:
    take(ini, (7, 1))
    with ini.with_name("databases.ini.lockgate").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(EndpointBusy):
            take(ini, (7, 1))


def test_a_fence_that_cannot_be_read_lets_nobody_through(ini: Path) -> None:
    ini.with_name("databases.ini.lockgate").write_text("nonsense")
    with pytest.raises(Terminal, match="fence"):
        take(ini, (7, 1))
