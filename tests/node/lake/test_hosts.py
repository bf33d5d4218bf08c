"""Which lakes are kept on a node, and what they are to it: through restarts, and beside lakes that
cannot be used. How keepers begin and end: tests/node/test_keeping."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lockgate.endpoints.delta import compact as compacting
from lockgate.endpoints.delta.compact import Compacted
from lockgate.endpoints.delta.head import LakeHead
from lockgate.endpoints.delta.layered import Drained, LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.url import LakeUrl
from lockgate.model.errors import Transient
from lockgate.model.ids import Token
from lockgate.model.lake import LakeRole, LakeSettings
from lockgate.model.lake_events import LakeVerb, StepDown, StepUp
from lockgate.model.lake_instructions import LakeAnswer, LakeVerdict
from lockgate.node.lake.hosts import LakeHosts
from lockgate.store.lakes import LakeBook
from lockgate.store.metastore import SqlMetastore
from tests.support.waiting import until

HOME = "home"
WAIT_S = 60.0


class Here:
    """Rewrites in this process."""

    def drain(self, table: LayeredTable, token: Token, tag: str) -> Drained | None:
        return table.drain(token)

    def compact(self, table: LayeredTable, token: Token, tag: str) -> Compacted | None:
        return compacting.compact(table, token)


class Node:
    """One life of a node that keeps lakes."""

    def __init__(self, book: LakeBook, lakes: dict[str, LakeUrl], rewriter: Here) -> None:
        self.leads = True
        self.hosts = LakeHosts(
            HOME,
            book,
            _no_spark,
            lambda: self.leads,
            lambda: lakes,
            lambda: 0,
            LakeSettings(retry_ms=20),
            rewriter,
        )
        self.hosts.start()

    def role(self, lake: str) -> LakeRole | None:
        status = self.hosts.statuses().get(lake)
        return None if status is None else status.role

    def until_leader(self, lake: str) -> None:
        until(lambda: self.role(lake) is LakeRole.LEADER, WAIT_S)

    def ask(self, lake: str, verb: LakeVerb) -> LakeVerdict:
        told: LakeAnswer | None = None

        def answered() -> bool:
            nonlocal told
            try:
                told = self.hosts.ask(lake, verb, 5.0)
            except Transient:
                return False
            return told is not None

        until(answered, WAIT_S)
        assert told is not None
        return told.verdict


def _no_spark() -> None:
    raise AssertionError("there is no Spark here")


class Scene:
    def __init__(self, folder: Path, book: LakeBook) -> None:
        self.book = book
        self.folder = folder
        self.nodes: list[Node] = []

    def url(self, name: str) -> LakeUrl:
        return LakeUrl.parse(f"delta:{self.folder / name}")

    def place(self, name: str) -> Place:
        return self.url(name).place()

    def node(self, *lakes: str, rewriter: Here | None = None) -> Node:
        node = Node(self.book, {name: self.url(name) for name in lakes}, rewriter or Here())
        self.nodes.append(node)
        return node


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    store = SqlMetastore.open(
        f"sqlite:///{tmp_path / 'store'}", lease_ms=10_000, address="", home="here"
    )
    scene = Scene(tmp_path, LakeBook(store.transactions))
    yield scene
    for node in scene.nodes:
        node.hosts.stop()
    store.close()


# --- who leads ------------------------------------------------------------------------------------


def test_who_has_stepped_down_follows_after_a_restart_as_well(scene: Scene) -> None:
    node = scene.node("lake")
    node.until_leader("lake")
    assert node.ask("lake", StepDown("down")) is LakeVerdict.DONE
    node.hosts.stop()
    again = scene.node("lake")
    until(lambda: again.role("lake") is not None, WAIT_S)
    assert again.role("lake") is LakeRole.FOLLOWER
    assert LakeHead(scene.place("lake"), "anybody").read().leader == ""
    assert again.ask("lake", StepUp("up")) is LakeVerdict.DONE


def test_who_led_goes_on_leading_after_a_restart(scene: Scene) -> None:
    node = scene.node("lake")
    node.until_leader("lake")
    node.hosts.stop()
    scene.node("lake").until_leader("lake")


def test_a_lake_that_was_made_anew_is_led_whatever_was_wished_of_the_one_before(
    scene: Scene,
) -> None:
    node = scene.node("lake")
    node.until_leader("lake")
    node.ask("lake", StepDown("down"))
    node.hosts.stop()
    (scene.folder / "lake").rename(scene.folder / "away")
    scene.node("lake").until_leader("lake")


# --- beside one that cannot be used ---------------------------------------------------------------


def test_a_lake_that_cannot_be_used_says_so_and_the_others_are_kept(scene: Scene) -> None:
    blocked = scene.folder / "blocked"
    blocked.write_text("a file where the lake is to be")
    node = scene.node("blocked", "sound")
    node.until_leader("sound")

    def told() -> bool:
        shown = scene.book.shown("blocked")
        return shown is not None and shown.status.trouble is not None

    until(told, WAIT_S)
    shown = scene.book.shown("blocked")
    assert shown is not None
    assert shown.status.trouble is not None
    assert shown.status.trouble.hint
    with pytest.raises(Transient) as caught:
        node.hosts.ask("blocked", StepUp("up"), 0.1)
    assert shown.status.trouble.what in str(caught.value), "who asks hears why"
    blocked.unlink()
    until(lambda: node.hosts.knock() or node.role("blocked") is LakeRole.LEADER, WAIT_S)
    until(lambda: _is_sound(scene.book, "blocked"), WAIT_S)


def _is_sound(book: LakeBook, lake: str) -> bool:
    shown = book.shown(lake)
    return shown is not None and shown.status.trouble is None
