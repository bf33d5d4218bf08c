"""What a node says of feeds while its own core has no time to be asked."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockgate.model.server_config import ServerConfig
from lockgate.node.service import NodeService, reporting
from lockgate.node.service.remarks import OwnerRemark, Remark


@pytest.fixture
def busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeService]:
    """A node that has reported on a feed, and whose core is busy since then."""
    monkeypatch.setattr(reporting, "LOOK_S", 0.2)
    node = NodeService(ServerConfig(home=str(tmp_path), node="one"))
    node.start("http://127.0.0.1:1")
    go = threading.Event()
    look = node._process.look
    seen = look(lambda core: core.ref)
    assert seen is not None
    core = threading.Thread(target=look, args=(lambda _: go.wait(120), 120.0))
    core.start()
    said = Remark(owner=OwnerRemark(1, "running", 42, 3))
    assert node._stores.reports.write(seen, {"shop": said.encoded()})
    try:
        yield node
    finally:
        go.set()
        core.join()
        node.stop()


def test_a_busy_core_is_no_reason_to_say_nothing_of_feeds(busy: NodeService) -> None:
    assert busy.feeds() == []


def test_what_a_node_reported_last_stands_in_for_its_busy_core(busy: NodeService) -> None:
    [said] = busy._statuses._said("shop")["shop"]
    assert said.node == "one"
    assert said.remark.owner is not None
    assert said.remark.owner.checkpoint == 42
