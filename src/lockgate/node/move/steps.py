"""The table of steps: what each does, how it is undone, and what a dry run says of it.

A dry run looks where something is to be found out and changes nothing: of the steps it carries out
the checks, and of all others it says what they would do.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from lockgate.model.moves import Disposal, Side, Step
from lockgate.node.move import creating, ending, flipping, losing
from lockgate.node.move.job import Done, Job

__all__ = ["GIVING_UP", "STEPS", "StepVerbs", "verb"]


def _nothing(_: Job) -> Done:
    """It has no effect that anybody could meet."""
    return Done()


class StepVerbs(NamedTuple):
    """One step."""

    do: Callable[[Job], Done]
    dry: Callable[[Job], Done]
    undo: Callable[[Job], Done] = _nothing

    def of(self, job: Job) -> Callable[[Job], Done]:
        """The one that is asked for."""
        if job.run.dry:
            return self.dry
        return self.undo if job.run.undo else self.do


def _would(say: Callable[[Job], str]) -> Callable[[Job], Done]:
    return lambda job: Done(say(job))


def _disposal(job: Job) -> str:
    many, at = len(job.tables), job.name(Side.SOURCE)
    return {
        Disposal.RENAME: f"rename {many} tables of {at} to _…_old",
        Disposal.DROP: f"drop {many} tables of {at}",
        Disposal.KEEP: f"keep {many} tables of {at}, closed for writers",
    }[job.run.order.disposal]


def _copies(job: Job) -> str:
    if job.run.order.disposal is Disposal.KEEP:
        return f"keep the copies at {job.name(Side.TARGET)}"
    return f"drop the tables at {job.name(Side.TARGET)} that the move has made"


STEPS: Final[Mapping[Step, StepVerbs]] = {
    # create
    Step.CHECK_CREATE: StepVerbs(creating.check_create, creating.check_create),
    Step.FORWARD: StepVerbs(
        creating.forward, _would(lambda job: f"copy and follow {len(job.tables)} tables")
    ),
    Step.GUARD: StepVerbs(
        creating.guard, _would(lambda job: f"close the tables of {job.name(Side.TARGET)}")
    ),
    # switch and reverse
    Step.CHECK: StepVerbs(flipping.check, flipping.check),
    Step.HOOK_BEFORE: StepVerbs(
        flipping.hook_before,
        _would(lambda job: f"hook {job.entry.config.hook or 'none'}: hold the traffic"),
        flipping.undo_hook_before,
    ),
    Step.BLOCK: StepVerbs(
        flipping.block,
        _would(
            lambda job: (
                f"block writes to {len(job.tables)} tables of {job.name(job.giving)}, "
                f"for {job.run.order.timeout_ms / 1000:g} s at most"
            )
        ),
        flipping.undo_block,
    ),
    Step.CATCH_UP: StepVerbs(
        flipping.catch_up,
        _would(lambda job: f"wait until {job.name(job.taking)} has everything"),
    ),
    Step.FREEZE: StepVerbs(
        flipping.freeze,
        _would(lambda job: f"stop the feed {job.facts.feed}"),
        flipping.undo_freeze,
    ),
    Step.SEQUENCES: StepVerbs(
        flipping.sequences_,
        _would(lambda job: f"set the sequences of {job.name(job.taking)}"),
    ),
    Step.WAY_BACK: StepVerbs(
        flipping.way_back,
        _would(
            lambda job: f"have a feed from {job.name(job.taking)} back to {job.name(job.giving)}"
        ),
        flipping.undo_way_back,
    ),
    Step.SEAL: StepVerbs(
        flipping.seal,
        _would(lambda job: f"close {job.name(job.giving)} for good: the point of no return"),
    ),
    Step.FLIP: StepVerbs(
        _nothing, _would(lambda job: f"traffic and routes go to {job.name(job.taking)}")
    ),
    Step.OPEN: StepVerbs(
        flipping.open_, _would(lambda job: f"open the tables of {job.name(job.taking)}")
    ),
    Step.HOOK_AFTER: StepVerbs(
        flipping.hook_after,
        _would(
            lambda job: (
                f"hook {job.entry.config.hook or 'none'}: send the traffic to "
                f"{job.name(job.taking)}"
            )
        ),
    ),
    Step.RETIRE: StepVerbs(
        flipping.retire, _would(lambda job: f"remove the feed {job.facts.feed}")
    ),
    # complete
    Step.CHECK_COMPLETE: StepVerbs(ending.check_complete, ending.check_complete),
    Step.RUN_OUT: StepVerbs(
        ending.run_out,
        _would(lambda job: f"have the feed {job.facts.feed} run exactly to a position, stop it"),
    ),
    Step.END_FEED: StepVerbs(
        ending.end_feed, _would(lambda job: f"remove the feed {job.facts.feed}")
    ),
    Step.DISPOSE: StepVerbs(ending.dispose_, _would(_disposal)),
    Step.CLEAN: StepVerbs(
        ending.clean_, _would(lambda _: "remove guards and records of the move at both sides")
    ),
    # cancel
    Step.CHECK_CANCEL: StepVerbs(ending.check_cancel, ending.check_cancel),
    Step.STOP: StepVerbs(ending.stop, _would(lambda job: f"stop the feed {job.facts.feed}")),
    Step.DROP_COPIES: StepVerbs(ending.drop_copies, _would(_copies)),
}

assert STEPS.keys() == set(Step), "every step has its verbs"

GIVING_UP: Final[Mapping[Step, StepVerbs]] = {
    Step.CHECK_COMPLETE: StepVerbs(losing.check_lost, losing.check_lost),
    Step.CHECK_CANCEL: StepVerbs(losing.check_lost, losing.check_lost),
    Step.RUN_OUT: StepVerbs(losing.nothing_runs_out, losing.nothing_runs_out),
    Step.STOP: StepVerbs(losing.nothing_stops, losing.nothing_stops),
    Step.END_FEED: StepVerbs(
        losing.end_feed,
        _would(
            lambda job: f"remove the feed {job.facts.feed}, without {job.name(losing.lost_of(job))}"
        ),
    ),
    Step.DISPOSE: StepVerbs(losing.tables_stay, losing.tables_stay),
    Step.DROP_COPIES: StepVerbs(losing.tables_stay, losing.tables_stay),
    Step.CLEAN: StepVerbs(
        losing.clean_other,
        _would(
            lambda job: (
                f"remove guards and records of the move at {job.name(losing.lost_of(job).other)}"
            )
        ),
    ),
}
"""The same steps of a complete or a cancel that gives a side up."""


def verb(job: Job) -> Callable[[Job], Done]:
    """What is to be done now."""
    step = job.run.step
    found = STEPS[step] if job.run.order.lost is None else GIVING_UP.get(step, STEPS[step])
    return found.of(job)
