"""What a log knows of its tables at its end comes and goes with the log itself."""

from collections.abc import Iterator

import pytest

from lockgate.model.errors import StaleOwner
from lockgate.model.ids import Token
from lockgate.model.tables import Column, TableName, TableShape
from lockgate.store.changelog.log import Changelog
from tests.support.logs import FEED, NEW, OLD, OWN, change, log_at, segment
from tests.support.stores import Place


def shape(*columns: str) -> TableShape:
    made = tuple(Column(name, "integer", 23) for name in columns)
    return TableShape(TableName("public", 'T"1'), made, ("id",))


@pytest.fixture
def log(sql: Place) -> Iterator[Changelog]:
    with log_at(sql.url) as log:
        yield log


def test_the_newest_shape_of_each_table_is_kept(log: Changelog) -> None:
    assert log.shapes(FEED) == {}
    log.claim(FEED, OWN, 0)
    log.append(FEED, OWN, [], [], 5, 0, {7: shape("id"), 2**32 - 1: shape("id", "b")})
    log.append(FEED, OWN, [], [], 6, 0)
    assert log.shapes(FEED) == {7: shape("id"), 2**32 - 1: shape("id", "b")}
    log.append(FEED, OWN, [], [change(7)], 8, 0, {7: shape("id", "ü")})
    assert log.shapes(FEED) == {7: shape("id", "ü"), 2**32 - 1: shape("id", "b")}
    assert log.shapes("another") == {}


def test_a_refused_append_leaves_the_shapes_alone(log: Changelog) -> None:
    log.claim(FEED, OWN, 0)
    log.append(FEED, OWN, [], [], 5, 0, {7: shape("id")})
    for token, resolved in ((OLD, 6), (NEW, 6), (OWN, 4)):
        with pytest.raises(StaleOwner):
            log.append(FEED, token, [], [], resolved, 0, {7: shape("id", "b")})
    assert log.shapes(FEED) == {7: shape("id")}


def test_a_trimmed_log_still_knows_its_tables(log: Changelog) -> None:
    log.claim(FEED, OWN, 0)
    log.append(FEED, OWN, [segment(0, 3)], [change(2)], 5, 1, {7: shape("id", "b")})
    assert log.trim(FEED, OWN, 5)
    assert log.read(FEED, 3).changes == ()
    assert log.shapes(FEED) == {7: shape("id", "b")}


def test_a_forgotten_log_knows_nothing(log: Changelog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.claim(FEED, OWN, 0)
    log.append(FEED, OWN, [], [], 5, 0, {7: shape("id")})
    with monkeypatch.context() as patch:
        patch.setattr(log, "_clear", lambda feed: None)
        log.forget(FEED, OWN)
    assert log.shapes(FEED) == {}
    log.claim(FEED, Token(OWN.epoch + 1, 1, 1), 0)
    assert log.shapes(FEED) == {}
