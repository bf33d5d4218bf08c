"""A drain is called done when all is in stable that was there when it began, and only then; a drop
is never called undone that has landed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from lockgate.endpoints.delta.compact import Compacted
from lockgate.endpoints.delta.files import live_files
from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import Drained, LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import EndpointUnavailable
from lockgate.model.ids import Token
from lockgate.model.lake import WorkKind, WorkOutcome
from lockgate.model.lake_instructions import RunWork
from lockgate.node.lake.surveying import Surveyor
from lockgate.node.lake.works import Ended, Workbench
from tests.endpoints.delta.test_bad_days import LOGS
from tests.support.bad_days import small_disk
from tests.support.lakes import DISPATCHER, LEADER, ROWS, Writer

T = "public.t"
DRAIN = RunWork(1, WorkKind.DRAIN, T, 1, LEADER)
KILL = RunWork(1, WorkKind.KILL, T, 1, LEADER)
DELETE = RunWork(1, WorkKind.DELETE, T, 1, LEADER)
LONG_S = 3600.0


class Here:
    """Rewrites in this process, a batch at a time; something may happen after its plan."""

    def __init__(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.meanwhile = meanwhile
        self.drains = 0

    def drain(self, table: LayeredTable, token: Token, tag: str) -> Drained | None:
        self.drains += 1
        plan = table.plan_drain(rows_max=1)
        if plan is None:
            return None
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        return table.land_drain(token, plan, [])

    def compact(self, table: LayeredTable, token: Token, tag: str) -> Compacted | None:
        return None


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "lake"), "lake")


@pytest.fixture
def writer(place: Place) -> Writer:
    """A table with three batches of changes that are not drained."""
    table = LayeredTable.create(
        Lake(place).place(T, 1), "h", ROWS, ["id", "part"], LEADER, DISPATCHER
    )
    writer = Writer(table)
    for number in range(3):
        writer.put(number)
    return writer


def position(writer: Writer) -> int:
    return writer.table.stable.look().position


def test_a_drain_goes_on_until_everything_is_in_that_was_there(
    place: Place, writer: Writer
) -> None:
    rewriter = Here()
    ended = Workbench(place, "h", rewriter, 0).run(DRAIN, lambda: False)
    assert ended.outcome is WorkOutcome.DONE
    assert ended.drained_to == position(writer) == writer.position
    assert rewriter.drains == 3


def test_a_drain_that_is_stopped_halfway_is_not_called_done(place: Place, writer: Writer) -> None:
    rewriter = Here()
    ended = Workbench(place, "h", rewriter, 0).run(DRAIN, lambda: rewriter.drains == 1)
    assert ended.outcome is WorkOutcome.FAILED
    assert position(writer) < writer.position


def test_a_drain_that_was_overtaken_goes_on_with_what_is_left(place: Place, writer: Writer) -> None:
    rewriter = Here()
    rewriter.meanwhile = lambda: writer.table.land_drain(
        LEADER, writer.table.plan_drain(rows_max=1), []
    )
    ended = Workbench(place, "h", rewriter, 0).run(DRAIN, lambda: False)
    assert ended.outcome is WorkOutcome.DONE
    assert position(writer) == writer.position


def test_what_was_drained_is_out_of_ingest_though_no_batch_comes_any_more(
    place: Place, writer: Writer
) -> None:
    writer.table.drain(LEADER)  # and whoever did it was killed before he pruned
    bench = Workbench(place, "h", Here(), 0)
    assert bench.run(DRAIN, lambda: False).outcome is WorkOutcome.NOTHING
    assert _waiting(writer) == 0
    writer.put(7)
    assert _waiting(writer) == 1
    assert bench.run(DRAIN, lambda: False).outcome is WorkOutcome.DONE
    assert _waiting(writer) == 0
    version = writer.table.ingest.look().version
    assert bench.run(DRAIN, lambda: False).outcome is WorkOutcome.NOTHING
    assert writer.table.ingest.look().version == version, "nothing to prune costs no commit"


def test_a_drain_is_done_whatever_comes_of_the_pruning(
    place: Place, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> int:
        raise EndpointUnavailable("it is away", object_="lake", hint="", operation="commit")

    monkeypatch.setattr(LayeredTable, "prune", away)
    ended = Workbench(place, "h", Here(), 0).run(DRAIN, lambda: False)
    assert (ended.outcome, ended.trouble) == (WorkOutcome.DONE, None)


def _waiting(writer: Writer) -> int:
    writer.table.ingest.look()
    return len(live_files(writer.table.ingest.handle))


# --- how a table ends -----------------------------------------------------------------------------


def _run(place: Place, work: RunWork, retention_s: float = 0) -> Ended:
    return Workbench(place, "h", Here(), retention_s).run(work, lambda: False)


def test_a_drop_is_done_though_an_ingest_has_no_room_to_die(place: Place) -> None:
    where = Lake(place).place(T, 1)
    with small_disk(Path(where.url, "ingest-h"), "1m") as disk:
        table = LayeredTable.create(where, "h", ROWS, ["id", "part"], LEADER, DISPATCHER)
        disk.fill()
        assert _run(place, KILL).outcome is WorkOutcome.DONE
        assert table.stable.look().dead
        assert not table.ingest.look().dead
        assert _run(place, DELETE, LONG_S).outcome is WorkOutcome.FAILED
        disk.clear()
        assert _run(place, DELETE, LONG_S).outcome is WorkOutcome.HELD
        assert table.ingest.look().dead, "its deletion begins with what was left"


def test_a_drop_that_has_landed_and_cannot_be_seen_is_not_called_undone(
    place: Place, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = DeltaTable.create_write_transaction
    log = Path(writer.table.stable.place.url, "_delta_log")
    strange = log / f"{2:020d}.json"

    def commit_before_a_damaged_one(*args: Any, **named: Any) -> None:
        write(*args, **named)
        strange.write_bytes(b'{"add"')

    with monkeypatch.context() as patched:
        patched.setattr(DeltaTable, "create_write_transaction", commit_before_a_damaged_one)
        assert _run(place, KILL).outcome is WorkOutcome.UNKNOWN
    strange.unlink()
    assert _run(place, KILL).outcome is WorkOutcome.DEAD


@pytest.mark.parametrize("home", ["h", "another"])
@pytest.mark.parametrize("damage", LOGS)
def test_of_a_dropped_table_with_a_damaged_ingest_no_file_is_left(
    place: Place, writer: Writer, damage: Callable[[Path], None], home: str
) -> None:
    where = writer.table.place
    other = LayeredTable.join(where, "another", DISPATCHER, 0)
    for position in (1, 2):
        other.note_position(DISPATCHER, position)
    damage(Path(where.url, f"ingest-{home}", "_delta_log"))
    assert _run(place, KILL).outcome is WorkOutcome.DONE
    sound = other if home == "h" else writer.table
    assert sound.ingest.look().dead
    _, [seen], _ = Surveyor(place, "h").survey(T)
    assert (seen.dead, seen.trouble) == (True, None)
    assert _run(place, DELETE, LONG_S).outcome is WorkOutcome.HELD, "for those who read it"
    assert _run(place, DELETE).outcome is WorkOutcome.DONE
    assert not Path(where.url).exists()
