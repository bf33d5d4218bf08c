"""Several processes and one lake: some of the interleavings that `make soak-lake` has thousands of,
and that its verdict sees what it is for. L4, L5, L6, L8, L9."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.model.ids import Token
from lockgate.model.lake_events import DropTable
from lockgate.model.lake_instructions import LakeAnswer, LakeVerdict
from soak.lake.main import soak
from soak.lake.people import Asked
from soak.lake.source import Entry, Source, changes_table, rows_schema
from soak.lake.story import Story
from soak.lake.verdict import Facts, judge

RUNS, KILLS = 12, 4
SEED = 7_000
DISPATCHER, LEADER, LATER = Token(1, 1, 1), Token(1, 0, 1), Token(2, 0, 2)


@pytest.mark.slow
def test_whatever_processes_do_to_a_lake_rows_files_and_answers_are_right(tmp_path: Path) -> None:
    total = soak(RUNS, KILLS, SEED, tmp_path)
    assert total.violations == []
    assert (total.runs, total.kills >= KILLS) == (RUNS, True)
    assert total.counts["DropTable done"]
    assert total.counts["DrainTable done"]
    assert total.counts["StepUp done"]


# --- the verdict ----------------------------------------------------------------------------------


class OneTable:
    """A run with one live table, all of whose rows are drained, and nothing wrong."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.source = Source(1)
        self.name = self.source.tables[0]
        self.born = 110
        entries = [Entry(self.born, "create", self.name)]
        entries += [Entry(120, "rows", self.name, (("put", 1, 2, None), ("put", 2, 3, None)))]
        self.source.entries, self.source.tables, self.source.end = entries, [self.name], 130
        self.table = self.make(self.born)
        changes = changes_table(entries[1:], self.table.ingest.schema)
        self.table.land(DISPATCHER, changes, 130)
        self.table.drain(LEADER)
        self.asked: list[Asked] = []
        self.story = Story()
        self.story.begin(run, "a1")

    def make(self, incarnation: int) -> LayeredTable:
        place = Lake(Place(f"{self.run}/lake", "lake")).place(self.name, incarnation)
        rows = rows_schema(wide=False)
        return LayeredTable.create(
            place, "a", rows, ["id"], LEADER, DISPATCHER, incarnation, settled=incarnation
        )

    def drop(self, verdict: LakeVerdict, incarnation: int) -> None:
        answer = LakeAnswer("r", verdict, incarnation=incarnation)
        self.asked.append(Asked(DropTable("r", self.name), "a", answer))

    def verdict(self) -> str:
        facts = Facts(self.run, self.source, self.asked, "a")
        return "\n".join(judge(facts, Counter()))


@pytest.fixture
def one(tmp_path: Path) -> OneTable:
    return OneTable(tmp_path / "run")


def test_a_run_in_which_nothing_went_wrong_is_right(one: OneTable) -> None:
    assert one.verdict() == ""


def test_rows_that_are_not_the_sources_are_seen(one: OneTable) -> None:
    one.source.entries[1] = Entry(120, "rows", one.name, (("put", 1, 2, None),))
    assert "has other rows in the end" in one.verdict()
    assert "stable has other rows than the source" in one.verdict()


def test_a_table_that_is_not_drained_is_seen(one: OneTable) -> None:
    more = Entry(135, "rows", one.name, (("put", 3, 4, None),), seq=2)
    one.source.entries.append(more)
    one.source.end = 140
    one.table.land(DISPATCHER, changes_table([more], one.table.ingest.schema), 140)
    assert "is not drained" in one.verdict()


def test_a_table_that_is_there_although_somebody_was_told_that_it_is_dropped(
    one: OneTable,
) -> None:
    one.drop(LakeVerdict.DONE, one.born)
    assert "somebody was told that it is dropped" in one.verdict()


def test_a_table_that_was_being_copied_when_its_name_was_dropped_and_came_alive(
    one: OneTable,
) -> None:
    answer = LakeAnswer("r", LakeVerdict.DONE, incarnation=105)
    one.asked.append(Asked(DropTable("r", one.name), "a", answer, known=(105, one.born)))
    assert "somebody was told that it is dropped" in one.verdict()


def test_a_table_that_is_gone_although_every_drop_was_busy(one: OneTable) -> None:
    one.drop(LakeVerdict.BUSY, one.born)
    one.table.kill(LEADER)
    assert "nobody has dropped it" in one.verdict()


def test_files_that_are_left_of_a_dead_table(one: OneTable) -> None:
    one.drop(LakeVerdict.DONE, one.born)
    one.table.kill(LEADER)
    assert "directories of it are" in one.verdict()


def test_an_older_incarnation_that_was_left_behind(one: OneTable) -> None:
    one.make(105)
    assert "are there, not only 110" in one.verdict()


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({"epoch": 0}, "a token has gone back"),
        ({"position": 1}, "the position has gone back"),
        ({}, "rows have changed and the position has not"),
    ],
)
def test_a_commit_that_a_fence_should_have_kept_out(
    one: OneTable, change: dict[str, int], seen: str
) -> None:
    one.table.stable.claim(LATER)
    log = Path(one.table.place.url, "stable/_delta_log")
    newest = max(log.glob("*.json"))
    actions: list[dict[str, Any]] = [json.loads(line) for line in newest.read_text().splitlines()]
    for action in actions:
        name = action.get("txn", {}).get("appId", "").removeprefix("lockgate.")
        if name in change:
            action["txn"]["version"] = change[name]
    actions.append({"remove": {"path": "x", "dataChange": True}})
    folder = one.run / "archive" / one.name / "50" / "0"
    folder.mkdir(parents=True)
    for file in log.glob("*.json"):
        (folder / file.name).write_text(file.read_text())
    (folder / newest.name).write_text("\n".join(map(json.dumps, actions)))
    assert seen in one.verdict()


def test_what_is_told_while_it_runs(one: OneTable) -> None:
    one.story.tell("violation", what="a reader met something")
    one.story.tell("log", level="ERROR", said="a drain broke", trace="")
    one.story.tell("ended", outcome="failed", trouble="a file is gone")
    verdict = one.verdict()
    for seen in ("a reader met something", "a drain broke", "a file is gone"):
        assert seen in verdict


def test_a_step_up_that_drains_a_table_twice(one: OneTable) -> None:
    work = {"keeper": 1, "kind": "drain", "epoch": 2, "table": one.name, "incarnation": 110}
    one.story.tell("work", stage="draining", **work)
    one.story.tell("work", stage="leader", **work)
    assert one.verdict() == ""
    one.story.tell("work", stage="draining", **work)
    assert "drained a table 2 times" in one.verdict()
