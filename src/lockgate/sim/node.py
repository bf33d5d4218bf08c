"""A simulated process: the real core of a node, with an executor and a clock of its own.

    down ──boot──► up ──crash, between any two instructions──► down
                   │ ▲
       pause, hang └─┘ resume

Paused, it does nothing and everything waits (SIGSTOP). Hung, its lease is renewed and its
dispatchers run, and what others tell it waits. Crashed, its memory is gone, while what it
had under way at the metastore and at the sink still arrives there.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast, get_args

from lockgate.core.dispatchers.manager import DispatcherManager, ManagerState
from lockgate.core.maintainer.maintainer import Maintainer
from lockgate.core.node import NodeCore
from lockgate.model.batch import Joined, Loaded, Renewed
from lockgate.model.errors import IllegalTransition
from lockgate.model.events import DispatcherEvent, Event, Tick
from lockgate.model.ids import Millis, NodeId
from lockgate.model.instructions import (
    Answer,
    CloseSink,
    Commit,
    HoldDispatcher,
    Instruction,
    Join,
    Load,
    PassBarrier,
    ReleaseDispatcher,
    Renew,
    Send,
    StartDispatcher,
    StopDispatcher,
    StopEverything,
    WriteBarrier,
)
from lockgate.model.messages import BootstrapReply, Message
from lockgate.sim.executor import Executor, ToDispatcher
from lockgate.sim.loop import Action
from lockgate.sim.orders import Order
from lockgate.sim.probes import Probe
from lockgate.sim.violation import Law, LawBroken, about_node

if TYPE_CHECKING:
    from lockgate.sim.world import World

POST_MS = 1

# Looked up for every event, where a set of types is several times faster than a union.
MESSAGES = frozenset(get_args(Message))
ORDERS = frozenset(get_args(Order))
LOOKING = frozenset({Tick, Joined, Renewed})
"""With these a node looks at who is there."""
LOOKED_AT = frozenset({Joined, Renewed, Loaded})


class SimNode:
    """One node of the world, through all its processes."""

    def __init__(self, world: "World", node: NodeId) -> None:
        self.id = node
        self._world = world
        self._loop = world.loop
        self.core: NodeCore | None = None
        """None while the process is down."""
        self.life = 0
        """Counts processes, so that what was meant for a former one is not heard."""
        self.offset: Millis = world.loop.between(0, 100_000)
        """What its clock shows above the world's."""
        self.deadlines: dict[int, Millis] = {}
        self.acting = 0
        """The incarnation under which dispatchers were last started."""
        self.paused = False
        self.hung = False
        self.replaced = False
        """Another process was started under this node's name; this one does not know."""
        self._posted_until: Millis = 0
        self.fuse = 0
        """Instructions until a crash or a pause; 0: none is planned."""
        self.fuse_pause_ms = 0
        """How long to pause when the fuse has burnt; 0: crash."""
        self._said_at: Millis = 0
        self._unfinished: list[Instruction] = []
        """What a pause has interrupted."""
        self._waiting: list[tuple[int, Event]] = []
        self._deferred: list[tuple[Action, Any]] = []
        self._deaf: list[Message] = []
        self.executor = self._new_executor()
        self._do: dict[type, Callable[[Any], None]] = {
            Send: self._send,
            Join: self._join,
            Renew: self._renew,
            Load: self._load,
            Commit: self._commit,
            StartDispatcher: self._start,
            StopDispatcher: self._carry_out,
            HoldDispatcher: self._carry_out,
            ReleaseDispatcher: self._carry_out,
            PassBarrier: self._carry_out,
            WriteBarrier: self._carry_out,
            CloseSink: self._close_sink,
            StopEverything: self._stop_everything,
            Answer: self._answer,
        }

    # --- what others see --------------------------------------------------------------------

    @property
    def up(self) -> bool:
        """A process runs, be it paused or hung."""
        return self.core is not None

    def clock(self) -> Millis:
        """The node's own time, when it decided what it does now."""
        return self._said_at

    @property
    def serving(self) -> int:
        """The life in which it has read its journal and takes orders; 0: it does not."""
        core = self.core
        if core is None or core.ref is None or not isinstance(core.manager, DispatcherManager):
            return 0
        return core.ref.incarnation if core.manager.state is ManagerState.ACTIVE else 0

    @property
    def maintainers(self) -> list[Maintainer]:
        """The maintainers of the present process."""
        host = self.core.host if self.core is not None else None
        if host is None:
            return []
        return [found for found in host.maintainers.values() if isinstance(found, Maintainer)]

    def maintainer(self, feed: str) -> Maintainer | None:
        """The maintainer of a feed, if it is here."""
        return next((found for found in self.maintainers if found.feed == feed), None)

    # --- life and death ---------------------------------------------------------------------

    def boot(self) -> None:
        """Start a process."""
        if self.core is not None or self.replaced:
            return
        self.life += 1
        self.core = NodeCore(self._world.config, self.id)
        self.executor = self._new_executor()
        self.deadlines = {}
        self.paused = self.hung = False
        self._world.hung.discard(self.id)
        self.fuse = 0
        self._waiting, self._deferred, self._deaf, self._unfinished = [], [], [], []
        self._world.note(self.id, "boots", "")
        self.deliver(self.life, Tick())
        self._loop.after(self._loop.between(1, self._world.tick_ms), self._tick, self.life)

    def crash(self) -> None:
        """Kill the process."""
        if self.core is None:
            return
        self._world.faults.count += 1
        self._world.observer.crashed(self.id, self.maintainers)
        self._world.note(self.id, "crashes", "")
        self.core = None
        self.executor.die()

    def pause(self, duration: int) -> None:
        """Stop the process in its tracks."""
        if self.core is None or self.paused:
            return
        self._world.faults.count += 1
        self._world.note(self.id, "is paused", duration)
        self.paused = True
        self._loop.after(duration, self.resume, self.life)

    def resume(self, life: int) -> None:
        """Let it go on; it does not know that time has passed."""
        if life != self.life or not self.paused:
            return
        self._world.note(self.id, "resumes", "")
        self.paused = False
        deadline = self.deadlines.get(self.acting, 0)
        if self.executor.running and self._loop.now + self.offset >= deadline:
            self._world.probes.hit(Probe.PAUSED_PAST_LEASE)
        unfinished, self._unfinished = self._unfinished, []
        self._carry_out_all(unfinished)
        deferred, self._deferred = self._deferred, []
        for action, arg in deferred:
            self._loop.after(self._loop.between(0, 3), action, arg)
        waiting, self._waiting = self._waiting, []
        for of_life, event in waiting:
            self.deliver(of_life, event)

    def hang(self, duration: int) -> None:
        """Hear nothing of what others say."""
        if self.core is None or self.hung:
            return
        self._world.faults.count += 1
        self._world.note(self.id, "hangs", duration)
        self.hung = True
        self._world.hung.add(self.id)
        self._loop.after(duration, self.wake, self.life)

    def wake(self, life: int) -> None:
        """Hear again, from the beginning."""
        if life != self.life or not self.hung:
            return
        self._world.note(self.id, "wakes", "")
        self.hung = False
        self._world.hung.discard(self.id)
        deaf, self._deaf = self._deaf, []
        for message in deaf:
            self.deliver(life, message)

    # --- events in --------------------------------------------------------------------------

    def _tick(self, life: int) -> None:
        if life != self.life or self.core is None:
            return
        self._loop.after(self._world.tick_ms, self._tick, life)
        if not self.paused:
            self.deliver(life, Tick())
            maintainers = self.maintainers
            self._world.checkers.ticked(maintainers)
            self._world.observer.ticked(maintainers, self._world.hung)

    def hear(self, message: Message) -> None:
        """A message arrives, whichever process it was meant for."""
        if self.core is not None:
            self.deliver(self.life, message)

    def deliver(self, life: int, event: Event) -> None:
        """Hand an event to the core, now or when it can take it."""
        if self.core is None or life != self.life:
            return
        if self.paused:
            self._waiting.append((life, event))
            return
        kind = type(event)
        if kind in MESSAGES:
            message = cast("Message", event)
            if self.hung:
                self._deaf.append(message)
                return
            self._observe(message)
        elif kind in LOOKED_AT:
            self._look_at(event)
        self._handle(event)

    def _look_at(self, event: Event) -> None:
        if isinstance(event, Joined):
            self.deadlines[event.ref.incarnation] = event.asked_at + self._world.lease_ms
        elif isinstance(event, Renewed):
            self._renewed(event)
        elif isinstance(event, Loaded):
            self._world.observer.loaded(event)

    def _observe(self, message: Message) -> None:
        world = self._world
        newest = world.checkers.durable.incarnations
        world.observer.delivered(self.id, newest.get(self.id, 0), message)
        if isinstance(message, BootstrapReply):
            maintainer = self.maintainer(message.feed)
            world.observer.answered(maintainer, message, newest.get(message.node.node, 0))

    def _renewed(self, renewed: Renewed) -> None:
        incarnation = renewed.ref.incarnation
        until = renewed.asked_at + self._world.lease_ms
        self.deadlines[incarnation] = max(self.deadlines.get(incarnation, 0), until)

    def _handle(self, event: Event) -> None:
        world, core = self._world, self.core
        assert core is not None
        world.trace(self.id, event)
        try:
            out = core.handle(self._loop.now + self.offset, event)
        except (IllegalTransition, AssertionError) as error:
            story = tuple(getattr(error, "story", ()))
            about = (about_node(self.id),)
            raise LawBroken(Law.CONTRACT, f"{self.id}: {error!r}", about, story) from error
        now = self._said_at = core.now
        if type(event) in LOOKING:
            world.checkers.looked(self.maintainers)
        if type(event) in ORDERS:
            world.checkers.orders.obeyed(self, cast("Order", event), out)
        if not self._carry_out_all(out):
            return
        if self.executor.running and now >= self.deadlines.get(self.acting, 0):
            what = f"{self.id}/{self.acting} runs dispatchers at {now}, past its lease"
            raise LawBroken(Law.FENCE, what, (about_node(self.id),))

    def _carry_out_all(self, out: list[Instruction]) -> bool:
        """One instruction after the other; False when the process did not get to the end."""
        told = self._world.story is not None
        for index, instruction in enumerate(out):
            if told:
                self._world.note(self.id, "does", instruction)
            self._do[type(instruction)](instruction)
            if self.fuse:
                self.fuse -= 1
                if not self.fuse:
                    self._burnt(out[index + 1 :])
                    return False
        return True

    def _burnt(self, rest: list[Instruction]) -> None:
        """Crash, or pause, right here: the rest is done never, or when the process goes on."""
        if self.fuse_pause_ms:
            self._world.probes.hit(Probe.PAUSED_BETWEEN)
            self._unfinished = rest
            self.pause(self.fuse_pause_ms)
        else:
            self._world.probes.hit(Probe.CRASH_BETWEEN)
            self.crash()

    # --- instructions out -------------------------------------------------------------------

    def _send(self, send: Send) -> None:
        self._world.checkers.sent(self, send.message)
        self._world.observer.sent(send.message)
        self._world.network.send(self.id, send.to, send.message)

    def _reply_to(self) -> Callable[[Any], None]:
        life = self.life
        return lambda event: self.deliver(life, event)

    def _join(self, join: Join) -> None:
        self._world.metastore.join(self.id, join, self._reply_to())

    def _renew(self, renew: Renew) -> None:
        self._world.metastore.renew(self.id, renew, self._reply_to())

    def _load(self, load: Load) -> None:
        self._world.metastore.load(self.id, load, self._reply_to())

    def _commit(self, commit: Commit) -> None:
        self._world.metastore.commit(self.id, commit, self._reply_to())

    def _start(self, start: StartDispatcher) -> None:
        self._world.checkers.orders.started(self, start)
        self.acting = start.token.incarnation
        self.executor.start(start)

    def _carry_out(self, order: ToDispatcher) -> None:
        self.executor.carry_out(order)

    def _close_sink(self, close: CloseSink) -> None:
        self._world.closer.close(close, self._reply_to())

    def _stop_everything(self, _: StopEverything) -> None:
        self._world.probes.hit(Probe.SELF_FENCED)
        self.executor.stop_everything()

    def _answer(self, answer: Answer) -> None:
        self._world.people.answered(answer)

    # --- the executor -----------------------------------------------------------------------

    def _new_executor(self) -> Executor:
        world, life = self._world, self.life

        def post(event: DispatcherEvent) -> None:
            """In order, but sometimes the core hears of it late."""
            delay = self._loop.between(1, 400) if self._loop.chance(0.05) else POST_MS
            self._posted_until = max(self._posted_until, self._loop.now + delay)
            self._loop.after(self._posted_until - self._loop.now, self.deliver, life, event)

        return Executor(
            world.loop,
            world.faults,
            world.probes,
            world.sink,
            world.source_of,
            post,
            self._defer,
        )

    def _defer(self, action: Action, arg: object) -> bool:
        if self.paused:
            self._deferred.append((action, arg))
            return True
        return False
