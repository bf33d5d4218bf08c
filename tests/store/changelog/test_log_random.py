"""Random owners at random moments, against a log of a few lines in memory."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lockgate.model.errors import StaleOwner, Terminal
from lockgate.model.ids import NO_TOKEN, SEQ_MAX, Token
from lockgate.store.changelog.log import Changelog
from lockgate.store.changelog.rows import LogState, SchemaChange, Segment
from lockgate.store.metastore import SqlMetastore
from tests.support.logs import FEED, change, segment, unstamped
from tests.support.stores import LEASE_MS, sqlite_url

TOKENS = [Token(epoch, seq, 1) for epoch in (1, 2, 3) for seq in (1, 2)]
tokens = st.sampled_from(TOKENS)
steps = st.integers(0, 3)


class Model:
    """What a log is: the law, without a database."""

    def __init__(self) -> None:
        self.token = NO_TOKEN
        self.forgotten = False
        self.exists = False
        self.floor = self.resolved = self.next_seq = 0
        self.segments: list[Segment] = []
        self.changes: list[SchemaChange] = []

    def may_claim(self, token: Token) -> bool:
        return token.epoch > self.token.epoch if self.forgotten else token >= self.token

    def clear(self) -> None:
        self.segments, self.changes = [], []


class AgainstModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.home = tempfile.TemporaryDirectory(prefix="lockgate-test-")
        self.store = SqlMetastore.open(sqlite_url(Path(self.home.name)), lease_ms=LEASE_MS)
        with self.store._backend.engine.connect() as connection:
            # Nobody pulls the plug here, and a thousand flushes take their time.
            connection.connection.driver_connection.execute("PRAGMA synchronous = OFF")
        self.log = Changelog(self.store.transactions)
        self.model = Model()
        self.held: dict[Token, list[LogState]] = {}
        """Where each owner knew the log to be, after its claims and appends, latest first."""

    def teardown(self) -> None:
        self.store.close()
        self.home.cleanup()

    def refused(self, verb: str, *arguments: object) -> bool:
        try:
            getattr(self.log, verb)(*arguments)
        except StaleOwner:
            return True
        return False

    @rule(token=tokens, start=st.integers(0, 20))
    def claim(self, token: Token, start: int) -> None:
        model = self.model
        if not model.may_claim(token):
            assert self.refused("claim", FEED, token, start)
            return
        if not model.exists or model.forgotten:
            model.floor = model.resolved = start
        model.exists, model.forgotten, model.token = True, False, token
        state = self.log.claim(FEED, token, start)
        assert state == LogState(model.resolved, model.next_seq)
        self.held.setdefault(token, []).insert(0, state)

    @rule(
        token=tokens,
        behind=st.sampled_from([0, 0, 0, 1, 2]),
        gap=steps,
        widths=st.lists(steps, max_size=3),
        changes=st.booleans(),
        more=steps,
    )
    def append(
        self, token: Token, behind: int, gap: int, widths: list[int], changes: bool, more: int
    ) -> None:
        """An owner goes on from where it believes the log to be, rightly or not."""
        model = self.model
        state = [*self.held.get(token, [])[behind : behind + 1], LogState(0, 0)][0]
        at, number, added = state.resolved + gap, state.next_seq, []
        for width in widths:
            added.append(segment(number, at + 1, at + 1 + width))
            at, number = at + 1 + width, number + 2
        said = [change(at + 1)] if changes else []
        resolved = at + len(said) + more
        call = (FEED, token, added, said, resolved, number)
        fits = (
            model.exists
            and not model.forgotten
            and token == model.token
            and resolved >= model.resolved
            and number >= model.next_seq
            and all(s.low > model.resolved and s.id >= model.next_seq for s in added)
            and all(c.position > model.resolved for c in said)
        )
        if not fits:
            assert self.refused("append", *call)
            return
        self.log.append(*call)
        model.segments += added
        model.changes += said
        model.resolved, model.next_seq = resolved, number
        self.held[token].insert(0, LogState(resolved, number))

    @rule(token=tokens, below=st.integers(0, 40))
    def trim(self, token: Token, below: int) -> None:
        model = self.model
        if not model.exists or model.forgotten or token != model.token:
            assert self.refused("trim", FEED, token, below)
            return
        gone = unstamped(self.log.trim(FEED, token, below))
        expected = [one for one in model.segments if one.high < below]
        assert sorted(gone, key=lambda one: one.id) == expected
        if gone:
            model.floor = max(model.floor, *(one.high for one in gone))
        model.segments = [one for one in model.segments if one not in expected]
        model.changes = [one for one in model.changes if one.position > model.floor]

    @rule(token=st.sampled_from([*TOKENS, None]))
    def forget(self, token: Token | None) -> None:
        model = self.model
        token = token or model.token
        if model.forgotten and token.epoch == model.token.epoch:
            assert not self.refused("forget", FEED, token)
            return
        if token < model.token:
            assert self.refused("forget", FEED, token)
            return
        self.log.forget(FEED, token)
        model.exists = model.forgotten = True
        model.token = Token(token.epoch, SEQ_MAX, 0)
        model.clear()

    @rule(after=st.integers(0, 40), upto=st.none() | st.integers(0, 40))
    def read(self, after: int, upto: int | None) -> None:
        model = self.model
        if not model.exists or model.forgotten:
            assert self.log.read(FEED, after, upto).segments == ()
            return
        if after < model.floor:
            with pytest.raises(Terminal, match="does not go back"):
                self.log.read(FEED, after, upto)
            return
        view = self.log.read(FEED, after, upto)
        end = model.resolved if upto is None else min(upto, model.resolved)
        assert (view.resolved, view.upto) == (model.resolved, end)
        assert unstamped(view.segments) == [
            one for one in model.segments if one.high > after and one.low <= end
        ]
        assert list(view.changes) == [c for c in model.changes if after < c.position <= end]

    @invariant()
    def the_whole_log_is_the_models(self) -> None:
        if self.model.exists and not self.model.forgotten:
            self.read(self.model.floor, None)


TestAgainstModel = AgainstModel.TestCase
TestAgainstModel.settings = settings(
    max_examples=50,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
