"""Requests to lakes have names: asked twice under one, they are one; a name opens no back door."""

from pathlib import Path

import pytest

from lockgate.model.errors import Conflict
from lockgate.model.feed_config import read_config
from lockgate.model.lake import Figures, LakeRole, LakeTrouble, Leadership
from lockgate.model.lake_instructions import LakeAnswer, LakeVerdict, TableTrouble
from lockgate.model.lake_status import LakeStatus, TableState, TableStatus
from lockgate.model.secret import Secret
from lockgate.node.service import NodeService
from lockgate.node.service.lakes import WorkFailed, _told
from lockgate.store.lakes import Shown
from tests.support.feeds import Pair
from tests.support.waiting import until

NAME = "5f0c2a9d1e7b4a36"


@pytest.fixture
def kept(service: NodeService, tmp_path: Path) -> NodeService:
    """A node that leads an empty lake."""
    service.add_endpoint("lake", Secret(f"delta:{tmp_path}/lake"), "test")
    until(lambda: service.lakes.one("lake").role == "leader", 60)
    return service


def test_what_is_shown_does_not_grow_old_while_nothing_changes(
    service: NodeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockgate.node.lake.host.AGAIN_S", 0.0)
    service.add_endpoint("lake", Secret(f"delta:{tmp_path}/lake"), "test")
    until(lambda: service.lakes.one("lake").role == "leader", 60)
    until(lambda: service.lakes.one("lake").seen_s > 0.2, 60)
    until(lambda: service.lakes.one("lake").seen_s < 0.2, 60)


@pytest.mark.parametrize(("marked", "shown"), [(True, 1), (False, 2)])
def test_of_a_table_that_incarnation_is_shown_which_its_name_means(
    kept: NodeService, monkeypatch: pytest.MonkeyPatch, marked: bool, shown: int
) -> None:
    """What an older version recorded marks none."""
    tables = (
        TableStatus("public.t", 1, TableState.LIVE, Figures(stable_rows=100), meant=marked),
        TableStatus("public.t", 2, TableState.DEAD, Figures()),
        TableStatus("public.u", 2, TableState.LIVE, Figures(), meant=marked),
    )
    status = LakeStatus(LakeRole.LEADER, "leader", 1, Leadership(1, "here"), tables)
    monkeypatch.setattr(kept.lakes._stores.lakes, "shown", lambda _: Shown(status, 0))
    assert kept.lakes.table("lake", "public.t").incarnation == shown


def drains(service: NodeService) -> int:
    return sum(one.verb == "lake drain" for one in service.history("lake", None, 100))


def test_a_request_that_is_asked_again_is_answered_again_and_noted_once(kept: NodeService) -> None:
    answers = [kept.lakes.drain("lake", None, "me", NAME) for _ in range(3)]
    assert {(answer.verdict, answer.request) for answer in answers} == {("nothing-to-do", NAME)}
    assert drains(kept) == 1


def test_a_made_up_name_leaves_a_note_as_any_request(kept: NodeService) -> None:
    kept.lakes.drain("lake", None, "me")
    kept.lakes.drain("lake", None, "me", NAME)
    assert drains(kept) == 2


def test_a_made_up_name_drops_no_table_that_is_fed(kept: NodeService, pair: Pair) -> None:
    pair.at_source("CREATE TABLE orders (id int PRIMARY KEY)")
    config = {"name": "feed", "source": "shop", "target": "lake", "tables": ["public.*"]}
    kept.create_feed(read_config(config), "test")
    with pytest.raises(Conflict, match="feed"):
        kept.lakes.drop("lake", "public.orders", "me", request=NAME)
    assert kept.history("lake", None, 1)[0].outcome.startswith("refused: the feed")


def test_every_table_that_failed_is_named() -> None:
    failed = tuple(TableTrouble(f"public.t{n}", LakeTrouble("no room")) for n in range(2))
    with pytest.raises(WorkFailed) as error:
        _told(LakeAnswer(NAME, LakeVerdict.FAILED, "no room", failed=failed), "lake")
    assert error.value.what == "2 tables failed: public.t0: no room; public.t1: no room"
    assert error.value.object == "lake"


def test_one_table_that_failed_says_why_in_its_own_words() -> None:
    failed = (TableTrouble("public.t", LakeTrouble("no room")),)
    with pytest.raises(WorkFailed, match=r"^no room \(public.t\)$"):
        _told(LakeAnswer(NAME, LakeVerdict.FAILED, "no room", failed=failed), "public.t")
