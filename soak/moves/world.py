"""Two nodes, two databases, and moves between them: what cells are tried on."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import psycopg
from psycopg import sql

from lockgate.client import Client
from lockgate.client.moves import Moves
from lockgate.model.errors import Conflict, LockgateError, NotFound, OutcomeUnknown, Transient
from lockgate.model.move_status import MoveStatus
from lockgate.model.moves import MoveState
from soak.failpoints import ENV, LAUNCHER, FailPoint, FailPoints
from soak.matrix.world import Unhealthy, free_port
from soak.moves.hook import HookLedger
from soak.moves.leftovers import leftovers
from soak.nodes import Cluster, NodeServer

__all__ = ["LEASE_S", "NODES", "SOON_S", "TIMEOUT_S", "MoveWorld", "Unhealthy", "open_move_world"]

T = TypeVar("T")

NODES: Final = ("one", "two")
SOON_S: Final = 240.0
"""For anything; it takes a few seconds on a machine that has nothing else to do."""
TIMEOUT_S: Final = 60.0
"""Of a flip."""
LEASE_S: Final = 4.0
"""So short that others take over soon, and so long that a busy machine renews it in time."""
ROWS: Final = 200


class MoveWorld:
    """Nodes that are killed, and the two sides of moves."""

    def __init__(
        self, cluster: Cluster, folder: Path, hook: HookLedger, source: str, target: str
    ) -> None:
        self.cluster = cluster
        self.hook = hook
        self.points = {name: FailPoints(folder / "points" / name) for name in NODES}
        self.source, self.target = source, target
        self._clients: dict[str, Client] = {}
        self._starting: set[str] = set()

    # --- looking ----------------------------------------------------------------------------------

    def until(
        self,
        condition: Callable[[], T | None],
        what: Callable[[], object] = lambda: "",
        timeout_s: float = SOON_S,
    ) -> T:
        """The first true answer; raises Unhealthy with `what` there is instead."""
        deadline = time.monotonic() + timeout_s
        while True:
            with contextlib.suppress(Transient, OutcomeUnknown):
                if answer := condition():
                    return answer
            if time.monotonic() > deadline:
                raise Unhealthy(f"not within {timeout_s:g} s: {what()}")
            time.sleep(0.05)

    def status(self, move: str) -> MoveStatus | None:
        """None while nobody can say, and when there is none."""
        try:
            return self.client().moves.status(move)
        except (NotFound, Transient, OutcomeUnknown):
            return None

    def traffic(self, move: str) -> str:
        return self.rested(move).traffic

    def rested(self, move: str, *states: MoveState) -> MoveStatus:
        """The move, once no command is under way, no step is and, with `states`, it is so."""

        def rests() -> MoveStatus | None:
            status = self.status(move)
            if status is None or status.step or (states and status.state not in states):
                return None
            return status

        return self.until(rests, lambda: _told(self.status(move)))

    def left(self) -> list[str]:
        """Of moves that are over, anywhere."""
        client = self.client()
        found = [f"feed {each.name}" for each in client.feeds.list()]
        found += [f"route of {each.table}" for each in client.routes.all().routes]
        return found + leftovers(self.source, self.target)

    def require_nothing_left(self) -> None:
        """Feeds are removed by others than who says that a move is over; at once, though."""
        self.until(lambda: not self.left(), self.left, 30.0)

    # --- nodes ------------------------------------------------------------------------------------

    def client(self) -> Client:
        """Asks a node that listens."""
        for name, node in self.cluster.nodes.items():
            if node.running and name not in self._starting:
                if node.url not in self._clients:
                    self._clients[node.url] = node.client()
                return self._clients[node.url]
        raise Unhealthy("no node is left to be asked")

    def arm(self, point: FailPoint) -> None:
        """Whoever keeps the move stands still there."""
        for points in self.points.values():
            points.arm(point)

    def frozen(self) -> str:
        """Who stands still; nobody: empty."""
        return next((name for name, one in self.points.items() if one.frozen() is not None), "")

    def disarm(self) -> None:
        """Nobody stands still any more who does not yet. Not for one that does."""
        for name, points in self.points.items():
            if name != self.frozen():
                points.clear()

    def kill(self, *names: str) -> None:
        for name in names:
            self.cluster.nodes[name].kill()
            self.points[name].clear()

    def start(self, *names: str, wait: bool = True) -> None:
        """Those that do not run; returns when they listen, or at once."""
        nodes: list[NodeServer] = [self.cluster.nodes[name] for name in names]
        for node in nodes:
            if not node.running:
                node.start(wait=False)
                self._starting.add(node.name)
        for node in nodes if wait else ():
            node.wait_listening()
            self._starting.discard(node.name)

    def heal(self) -> None:
        """However a cell ended: everybody is there and goes on."""
        for name, node in self.cluster.nodes.items():
            if node.running:
                self.points[name].go()
        self.start(*NODES)

    # --- moves ------------------------------------------------------------------------------------

    def ask(self, verb: Callable[[Moves], object]) -> threading.Thread:
        """Have something asked of a move, by somebody who is not waited for."""
        moves = self.client().moves

        def run() -> None:
            with contextlib.suppress(LockgateError, RuntimeError):
                verb(moves)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def make_tables(self, *tables: str) -> None:
        """At the source, with rows, and nothing of them at the target."""
        with psycopg.connect(self.source) as connection:
            for table in tables:
                name = sql.Identifier(*table.split("."))
                connection.execute(
                    sql.SQL(
                        "CREATE TABLE {} (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, "
                        "note text)"
                    ).format(name)
                )
                connection.execute(
                    sql.SQL(
                        "INSERT INTO {} (note) SELECT 'old ' || g FROM generate_series(1, %s) g"
                    ).format(name),
                    (ROWS,),
                )

    def drop_tables(self, *tables: str) -> None:
        """At both sides, whatever became of them."""
        for url in (self.source, self.target):
            with psycopg.connect(url) as connection:
                for table in tables:
                    schema, name = table.split(".")
                    for each in (name, f"_{name}_old"):
                        connection.execute(
                            sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(schema, each))
                        )

    def create(self, move: str, tables: Sequence[str], hook: str = "") -> None:
        """A move that is copied."""
        self.until(lambda: self._created(move, tables, hook), lambda: _told(self.status(move)))
        self.rested(move, MoveState.RUNNING)

    def _created(self, move: str, tables: Sequence[str], hook: str) -> bool:
        self.client().moves.create(
            move, source="shop", target="copy", tables=list(tables), hook=hook
        )
        return True

    def flip(self, move: str, to: str) -> None:
        """Have the traffic there; nothing to do when it is."""

        def done() -> bool:
            moves = self.client().moves
            verb = moves.switch if to == "target" else moves.reverse
            # On a busy machine leases are lost, and a flip is put back: it is asked for again.
            with contextlib.suppress(Conflict):
                verb(move, timeout_s=TIMEOUT_S, max_lag_s=TIMEOUT_S)
                return True
            return False

        self.until(done, lambda: _told(self.status(move)))
        self.rested(move, MoveState.SWITCHED if to == "target" else MoveState.RUNNING)


def _told(status: MoveStatus | None) -> object:
    if status is None:
        return "nobody answers"
    steps = [f"{one.name} {one.state}: {one.detail}" for one in status.steps if one.started]
    return f"{status.state.value}, traffic {status.traffic}, {status.error}; {steps[-3:]}"


@contextlib.contextmanager
def open_move_world(
    folder: Path, metastore: str, spark: str, source: str, target: str
) -> Iterator[MoveWorld]:
    """Both nodes, up and running; metastore, source and target are its own."""
    with Cluster(folder, metastore, spark, lease_s=LEASE_S, launcher=LAUNCHER) as cluster:
        hook = HookLedger(folder / "hook")
        world = MoveWorld(cluster, folder, hook, source, target)
        for name in NODES:
            env = {ENV: str(folder / "points" / name)}
            options = ("--listen", f"127.0.0.1:{free_port()}", "--config", str(hook.config))
            cluster.start(name, *options, env=env, wait=False)
        for node in cluster.nodes.values():
            node.wait_listening()
        world.client().endpoints.add("shop", source)
        world.client().endpoints.add("copy", target)
        yield world
