"""A DDL is written once, in order with the rows around it, whoever dies when (B4, B5, B8)."""

from collections.abc import Callable
from functools import partial

import pytest

from lockgate.core.maintainer.barrier import BarrierState
from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.events import SplitSpan
from lockgate.model.ids import NodeRef
from lockgate.model.records import BarrierRecord, RecordKey, SpanRecord
from lockgate.model.requests import Create, Pass, Remove, Write
from lockgate.model.spans import TRIGGER
from lockgate.model.statuses import DispatcherStatus, Stage
from tests.core.maintainer.owner import A, B, Owner, node_of, other, running, working
from tests.core.maintainer.world import World
from tests.core.support import FEED, of

ALTER = Ddl(100, DdlKind.ALTER, ("t",))
CREATE = Ddl(100, DdlKind.CREATE, ("new",))
DROP = Ddl(100, DdlKind.DROP, ("t",))
SYNC = Ddl(100, DdlKind.SYNC, every_table=True)


def of_table(owner: Owner, table: str) -> SpanRecord:
    (record,) = [one for one in owner.spans().values() if one.span.table == table]
    return record


def stands(owner: Owner, span: str, ddl: Ddl) -> None:
    """The span's dispatcher reports that it stands right before the DDL."""
    told = ddl if span == TRIGGER else None
    record = owner.span(span)
    blocked = working(record, ddl.position - 1, barrier=ddl.position, ddl=told)
    owner.says(node_of(owner, span), blocked)


def writes(owner: Owner, ddl: Ddl) -> None:
    """The trigger's dispatcher reports that the DDL is written."""
    written = working(owner.trigger, ddl.position, barrier=ddl.position, ddl=ddl)
    owner.says(node_of(owner, TRIGGER), written)


def recorded(ddl: Ddl, *tables: str) -> Owner:
    """A barrier that is recorded, its write asked for."""
    owner = running("t", "u")
    for table in tables:
        stands(owner, of_table(owner, table).id, ddl)
    stands(owner, TRIGGER, ddl)
    assert owner.barrier() is not None
    return owner


# --- gathering ----------------------------------------------------------------------------------


def test_nothing_is_written_before_everybody_concerned_stands_there() -> None:
    owner = running("t", "u")
    stands(owner, TRIGGER, ALTER)
    owner.tick()
    assert owner.barrier() is None
    assert owner.asked(Write) == []
    stands(owner, of_table(owner, "t").id, ALTER)
    owner.tick()
    assert owner.barrier() == BarrierRecord(ALTER)


def test_nothing_is_written_before_the_trigger_stands_there() -> None:
    owner = running("t")
    stands(owner, owner.only().id, ALTER)
    owner.tick()
    assert owner.barrier() is None


def test_a_sync_point_waits_for_every_table() -> None:
    owner = running("t", "u")
    stands(owner, of_table(owner, "t").id, SYNC)
    stands(owner, TRIGGER, SYNC)
    owner.tick()
    assert owner.barrier() is None
    stands(owner, of_table(owner, "u").id, SYNC)
    owner.tick()
    assert owner.barrier() == BarrierRecord(SYNC)


def test_who_is_past_the_ddl_already_is_not_waited_for() -> None:
    owner = running("t")
    owner.says(node_of(owner, owner.only().id), working(owner.only(), ALTER.position))
    stands(owner, TRIGGER, ALTER)
    assert owner.barrier() is not None


def test_a_span_that_was_lost_does_not_stand_there_any_more() -> None:
    owner = running("t")
    span = owner.only()
    stands(owner, span.id, ALTER)
    owner.says(node_of(owner, span.id), full=True)
    stands(owner, TRIGGER, ALTER)
    owner.tick()
    assert owner.barrier() is None


def test_an_orphan_that_stands_there_does_not_count() -> None:
    owner = running("t")
    span = owner.only()
    wrong = other(node_of(owner, span.id))
    owner.says(wrong, working(span, ALTER.position - 1, barrier=ALTER.position))
    stands(owner, TRIGGER, ALTER)
    owner.tick()
    assert owner.barrier() is None


def test_a_trigger_that_is_past_the_ddl_begins_no_barrier() -> None:
    owner = running("t")
    stands(owner, owner.only().id, ALTER)
    writes(owner, ALTER)
    assert owner.machine.barrier.state is BarrierState.IDLE


# --- recording and writing ----------------------------------------------------------------------


def test_the_write_is_asked_for_only_when_the_barrier_is_durable() -> None:
    owner = running("t")
    stands(owner, owner.only().id, ALTER)
    owner.hold = True
    stands(owner, TRIGGER, ALTER)
    owner.tick()
    assert owner.asked(Write) == []
    owner.land_all()
    assert owner.asked(Write) == [
        (node_of(owner, TRIGGER), Write(TRIGGER, owner.trigger.token, ALTER))
    ]


def test_b4_the_spans_of_a_new_table_are_durable_before_the_ddl_is_written() -> None:
    owner = recorded(CREATE)
    record = owner.barrier()
    assert record is not None
    assert [birth.table for birth in record.births] == ["new"]
    ((_, write),) = owner.asked(Write)
    assert write.births == record.births


def test_the_write_is_asked_for_again_until_it_shows() -> None:
    owner = recorded(ALTER, "t")
    owner.take_asked()
    owner.tick()
    assert len(owner.asked(Write)) == 1


def test_the_write_is_not_asked_of_a_trigger_that_does_not_stand_there() -> None:
    owner = recorded(ALTER, "t")
    owner.take_asked()
    owner.says(node_of(owner, TRIGGER), working(owner.trigger, 50))
    owner.tick()
    assert owner.asked(Write) == []


def test_nobody_passes_before_the_ddl_is_written() -> None:
    owner = recorded(ALTER, "t")
    stands(owner, of_table(owner, "t").id, ALTER)
    stands(owner, TRIGGER, ALTER)
    assert owner.asked(Pass) == []


# --- finishing ----------------------------------------------------------------------------------


def test_nobody_passes_before_what_the_ddl_made_is_durable() -> None:
    owner = recorded(ALTER, "t")
    owner.take_asked()
    owner.hold = True
    writes(owner, ALTER)
    stands(owner, of_table(owner, "t").id, ALTER)
    assert owner.asked(Pass) == []
    owner.land_all()
    stands(owner, of_table(owner, "t").id, ALTER)
    writes(owner, ALTER)
    assert {request.span for _, request in owner.asked(Pass)} == {
        TRIGGER,
        of_table(owner, "t").id,
    }


def test_a_pass_that_was_lost_is_repeated_while_the_span_stands_there() -> None:
    owner = recorded(ALTER, "t")
    writes(owner, ALTER)
    owner.take_asked()
    for _ in range(2):
        stands(owner, of_table(owner, "t").id, ALTER)
        assert len(owner.asked(Pass)) == 1


def test_b4_a_new_table_gets_its_span_in_the_batch_that_ends_the_barrier() -> None:
    owner = recorded(CREATE)
    record = owner.barrier()
    assert record is not None
    owner.hold = True
    writes(owner, CREATE)
    (batch,) = owner.held
    born = [(one.span, one.start) for one in of(SpanRecord, batch.puts)]
    assert born == [(record.births[0], CREATE.position)]
    assert batch.deletes == (RecordKey("barrier", "barrier"),)


def test_b4_a_new_table_gets_one_dispatcher() -> None:
    owner = recorded(CREATE)
    writes(owner, CREATE)
    owner.tick()
    asked = {r.token for _, r in owner.asked(Create) if r.spec.table == "new"}
    assert asked == {of_table(owner, "new").token}


def test_b5_a_dropped_tables_span_goes_in_the_batch_that_ends_the_barrier() -> None:
    owner = recorded(DROP, "t")
    span = of_table(owner, "t").id
    owner.hold = True
    writes(owner, DROP)
    (batch,) = owner.held
    assert set(batch.deletes) == {RecordKey("barrier", "barrier"), RecordKey("span", span)}


def test_b5_a_dropped_tables_dispatcher_is_removed() -> None:
    owner = recorded(DROP, "t")
    record = of_table(owner, "t")
    owner.take_asked()
    writes(owner, DROP)
    asked = owner.asked(Remove)
    assert [(node, request.span) for node, request in asked] == [(record.node, record.id)]


def test_a_rename_ends_one_table_and_begins_another_in_one_batch() -> None:
    rename = Ddl(100, DdlKind.CREATE, ("new", "t", "u"), drops=("t",))
    owner = recorded(rename, "t", "u")
    gone, stays = of_table(owner, "t").id, of_table(owner, "u").id
    record = owner.barrier()
    assert record is not None
    assert [spec.table for spec in record.births] == ["new"]
    owner.hold = True
    writes(owner, rename)
    (batch,) = owner.held
    assert set(batch.deletes) == {RecordKey("barrier", "barrier"), RecordKey("span", gone)}
    assert [one.span.table for one in of(SpanRecord, batch.puts)] == ["new"]
    assert stays in owner.spans()


def test_tables_that_swap_names_begin_anew_in_one_batch() -> None:
    """A dispatcher from before the swap must not go on with the other table's rows."""
    swap = Ddl(100, DdlKind.CREATE, ("t", "u"), renames=(("t", "u"), ("u", "t")))
    owner = recorded(swap, "t", "u")
    gone = {of_table(owner, table).id for table in ("t", "u")}
    record = owner.barrier()
    assert record is not None
    assert [spec.table for spec in record.births] == ["t", "u"]
    owner.hold = True
    writes(owner, swap)
    (batch,) = owner.held
    assert {key.id for key in batch.deletes if key.kind == "span"} == gone
    assert {one.span for one in of(SpanRecord, batch.puts)} == set(record.births)


def test_one_barrier_at_a_time() -> None:
    owner = recorded(ALTER, "t")
    later = Ddl(200, DdlKind.ALTER, ("u",))
    stands(owner, of_table(owner, "u").id, later)
    owner.tick()
    record = owner.barrier()
    assert record is not None
    assert record.ddl == ALTER


# --- B8: a successor's half of it, by hand ------------------------------------------------------


def successor(former: Owner, *, trigger_at: int, barrier: int = 100) -> Owner:
    """A new owner; every node reports what it runs, the trigger stands where it is said to."""
    told: dict[NodeRef, list[DispatcherStatus]] = {A: [], B: []}
    trigger = former.trigger
    ddl = ALTER if barrier else None
    told[node_of(former, TRIGGER)].append(working(trigger, trigger_at, barrier=barrier, ddl=ddl))
    for span, record in former.spans().items():
        told[node_of(former, span)].append(working(record, 99, barrier=100))
    owner = Owner(former=former, epoch=2)
    owner.boot({node: tuple(statuses) for node, statuses in told.items()})
    return owner


def test_b8_recorded_and_not_written_a_successor_has_it_written() -> None:
    owner = successor(recorded(ALTER, "t"), trigger_at=99)
    owner.tick()
    assert [request.ddl for _, request in owner.asked(Write)] == [ALTER]


def test_b8_written_and_unreported_a_successor_finishes_it_without_another_write() -> None:
    owner = successor(recorded(ALTER, "t"), trigger_at=100)
    assert owner.asked(Write) == []
    assert owner.barrier() is None


def test_b8_a_successor_gives_the_same_births() -> None:
    former = recorded(CREATE)
    record = former.barrier()
    owner = Owner(former=former, epoch=2)
    place = node_of(former, TRIGGER)
    stood = working(former.trigger, 99, barrier=100, ddl=CREATE)
    owner.boot({place: (stood,), other(place): ()})
    owner.tick(0)
    assert record is not None
    ((_, write),) = owner.asked(Write)
    assert write.births == record.births


def test_b8_a_pass_that_the_former_owner_did_not_get_to_is_given() -> None:
    former = recorded(ALTER, "t")
    writes(former, ALTER)
    assert former.barrier() is None
    owner = successor(former, trigger_at=100)
    spans = {request.span for _, request in owner.asked(Pass)}
    assert TRIGGER in spans
    assert set(owner.spans()) <= spans


# --- B8: every stage, every death ---------------------------------------------------------------

KINDS = {
    "create": (DdlKind.CREATE, ("new",)),
    "drop": (DdlKind.DROP, ("t",)),
    "alter": (DdlKind.ALTER, ("t",)),
    "sync": (DdlKind.SYNC, ()),
}


def some_wait(world: World) -> bool:
    """At least one concerned span, or the trigger, is known to stand there."""
    return any(span.barrier for span in world.owner.spans.all())


def is_recorded(world: World) -> bool:
    return bool(world.records(BarrierRecord)) and not world.sink.ddls


def is_written_and_unreported(world: World) -> bool:
    return bool(world.sink.ddls) and world.owner.barrier.state is BarrierState.WRITING


def pass_is_pending(world: World) -> bool:
    finished = bool(world.sink.ddls) and not world.records(BarrierRecord)
    blocked = [one for node in world.nodes.values() for one in node.here.values() if one.barrier]
    return finished and bool(blocked)


STAGES: dict[str, Callable[[World], bool]] = {
    "none waiting": lambda world: True,
    "some waiting": some_wait,
    "recorded": is_recorded,
    "written but unreported": is_written_and_unreported,
    "pass pending": pass_is_pending,
}


def kill_owner(world: World) -> None:
    world.start_owner()


def writer(world: World) -> str:
    (name,) = [name for name, node in world.nodes.items() if TRIGGER in node.here]
    return name


def kill_writer(world: World) -> None:
    world.kill_node(writer(world))


def restart_writer(world: World) -> None:
    world.start_node(writer(world))


def kill_both(world: World) -> None:
    world.kill_node(writer(world))
    world.start_owner()


def cut_the_writer_off(world: World) -> None:
    """It lives, and nobody hears of it for so long that it is given up."""
    name = writer(world)
    held = world.nodes.pop(name)
    world.see_members()
    for _ in range(4):
        world.round()
    world.nodes[name] = held


DEATHS = [kill_owner, kill_writer, restart_writer, kill_both, cut_the_writer_off]


@pytest.mark.parametrize("death", DEATHS, ids=lambda death: death.__name__)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_b8_the_ddl_is_written_once_and_in_order(
    kind: str, stage: str, death: Callable[[World], None]
) -> None:
    world = World("a", "b", "c", tables=("t", "u"))
    world.heal()
    span = next(s for s, r in world.records(SpanRecord).items() if r.span.table == "t")
    world.ask(SplitSpan("cut", FEED, span, (b"m",)))
    world.heal()
    ddl_kind, tables = KINDS[kind]
    ddl = world.ddl(ddl_kind, *tables, every_table=not tables)
    world.run_until(partial(STAGES[stage], world))
    death(world)
    world.heal()
    assert world.sink.ddls == [ddl]
    covered = sorted(record.span.table for record in world.records(SpanRecord).values())
    assert (
        covered
        == {
            "create": ["", "new", "t", "t", "u"],
            "drop": ["", "u"],
            "alter": ["", "t", "t", "u"],
            "sync": ["", "t", "t", "u"],
        }[kind]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_b8_the_stages_are_met_in_their_order(kind: str) -> None:
    """Each stage's test begins where it says: a stage that is skipped would test another."""
    ddl_kind, tables = KINDS[kind]
    world = World("a", "b", "c", tables=("t", "u"))
    world.heal()
    world.ddl(ddl_kind, *tables, every_table=not tables)
    for stage in STAGES.values():
        world.run_until(partial(stage, world))


def test_a_gone_status_of_the_trigger_does_not_end_a_barrier() -> None:
    owner = recorded(ALTER, "t")
    place = node_of(owner, TRIGGER)
    owner.says(place, DispatcherStatus(TRIGGER, owner.trigger.token, Stage.FENCED))
    assert owner.barrier() is not None
    assert owner.machine.barrier.state is BarrierState.WRITING
