"""The metastore behind faults: each answer means what the contract says that it means."""

import pytest

from lockgate.model.batch import (
    Batch,
    Joined,
    JoinFailed,
    Landed,
    LoadFailed,
    NotLanded,
    Raise,
    Refused,
    RenewFailed,
    Unknown,
)
from lockgate.model.events import LeaseEvent, StoreEvent
from lockgate.model.instructions import Commit, Join, Load, Renew
from lockgate.model.records import ProgressRecord
from lockgate.sim.metastore import SimMetastore
from lockgate.sim.world import World

SCOPE = "feed:feed0"
BATCH = Batch(SCOPE, 1, 1, puts=(ProgressRecord(7),))


class Desk:
    """A metastore and the answers that it gave."""

    def __init__(self) -> None:
        self.world = World(1)
        self.faults = self.world.faults
        self.faults.heal()
        self.metastore: SimMetastore = self.world.metastore
        self.answers: list[StoreEvent | LeaseEvent] = []
        store = self.metastore.store
        store.scope("coordinator").fence = 1
        store.commit(Batch("coordinator", 1, 1, raises=(Raise(SCOPE, 0, 1),)))

    def commit(self, batch: Batch = BATCH) -> StoreEvent | LeaseEvent:
        self.metastore.commit("n0", Commit(batch), self.answers.append)
        self.world.loop.run(self.world.loop.now + 100)
        return self.answers[-1]

    @property
    def durable(self) -> bool:
        return bool(self.metastore.store.records(SCOPE))

    def wait(self, ms: int) -> None:
        self.world.loop.run(self.world.loop.now + ms)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_without_faults_a_batch_lands(desk: Desk) -> None:
    assert desk.commit() == Landed(SCOPE, 1)
    assert desk.durable


def test_not_landed_never_lands(desk: Desk) -> None:
    desk.faults.not_landed = 1.0
    assert isinstance(desk.commit(), NotLanded)
    desk.wait(60_000)
    assert not desk.durable


def test_unknown_may_have_landed(desk: Desk) -> None:
    desk.faults.unknown_landed = 1.0
    assert isinstance(desk.commit(), Unknown)
    assert desk.durable


def test_unknown_may_be_lost(desk: Desk) -> None:
    desk.faults.unknown_lost = 1.0
    assert isinstance(desk.commit(), Unknown)
    desk.wait(60_000)
    assert not desk.durable


def test_unknown_may_land_when_nobody_expects_it(desk: Desk) -> None:
    desk.faults.unknown_later = 1.0
    assert isinstance(desk.commit(), Unknown)
    assert not desk.durable
    desk.wait(60_000)
    assert desk.durable


def test_a_late_batch_of_a_former_owner_changes_nothing(desk: Desk) -> None:
    desk.faults.unknown_later = 1.0
    desk.commit()
    desk.metastore.store.scope(SCOPE).fence = 2
    desk.wait(60_000)
    assert not desk.durable


def test_a_repeated_batch_is_written_once_and_answered_as_landed(desk: Desk) -> None:
    desk.commit()
    assert desk.commit() == Landed(SCOPE, 1)
    assert desk.metastore.store.scope(SCOPE).serial == 1


def test_a_stale_writer_is_refused(desk: Desk) -> None:
    assert desk.commit(Batch(SCOPE, 0, 1)) == Refused(SCOPE, 1, 1)


def test_an_outage_fails_everything(desk: Desk) -> None:
    desk.metastore.down = True
    assert isinstance(desk.commit(), NotLanded)
    desk.metastore.load("n0", Load(SCOPE), desk.answers.append)
    desk.wait(100)
    assert isinstance(desk.answers[-1], LoadFailed)
    desk.metastore.join("n0", Join("n0", 5), desk.answers.append)
    desk.wait(100)
    assert isinstance(desk.answers[-1], JoinFailed)


def test_a_node_that_is_cut_off_fails_alone(desk: Desk) -> None:
    joined = desk.metastore.store.join("n0", 0)
    desk.metastore.cut.add("n0")
    desk.metastore.renew("n0", Renew(joined.ref, 5), desk.answers.append)
    desk.wait(100)
    assert isinstance(desk.answers[-1], RenewFailed)
    desk.metastore.join("n1", Join("n1", 5), desk.answers.append)
    desk.wait(100)
    assert isinstance(desk.answers[-1], Joined)


def test_a_late_answer_still_comes(desk: Desk) -> None:
    desk.faults.late_answer = 1.0
    desk.metastore.commit("n0", Commit(BATCH), desk.answers.append)
    desk.wait(500)
    assert desk.durable
    assert not desk.answers
    desk.wait(60_000)
    assert desk.answers == [Landed(SCOPE, 1)]
