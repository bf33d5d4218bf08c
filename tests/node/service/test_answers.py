"""What people are told of a verb whose answer is late, missing or no: never that it went well."""

import threading
from typing import Any, cast

import pytest

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.config import Timing
from lockgate.model.errors import Conflict, LockgateError, OutcomeUnknown, Transient
from lockgate.model.events import MoveSpan
from lockgate.model.feed_config import read_config
from lockgate.model.instructions import Answer, StopDispatcher
from lockgate.model.secret import Secret
from lockgate.node.feed.applying import Applying
from lockgate.node.link.transport import ASK_S
from lockgate.node.service import NodeService, cluster, feeds, resync
from lockgate.node.service.asking import Asking
from lockgate.node.service.cluster import HERE_S, Cluster
from tests.support.feeds import LEVEL_S, Pair
from tests.support.proxy import FaultProxy
from tests.support.waiting import until


class _Core:
    """A node whose core answers every verb alike, or never."""

    node = "one"

    def __init__(self, asking: Asking, answer: Answer | None) -> None:
        self._asking = asking
        self._answer = answer

    def post(self, verb: MoveSpan) -> None:
        if self._answer is not None:
            code, what, hint = self._answer.code, self._answer.what, self._answer.hint
            self._asking.answered(Answer(verb.request, code, what, hint))


def _asked(answer: Answer | None) -> None:
    asking = Asking()
    core = cast(Any, _Core(asking, answer))
    one = Cluster(core, asking, *(cast(Any, None) for _ in range(5)))
    one.ask_node(lambda r: MoveSpan(r, "feed", "s1", "two"), lambda: "one", "feed", 1.0)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("span-busy", Transient),
        ("busy", Transient),
        ("not-owner", Transient),
        ("owner-lost", OutcomeUnknown),
        ("under-way", OutcomeUnknown),
        ("outcome-unknown", OutcomeUnknown),
        ("not-neighbours", Conflict),
    ],
)
def test_what_was_not_recorded_is_an_error(code: str, error: type[LockgateError]) -> None:
    with pytest.raises(error):
        _asked(Answer("", code, "so it is", "do this"))


def test_what_was_recorded_is_none() -> None:
    _asked(Answer(""))


def test_a_core_that_says_nothing_in_time_leaves_the_outcome_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster, "HERE_S", 0.05)
    with pytest.raises(OutcomeUnknown, match="nobody has said in time"):
        _asked(None)


def test_every_answer_comes_while_somebody_listens() -> None:
    """A person's wish lapses before this node stops listening, and that before another one does."""
    assert Timing().request_wait_ms / 1000 + 2 < HERE_S < ASK_S
    assert resync.BEGIN_S + resync.END_S <= HERE_S


# --- a whole node ---------------------------------------------------------------------------------


def _level(service: NodeService, pair: Pair, source: str = "shop") -> None:
    pair.at_source("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    document = {"name": "feed", "source": source, "target": "copy", "tables": ["public.*"]}
    service.create_feed(read_config({**document, "flush_interval_ms": 50}), "me")
    assert service.wait_feed("feed", LEVEL_S).level
    until(lambda: [each.state for each in service.feed_tables("feed")] == ["running"], LEVEL_S)


def _outcome(service: NodeService, object_: str = "feed") -> tuple[str, str]:
    [entry] = service.history(object_, None, 1)
    return entry.verb, entry.outcome


def test_a_resync_that_a_long_round_kept_from_beginning_does_not_begin_later(
    service: NodeService, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    _level(service, pair)
    monkeypatch.setattr(resync, "BEGIN_S", 0.2)
    monkeypatch.setattr(feeds, "RESYNC_S", 1.0)
    inside, over = threading.Event(), threading.Event()
    before = Applying.round

    def long_round(self: Applying) -> bool:
        inside.set()
        over.wait(LEVEL_S)
        return before(self)

    monkeypatch.setattr(Applying, "round", long_round)
    try:
        assert inside.wait(LEVEL_S)
        with pytest.raises(Transient, match="middle of a long round"):
            service.resync_table("feed", "public.a", "me")
        verb, outcome = _outcome(service)
        assert verb == "feed resync"
        assert outcome.startswith("not begun: ")
        pair.at_target("INSERT INTO a VALUES (7)")
    finally:
        over.set()
    pair.at_source("INSERT INTO a VALUES (2)")
    assert service.wait_feed("feed", LEVEL_S).level
    assert pair.ask_target("SELECT id FROM a ORDER BY id") == [(1,), (2,), (7,)]


@pytest.mark.parametrize("verb", ["pause", "resume", "drain"])
def test_the_history_does_not_say_done_of_what_nobody_confirmed(
    service: NodeService, pair: Pair, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    _level(service, pair)
    monkeypatch.setattr(Asking, "ask", lambda *_: None)
    asked = {
        "pause": lambda: service.pause_feed("feed", "me"),
        "resume": lambda: service.resume_feed("feed", "me"),
        "drain": lambda: service.drain_node("one", "me"),
    }[verb]
    with pytest.raises(OutcomeUnknown):
        asked()
    told, outcome = _outcome(service, "one" if verb == "drain" else "feed")
    assert told.endswith(verb)
    assert outcome.startswith("not certain: ")


def test_a_removal_that_an_endpoint_holds_up_is_not_told_to_be_done(
    service: NodeService, pair: Pair, pg16: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultProxy(pg16.host, pg16.port) as proxy:
        source = pair.source.replace(f":{pg16.port}/", f":{proxy.port}/")
        service.add_endpoint("away", Secret(source), "me")
        _level(service, pair, source="away")
        proxy.refuse()
        monkeypatch.setattr(feeds, "REMOVE_S", 8.0)
        left = service.remove_feed("feed", "me")
        assert left is not None
        assert f":{proxy.port}" in left.error
        assert "it is being removed" in left.notes
        assert left.next_steps
        proxy.heal()
        until(lambda: service.feeds() == [], LEVEL_S)


def test_what_was_confirmed_is_recorded_in_the_history(service: NodeService, pair: Pair) -> None:
    _level(service, pair)
    service.pause_feed("feed", "me")
    assert _outcome(service) == ("feed pause", "recorded")


def test_an_operator_shows_as_soon_as_its_verb_was_answered(
    service: NodeService, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its record, not by what a node remarks a second later: or `--wait` would take what has not
    begun yet for done."""
    _level(service, pair)
    [table] = service.feed_tables("feed")
    monkeypatch.setattr(service._statuses, "_here", dict)
    over = threading.Event()
    carry_out = service._executor.carry_out

    def late(instruction: Any) -> None:
        threading.Thread(target=lambda: (over.wait(LEVEL_S), carry_out(instruction))).start()

    monkeypatch.setitem(service._process._do, StopDispatcher, late)
    try:
        service.split_span("feed", table.spans[0].span, [], 2, "me")
        [now] = service.feed_tables("feed")
        assert [span.operator for span in now.spans] == ["split"]
    finally:
        over.set()
    until(lambda: len(service.feed_tables("feed")[0].spans) == 2, LEVEL_S)
