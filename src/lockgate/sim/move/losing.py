"""Complete and cancel in the fake world, when the side without the traffic is said to be lost.

A side that is away for a moment looks as one that is gone, here as in the real world: it is given
up, and turns up again as it was left.
"""

from lockgate.core.move.plans import CHECKS
from lockgate.sim.move.side import NotSo
from lockgate.sim.move.verbs import Acts, Verbs

__all__ = ["LosingVerbs"]


class LosingVerbs(Verbs):
    """Of one attempt at one step that gives a side up."""

    def is_gone(self) -> bool:
        """Nobody answers there."""
        assert self._run.order.lost is not None
        return self._world.is_away(self._world.sides[self._run.order.lost])

    def _look(self) -> None:
        if not self.is_gone():
            raise NotSo("it answers")

    def _dry(self) -> Acts:
        yield self._quick()
        if self._run.step in CHECKS:
            self._look()
        return None

    def _check_complete(self) -> Acts:
        yield self._quick()
        self._look()
        return None

    def _check_cancel(self) -> Acts:
        yield self._quick()
        self._look()
        return None

    def _nothing(self) -> Acts:
        yield self._quick()
        return None

    _run_out = _stop = _dispose = _drop_copies = _nothing

    def _end_feed(self) -> Acts:
        yield self._quick()
        for name in filter(None, (self._run.facts.feed, self._run.facts.frozen)):
            self._feeds.begin_removal(name, self._run.keeper, gives_up_sink=True)
            yield from self._remove(name)
        return None

    def _clean(self) -> Acts:
        assert self._run.order.lost is not None
        yield self._quick()
        self._side(self._run.order.lost.other).clean(self._run.keeper, keep_guard=False)
        return None
