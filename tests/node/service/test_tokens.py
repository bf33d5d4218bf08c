"""The token of a home opens the node of that home, and nobody takes its place."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lockgate.model.errors import StaleOwner, UsageError
from lockgate.model.secret import Secret
from lockgate.model.server_config import ServerConfig
from lockgate.model.tokens import Role, digest_of
from lockgate.node.service import NodeService

Start = Callable[[str, str], NodeService]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a node with a home and a name, in one cluster with all others."""
    with ExitStack() as stack:

        def start(home: str, name: str) -> NodeService:
            config = ServerConfig(
                home=str(tmp_path / home),
                node=name,
                metastore=Secret(f"sqlite:///{tmp_path}/metastore.db"),
                changelog=str(tmp_path / "log"),
            )
            node = NodeService(config)
            node.start("http://127.0.0.1:1")
            stack.callback(node.stop)
            return node

        yield start


def _opens(home: Path, node: NodeService) -> bool:
    mine = digest_of(Secret((home / "token").read_text("utf-8").strip()))
    return mine in {token.digest for token in node.tokens()}


def test_a_node_that_may_not_join_leaves_the_token_of_the_one_that_runs(
    start: Start, tmp_path: Path
) -> None:
    first = start("a", "one")
    with pytest.raises(StaleOwner):
        start("b", "one")
    assert _opens(tmp_path / "a", first)
    assert not _opens(tmp_path / "b", first)


def test_every_node_that_joins_lets_its_owner_in(start: Start, tmp_path: Path) -> None:
    first, _ = start("a", "one"), start("b", "two")
    assert _opens(tmp_path / "a", first)
    assert _opens(tmp_path / "b", first)


def test_names_of_homes_tokens_are_not_for_people(start: Start) -> None:
    node = start("a", "one")
    with pytest.raises(UsageError, match="home-"):
        node.add_token("home-two", Role.VIEWER, "somebody")
    assert [token.name for token in node.tokens()] == ["home-one"]
