"""The checkpoint: never back, never past a new table's start, never ahead of the sink (B9)."""

from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.events import SplitSpan
from lockgate.model.feeds import FeedSpec
from lockgate.model.ids import Token
from lockgate.model.records import ProgressRecord
from lockgate.model.spans import TRIGGER
from lockgate.model.statuses import DispatcherStatus, Stage
from tests.core.maintainer.owner import A, B, Owner, node_of, other, running, working
from tests.core.support import FEED


def says_all(owner: Owner, position: int) -> None:
    """Every dispatcher reports this position."""
    for record in [owner.trigger, *owner.spans().values()]:
        owner.says(node_of(owner, record.id), working(record, position))


def at(position: int, **more: object) -> Owner:
    owner = running("t", "u", **more)
    says_all(owner, position)
    owner.tick()
    return owner


def checkpoint(owner: Owner) -> int:
    """What is durable."""
    progress = owner.progress()
    assert progress is not None
    return progress.checkpoint


def test_it_is_the_least_position_of_all() -> None:
    owner = at(50)
    first = next(iter(owner.spans()))
    owner.says(node_of(owner, first), working(owner.span(first), 80))
    owner.tick()
    assert checkpoint(owner) == 50


def test_the_trigger_counts_too() -> None:
    """B9: a new table begins where the trigger stands, not later."""
    owner = at(50)
    for span, record in owner.spans().items():
        owner.says(node_of(owner, span), working(record, 80))
    owner.tick()
    assert checkpoint(owner) == 50


def test_it_begins_where_the_feed_begins() -> None:
    owner = Owner(spec=FeedSpec(start=33, tables=("t",)))
    owner.boot({A: ()})
    assert checkpoint(owner) == 33


def test_b9_a_position_that_went_back_does_not_take_it_back() -> None:
    owner = at(50)
    says_all(owner, 20)
    owner.tick()
    assert owner.machine.status().checkpoint == 50


def test_b9_a_lost_span_does_not_take_it_back() -> None:
    owner = at(50)
    owner.see(B)
    owner.settle()
    owner.tick()
    assert (checkpoint(owner), owner.machine.status().checkpoint) == (50, 50)


def test_b9_a_successor_goes_on_from_the_recorded_one() -> None:
    former = at(50)
    owner = Owner(former=former, epoch=2)
    owner.boot({A: (), B: ()})
    owner.tick()
    assert (checkpoint(owner), owner.machine.status().checkpoint) == (50, 50)


def test_b9_before_it_is_durable_a_successor_knows_only_the_former_one() -> None:
    former = at(50)
    former.hold = True
    says_all(former, 90)
    former.tick()
    owner = Owner(former=former, epoch=2)
    owner.load()
    assert owner.machine.status().checkpoint == 50


def test_b9_what_an_orphan_reports_does_not_count() -> None:
    owner = running("t")
    span = owner.only()
    wrong = other(node_of(owner, span.id))
    owner.says(node_of(owner, TRIGGER), working(owner.trigger, 90))
    owner.says(wrong, working(span, 90))
    owner.tick()
    assert owner.machine.status().checkpoint == 0


def test_b9_what_an_older_placement_reports_does_not_count() -> None:
    owner = running("t")
    span = owner.only()
    owner.says(node_of(owner, TRIGGER), working(owner.trigger, 90))
    older = DispatcherStatus(span.id, Token(1, 0, 1), Stage.WORKING, 90)
    owner.says(node_of(owner, span.id), older)
    owner.tick()
    assert owner.machine.status().checkpoint == 0


def test_b9_it_stays_below_a_ddl_that_is_recorded_and_not_finished() -> None:
    owner = running("t")
    ddl = Ddl(100, DdlKind.CREATE, ("new",))
    place = node_of(owner, TRIGGER)
    owner.says(node_of(owner, owner.only().id), working(owner.only(), 500))
    owner.says(place, working(owner.trigger, 99, barrier=100, ddl=ddl))
    owner.hold = True
    owner.says(place, working(owner.trigger, 100, barrier=100, ddl=ddl))
    owner.tick()
    assert owner.machine.status().checkpoint == 99


def test_b9_it_does_not_pass_the_start_of_a_new_table() -> None:
    owner = running("t")
    ddl = Ddl(100, DdlKind.CREATE, ("new",))
    place = node_of(owner, TRIGGER)
    owner.says(node_of(owner, owner.only().id), working(owner.only(), 500))
    owner.says(place, working(owner.trigger, 99, barrier=100, ddl=ddl))
    owner.says(place, working(owner.trigger, 100, barrier=100, ddl=ddl))
    owner.says(place, working(owner.trigger, 500))
    for _ in range(3):
        owner.tick()
    assert checkpoint(owner) == 100


def test_b9_a_split_does_not_take_it_back() -> None:
    owner = at(50)
    first = next(iter(owner.spans()))
    owner.handle(SplitSpan("r", FEED, first, (b"m",)))
    owner.tick()
    owner.settle()
    owner.tick()
    assert checkpoint(owner) == 50
    assert min(span.position for span in owner.machine.spans.all()) == 50


def test_it_is_not_written_again_when_it_stands_still() -> None:
    owner = at(50)
    serial = owner.store.scope("feed:" + FEED).serial
    owner.tick()
    owner.tick()
    assert owner.store.scope("feed:" + FEED).serial == serial


def test_the_birth_is_recorded_once_the_trigger_works() -> None:
    owner = Owner("t")
    owner.boot({A: ()})
    assert owner.progress() == ProgressRecord(0, born=False)
    owner.says(A, working(owner.trigger))
    owner.tick()
    assert owner.progress() == ProgressRecord(0, born=True)


def test_a_born_feed_stays_born_for_a_successor() -> None:
    former = running("t")
    owner = Owner(former=former, epoch=2)
    owner.load()
    assert owner.machine.progress.born


def test_a_feed_is_finished_when_everything_up_to_its_end_is_applied() -> None:
    owner = running(spec=FeedSpec(tables=("t",), until=40))
    assert not owner.machine.status().finished
    says_all(owner, 39)
    owner.tick()
    assert not owner.machine.status().finished
    says_all(owner, 40)
    owner.tick()
    assert owner.machine.status().finished
