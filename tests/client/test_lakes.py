"""The client's verbs of lakes: they ask on until there is a verdict, under one name."""

import pytest

import lockgate
from lockgate.client import Client
from lockgate.model.errors import Conflict, MetastoreUnavailable, NotFound, OutcomeUnknown
from lockgate.model.lake_documents import LakeSummary, LakeTableDocument
from tests.support.fake_lakes import WEIRD
from tests.support.served import Served


@pytest.fixture
def sea(lg: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A client with an endpoint `lake`, that does not pause for long."""
    lg.endpoints.add("lake", "delta:/srv/lake")
    monkeypatch.setattr("lockgate.client.transport.BACKOFF_S", 0.0)
    monkeypatch.setattr("lockgate.client.transport.RETRY_AFTER_S_MAX", 0.0)
    monkeypatch.setattr("lockgate.client.lakes.LOOK_S", 0.01)
    return lg


def test_a_lake_comes_as_its_type(sea: Client) -> None:
    shown = sea.lakes.show("lake")
    assert isinstance(shown, LakeSummary)
    assert (shown.role, shown.tables) == ("leader", 4)


def test_tables_come_page_by_page(sea: Client, served: Served) -> None:
    served.service.lakes.grow("lake", 250)
    tables = list(sea.lakes.list("lake"))
    assert len(tables) == 254
    assert all(isinstance(one, LakeTableDocument) for one in tables)


def test_a_table_keeps_its_name_on_the_way(sea: Client) -> None:
    assert sea.lakes.status("lake", WEIRD).table == WEIRD
    assert sea.lakes.drop("lake", WEIRD).verdict == "done"
    assert sea.lakes.status("lake", WEIRD).state == "dead"


def test_one_table_or_all_are_drained(sea: Client, served: Served) -> None:
    sea.lakes.drain("lake", "public.orders")
    sea.lakes.drain("lake")
    assert [what for _, what, _ in served.service.lakes.asked] == ["public.orders", "lake"]


def test_a_lake_is_given_up_and_taken(sea: Client) -> None:
    with pytest.raises(Conflict, match="not drained"):
        sea.lakes.step_down("lake")
    assert sea.lakes.step_down("lake", flush=True).verdict == "done"
    assert sea.lakes.step_up("lake").verdict == "done"
    assert sea.lakes.show("lake").epoch == 4


@pytest.mark.parametrize(
    ("verb", "args"),
    [("drain", ()), ("drain", ("public.orders",)), ("drop", ("public.orders",)), ("step_up", ())],
)
def test_a_verb_is_asked_on_under_one_name_until_there_is_a_verdict(
    verb: str, args: tuple[str, ...], sea: Client, served: Served
) -> None:
    served.service.lakes.under_way = 3
    outcome = getattr(sea.lakes, verb)("lake", *args)
    assert outcome.verdict in {"done", "nothing-to-do"}
    assert [request for _, _, request in served.service.lakes.asked] == [outcome.request] * 4


def test_two_requests_have_two_names(sea: Client) -> None:
    assert sea.lakes.drain("lake").request != sea.lakes.drain("lake").request


def test_a_node_that_goes_away_while_it_is_asked_on_is_waited_for(
    sea: Client, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakes = served.service.lakes
    lakes.under_way = 1
    plain, away = lakes.drain, 3

    def drain(*args: object) -> object:
        nonlocal away
        if not lakes.under_way and away:
            away -= 1
            raise MetastoreUnavailable("away", object_="meta", hint="")
        return plain(*args)

    monkeypatch.setattr(lakes, "drain", drain)
    assert sea.lakes.drain("lake").verdict == "done"
    assert away == 0


def test_a_node_that_was_never_there_is_not_waited_for(sea: Client, served: Served) -> None:
    served.service.failures["lake_drain"] = MetastoreUnavailable("away", object_="m", hint="")
    with pytest.raises(MetastoreUnavailable):
        sea.lakes.drain("lake")


def test_an_outcome_that_nobody_knows_is_not_asked_for_on_and_on(
    sea: Client, served: Served
) -> None:
    served.service.failures["lake_drop"] = OutcomeUnknown("who knows", object_="t", hint="")
    with pytest.raises(OutcomeUnknown):
        sea.lakes.drop("lake", "public.orders")


def test_a_busy_table_is_a_conflict_with_its_own_code(sea: Client, served: Served) -> None:
    served.service.lakes.busy.add("public.orders")
    with pytest.raises(Conflict) as refused:
        sea.lakes.drop("lake", "public.orders")
    assert refused.value.code == "busy"
    assert sea.lakes.drop("lake", "public.orders", wait_s=1).verdict == "done"


def test_no_such_table_is_not_found(sea: Client) -> None:
    with pytest.raises(NotFound) as refused:
        sea.lakes.drain("lake", "public.nobody")
    assert refused.value.object == "public.nobody"


def test_a_slow_answer_is_waited_for(
    sea: Client, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    plain = served.service.lakes.step_up

    def slow(*args: str) -> object:
        time.sleep(0.5)
        return plain(*args)

    monkeypatch.setattr(served.service.lakes, "step_up", slow)
    with lockgate.connect(served.url, served.token(), timeout_s=0.2) as hasty:
        assert hasty.lakes.step_up("lake").verdict == "nothing-to-do"
