"""A PgBouncer holds the traffic during a flip, and has it at the other side afterwards."""

import stat
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.errors import EndpointBusy, LockgateError, ObjectMissing, StaleOwner
from lockgate.model.hook_config import PgBouncerConfig
from lockgate.model.moves import Side
from lockgate.model.secret import Secret
from lockgate.node.hooks.pgbouncer import PgBouncerHook
from lockgate.node.hooks.port import HookContext, HookEnd, HookUnfit
from tests.support.databases import fresh_database
from tests.support.pgbouncers import PASSWORD, Bouncer, bouncer, line_to
from tests.support.waiting import until

SOURCE = HookEnd(Side.SOURCE, "old")
TARGET = HookEnd(Side.TARGET, "new")


def ctx(attempt: int = 1, *, back: bool = False, left_s: float = 20.0) -> HookContext:
    ends = (TARGET, SOURCE) if back else (SOURCE, TARGET)
    return HookContext("shop", *ends, ("public.orders",), attempt, left_s, birth=7)


@pytest.fixture
def sides(pg18: EmbeddedPostgres) -> Iterator[tuple[str, str]]:
    """Two databases, each of which says which one it is."""
    with fresh_database(pg18) as source, fresh_database(pg18) as target:
        for url, name in ((source, "old"), (target, "new")):
            with psycopg.connect(url, autocommit=True) as session:
                session.execute(f"CREATE TABLE home AS SELECT '{name}' AS name")
        yield source, target


@pytest.fixture
def front(pg18: EmbeddedPostgres, sides: tuple[str, str]) -> Iterator[Bouncer]:
    with bouncer(pg18, sides[0]) as running:
        yield running


@pytest.fixture
def config(front: Bouncer, sides: tuple[str, str]) -> PgBouncerConfig:
    return PgBouncerConfig(
        admin=Secret(front.admin),
        ini=str(front.ini),
        database="shop",
        source=Secret(line_to(sides[0])),
        target=Secret(line_to(sides[1])),
    )


@pytest.fixture
def hook(config: PgBouncerConfig) -> PgBouncerHook:
    return PgBouncerHook("bouncer", config, 5.0)


def home(session: psycopg.Connection) -> str:
    row = session.execute("SELECT name FROM home").fetchone()
    assert row is not None
    return str(row[0])


def test_an_application_is_held_and_then_at_the_other_side_without_an_error(
    hook: PgBouncerHook, front: Bouncer
) -> None:
    with front.client() as session:
        assert home(session) == "old"
        hook.before(ctx())
        answers: list[str] = []
        waiting = threading.Thread(target=lambda: answers.append(home(session)))
        waiting.start()
        waiting.join(0.3)
        assert not answers, "it was let through"
        hook.after(ctx())
        waiting.join(10)
        assert answers == ["new"]


def test_it_comes_back_with_a_reverse(hook: PgBouncerHook, front: Bouncer) -> None:
    for attempt, back in [(1, False), (2, True)]:
        hook.before(ctx(attempt, back=back))
        hook.after(ctx(attempt, back=back))
    with front.client() as session:
        assert home(session) == "old"


def test_undone_the_traffic_goes_on_where_it_was(hook: PgBouncerHook, front: Bouncer) -> None:
    before = front.ini.read_bytes()
    hook.before(ctx())
    assert front.paused()
    hook.undo(ctx())
    with front.client() as session:
        assert home(session) == "old"
    assert front.ini.read_bytes() == before


def test_each_verb_may_be_asked_again(hook: PgBouncerHook, front: Bouncer) -> None:
    hook.undo(ctx())
    for _ in range(2):
        hook.before(ctx())
    for _ in range(2):
        hook.after(ctx())
    assert not front.paused()
    with front.client() as session:
        assert home(session) == "new"


def test_only_the_line_of_the_database_is_changed(
    hook: PgBouncerHook, front: Bouncer, config: PgBouncerConfig
) -> None:
    before, mode = front.ini.read_text(), front.ini.stat()
    hook.before(ctx())
    hook.after(ctx())
    after = front.ini.stat()
    assert front.ini.read_text() == before.replace(
        f"shop = {config.source.reveal()}", f"shop = {config.target.reveal()}"
    )
    assert (after.st_uid, stat.S_IMODE(after.st_mode)) == (
        mode.st_uid,
        stat.S_IMODE(mode.st_mode),
    )


def test_a_transaction_that_does_not_end_is_not_waited_for_beyond_the_time(
    config: PgBouncerConfig, front: Bouncer
) -> None:
    hook = PgBouncerHook("bouncer", config, 0.5)
    with front.client() as session, session.transaction():
        assert home(session) == "old"
        began = time.monotonic()
        with pytest.raises(EndpointBusy) as failed:
            hook.before(ctx())
        assert time.monotonic() - began < 5
    assert "timeout_s" in failed.value.hint
    until(lambda: not front.paused())


def test_the_time_that_is_left_counts_too(hook: PgBouncerHook, front: Bouncer) -> None:
    with front.client() as session, session.transaction():
        home(session)
        with pytest.raises(EndpointBusy):
            hook.before(ctx(left_s=0.3))


def test_a_keeper_from_before_changes_nothing(hook: PgBouncerHook, front: Bouncer) -> None:
    hook.before(ctx(2))
    hook.after(ctx(2))
    for verb in (hook.before, hook.after):
        with pytest.raises(StaleOwner):
            verb(ctx(1, back=True))
    assert not front.paused()
    with front.client() as session:
        assert home(session) == "new"


def test_a_check_changes_nothing_and_says_what_would_be_done(
    hook: PgBouncerHook, front: Bouncer
) -> None:
    before = front.ini.read_bytes()
    assert hook.check(ctx()) == "hook bouncer: would hold shop and point it to new (target)"
    assert (front.ini.read_bytes(), front.paused()) == (before, False)


def changed(config: PgBouncerConfig, **changes: object) -> PgBouncerConfig:
    import msgspec

    return msgspec.structs.replace(config, **changes)


def test_a_file_that_it_does_not_read_does_not_let_traffic_back_to_the_old_side(
    config: PgBouncerConfig, front: Bouncer
) -> None:
    other = front.ini.with_name("other.ini")
    other.write_bytes(front.ini.read_bytes())
    hook = PgBouncerHook("bouncer", changed(config, ini=str(other)), 5.0)
    hook.before(ctx())
    with pytest.raises(HookUnfit, match="after a reload"):
        hook.after(ctx())
    assert front.paused()


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"database": "nobody"}, ObjectMissing),
        ({"ini": "/nowhere/databases.ini"}, HookUnfit),
        ({"admin": Secret("postgres://admin:wrong@127.0.0.1:{}/pgbouncer")}, LockgateError),
    ],
    ids=["database", "file", "password"],
)
def test_what_cannot_work_is_said_by_the_check(
    changes: dict[str, object],
    kind: type[LockgateError],
    config: PgBouncerConfig,
    front: Bouncer,
) -> None:
    if "admin" in changes:
        changes = {"admin": Secret(front.admin.replace(PASSWORD, "wrong"))}
    with pytest.raises(kind) as refused:
        PgBouncerHook("bouncer", changed(config, **changes), 5.0).check(ctx())
    assert refused.value.hint
    assert PASSWORD not in str(refused.value) + refused.value.hint
