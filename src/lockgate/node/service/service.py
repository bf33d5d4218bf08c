"""One node of the service: everything put together, its life, and what other machines ask of it.

    home, metastore ──► stores ──┬─► contexts ──► executor ─┐
                                 │                          ├─► process (the core) ◄──► link
                                 ├─► reporter ◄─────────────┘        │
                                 └─► desks: endpoints, feeds, nodes ◄┴── keeper

`start` returns when the node has joined the cluster, or says why it cannot. `stop` stops all work,
then gives the lease back, so that others take over at once; what a killed node leaves behind they
take over when its lease has run out. What people ask of it: `verbs`.
"""

import logging
import secrets
import threading
import time
from functools import partial
from pathlib import Path
from typing import Final

import lockgate
from lockgate.core.node import NodeCore
from lockgate.model.config import CoreConfig
from lockgate.model.diffs import DiffRecord
from lockgate.model.documents import Health
from lockgate.model.errors import LockgateError, Transient
from lockgate.model.ids import NodeId, NodeRef
from lockgate.model.secret import Secret
from lockgate.model.server_config import ServerConfig
from lockgate.model.tokens import HOME_TOKENS, AccessToken, Role, digest_of
from lockgate.node.diff.runner import DiffRunner, Standing
from lockgate.node.diff.sides import DiffSides
from lockgate.node.executor import FeedExecutor, SinkCloser
from lockgate.node.home import Home, HomeMetastore
from lockgate.node.hooks import Keeping, hook_named
from lockgate.node.lake.hosts import LakeHosts
from lockgate.node.link.addresses import Addresses
from lockgate.node.link.intake import Intake
from lockgate.node.link.tls import LinkTls
from lockgate.node.link.transport import LinkTransport
from lockgate.node.move.feeds import MoveFeeds
from lockgate.node.move.hosts import MoveHosts
from lockgate.node.process import NodeProcess
from lockgate.node.service import moves
from lockgate.node.service.asking import Asking
from lockgate.node.service.cluster import Cluster
from lockgate.node.service.contexts import Contexts, config_of
from lockgate.node.service.diffs import DiffDesk, note_end
from lockgate.node.service.endpoints import EndpointDesk
from lockgate.node.service.feeds import FeedDesk
from lockgate.node.service.keeper import Keeper
from lockgate.node.service.lakes import LakeDesk, answer_here, lakes_in_use
from lockgate.node.service.moves import MoveDesk
from lockgate.node.service.nodes import NodeDesk
from lockgate.node.service.options import changelog_root, spark_options, timing
from lockgate.node.service.reporting import Reporter
from lockgate.node.service.resync import start_here
from lockgate.node.service.spans import SpanDesk
from lockgate.node.service.statuses import Statuses
from lockgate.node.service.stores import Stores
from lockgate.node.service.tokens import TokenDesk
from lockgate.node.service.verbs import Verbs
from lockgate.node.spark import SparkKeeper
from lockgate.node.telemetry.collector import Sources
from lockgate.node.telemetry.diffs import DiffWatch
from lockgate.node.telemetry.lakes import LakeWatch
from lockgate.node.telemetry.telemetry import Telemetry
from lockgate.pipeline.session import Spark
from lockgate.store.changelog import SegmentFiles
from lockgate.store.metastore import SqlMetastore
from lockgate.store.settings import INSTALLATION

__all__ = ["NodeService"]

JOIN_S: Final = 30.0
ADDRESS_AGE_S: Final = 5.0
TOKEN_FILE: Final = "token"

_log = logging.getLogger("lockgate.node")


class NodeService(Verbs):
    """A node, between `start` and `stop`. Implements `api.ports.Service`."""

    def __init__(self, config: ServerConfig, *, spark: Spark | None = None) -> None:
        """Nothing is opened before `start`. A Spark that is handed in is left running."""
        self._config = config
        self._home = Home(Path(config.home))
        self._spark = SparkKeeper(spark or spark_options(config))
        self._telemetry = Telemetry(config.node)
        self._stopped = threading.Event()

    # --- life -------------------------------------------------------------------------------------

    def start(self, address: str) -> None:
        """Open everything, and join the cluster. Other nodes reach this one at `address`."""
        config = self._config
        self._home.take()
        self._home_token = self._home.token()
        url = config.metastore if config.metastore else Secret(self._home.metastore_url)
        lease_ms = int(config.lease_s * 1000)
        self._metastore = SqlMetastore.open(
            url, lease_ms=lease_ms, address=address, home=self._home.identity()
        )
        try:
            self._open(CoreConfig(timing(lease_ms)))
            self._process.start()
            self._wait_joined()
            self._let_owner_in()
            self._keeper.start()
            self._hosts.start()
            self._move_hosts.start()
            self._diffs.start()
            self._reporter.start()
        except BaseException:
            self.stop()
            raise

    def _open(self, core: CoreConfig) -> None:
        config = self._config
        self._stores = stores = Stores.of(self._metastore)
        self._link_key = Secret(stores.settings.once("link_key", secrets.token_urlsafe(32)))
        installation = stores.settings.once(INSTALLATION, secrets.token_hex(8))
        files = SegmentFiles(changelog_root(config, self._home, stores.settings))
        contexts = Contexts(stores, files, self._spark.handle, installation, self._telemetry.feeds)
        self._asking = Asking()
        self._lake_watch = LakeWatch()
        self._diff_watch = DiffWatch()
        self._process = NodeProcess(
            config.node,
            core,
            HomeMetastore(self._home, self._metastore),
            self._make_link,
            lambda process: self._make_executor(contexts, process),
            SinkCloser(contexts.gate, contexts.give_up_target),
            self._asking.answered,
            self._telemetry.process,
        )
        self._cluster = Cluster(
            self._process,
            self._asking,
            self._link,
            self._metastore,
            lambda asked: start_here(self._executor, asked),
            lambda asked: answer_here(self._hosts, asked),
            lambda asked: moves.answer_here(self._move_hosts, asked),
        )
        self._hosts = LakeHosts(
            installation,
            stores.lakes,
            self._spark.handle.using,
            lambda: self._cluster.leads,
            lambda: lakes_in_use(stores),
            lambda: int(time.time() * 1000),
            config.lake.settings,
            watch=self._lake_watch,
        )
        self.lakes = LakeDesk(stores, self._cluster)
        self._keeper = Keeper(stores, contexts, self._cluster)
        self._reporter = Reporter(
            self._process, self._executor, stores.reports, self._keeper.worries
        )
        self._statuses = Statuses(stores, self._cluster, self._reporter.remarks)
        sides = DiffSides(contexts, self._statuses, self._cluster)
        self._diffs = DiffRunner(
            stores.diffs,
            stores.members,
            sides,
            self._spark.handle,
            lambda: self._process.look(_standing),
            self._note_diff,
            self._diff_watch,
        )
        self._telemetry.look_at(self._watched())
        self._endpoints = EndpointDesk(stores)
        self._nodes = NodeDesk(stores, self._cluster)
        self._tokens = TokenDesk(stores)
        self._spans = SpanDesk(stores, contexts, self._cluster, self._statuses)
        self._feeds = FeedDesk(
            stores, contexts, self._cluster, self._statuses, self._keeper, installation
        )
        hook = partial(
            hook_named,
            config,
            Keeping(
                lambda ctx: stores.moves.require_newest(ctx.move, ctx.birth, ctx.attempt),
                self._cluster.leads_until_s,
            ),
        )
        self._move_hosts = MoveHosts(
            stores,
            MoveFeeds(
                stores,
                contexts,
                self._cluster,
                self._keeper,
                installation,
                self._statuses.one,
            ),
            lambda: self._cluster.leads,
            hook,
        )
        self.moves = MoveDesk(
            stores, contexts, self._cluster, self._statuses, self._move_hosts.knock, hook
        )
        self.diffs = DiffDesk(stores, sides, self.moves.one, self._diffs.knock)

    def _watched(self) -> Sources:
        return Sources(
            self._process,
            self._executor,
            self._link.counters,
            self._spark,
            self._statuses.all,
            self._keeper.worries,
            self._hosts.statuses,
            self._lake_watch,
            self._diff_watch,
            self._diffs.count,
        )

    def _make_link(self, process: NodeProcess) -> LinkTransport:
        config = self._config
        addresses = Addresses(self._read_addresses, ADDRESS_AGE_S)
        tls = LinkTls(Path(config.tls.ca) if config.tls.ca else None) if config.tls.on else None
        self._link = LinkTransport(process.post, config.node, addresses, self.link_key, tls)
        self._intake = Intake(config.node, process.post, self._link.counters)
        return self._link

    def _make_executor(self, contexts: Contexts, process: NodeProcess) -> FeedExecutor:
        self._executor = FeedExecutor(contexts.open, process.post, self._stop_diffs)
        return self._executor

    def _stop_diffs(self) -> None:
        """At once, on the core's thread, which begins before there is a runner."""
        runner = getattr(self, "_diffs", None)
        if runner is not None:
            runner.stop_everything()

    def _note_diff(self, record: DiffRecord) -> None:
        note_end(self._stores.history, record)

    def _read_addresses(self) -> dict[NodeId, str]:
        return {row.node: row.address for row in self._stores.members.all() if row.address}

    def _wait_joined(self) -> None:
        deadline = time.monotonic() + JOIN_S
        while self._process.look(lambda core: core.ref) is None:
            if time.monotonic() > deadline:
                raise Transient(
                    "the node could not join",
                    object_=self._config.node,
                    hint="see that the metastore can be written; start the node again",
                )
            time.sleep(0.02)

    def _let_owner_in(self) -> None:
        """Have the home's token open the API. Only a node that has joined may: before, another
        process may be the node of this name, and the token under that name is of its home."""
        token = AccessToken(
            f"{HOME_TOKENS}{self._config.node}", Role.ADMIN, digest_of(self._home_token)
        )
        self._stores.tokens.write(token)

    def stop(self) -> None:
        """Stop all work here, then give the lease back."""
        self._stopped.set()
        for part in ("_diffs", "_move_hosts", "_hosts", "_keeper", "_reporter"):
            found = getattr(self, part, None)
            if found is not None and found.running:
                found.stop()
        process = getattr(self, "_process", None)
        if process is not None:
            ref = process.stop()
            self._link.close()
            self._executor.join()
            if ref is not None:
                self._leave(ref)
        self._spark.close()
        self._telemetry.close()
        if hasattr(self, "_metastore"):
            self._metastore.close()

    def _leave(self, ref: NodeRef) -> None:
        """Give the lease back. Without the metastore nobody can: it runs out by itself, and what
        is still to be closed here must be closed all the same."""
        try:
            self._metastore.leave(ref)
        except LockgateError as error:
            _log.warning("the lease could not be given back, and runs out by itself: %s", error)

    @property
    def failure(self) -> BaseException | None:
        """What has ended the node, when nobody asked for it."""
        return self._process.failure

    def addresses(self) -> list[Secret]:
        """Every URL that people gave: what is in them must be shown nowhere."""
        feeds = [config_of(entry) for entry in self._stores.feeds.all()]
        return [
            *(entry.url for entry in self._stores.endpoints.all()),
            *(end for config in feeds for end in (config.source, config.target)),
        ]

    # --- api.ports.Service: machines --------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._config.node

    def health(self) -> Health:
        """Whether it is there."""
        try:
            joined = self._process.look(lambda core: core.ref, timeout_s=1.0) is not None
        except Exception:
            joined = False
        return Health("ok" if joined else "starting", self.name, lockgate.__version__)

    def metrics(self) -> bytes:
        """For Prometheus."""
        return self._telemetry.text()

    def request_answered(self, operation: str, status: int, seconds: float) -> None:
        """The interface has answered a request; counted for `metrics`."""
        self._telemetry.api.answered(operation, status, seconds)

    def link_key(self) -> Secret:
        """What other nodes show."""
        return self._link_key

    def receive(self, body: bytes) -> None:
        """Messages of another node's core."""
        self._intake.receive(body)

    def carry_out(self, body: bytes) -> bytes:
        """A verb that another node was asked for."""
        return self._intake.carry_out(body, self._cluster.ask_here)


def _standing(core: NodeCore) -> Standing:
    """On the core's thread, so in few steps."""
    ref, members = core.ref, core.member.view.members
    emptied = any(each.draining for each in members if each.ref == ref)
    return Standing(ref, emptied and any(not each.draining for each in members))
