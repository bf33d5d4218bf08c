"""The parts of the telemetry, one by one."""

import io
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY

from lockgate.api.scrub import Scrubber
from lockgate.core.node import NodeCore
from lockgate.endpoints.postgres.capture.status import CaptureStatus
from lockgate.model.config import CoreConfig
from lockgate.model.errors import EndpointUnavailable, StaleOwner
from lockgate.model.feed_status import FeedStatus
from lockgate.model.ids import Token
from lockgate.model.instructions import StartDispatcher
from lockgate.model.secret import Secret
from lockgate.model.spans import TRIGGER, WHOLE, SpanSpec
from lockgate.node.feed.running import Parked, Running
from lockgate.node.link.counters import Counters
from lockgate.node.spark import SparkKeeper
from lockgate.node.telemetry import collector, feed
from lockgate.node.telemetry.collector import Sources
from lockgate.node.telemetry.counts import Histogram
from lockgate.node.telemetry.families import Families
from lockgate.node.telemetry.feed import Captured, FeedWatch, FeedWatches
from lockgate.node.telemetry.lines import Lines
from lockgate.node.telemetry.telemetry import Telemetry
from tests.support.logged import logged
from tests.support.scrapes import Scrape


class Still:
    """A process whose core stands still, or is not there."""

    def __init__(self, core: NodeCore | None) -> None:
        self._core = core

    def look(self, look: Callable[[NodeCore], Any], timeout_s: float) -> Any:
        if self._core is None:
            raise TimeoutError
        return look(self._core)


class Engines:
    """An executor with engines that do nothing."""

    def __init__(self, **engines: "Engine") -> None:
        self._engines = engines

    def engines(self) -> dict[str, "Engine"]:
        return self._engines


class Engine:
    """An engine with so many spans."""

    def __init__(self, spans: int) -> None:
        self._running = [
            Running(
                StartDispatcher("shop", SpanSpec(f"1-{n}", f"public.t{n}", WHOLE), Token(1, n, 1))
            )
            for n in range(spans)
        ]
        for one in self._running[::2]:
            one.floors = ((WHOLE, 5),)
        self.copying = type(
            "Copying", (), {"progress": type("P", (), {"rows_done": 1, "rows_total": 2})}
        )
        self.capture = type("Capture", (), {"troubles": [Parked("away")]})
        self.applying = type("Applying", (), {"lag_s": staticmethod(lambda: 1.5)})

    def view(self) -> list[Running]:
        return self._running


def _telemetry(
    core: NodeCore | None = None,
    engines: Engines | None = None,
    statuses: Callable[[], list[FeedStatus]] = list,
    link: Counters | None = None,
) -> Telemetry:
    telemetry = Telemetry("one")
    telemetry.look_at(
        Sources(
            cast("Any", Still(core)),
            cast("Any", engines or Engines()),
            link or Counters(),
            SparkKeeper(),
            statuses,
            dict,
        )
    )
    return telemetry


def _scrape(telemetry: Telemetry) -> Scrape:
    return Scrape(telemetry.text().decode())


# --- the collector --------------------------------------------------------------------------------


def test_nodes_of_one_process_keep_their_figures_apart() -> None:
    one, two = _telemetry(), _telemetry()
    one.api.answered("feed_list", 200, 0.1)
    assert _scrape(one).value("lockgate_api_requests_total", operation="feed_list") == 1
    assert _scrape(two).all("lockgate_api_requests_total") == []
    assert not [f for f in REGISTRY.collect() if f.name.startswith("lockgate")]


def test_a_core_that_does_not_answer_costs_its_own_figures_only() -> None:
    scrape = _scrape(_telemetry(core=None))
    assert scrape.value("lockgate_scrape_incomplete", part="core") == 1
    assert scrape.value("lockgate_node_joined") == 0
    assert scrape.value("lockgate_process_resident_memory_bytes") > 1_000_000


def test_a_metastore_that_hangs_is_not_waited_for_and_not_asked_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collector, "FEEDS_S", 0.05)
    asked, free = [], threading.Event()

    def hang() -> list[FeedStatus]:
        asked.append(1)
        free.wait(60)
        return []

    core = NodeCore(CoreConfig(), "one")
    core.coordinator = cast("Any", object())
    telemetry = _telemetry(core, statuses=hang)
    scrapes = [_scrape(telemetry) for _ in range(3)]
    free.set()
    monkeypatch.setattr(collector, "FEEDS_S", 60.0)
    after = _scrape(telemetry)
    telemetry.close()
    assert [each.value("lockgate_scrape_incomplete", part="feeds") for each in scrapes] == [1, 1, 1]
    assert scrapes[0].value("lockgate_node_coordinator") == 1
    assert after.value("lockgate_scrape_incomplete", part="feeds") == 0
    assert len(asked) <= 2, "the question that hung, and the one after it"


def test_the_number_of_series_does_not_grow_with_tables() -> None:
    counts = []
    for spans in (2, 500):
        scrape = _scrape(_telemetry(engines=Engines(shop=Engine(spans))))
        counts.append(sum(len(samples) for samples in scrape.samples.values()))
        assert sum(scrape.all("lockgate_feed_spans")) == spans
    assert counts[0] == counts[1]


def test_a_scrape_of_two_thousand_spans_is_quick() -> None:
    telemetry = _telemetry(NodeCore(CoreConfig(), "one"), Engines(shop=Engine(2_000)))
    took_s = []
    for _ in range(10):
        began_s = time.perf_counter()
        telemetry.text()
        took_s.append(time.perf_counter() - began_s)
    assert min(took_s) < 0.05


def test_messages_are_told_by_peer_and_result() -> None:
    link = Counters()
    link.add("two", sent=3, dropped=1)
    scrape = _scrape(_telemetry(link=link))
    assert scrape.value("lockgate_link_messages_total", peer="two", result="sent") == 3
    assert scrape.value("lockgate_link_messages_total", peer="two", result="dropped") == 1
    assert scrape.value("lockgate_link_messages_total", peer="two", result="failed") == 0


def test_a_label_that_is_not_in_the_catalogue_is_a_bug() -> None:
    out = Families("one")
    with pytest.raises(AssertionError):
        out.add("lockgate_feed_epoch", 1)
    with pytest.raises(KeyError):
        out.add("lockgate_no_such_thing", 1)


# --- counts ---------------------------------------------------------------------------------------


def test_a_histogram_counts_what_is_not_above_each_bound() -> None:
    histogram = Histogram((0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 7.0):
        histogram.observe(value)
    seen = histogram.snapshot()
    assert seen.buckets == [("0.1", 2), ("1.0", 3), ("+Inf", 4)]
    assert seen.sum == pytest.approx(7.65)


class Run:
    def __init__(self, **fields: Any) -> None:
        self.status = CaptureStatus(**fields)


def test_captures_of_one_feed_are_added_up() -> None:
    captured = Captured()
    captured.begin(Run(rows=5, bytes=50, segments=1, buffered_bytes=9, resolved=100))
    captured.begin(Run(rows=7, bytes=70, segments=2, buffered_bytes=1, resolved=200))
    total = captured.total()
    assert (total.rows, total.bytes, total.segments) == (12, 120, 3)
    assert (total.buffered_bytes, total.resolved) == (1, 200)


def test_a_feed_that_left_keeps_its_counts_for_a_while_and_no_longer() -> None:
    watches = FeedWatches("one")
    watches.of("shop").applied.add("rows", 5)
    assert set(watches.all({"shop"}, 0.0)) == {"shop"}
    assert set(watches.all((), 10.0)) == {"shop"}
    assert set(watches.all((), 10.0 + feed.FORGET_S)) == {"shop"}
    assert watches.of("shop").applied.snapshot() == {"rows": 5}
    assert set(watches.all((), 20.0 + feed.FORGET_S)) == {"shop"}, "it was here again"
    assert set(watches.all((), 30.0 + 2 * feed.FORGET_S)) == set()


def test_a_bug_and_a_fence_are_no_codes_of_errors() -> None:
    watch = FeedWatch("shop")
    watch.put_off(1, ZeroDivisionError())
    watch.put_off(2, EndpointUnavailable("away", object_="db", hint="wait"))
    watch.put_off(1, StaleOwner("newer", object_="1-1", hint=""))
    assert watch.errors.snapshot() == {"bug": 1, "endpoint-unavailable": 1}


def test_the_trigger_is_no_span() -> None:
    start = StartDispatcher("shop", SpanSpec(TRIGGER, "", WHOLE), Token(1, 1, 1))
    engine = Engine(0)
    engine._running = [Running(start)]
    engine.capture.resolved = 7  # type: ignore[attr-defined]
    engine.capture.trouble = None  # type: ignore[attr-defined]
    scrape = _scrape(_telemetry(engines=Engines(shop=engine)))
    assert sum(scrape.all("lockgate_feed_spans")) == 0
    assert scrape.value("lockgate_capture_running", feed="shop") == 1


# --- lines ----------------------------------------------------------------------------------------


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    with logged(Scrubber([Secret("postgres://u:hunter2-x@db/shop")]), node="one") as stream:
        yield stream


def _said(stream: io.StringIO) -> dict[str, Any]:
    [line] = stream.getvalue().splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def test_fields_of_a_line_are_fields_of_the_log(stream: io.StringIO) -> None:
    Lines("lockgate.feed", feed="shop").info("copy ended", rows=5, spans=["1-1"], why="")
    said = _said(stream)
    del said["timestamp"]
    assert said == {
        "event": "copy ended",
        "level": "info",
        "logger": "lockgate.feed",
        "node": "one",
        "feed": "shop",
        "rows": 5,
        "spans": ["1-1"],
    }


def test_secrets_are_taken_out_of_fields_texts_and_traces(stream: io.StringIO) -> None:
    lines = Lines("lockgate.feed")
    lines.warning("hunter2-x", why="password=hunter2-x", spans=["hunter2-x"])
    logging.getLogger("lockgate.link").warning("to %s", "postgres://u:other-pw@db")
    logging.getLogger("some.library").warning("it said %s", "hunter2-x")
    try:
        raise ValueError("hunter2-x")
    except ValueError:
        lines.bug("broke")
    text = stream.getvalue()
    assert len(text.splitlines()) == 4
    assert "ValueError" in text
    assert "hunter2-x" not in text
    assert "other-pw" not in text


def test_libraries_are_heard_from_warnings_on(stream: io.StringIO) -> None:
    logging.getLogger("some.library").info("chatter")
    assert stream.getvalue() == ""


def test_a_stream_that_is_gone_does_no_harm(stream: io.StringIO) -> None:
    stream.close()
    Lines("lockgate.feed").error("nobody hears it")


def test_a_line_without_anybody_who_knows_fields_holds_them_as_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "lockgate.feed"):
        Lines("lockgate.feed", feed="shop").info("copy ended", rows=5, password=Secret("x-y-z"))
    assert caplog.messages == ["copy ended (feed=shop, rows=5, password=***)"]


def test_a_field_is_not_longer_than_people_read(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "lockgate.feed"):
        Lines("lockgate.feed").info("it said", why="x" * 100_000)
    assert len(caplog.messages[0]) < 3_000
