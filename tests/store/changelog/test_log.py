"""What a change log promises: one owner at a time, all or nothing, in order, and no holes."""

import itertools
import threading
from collections.abc import Iterator

import pytest

from lockgate.model.errors import StaleOwner, Terminal
from lockgate.model.ids import SEQ_MAX, Token
from lockgate.store.changelog.log import Changelog
from lockgate.store.changelog.rows import LogState, LogView, Retention, SchemaChange
from lockgate.store.changelog.steps import ROWS_AT_ONCE
from tests.support.logs import FEED, NEW, OLD, OWN, change, log_at, segment, unstamped
from tests.support.stores import Place, StoreClock


@pytest.fixture
def clock() -> StoreClock:
    return StoreClock()


@pytest.fixture
def log(sql: Place, clock: StoreClock) -> Iterator[Changelog]:
    with log_at(sql.url, clock) as log:
        yield log


# --- claiming -----------------------------------------------------------------------------------


def test_a_log_nobody_claimed_holds_nothing(log: Changelog) -> None:
    assert log.read(FEED, 0) == LogView(0, 0)
    assert log.read(FEED, 99) == LogView(0, 0)
    assert log.naming(FEED, [1]) is None


def test_a_new_log_begins_where_it_is_told_to_and_an_old_one_where_it_was(log: Changelog) -> None:
    assert log.claim(FEED, OWN, 70) == LogState(70, 0)
    log.append(FEED, OWN, [segment(0, 71)], [], 80, 3)
    assert log.claim(FEED, OWN, 5) == LogState(80, 3)
    assert log.claim(FEED, NEW, 500) == LogState(80, 3)


def test_a_claim_shuts_out_every_lower_token(log: Changelog) -> None:
    log.claim(FEED, OLD, 0)
    log.claim(FEED, OWN, 0)
    with pytest.raises(StaleOwner) as caught:
        log.claim(FEED, OLD, 0)
    assert str(OWN) in str(caught.value)
    for late in (
        lambda: log.append(FEED, OLD, [segment(0, 1)], [change(1)], 1, 1),
        lambda: log.trim(FEED, OLD, 1),
        lambda: log.forget(FEED, OLD),
    ):
        with pytest.raises(StaleOwner):
            late()
    assert log.read(FEED, 0) == LogView(0, 0)
    assert log.claim(FEED, OWN, 0) == LogState(0, 0)


@pytest.mark.parametrize("token", [OLD, NEW])
def test_nobody_appends_or_trims_without_having_claimed(log: Changelog, token: Token) -> None:
    log.claim(FEED, OWN, 0)
    log.append(FEED, OWN, [segment(0, 1)], [], 5, 1)
    with pytest.raises(StaleOwner):
        log.append(FEED, token, [segment(1, 6)], [], 6, 2)
    with pytest.raises(StaleOwner):
        log.trim(FEED, token, 5)
    with pytest.raises(StaleOwner):
        log.append("never claimed", token, [], [], 6, 0)
    assert log.read("never claimed", 0) == LogView(0, 0)
    assert log.read(FEED, 0).resolved == 5


def test_logs_of_two_feeds_do_not_meet(log: Changelog) -> None:
    log.claim("a", OWN, 0)
    log.claim("b", OLD, 0)
    log.append("a", OWN, [segment(0, 1)], [change(2)], 5, 1)
    log.append("b", OLD, [segment(0, 9)], [change(10)], 10, 1)
    log.forget("a", OWN)
    assert log.read("a", 0) == LogView(0, 0)
    seen = log.read("b", 0)
    assert (unstamped(seen.segments), seen.changes) == ([segment(0, 9)], (change(10),))


@pytest.mark.parametrize("name", ["'; DROP TABLE segments; --", '"', "%s :of ? $1", "é🦆漢", ""])
def test_a_name_is_only_a_name(log: Changelog, name: str) -> None:
    log.claim(name, OWN, 0)
    one = segment(0, 1, table=name)
    log.append(name, OWN, [one], [SchemaChange(1, name)], 1, 1)
    seen = log.read(name, 0)
    assert (unstamped(seen.segments), seen.changes) == ([one], (SchemaChange(1, name),))


# --- appending and reading ----------------------------------------------------------------------


def test_what_was_appended_is_read_in_order_and_stamped(log: Changelog, clock: StoreClock) -> None:
    log.claim(FEED, OWN, 0)
    log.append(FEED, OWN, [segment(3, 2, 6), segment(0, 1)], [change(5), change(4)], 9, 4)
    seen = log.read(FEED, 0)
    assert unstamped(seen.segments) == [segment(0, 1), segment(3, 2, 6)]
    assert {one.written_at for one in seen.segments} == {clock.now}
    assert (seen.changes, seen.resolved, seen.upto) == ((change(4), change(5)), 9, 9)


def test_an_append_of_nothing_only_moves_the_end(log: Changelog) -> None:
    log.claim(FEED, OWN, 0)
    log.append(FEED, OWN, [], [], 50, 0)
    log.append(FEED, OWN, [], [], 50, 0)
    assert log.read(FEED, 0) == LogView(50, 50)


@pytest.mark.parametrize(
    ("after", "upto", "ids", "changes", "end"),
    [
        (0, None, [0, 2, 5], [12, 33], 40),
        (0, 100, [0, 2, 5], [12, 33], 40),
        (9, None, [0, 2, 5], [12, 33], 40),
        (10, None, [2, 5], [12, 33], 40),
        (19, None, [2, 5], [33], 40),
        (20, None, [5], [33], 40),
        (40, None, [], [], 40),
        (0, 10, [0], [], 10),
        (0, 11, [0, 2], [], 11),
        (0, 12, [0, 2], [12], 12),
        (12, 30, [2, 5], [], 30),
        (20, 29, [], [], 29),
    ],
)
def test_a_view_holds_what_lies_after_and_up_to(
    log: Changelog, after: int, upto: int | None, ids: list[int], changes: list[int], end: int
) -> None:
    log.claim(FEED, OWN, 0)
    all_ = [segment(0, 1, 10), segment(2, 11, 20), segment(5, 30, 33)]
    log.append(FEED, OWN, all_, [change(12), change(33)], 40, 9)
    seen = log.read(FEED, after, upto)
    assert [one.id for one in seen.segments] == ids
    assert [one.position for one in seen.changes] == changes
    assert (seen.resolved, seen.upto) == (40, end)


@pytest.mark.parametrize("rows_max", [1, 20])
def test_a_view_of_bounded_rows_ends_where_a_segment_does_and_misses_nothing(
    log: Changelog, rows_max: int
) -> None:
    log.claim(FEED, OWN, 0)
    tables = [segment(n, 10 * n + 1, 10 * n + 15, table=f"t{n % 2}") for n in range(10)]
    log.append(FEED, OWN, tables, [change(60)], 200, 10)
    after, seen = 0, []
    while (view := log.read(FEED, after, rows_max=rows_max)).upto > after:
        assert view.upto in {*(one.high for one in tables), 200}
        assert {one.id for one in view.segments} == {
            one.id for one in tables if one.low <= view.upto and one.high > after
        }
        seen += [one.position for one in view.changes]
        after = view.upto
    assert (after, seen) == (200, [60])
    assert log.read(FEED, 0, 3, rows_max=1).upto == 3
    assert log.read(FEED, 0, rows_max=1).upto == 15
    assert log.read(FEED, 0, rows_max=10_000).upto == 200


def test_many_rows_land_and_are_read_whole(log: Changelog) -> None:
    many = 2 * ROWS_AT_ONCE + 7
    log.claim(FEED, OWN, 0)
    rows = [segment(n, n + 1) for n in range(many)]
    changes = [change(n + 1) for n in range(many)]
    log.append(FEED, OWN, rows, changes, many, many)
    seen = log.read(FEED, 0)
    assert unstamped(seen.segments) == rows
    assert list(seen.changes) == changes
    naming = log.naming(FEED, [*range(many), many + 1])
    assert naming is not None
    assert naming.paths == {one.id: one.path for one in rows}
    assert (naming.token, naming.next_seq) == (OWN, many)


@pytest.mark.parametrize(
    ("added", "changes", "resolved", "next_seq"),
    [
        ([segment(1, 6)], [], 5, 9),
        ([segment(9, 4)], [], 5, 9),
        ([segment(1, 4, 2)], [], 5, 9),
        ([], [change(6)], 5, 9),
    ],
)
def test_what_no_capture_can_mean_is_an_error(
    log: Changelog, added: list, changes: list, resolved: int, next_seq: int
) -> None:
    log.claim(FEED, OWN, 0)
    with pytest.raises(ValueError, match=r"resolved|beyond"):
        log.append(FEED, OWN, added, changes, resolved, next_seq)
    assert log.read(FEED, 0) == LogView(0, 0)


@pytest.mark.parametrize(
    ("added", "changes", "resolved", "next_seq"),
    [
        ([segment(4, 21)], [], 25, 6),  # its numbers are taken
        ([segment(5, 20)], [], 25, 6),  # its positions are resolved
        ([], [change(20)], 25, 6),
        ([], [], 19, 6),
        ([], [], 25, 4),
    ],
)
def test_what_does_not_continue_the_log_is_stale_even_under_its_token(
    log: Changelog, added: list, changes: list, resolved: int, next_seq: int
) -> None:
    log.claim(FEED, OWN, 0)
    log.append(FEED, OWN, [segment(0, 1)], [], 20, 5)
    with pytest.raises(StaleOwner):
        log.append(FEED, OWN, added, changes, resolved, next_seq)
    assert log.claim(FEED, OWN, 0) == LogState(20, 5)
    assert len(log.read(FEED, 0).segments) == 1


# --- trimming -----------------------------------------------------------------------------------


def trimmed(log: Changelog, below: int, keep: Retention | None = None) -> list[int]:
    """All that goes, in the order in which it goes."""
    gone: list[int] = []
    while part := log.trim(FEED, OWN, below, keep):
        gone += [one.id for one in part]
    return gone


def test_a_trim_takes_what_lies_below_and_the_log_says_so(log: Changelog) -> None:
    log.claim(FEED, OWN, 0)
    log.append(
        FEED,
        OWN,
        [segment(0, 1, 10), segment(1, 4), segment(2, 8, 12)],
        [change(5), change(10), change(11)],
        20,
        3,
    )
    assert trimmed(log, 10) == [1]
    assert trimmed(log, 11) == [0]
    with pytest.raises(Terminal, match="does not go back"):
        log.read(FEED, 9)
    seen = log.read(FEED, 10)
    assert ([one.id for one in seen.segments], seen.changes) == ([2], (change(11),))
    assert log.claim(FEED, OWN, 0) == LogState(20, 3)


def test_a_new_log_does_not_go_back_before_its_start(log: Changelog) -> None:
    log.claim(FEED, OWN, 30)
    with pytest.raises(Terminal, match="does not go back"):
        log.read(FEED, 29)
    assert log.read(FEED, 30) == LogView(30, 30)


def test_a_long_log_is_trimmed_in_bounded_steps(log: Changelog) -> None:
    many = ROWS_AT_ONCE + 10
    log.claim(FEED, OWN, 0)
    log.append(FEED, OWN, [segment(n, n + 1) for n in range(many)], [], many, many)
    assert len(log.trim(FEED, OWN, many)) == ROWS_AT_ONCE
    assert trimmed(log, many) == list(range(ROWS_AT_ONCE, many - 1))
    assert [one.id for one in log.read(FEED, many - 1).segments] == [many - 1]


def test_retention_keeps_by_age(log: Changelog, clock: StoreClock) -> None:
    log.claim(FEED, OWN, 0)
    for n in range(5):
        log.append(FEED, OWN, [segment(n, n + 1)], [], n + 1, n + 1)
        clock.advance(1_000)
    assert trimmed(log, 5, Retention(age_ms=2_500)) == [0, 1, 2]
    assert trimmed(log, 5, Retention(age_ms=2_500)) == []
    clock.advance(60_000)
    assert trimmed(log, 5, Retention(age_ms=2_500)) == [3], "what is needed stays"


def test_retention_keeps_by_bytes_and_without_limit_keeps_all(log: Changelog) -> None:
    log.claim(FEED, OWN, 0)
    log.append(FEED, OWN, [segment(n, n + 1, size=100) for n in range(5)], [], 5, 5)
    assert trimmed(log, 9, Retention()) == []
    assert trimmed(log, 9, Retention(bytes=250)) == [0, 1, 2]
    assert trimmed(log, 9, Retention(bytes=0, age_ms=10**9)) == [3, 4]


def test_what_is_kept_has_no_holes(log: Changelog, clock: StoreClock) -> None:
    log.claim(FEED, OWN, 0)
    log.append(FEED, OWN, [segment(0, 1)], [], 1, 1)
    clock.advance(-5_000)  # the store's clock was put back
    log.append(FEED, OWN, [segment(1, 2)], [], 2, 2)
    clock.advance(7_000)
    assert trimmed(log, 9, Retention(age_ms=3_000)) == []
    clock.advance(2_000)
    assert trimmed(log, 9, Retention(age_ms=3_000)) == [0, 1]


# --- forgetting ---------------------------------------------------------------------------------


def test_a_forgotten_log_is_empty_and_only_a_later_epoch_opens_it(log: Changelog) -> None:
    many = ROWS_AT_ONCE + 10
    log.claim(FEED, OWN, 0)
    rows = [segment(n, n + 1) for n in range(many)]
    log.append(FEED, OWN, rows, [change(n + 1) for n in range(many)], many, many)
    log.forget(FEED, OWN)
    log.forget(FEED, OWN)
    log.forget(FEED, NEW)
    assert log.read(FEED, 0) == LogView(0, 0)
    for token in (OLD, OWN, NEW, Token(OWN.epoch, SEQ_MAX - 1, 9)):
        with pytest.raises(StaleOwner):
            log.claim(FEED, token, 0)
        with pytest.raises(StaleOwner):
            log.append(FEED, token, [], [], many, many)
    with pytest.raises(StaleOwner):
        log.forget(FEED, OLD)
    later = Token(OWN.epoch + 1, 1, 1)
    assert log.claim(FEED, later, 700) == LogState(700, many)
    assert log.read(FEED, 700) == LogView(700, 700)


def test_what_a_killed_forgetter_left_is_gone_before_the_log_opens_again(
    log: Changelog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.claim(FEED, OWN, 0)
    log.append(FEED, OWN, [segment(n, n + 1) for n in range(9)], [change(4)], 10, 9)
    with monkeypatch.context() as patch:
        patch.setattr(log, "_clear", lambda feed: None)
        log.forget(FEED, OWN)
    assert log.read(FEED, 0) == LogView(0, 0)
    naming = log.naming(FEED, [1, 2])
    assert naming is not None
    assert naming.paths == {}
    later = Token(3, 1, 1)
    assert log.claim(FEED, later, 2) == LogState(2, 9)
    log.append(FEED, later, [], [], 50, 9)
    assert log.read(FEED, 2) == LogView(50, 50)


def test_a_feed_that_never_had_a_log_can_be_forgotten_too(log: Changelog) -> None:
    log.forget(FEED, OWN)
    with pytest.raises(StaleOwner):
        log.claim(FEED, OLD, 0)


# --- several at once ----------------------------------------------------------------------------


def test_captures_that_fight_leave_one_log_in_order(sql: Place) -> None:
    """Each claims a higher token and appends until it is shut out; nothing of it is lost."""
    landed: list[list[int]] = [[], [], []]
    errors: list[BaseException] = []
    gate = threading.Barrier(3)

    def work(who: int) -> None:
        with log_at(sql.url, timeout_ms=30_000) as log:
            gate.wait(30)
            for life in range(1, 8):
                token = Token(life, who + 1, 1)
                try:
                    state = log.claim(FEED, token, 0)
                    for _ in range(5):
                        at = state.resolved + 1
                        log.append(FEED, token, [segment(state.next_seq, at)], [change(at)], at, at)
                        landed[who].append(at)
                        state = LogState(at, at)
                except StaleOwner:
                    continue

    def run(who: int) -> None:
        try:
            work(who)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(who,)) for who in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not errors, errors
    with log_at(sql.url) as log:
        seen = log.read(FEED, 0)
    assert [one.low for one in seen.segments] == sorted(itertools.chain(*landed))
    assert [one.low for one in seen.segments] == list(range(1, seen.resolved + 1))
    assert len(seen.changes) == len(seen.segments)
