"""Every verb of the client does at the service what its name says, over a real socket."""

import threading
import time
from collections.abc import Callable

import pytest

import lockgate
from lockgate.client import Client
from lockgate.model.documents import NodeState
from lockgate.model.errors import Conflict, MetastoreUnavailable, NotFound, UsageError
from lockgate.model.feed_status import FeedStatus
from lockgate.model.feeds import FeedState
from lockgate.model.tokens import Role
from tests.support.served import Served, serve
from tests.support.waiting import until

# --- endpoints ------------------------------------------------------------------------------------


def test_endpoints_are_listed_without_their_passwords(lg: Client) -> None:
    found = {one.name: one.url for one in lg.endpoints.list()}
    assert found.keys() == {"shop", "copy"}
    assert "hunter2" not in str(found)


def test_an_endpoint_says_who_uses_it(lg: Client) -> None:
    assert lg.endpoints.get("shop").feeds == ("shop",)


def test_an_endpoint_is_looked_at(lg: Client) -> None:
    report = lg.endpoints.test("shop")
    assert (report.source_ok, report.as_source[1].severity) == (True, "warning")


def test_an_endpoint_in_use_is_not_removed(lg: Client) -> None:
    with pytest.raises(Conflict) as refused:
        lg.endpoints.remove("shop")
    assert refused.value.object == "shop"


def test_an_endpoint_is_removed(lg: Client) -> None:
    lg.endpoints.add("third", "postgres://db/third")
    lg.endpoints.remove("third")
    assert "third" not in {one.name for one in lg.endpoints.list()}


# --- feeds ----------------------------------------------------------------------------------------


def test_the_same_feed_again_is_no_error(lg: Client) -> None:
    again = lg.feeds.create("shop", source="shop", target="copy", tables=["public.*"])
    assert again.tables == 3


def test_another_feed_of_the_name_is_a_conflict(lg: Client) -> None:
    with pytest.raises(Conflict):
        lg.feeds.create("shop", source="shop", target="copy", tables=["sales.*"])


def test_a_configuration_is_sent_whole(lg: Client, served: Served) -> None:
    options = {"copy": False, "masks": {"public.users.email": "hash"}, "chunk_rows": 7}
    lg.feeds.create("two", source="shop", target="copy", tables=["public.*"], **options)
    made = served.service._feeds["two"].config
    assert (made.copy, made.masks, made.chunk_rows) == tuple(options.values())


def test_a_wrong_configuration_names_its_key(lg: Client) -> None:
    with pytest.raises(UsageError) as refused:
        lg.feeds.create("two", source="shop", target="copy", tables=["public.*"], chunk_row=7)
    assert refused.value.object == "chunk_row"


def test_one_pattern_is_not_taken_for_its_letters(lg: Client) -> None:
    with pytest.raises(UsageError):
        lg.feeds.create("two", source="shop", target="copy", tables="public.*")


def test_a_plan_changes_nothing(lg: Client) -> None:
    plan = lg.feeds.plan("two", source="shop", target="copy", tables=["public.*"])
    assert [table.table for table in plan.tables] == [
        *("public.items", "public.orders", "public.users"),
    ]
    assert [feed.name for feed in lg.feeds.list()] == ["shop"]


def test_a_status_comes_as_its_type(lg: Client) -> None:
    status = lg.feeds.status("shop")
    assert isinstance(status, FeedStatus)
    assert (status.state, status.copy.percent) == (FeedState.NORMAL, 100.0)


def test_an_unknown_feed_is_not_found(lg: Client) -> None:
    with pytest.raises(NotFound) as refused:
        lg.feeds.status("nobody")
    assert refused.value.object == "nobody"


@pytest.mark.parametrize("name", ["a/b", "../nodes", "ä b", "?x=1", "."])
def test_a_name_stays_in_its_place_in_the_address(name: str, lg: Client) -> None:
    with pytest.raises(Exception, match=r".") as refused:
        lg.feeds.status(name)
    assert refused.type.__name__ in {"NotFound", "UsageError", "Terminal", "NotLockgate"}


def test_pausing_and_resuming(lg: Client) -> None:
    assert lg.feeds.pause("shop").state is FeedState.STOPPED
    assert lg.feeds.resume("shop").state is FeedState.NORMAL


def test_a_removed_feed_is_gone(lg: Client) -> None:
    assert lg.feeds.remove("shop") is None
    assert list(lg.feeds.list()) == []


def test_a_feed_that_is_not_gone_yet_is_answered_with_its_status(
    lg: Client, served: Served
) -> None:
    served.service.held_up["shop"] = "the source does not answer"
    left = lg.feeds.remove("shop")
    assert left is not None
    assert left.error == "the source does not answer"


@pytest.mark.parametrize("verb", ["remove_feed", "resync_table"])
def test_a_verb_that_waits_for_databases_is_waited_for(
    lg: Client, served: Served, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    def slow(*_: str) -> None:
        time.sleep(0.5)
        raise Conflict("said after a while", object_="shop", hint="nothing")

    monkeypatch.setattr(served.service, verb, slow)
    with lockgate.connect(served.url, served.token(), timeout_s=0.2) as hasty:
        asked = {
            "remove_feed": lambda: hasty.feeds.remove("shop"),
            "resync_table": lambda: hasty.feeds.resync("shop", "public.items"),
        }[verb]
        with pytest.raises(Conflict, match="said after a while"):
            asked()


def test_tables_come_with_their_spans(lg: Client) -> None:
    assert {table.table: len(table.spans) for table in lg.feeds.tables("shop")} == {
        "public.items": 1,
        "public.orders": 1,
        "public.users": 1,
    }


def test_a_table_is_copied_anew(lg: Client) -> None:
    lg.feeds.resync("shop", "public.orders")
    assert next(lg.feeds.history("shop")).detail == "public.orders"


# --- spans ----------------------------------------------------------------------------------------


def spans(lg: Client) -> list[str]:
    return [span.span for table in lg.feeds.tables("shop") for span in table.spans]


def test_a_span_is_split_and_merged(lg: Client) -> None:
    first = spans(lg)[0]
    assert lg.feeds.span_split("shop", first, parts=3).spans == 5
    assert lg.feeds.span_merge("shop", spans(lg)[:3]).spans == 3


def test_a_span_is_split_where_it_is_told(lg: Client) -> None:
    lg.feeds.span_split("shop", spans(lg)[0], at=["40", "c0"])
    table = next(lg.feeds.tables("shop"))
    assert [span.high for span in table.spans] == ["40", "c0", ""]


def test_a_span_is_moved(lg: Client, served: Served) -> None:
    served.service.add_node("b")
    lg.feeds.span_move("shop", spans(lg)[0], "b")
    assert next(lg.feeds.tables("shop")).spans[0].node == "b"


# --- waiting --------------------------------------------------------------------------------------


def test_a_level_feed_is_not_waited_for(lg: Client) -> None:
    assert lg.feeds.wait("shop").level


def test_waiting_ends_when_the_feed_is_level(lg: Client, served: Served) -> None:
    served.service.lag("shop")
    waited = in_thread(lambda: lg.feeds.wait("shop"))
    until(lambda: served.service.waiting)
    served.service.level("shop")
    assert waited().level


def test_waiting_without_a_limit_goes_on_over_many_requests(
    lg: Client, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockgate.client.feeds.WAIT_S_MAX", 0.02)
    served.service.lag("shop")
    waited = in_thread(lambda: lg.feeds.wait("shop"))
    until(lambda: [verb for verb, _ in served.service.calls].count("wait_feed") > 2)
    served.service.level("shop")
    assert waited().level


def test_waiting_ends_with_the_time(lg: Client, served: Served) -> None:
    served.service.lag("shop")
    assert not lg.feeds.wait("shop", 0.05).level


def test_all_requests_of_one_wait_are_about_one_position(
    lg: Client, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.service.lag("shop")
    asked: list[str] = []
    plain = served.service.wait_feed

    def wait_feed(name: str, timeout_s: float, position: str = "") -> object:
        asked.append(position)
        return plain(name, 0, position or "0/AA")

    monkeypatch.setattr(served.service, "wait_feed", wait_feed)
    monkeypatch.setattr("lockgate.client.feeds.LOOK_S", 0.01)
    lg.feeds.wait("shop", 0.1, told=lambda status: None)
    assert asked[0] == ""
    assert set(asked[1:]) == {"0/AA"}


def test_who_waits_is_told_how_it_goes(lg: Client, served: Served) -> None:
    served.service.lag("shop")
    told: list[FeedStatus] = []
    lg.feeds.wait("shop", 0.05, told=told.append)
    assert told[0].lag_s == 1.5


def test_a_feed_that_stands_still_is_not_waited_for(lg: Client, served: Served) -> None:
    served.service.lag("shop")
    lg.feeds.pause("shop")
    with pytest.raises(Conflict, match="stopped") as refused:
        lg.feeds.wait("shop", 60, told=lambda status: None)
    assert refused.value.hint == "lockgate feed resume shop"


def test_a_node_that_comes_back_is_waited_for(
    lg: Client, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockgate.client.feeds.LOOK_S", 0.01)
    served.service.lag("shop")
    begun = threading.Event()

    def told(status: FeedStatus) -> None:
        if not begun.is_set():
            served.service.failures["wait_feed"] = MetastoreUnavailable(
                "away", object_="meta", hint=""
            )
            begun.set()

    waited = in_thread(lambda: lg.feeds.wait("shop", told=told))
    assert begun.wait(10)
    calls = len(served.service.calls)
    until(lambda: len(served.service.calls) > calls + 5, timeout_s=20)  # more than one request's
    served.service.failures.clear()
    served.service.level("shop")
    assert waited().level


def in_thread(call: Callable[[], object]) -> Callable[[], object]:
    """Begin a call; what is answered waits for its end."""
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(call()), daemon=True)
    thread.start()

    def end() -> object:
        thread.join(20)
        assert answers, "the call did not end, or failed"
        return answers[0]

    return end


# --- nodes, the past, tokens ----------------------------------------------------------------------


def test_a_node_is_drained(lg: Client) -> None:
    assert lg.nodes.drain("a").state is NodeState.DRAINING
    assert [node.state for node in lg.nodes.list()] == [NodeState.DRAINING]


def test_history_is_read_to_its_end_page_by_page(lg: Client, served: Served) -> None:
    served.service.calls.clear()
    found = [entry.id for entry in lg.history(limit=2)]
    assert found == sorted(found, reverse=True)
    assert found[-1] == 1
    assert len(served.service.calls) - sum(verb == "tokens" for verb, _ in served.service.calls) > 2


def test_pages_are_asked_for_when_they_are_needed(lg: Client, served: Served) -> None:
    served.service.calls.clear()
    next(lg.history(limit=1))
    assert [verb for verb, _ in served.service.calls if verb == "history"] == ["history"]


def test_long_lists_come_in_pages(lg: Client, served: Served) -> None:
    for number in range(150):
        served.service.add_node(f"n{number:03d}")
    assert len(list(lg.nodes.list())) == 151


def test_history_of_one_thing(lg: Client) -> None:
    assert {entry.verb for entry in lg.history("copy")} == {"endpoint add"}


def test_a_new_token_opens_what_its_role_allows(lg: Client, served: Served) -> None:
    import lockgate

    made = lg.tokens.add("ann", "operator")
    assert made.role is Role.OPERATOR
    with lockgate.connect(served.url, made.token) as ann:
        assert ann.feeds.pause("shop").state is FeedState.STOPPED
        with pytest.raises(Exception, match="role") as refused:
            ann.feeds.remove("shop")
    assert refused.value.code == "forbidden"  # type: ignore[attr-defined]


def test_a_removed_token_is_not_listed(lg: Client) -> None:
    lg.tokens.add("ann")
    lg.tokens.remove("ann")
    assert "ann" not in {token.name for token in lg.tokens.list()}


def test_metrics_are_text(lg: Client) -> None:
    assert "lockgate_feeds 1" in lg.metrics()


def test_a_client_outlives_its_server_s_restart(lg: Client, served: Served) -> None:
    """Connections that were kept and have died meanwhile are no error."""
    assert lg.health().node == "a"
    # The same service behind a second listener, and its token, through the first client's kind.
    import lockgate

    with serve(served.service) as second:
        client = lockgate.connect(second.url, served.token())
        port = int(second.url.rsplit(":", 1)[1])
        assert client.feeds.status("shop").name == "shop"
    with client, serve(served.service, port=port):
        assert client.feeds.status("shop").name == "shop"
