"""The client's verbs of diffs."""

import pytest

from lockgate.client import Client
from lockgate.model.diffs import DiffDocument, DiffState
from lockgate.model.errors import MetastoreUnavailable, NotFound, UsageError
from tests.support.fake_diffs import FakeDiffs
from tests.support.served import Served

ENDS = {"source": "shop", "target": "copy"}


@pytest.fixture
def diffs(served: Served, monkeypatch: pytest.MonkeyPatch) -> FakeDiffs:
    """The node's own, looked at often."""
    monkeypatch.setattr("lockgate.client.transport.BACKOFF_S", 0.0)
    monkeypatch.setattr("lockgate.client.diffs.LOOK_S", 0.01)
    return served.service.diffs


def test_a_diff_is_waited_for_and_looked_at(lg: Client, diffs: FakeDiffs) -> None:
    diffs.looks = 3
    seen: list[DiffDocument] = []
    found = lg.diffs.run(**ENDS, tables=["public.*"], told=seen.append)
    assert (found.state, found.equal) == (DiffState.FINISHED, True)
    assert DiffState.RUNNING in [each.state for each in seen]
    assert seen[-1] == found
    assert [each.id for each in lg.diffs.list()] == [found.id]


def test_an_answer_that_was_lost_is_asked_for_again_and_nothing_is_run_twice(
    lg: Client, diffs: FakeDiffs, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, lost = diffs.run, [True]

    def run(*given: object) -> DiffDocument:
        answer = ask(*given)  # type: ignore[arg-type]
        if lost and lost.pop():
            raise MetastoreUnavailable("away", object_="", hint="")
        return answer

    monkeypatch.setattr(diffs, "run", run)
    assert lg.diffs.run(**ENDS, tables=["public.*"]).equal
    assert len(diffs.orders) == 1


def test_a_move_is_compared_by_its_feed_and_resumed(lg: Client, diffs: FakeDiffs) -> None:
    lg.moves.create("orders", **ENDS, tables=["public.orders"])
    diffs.fails = "a lock"
    failed = lg.moves.diff("orders")
    assert (failed.state, failed.error) == (DiffState.FAILED, "a lock")
    diffs.fails = ""
    assert lg.moves.diff("orders", resume=True).id == failed.id
    diffs.fails = "a lock"
    other = lg.moves.diff("orders")
    diffs.fails = ""
    assert lg.diffs.resume(other.id).equal


def test_one_that_runs_is_called_off(lg: Client, diffs: FakeDiffs) -> None:
    begun = lg.diffs.start(**ENDS, tables=["public.*"])
    diffs.looks = 1
    assert lg.diffs.cancel(begun.id).state is DiffState.FAILED
    assert lg.diffs.resume(begun.id).equal


def test_one_text_is_no_list_of_tables(lg: Client, diffs: FakeDiffs) -> None:
    with pytest.raises(UsageError):
        lg.diffs.run(**ENDS, tables="public.*")


def test_no_such_diff(lg: Client, diffs: FakeDiffs) -> None:
    with pytest.raises(NotFound):
        lg.diffs.show("nobody")
