"""The files for operators can be read, and name nothing that is not there."""

import configparser
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from lockgate.node.telemetry.catalogue import METRICS, Kind

ROOT = Path(__file__).parents[2]
RULES = ROOT / "ops/prometheus/rules.yml"
SCRAPE = ROOT / "ops/prometheus/scrape.yml"
DASHBOARD = ROOT / "ops/grafana/lockgate.json"
UNIT = ROOT / "ops/systemd/lockgate.service"
GUIDE = ROOT / "docs/guides/operations.md"
DOCUMENT = ROOT / "docs/METRICS.md"

METRIC = re.compile(r"\blockgate_[a-z0-9_]+")


def _series() -> dict[str, frozenset[str]]:
    """The names that samples have, with their labels."""
    found: dict[str, frozenset[str]] = {}
    for metric in METRICS:
        labels = frozenset({"node", *metric.labels})
        if metric.kind is Kind.HISTOGRAM:
            found |= {f"{metric.name}_{end}": labels | {"le"} for end in ("bucket", "sum", "count")}
        else:
            found[metric.name] = labels
    return found


def _rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def _panels() -> list[dict[str, Any]]:
    panels: list[dict[str, Any]] = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    return panels


def _queries() -> list[str]:
    """Everything that dashboard and rules ask Prometheus."""
    board = json.loads(DASHBOARD.read_text("utf-8"))
    asked = [target["expr"] for panel in _panels() for target in panel.get("targets", ())]
    asked += [each["expr"] for each in board["annotations"]["list"]]
    asked += [
        each["query"]["query"] for each in board["templating"]["list"] if each["type"] == "query"
    ]
    return asked + [rule["expr"] for rule in _rules()]


@pytest.mark.parametrize("query", _queries())
def test_a_query_names_metrics_and_labels_that_there_are(query: str) -> None:
    series = _series()
    names = METRIC.findall(query)
    assert names or "up{" in query
    assert set(names) <= series.keys()
    for name, matchers in re.findall(r"(lockgate_[a-z0-9_]+)\{([^}]*)\}", query):
        assert set(re.findall(r"(\w+)\s*[=!]", matchers)) <= series[name], name
    known = {label for name in names for label in series[name]}
    for labels in re.findall(r"\b(?:by|on) \(([^)]*)\)", query):
        assert {label.strip() for label in labels.split(",")} <= known, labels


@pytest.mark.parametrize("query", _queries())
def test_a_query_is_balanced_and_asks_for_rates_of_counters_only(query: str) -> None:
    for left, right in ("()", "{}", "[]"):
        assert query.count(left) == query.count(right)
    counters = {metric.name for metric in METRICS if metric.kind is Kind.COUNTER}
    for name in re.findall(r"(?:rate|increase)\((lockgate_[a-z0-9_]+)", query):
        assert name in counters or name.endswith(("_bucket", "_count", "_sum")), name
    for name in counters & set(METRIC.findall(query)):
        if "label_values" not in query:
            assert re.search(rf"(?:rate|increase)\({name}\b", query), f"{name} without a rate"


def test_every_rule_says_what_why_and_where_to_read_on() -> None:
    names = [rule["alert"] for rule in _rules()]
    assert len(names) == len(set(names))
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in GUIDE.read_text("utf-8").splitlines()
        if line.startswith("#")
    }
    for rule in _rules():
        assert rule["labels"]["severity"] in {"warning", "critical"}, rule["alert"]
        notes = rule["annotations"]
        assert notes["summary"], rule["alert"]
        assert notes["description"], rule["alert"]
        file, _, anchor = notes["runbook"].partition("#")
        assert ROOT / file == GUIDE
        assert anchor in headings, rule["alert"]


def test_the_alerts_that_were_promised_are_there() -> None:
    assert {rule["alert"] for rule in _rules()} >= {
        "LockgateFeedFailed",
        "LockgateFeedInWarning",
        "LockgateFeedLags",
        "LockgateRetainedWal",
        "LockgateNodeDown",
        "LockgateNoCoordinator",
        "LockgateLinkDrops",
        "LockgateFenced",
        "LockgateMetastoreFails",
        "LockgateStorageFull",
    }


def test_panels_have_a_place_and_queries_of_their_own() -> None:
    panels = _panels()
    assert [panel["title"].split()[0] for panel in panels if panel["type"] == "row"] == [
        "Overview",
        "Feed",
        "Node",
        "Link",
    ]
    ids = [panel["id"] for panel in panels]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["type"] == "row" or (panel["targets"] and panel["description"])


def test_every_metric_is_in_the_document_as_it_is() -> None:
    rows = {
        cells[0].strip(" `"): (cells[1].strip(), tuple(re.findall(r"`(\w+)`", cells[2])), cells[3])
        for line in DOCUMENT.read_text("utf-8").splitlines()
        if line.startswith("| `lockgate_")
        for cells in [line.strip("| ").split(" | ")]
    }
    for metric in METRICS:
        assert rows[metric.name] == (metric.kind.value, metric.labels, metric.help), metric.name
    assert rows.keys() == {metric.name for metric in METRICS}


def test_names_have_their_unit_last_and_few_labels() -> None:
    for metric in METRICS:
        name = metric.name.removesuffix("_total")
        assert (metric.kind is Kind.COUNTER) == metric.name.endswith("_total"), metric.name
        assert not re.search(r"_(seconds|bytes|rows)_", name.replace("_seconds_bucket", "")), name
        assert len(metric.labels) <= 2, metric.name
        assert not {"table", "span"} & set(metric.labels), metric.name


def test_the_scrape_shows_a_token_and_takes_the_rules() -> None:
    scrape = yaml.safe_load(SCRAPE.read_text("utf-8"))
    [job] = scrape["scrape_configs"]
    assert job["metrics_path"] == "/metrics"
    assert job["authorization"]["credentials_file"]
    assert [SCRAPE.parent / name for name in scrape["rule_files"]] == [RULES]
    assert 'up{job="lockgate"}' in RULES.read_text("utf-8")
    assert job["job_name"] == "lockgate"


def test_the_unit_runs_a_server_and_lets_it_end_well() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None, delimiters="=")
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(UNIT, "utf-8")
    service = unit["Service"]
    assert re.fullmatch(r"\S+/lockgate server --config \S+", service["ExecStart"])
    assert service["KillMode"] == "mixed"
    assert int(service["TimeoutStopSec"]) > 30
