"""Random histories, cut into batches and parts at random: the target has the model's rows, always.

The server is real. Hypothesis draws the same examples in every run.
"""

import random
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockgate.endpoints.postgres.sink.apply import Way
from lockgate.model.spans import WHOLE
from lockgate.model.tables import Identity, TableShape
from tests.endpoints.postgres.sink.place import DDL, TOKEN, Place, Places
from tests.support.histories import History, shape_of, wander

COLUMNS = ("id bigint", "name text", "big text", "u integer")

exactly = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
randoms = st.randoms(use_true_random=False)


def anew(places: Places, name: str, ddl: str, shape: TableShape) -> Place:
    """The test's place of that name as if nothing had happened there."""
    known: dict[str, Place] = places.__dict__
    if name in known:
        known[name].again()
    else:
        known[name] = places(ddl, shape)
    return known[name]


def cuts(rng: random.Random, history: History) -> list[tuple[int, int]]:
    last = history.position - 1
    return list(pairwise(sorted({0, last, *(rng.randrange(last + 1) for _ in range(3))})))


def wandered(rng: random.Random, shape: TableShape) -> History:
    history = History(shape)
    wander(rng, history, rng.randrange(3, 12))
    return history


def run(place: Place, history: History, to: int, parts: int) -> None:
    """Apply up to `to` in parts if that can be, else as one."""
    if parts > 1:
        floors = place.floors["s0"]
        place.sink.record_batch(place.feed, "s0", TOKEN, floors, to, parts)
        receipts = [place.try_(history, to, part=n, parts=parts) for n in range(parts)]
        codes = {receipt.error.code for receipt in receipts if receipt.error}
        assert codes <= {"needs-one-part"}, receipts
        if not codes:
            place.sink.finish_batch(place.feed, "s0", TOKEN)
            place.floors["s0"] = place.claim()
            return
        # Parts that have landed become floors of their own when the span is claimed again.
        place.floors["s0"] = place.claim()
    place.apply(history, to)


@pytest.mark.usefixtures("rows_max")
@pytest.mark.parametrize("identity", list(Identity)[:2])
@exactly
@given(rng=randoms)
def test_set_wise_in_batches_and_parts(
    applied: str, identity: Identity, rng: random.Random
) -> None:
    shape = shape_of(*COLUMNS, identity=identity)
    history = wandered(rng, shape)
    place = Place(applied, DDL, shape)
    try:
        for _, to in cuts(rng, history):
            run(place, history, to, rng.choice([1, 1, 2, 3]))
            assert place.holds(history, to), (to, place.counted())
    finally:
        place.close()


@exactly
@given(rng=randoms)
def test_one_by_one_agrees_with_set_wise(places: Places, rng: random.Random) -> None:
    history = wandered(rng, shape_of(*COLUMNS))
    ways = {way: anew(places, way.name, DDL, history.shape) for way in (Way.ORDERED, Way.REWRITING)}
    for _, to in cuts(rng, history):
        for way, place in ways.items():
            place.apply(history, to, way=way)
            assert place.holds(history, to), way


@pytest.mark.usefixtures("rows_max")
@exactly
@given(rng=randoms)
def test_spans_that_are_at_different_positions(applied: str, rng: random.Random) -> None:
    """Two spans, each with its own cuts. What one cannot do alone it says, and does nothing."""
    ranges = WHOLE.divided((bytes([rng.randrange(1, 256)]),))
    history = wandered(rng, shape_of(*COLUMNS[:3]))
    last = history.position - 1
    place = Place(applied, DDL.replace(", u int UNIQUE", ""), history.shape, ranges=ranges)
    try:
        for name in place.spans:
            for _, to in cuts(rng, history):
                receipt = place.try_(history, to, name)
                if receipt.error is not None:
                    assert receipt.error.code == "value-elsewhere"
                    return
                place.floors[name] = place.claim(name)
        assert place.holds(history, last)
    finally:
        place.close()


@exactly
@given(rng=randoms)
def test_tables_without_a_key(places: Places, rng: random.Random) -> None:
    shape = shape_of("id bigint", "name text", "big text", key=(), identity=Identity.FULL)
    history = History(shape)
    for _ in range(rng.randrange(2, 8)):
        for _ in range(rng.randrange(1, 6)):
            row = {"id": rng.randrange(2), "name": rng.choice(["a", None, ""]), "big": "x"}
            verb = rng.choice("iiiuud" + "t" * (rng.random() < 0.1))
            if verb == "i":
                history.insert(**row)
            elif verb == "t":
                history.truncate()
            elif history.rows and verb == "u":
                del row["big"]
                history.update_row(rng.choice(history.rows), ["big"], **row)
            elif history.rows:
                history.delete_row(rng.choice(history.rows))
        history.commit()
    place = anew(places, "bare", "CREATE TABLE t (id bigint, name text, big text)", shape)
    for _, to in cuts(rng, history):
        assert place.apply(history, to).missing == 0
        assert place.holds(history, to)
