"""The coordinator, elected by the metastore for one term.

                 Loaded                       Refused by a newer term, dismissed
    LOADING ──────────────► ACTIVE ──────────────────────────────► DEPOSED
       ▲  │ asked again        │
       └──┘                    │ Refused in its own term: an epoch is not where the records say
       └───────────────────────┘

All it knows is in the records of its scope, fenced by its term; all it hears are reports,
which every node repeats. So a new coordinator needs no handover: it loads and listens.

It acts on time only: each tick it looks at every feed and does what the records and the last
reports call for. Events change what is recorded and known, never directly who owns what;
there is one path for "the owner died", "the owner is stale", "resumed" and "created", and it
is the one that is walked every day.

DEPOSED is final. A term is used once: a second coordinator of the same term would number its
batches anew while one of the first may still be on its way to the metastore.

People get their answer when the record has landed, also when nothing had to be changed: an
empty batch proves that this coordinator was still the coordinator when it said "done".
"""

import enum
from dataclasses import dataclass

from lockgate.core.coordinator.book import FeedBook
from lockgate.core.coordinator.care import Care
from lockgate.core.coordinator.drain import Drains
from lockgate.core.coordinator.feeds import (
    Become,
    Occasion,
    Refuse,
    lived_on,
    newborn,
    vacated,
    verdict,
)
from lockgate.core.coordinator.ownership import Ownership
from lockgate.core.coordinator.roster import Roster
from lockgate.core.coordinator.verbs import (
    FEED_OCCASION,
    drain_obstacle,
    move_obstacle,
    verdict_on_create,
    verdict_on_verb,
)
from lockgate.core.coordinator.verdicts import Judge, News
from lockgate.core.machine import Machine, do, ignore, table
from lockgate.core.writer import Writer
from lockgate.model.batch import Landed, Loaded, LoadFailed, NotLanded, Refused, Unknown
from lockgate.model.config import CoreConfig
from lockgate.model.events import (
    CreateFeed,
    DrainNode,
    FeedVerb,
    MembersSeen,
    MoveMaintainer,
    PauseFeed,
    RemoveFeed,
    ResumeFeed,
    Tick,
)
from lockgate.model.feeds import Goal, Outcome
from lockgate.model.ids import FeedId, Millis, NodeRef, Term
from lockgate.model.instructions import Answer, Load
from lockgate.model.messages import NodeReport
from lockgate.model.records import COORDINATOR, DrainRecord, FeedRecord, Record
from lockgate.model.statuses import MaintainerStatus


class CoordinatorState(enum.Enum):
    """See the module's diagram."""

    LOADING = "loading"
    ACTIVE = "active"
    DEPOSED = "deposed"


@dataclass(frozen=True)
class Dismissed:
    """From the node to its coordinator: the metastore names another one, or this life is over."""


class Coordinator(Machine):
    """One term of coordination, on one life of a node."""

    EVENTS = (
        Tick,
        MembersSeen,
        NodeReport,
        Loaded,
        LoadFailed,
        Landed,
        Refused,
        NotLanded,
        Unknown,
        CreateFeed,
        PauseFeed,
        ResumeFeed,
        RemoveFeed,
        MoveMaintainer,
        DrainNode,
        Dismissed,
    )

    _VERBS = (CreateFeed, PauseFeed, ResumeFeed, RemoveFeed, MoveMaintainer, DrainNode)
    _NO_COMMIT = "no commit of this term is under way before it has loaded"

    TABLE = table(
        CoordinatorState,
        EVENTS,
        {
            CoordinatorState.LOADING: {
                Tick: do("_ask_to_load_if_due"),
                MembersSeen: do("_see"),
                NodeReport: do("_note_report"),
                Loaded: do("_on_loaded"),
                LoadFailed: do("_on_load_failed"),
                Landed: ignore(_NO_COMMIT),
                Refused: ignore(_NO_COMMIT),
                NotLanded: ignore(_NO_COMMIT),
                Unknown: ignore(_NO_COMMIT),
                **{verb: do("_answer_not_yet") for verb in _VERBS},
                Dismissed: do("_depose"),
            },
            CoordinatorState.ACTIVE: {
                Tick: do("_on_tick"),
                MembersSeen: do("_on_members"),
                NodeReport: do("_on_report"),
                Loaded: ignore("the answer to a repeated question"),
                LoadFailed: ignore("the answer to a repeated question"),
                Landed: do("_on_answer"),
                NotLanded: do("_on_answer"),
                Unknown: do("_on_answer"),
                Refused: do("_on_refused"),
                CreateFeed: do("_on_create"),
                PauseFeed: do("_on_feed_verb"),
                ResumeFeed: do("_on_feed_verb"),
                RemoveFeed: do("_on_feed_verb"),
                MoveMaintainer: do("_on_move_maintainer"),
                DrainNode: do("_on_drain_node"),
                Dismissed: do("_depose"),
            },
            CoordinatorState.DEPOSED: {
                **{event: ignore("another coordinator sees to it") for event in EVENTS},
                **{verb: do("_answer_deposed") for verb in _VERBS},
            },
        },
    )

    def __init__(self, config: CoreConfig, me: NodeRef, term: Term) -> None:
        super().__init__(f"coordinator {me} term {term}", CoordinatorState.LOADING)
        self.me = me
        self.term = term
        self.roster = Roster(term, config.timing.silence_ms)
        self._config = config
        self._load_again_at: Millis | None = None
        self._asked: dict[str, None] = {}
        """Requests of people that wait for a record to land."""
        self._open(serial=0, records=())

    def _open(self, serial: int, records: tuple[Record, ...]) -> None:
        """Build all that is known from the records."""
        timing, policy = self._config.timing, self._config.policy
        self._writer = Writer(
            COORDINATOR,
            self.term,
            serial,
            records_max=policy.batch_records_max,
            retry_ms=timing.resend_ms,
        )
        self.book = FeedBook(self._writer, (r for r in records if isinstance(r, FeedRecord)))
        self.drains = Drains(
            self._writer,
            self.roster,
            timing.lease_ms,
            (r for r in records if isinstance(r, DrainRecord)),
        )
        self.ownership = Ownership(self.term, timing, self.book, self.roster, self.emit)
        self.judge = Judge(policy.attempts_max, timing.backoff_ms_max)
        self.care = Care(self._config, self.book, self.roster, self.drains, self.ownership)

    def settle(self) -> None:
        """Ask for the commit of whatever was decided."""
        if self.state is CoordinatorState.ACTIVE:
            commit = self._writer.flush(self.now)
            if commit is not None:
                self.emit(commit)

    # --- loading ----------------------------------------------------------------------------

    def _ask_to_load_if_due(self, _: Tick) -> None:
        if self._load_again_at is None or self.now >= self._load_again_at:
            self._load_again_at = self.now + self._config.timing.lease_ms
            self.emit(Load(COORDINATOR))

    def _on_load_failed(self, _: LoadFailed) -> None:
        self._load_again_at = self.now + self._config.timing.resend_ms

    def _on_loaded(self, loaded: Loaded) -> None:
        """Only a reading under this very term is the truth that this term goes on from."""
        if loaded.fence > self.term:
            self._depose(Dismissed())
        elif loaded.fence == self.term:
            self._open(loaded.serial, loaded.records)
            self.drains.resume(self.now)
            self.state = CoordinatorState.ACTIVE
            self._look_after_all()

    # --- time and news ----------------------------------------------------------------------

    def _on_tick(self, _: Tick) -> None:
        self._retry_what_has_rested()
        self._look_after_all()

    def _look_after_all(self) -> None:
        self.drains.forget_ended_lives()
        self.care.give_owners(self.now)
        self.care.empty_draining_nodes(self.now)
        self.care.balance(self.now)
        self.ownership.tell_all(self.now)

    def _retry_what_has_rested(self) -> None:
        for feed in self.care.rested(self.now):
            self._happen(feed, News(Occasion.BACKOFF_OVER))

    def _see(self, seen: MembersSeen) -> None:
        self.roster.see(self.now, seen.members)

    def _on_members(self, seen: MembersSeen) -> None:
        self._see(seen)
        self.drains.forget_ended_lives()

    def _note_report(self, report: NodeReport) -> None:
        self.roster.hear(self.now, report)

    def _on_report(self, report: NodeReport) -> None:
        if not self.roster.hear(self.now, report):
            return
        for status in report.maintainers:
            if not self.ownership.stop_unless_owner(report.node, status):
                self._on_owner_status(status)
        self.drains.hear(self.now, report)

    def _on_owner_status(self, status: MaintainerStatus) -> None:
        """The recorded owner speaks. While a decision is on its way, the next report will do."""
        if not self.book.settled(status.feed):
            return
        record = self.book.decided[status.feed]
        if status.outcome is None:
            news = self.judge.news(self.now, record, status)
            if news is not None:
                self._happen(status.feed, news)
        elif status.outcome is not Outcome.STALE:
            self._on_ended(record, status.outcome)

    def _on_ended(self, record: FeedRecord, outcome: Outcome) -> None:
        """The owner has done what was asked: nobody owns the feed, and its host may forget him."""
        ended = record
        if outcome is Outcome.REMOVED:
            follows = verdict(record, Occasion.GONE)
            if isinstance(follows, Become):
                ended = lived_on(record, Occasion.GONE, follows.life)
        owner = record.owner
        assert owner is not None
        self.book.decide(
            vacated(ended),
            then=lambda: self.ownership.stop(owner, record.feed, record.epoch),
        )

    def _happen(self, feed: FeedId, news: News) -> None:
        """Something other than a person's wish changes a feed's life, or does not."""
        record = self.book.decided[feed]
        follows = verdict(record, news.occasion)
        if isinstance(follows, Become):
            self.book.decide(lived_on(record, news.occasion, follows.life, news.error))

    # --- the metastore's answers ------------------------------------------------------------

    def _on_answer(self, answer: Landed | NotLanded | Unknown) -> None:
        self._writer.answered(self.now, answer)

    def _on_refused(self, refused: Refused) -> None:
        """A newer term ends this one. Within the term, others raised an epoch: read again."""
        if refused.fence > self.term:
            self._depose(Dismissed())
            return
        self.state = CoordinatorState.LOADING
        self._load_again_at = self.now + self._config.timing.resend_ms
        self._answer_uncertain()

    def _depose(self, _: Dismissed) -> None:
        self.state = CoordinatorState.DEPOSED
        self._answer_uncertain()

    # --- people -----------------------------------------------------------------------------

    def _on_create(self, create: CreateFeed) -> None:
        former = self.book.decided.get(create.feed)
        follows = verdict_on_create(former, create.spec)
        if isinstance(follows, Become):
            self._decide_for(create, newborn(create.feed, create.spec, former))
        else:
            self._answer_unchanged(create, follows if isinstance(follows, Refuse) else None)

    def _on_feed_verb(self, verb: PauseFeed | ResumeFeed | RemoveFeed) -> None:
        occasion = FEED_OCCASION[type(verb)]
        record = self.book.decided.get(verb.feed)
        follows = verdict_on_verb(record, verb)
        if isinstance(follows, Become) and record is not None:
            changed = lived_on(record, occasion, follows.life)
            if record.goal is not Goal.RUN and changed.goal is Goal.RUN:
                self.ownership.wear(record)
            self._decide_for(verb, changed)
        else:
            self._answer_unchanged(verb, follows if isinstance(follows, Refuse) else None)

    def _decide_for(self, verb: FeedVerb, record: FeedRecord) -> None:
        self._wait_for_landing(verb)
        self.book.decide(record, then=lambda: self._answer_done(verb))
        self.care.give_owner(self.now, record)

    def _on_move_maintainer(self, verb: MoveMaintainer) -> None:
        record = self.book.decided.get(verb.feed)
        to = self.roster.life_of(verb.node)
        obstacle = move_obstacle(
            record,
            to,
            usable=self.care.usable(self.now),
            raising=self.ownership.is_raising(verb.feed),
        )
        if obstacle is not None or record is None or to is None or record.owner == to:
            self._answer_unchanged(verb, obstacle)
            return
        self._wait_for_landing(verb)
        self.ownership.assign(record, to, then=lambda: self._answer_done(verb))

    def _on_drain_node(self, verb: DrainNode) -> None:
        ref = self.roster.life_of(verb.node)
        if ref is not None and self.drains.includes(ref):
            self._answer_unchanged(verb, None)
            return
        obstacle = drain_obstacle(ref, usable=self.care.usable(self.now))
        if obstacle is not None or ref is None:
            self._answer_unchanged(verb, obstacle)
            return
        self._wait_for_landing(verb)
        self.drains.begin(ref, lambda: self.now, lambda: self._answer_done(verb))

    # --- answering --------------------------------------------------------------------------

    def _wait_for_landing(self, verb: FeedVerb) -> None:
        self._asked[verb.request] = None

    def _answer_done(self, verb: FeedVerb) -> None:
        self._asked.pop(verb.request, None)
        self.emit(Answer(verb.request))

    def _answer_unchanged(self, verb: FeedVerb, refusal: Refuse | None) -> None:
        """Nothing is to be changed: a refusal goes out at once, a 'done' after an empty batch."""
        if refusal is not None:
            self.emit(Answer(verb.request, refusal.code, refusal.what, refusal.hint))
            return
        self._wait_for_landing(verb)
        self._writer.write(then=lambda: self._answer_done(verb))

    def _answer_uncertain(self) -> None:
        for request in self._asked:
            self.emit(
                Answer(
                    request,
                    "coordinator-lost",
                    "the coordinator was replaced before this was certain",
                    "ask again: what was done already is not done twice",
                )
            )
        self._asked.clear()

    def _answer_not_yet(self, verb: FeedVerb) -> None:
        self.emit(
            Answer(
                verb.request,
                "coordinator-starting",
                "the coordinator was just elected and is reading its records",
                "ask again in a moment",
            )
        )

    def _answer_deposed(self, verb: FeedVerb) -> None:
        self.emit(
            Answer(
                verb.request,
                "not-coordinator",
                "this node is not the coordinator any more",
                "ask the present coordinator",
            )
        )
