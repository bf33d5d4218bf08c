"""Work items through Spark: bytes in, receipts out, in the order of the items.

A job is a DataFrame with one row per task, made of work items, through `mapInArrow`, collected as
Arrow. That runs alike on local Spark, on a cluster and through Spark Connect. There is no shuffle
and no closure: a task is told the import path of a function and calls it with the item's bytes.

    work(item: bytes) -> receipt: bytes
    work(items: list[bytes]) -> receipts: list[bytes]       for kinds in TOGETHER, a task's items

A work function answers with a receipt in every case that it knows of, errors included. An exception
out of it is a surprise: the other items of the job still run, then TaskFailed carries the trace.

Items may hold credentials. They travel as a binary column, which no plan, log or event shows.

**Stopping.** Every run is tagged. `interrupt(spark, tag)` cancels the runs of a tag and waits until
they are gone; Spark kills the Python worker of a running task, which ends its connections, so
their transactions roll back. What commits in that moment is what the fence at the sink is for.
"""

import contextlib
import functools
import gc
import heapq
import importlib
import itertools
import re
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from lockgate.model.errors import LockgateError, Terminal, Transient, UsageError
from lockgate.pipeline.session import Spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "KINDS",
    "TASKS_PER_SLOT",
    "TOGETHER",
    "Interrupted",
    "SparkLost",
    "TaskFailed",
    "collect",
    "interrupt",
    "run_each",
    "run_tasks",
    "warm_up",
]

Work = Callable[[Any], Any]
"""Of one item, or of all that a task has."""

KINDS: Final[dict[str, str]] = {
    "echo": "lockgate.pipeline.jobs:echo",
    "apply": "lockgate.pipeline.apply:apply_tasks",
    "copy": "lockgate.endpoints.postgres.copy.task:copy_task",
    "diff": "lockgate.endpoints.postgres.diff.task:diff_task",
    "repair": "lockgate.endpoints.postgres.diff.repair:repair_task",
    "land": "lockgate.endpoints.delta.land:land_task",
    "rewrite": "lockgate.endpoints.delta.rewrite:rewrite_tasks",
    "lake-copy": "lockgate.endpoints.delta.copy_task:lake_copy_task",
}
"""What tasks can be asked to do: a name, and the import path of its work function."""

TOGETHER: Final = {"apply", "rewrite"}
"""Kinds whose function is given all items of a task, because they are cheaper so."""

TASKS_PER_SLOT: Final = 4
"""More items than this per slot are packed: a task costs some 20 ms, whatever it does."""

_ITEMS: Final = pa.schema([("pack", pa.binary())])
_OUTCOMES: Final = pa.schema(
    [("no", pa.int64()), ("receipt", pa.binary()), ("error", pa.string()), ("trace", pa.string())]
)
_OUTCOMES_DDL: Final = "no bigint, receipt binary, error string, trace string"


class Interrupted(Transient):
    """The tasks were stopped on request. Some may have committed: the sink tells."""

    code = "interrupted"


class SparkLost(Transient):
    """Spark did not bring the job to its end. Some tasks may have committed: the sink tells."""

    code = "spark-lost"


class TaskFailed(Terminal):
    """A work function raised what it should have answered with. `receipts` are the others'."""

    code = "task-failed"

    def __init__(self, what: str, *, object_: str, trace: str, receipts: list[bytes | None]):
        super().__init__(
            what,
            object_=object_,
            hint="this is a bug in Lockgate; please report it with this trace",
        )
        self.receipts = receipts
        self.add_note(trace)


# --- on the driver ------------------------------------------------------------------------------


class _Run:
    """One call of `run_tasks` that has not returned."""

    __slots__ = ("ended", "interrupted", "spark", "spark_tag", "tag")

    def __init__(self, spark: Spark, tag: str, number: int) -> None:
        self.spark = spark
        self.tag = tag
        self.spark_tag = f"lockgate-{re.sub('[^A-Za-z0-9_.-]', '_', tag)}-{number}"
        self.interrupted = False
        self.ended = threading.Event()


_numbers = itertools.count()
_runs: set[_Run] = set()
_runs_lock = threading.Lock()


def run_tasks(
    spark: Spark,
    kind: str,
    items: Sequence[bytes],
    tag: str,
    *,
    weights: Sequence[float] | None = None,
    tasks: int | None = None,
) -> list[bytes]:
    """Do `kind` for every item, and return their receipts in the order of the items.

    Each item is a task of its own while there are few; more are packed, balanced by `weights`,
    into `tasks` of them. Raises Interrupted, SparkLost, or TaskFailed.
    """
    if not items:
        return []
    path = _path(kind)
    packs = _packed(items, weights, tasks or spark.slots * TASKS_PER_SLOT)
    with _running(spark, tag) as run:
        outcomes = _collected(run, path, packs, kind in TOGETHER)
    return _receipts(outcomes, len(items), f"{kind} {tag}")


def run_each(
    spark: Spark, kind: str, items: Sequence[bytes], tag: str, take: Callable[[int, bytes], None]
) -> None:
    """Do `kind` for every item, and hand over number and receipt of each as soon as it is done.

    Each item is a job of its own, for Spark hands out what came of a job when all of it is done;
    as many run at once as there are slots, and one more that waits for the first to be free. That
    is for items of a second or more, whose receipts somebody records. `take` is called in this
    thread. Raises what `run_tasks` does, or `take`; then what runs is stopped, and no more begun.
    """
    path = _path(kind)
    with (
        _running(spark, tag) as run,
        ThreadPoolExecutor(spark.slots + 1, thread_name_prefix="item") as pool,
    ):
        jobs = {
            pool.submit(_collected, run, path, _packed([item], None, 1), kind in TOGETHER): number
            for number, item in enumerate(items)
        }
        try:
            for job in as_completed(jobs):
                [receipt] = _receipts(job.result(), 1, f"{kind} {tag}")
                take(jobs[job], receipt)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            _stop(run, jobs)
            raise


def _stop(run: _Run, jobs: Iterable[Future[Any]]) -> None:
    """Have the jobs of a run ended, those too that are about to be submitted."""
    run.interrupted = True
    while running := [job for job in jobs if not job.done()]:
        wait(running, 0.2)
        with contextlib.suppress(Exception):  # a driver that is gone runs nothing
            run.spark.cancel(run.spark_tag)


def _path(kind: str) -> str:
    path = KINDS.get(kind)
    if path is None:
        raise UsageError("there is no such kind of task", object_=kind, hint=", ".join(KINDS))
    return path


@contextlib.contextmanager
def _running(spark: Spark, tag: str) -> Iterator[_Run]:
    """A run that `interrupt` finds."""
    run = _Run(spark, tag, next(_numbers))
    with _runs_lock:
        _runs.add(run)
    try:
        yield run
    finally:
        with _runs_lock:
            _runs.discard(run)
        run.ended.set()


def interrupt(spark: Spark, tag: str, timeout_s: float = 30.0) -> bool:
    """Stop the running tasks of `tag`. True once all have ended, also when there were none."""
    with _runs_lock:
        runs = [run for run in _runs if run.tag == tag and run.spark is spark]
    deadline = time.monotonic() + timeout_s
    for run in runs:
        run.interrupted = True
        # A run that is about to submit its job has nothing to cancel yet, so ask again.
        while not run.ended.is_set() and time.monotonic() < deadline:
            spark.cancel(run.spark_tag)
            run.ended.wait(0.2)
    return all(run.ended.is_set() for run in runs)


def warm_up(spark: Spark) -> None:
    """Have every slot start its Python worker, so that the first job is as quick as the next."""
    run_tasks(spark, "echo", [b""] * spark.slots, "warm-up")


def collect(spark: Spark, tag: str, make: Callable[["SparkSession"], "DataFrame"]) -> pa.Table:
    """The rows of a DataFrame, as a run that `interrupt` finds; for queries, not for items.

    Raises Interrupted or SparkLost; and what `make` raises, if that is an error of ours.
    """
    with _running(spark, tag) as run:
        return _errors_of(run, lambda: _query(run, make))


def _query(run: _Run, make: Callable[["SparkSession"], "DataFrame"]) -> pa.Table:
    with run.spark.tagged(run.spark_tag):
        frame = make(run.spark.session)
        if run.interrupted:
            raise Interrupted("the query was stopped", object_=run.tag, hint="")
        return frame.toArrow()


def _collected(run: _Run, path: str, packs: list[bytes], together: bool) -> pa.Table:
    """What came of one job."""
    return _errors_of(run, lambda: _job(run, path, packs, together))


def _errors_of(run: _Run, work: Callable[[], pa.Table]) -> pa.Table:
    """What goes wrong comes out as errors of ours."""
    try:
        return work()
    except Exception as error:
        if run.interrupted:
            raise Interrupted(
                "the tasks were stopped", object_=run.tag, hint="start again when it is time"
            ) from None
        if isinstance(error, LockgateError):
            raise
        raise _lost(run.spark, run.tag, error) from None


def _job(run: _Run, path: str, packs: list[bytes], together: bool) -> pa.Table:
    session = run.spark.session
    table = pa.Table.from_arrays([pa.array(packs, pa.binary())], schema=_ITEMS)
    with run.spark.tagged(run.spark_tag):
        frame = session.createDataFrame(table)
        done = frame.mapInArrow(
            functools.partial(_task, path=path, together=together), _OUTCOMES_DDL
        )
        if run.interrupted:
            raise Interrupted("the tasks were stopped", object_=run.tag, hint="")
        return done.toArrow()


def _packed(items: Sequence[bytes], weights: Sequence[float] | None, tasks: int) -> list[bytes]:
    """The items as at most `tasks` packs; the heaviest goes first, to the least loaded pack.

    Spark begins with the first, and so the heaviest pack comes first as well: begun last, it would
    run on alone when all other slots have nothing left to do.
    """
    weigh = [1.0] * len(items) if weights is None else weights
    packs: list[list[int]] = [[] for _ in range(min(tasks, len(items)))]
    loads = [(0.0, 0, pack) for pack in range(len(packs))]
    for number in sorted(range(len(items)), key=weigh.__getitem__, reverse=True):
        load, count, pack = loads[0]
        packs[pack].append(number)
        # The count is for what weighs nothing: it would all go to one pack, and leave others empty.
        heapq.heapreplace(loads, (load + weigh[number], count + 1, pack))
    order = [packs[pack] for _, _, pack in sorted(loads, key=lambda one: (-one[0], one[2]))]
    return [msgspec.msgpack.encode([(no, items[no]) for no in pack]) for pack in order]


def _receipts(outcomes: pa.Table, count: int, object_: str) -> list[bytes]:
    receipts: list[bytes | None] = [None] * count
    errors: list[tuple[str, str]] = []
    for row in outcomes.to_pylist():
        receipts[row["no"]] = row["receipt"]
        if row["error"] is not None:
            errors.append((row["error"], row["trace"]))
    if errors:
        what, trace = errors[0]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise TaskFailed(
            f"a task failed: {what}{more}", object_=object_, trace=trace, receipts=receipts
        )
    found = [receipt for receipt in receipts if receipt is not None]
    if len(found) != count:
        raise SparkLost(
            f"{count - len(found)} of {count} receipts are missing",
            object_=object_,
            hint="run the job again; what has committed is known at the sink",
        )
    return found


def _lost(spark: Spark, tag: str, error: Exception) -> SparkLost:
    """Of the pages of Java that Py4J and gRPC bring, one line names the cause.

    The text is taken now: such an error asks the Java process, which may be gone by the time that
    it is shown.
    """
    where = "the driver's Java process is gone" if not spark.running else "the job did not end"
    return SparkLost(
        f"Spark failed: {where}",
        object_=tag,
        hint=f"run the job again, with a new session if this one is gone\n{spark.log_tail(5)}",
        cause=f"{type(error).__name__}: {error}",
    )


# --- in a task ----------------------------------------------------------------------------------


def _task(batches: Iterator[pa.RecordBatch], path: str, together: bool) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for pack in batch.column(0).to_pylist():
            items = msgspec.msgpack.decode(pack, type=list[tuple[int, bytes]])
            for some in [items] if together else [[one] for one in items]:
                yield _outcomes(path, some, together)
    settle()


def _outcomes(path: str, items: list[tuple[int, bytes]], together: bool) -> pa.RecordBatch:
    receipts: list[bytes | None] = [None] * len(items)
    what: str | None = None
    trace: str | None = None
    try:
        work = _function(path)
        receipts = work([item for _, item in items]) if together else [work(items[0][1])]
    except Exception as error:  # whatever it is, the driver has to hear of it
        what, trace = f"{type(error).__name__}: {error}", traceback.format_exc()
    same = [None] * len(items)
    return pa.RecordBatch.from_pydict(
        {
            "no": [number for number, _ in items],
            "receipt": receipts,
            "error": [what, *same[1:]],
            "trace": [trace, *same[1:]],
        },
        _OUTCOMES,
    )


@functools.cache
def _function(path: str) -> Work:
    module, _, name = path.partition(":")
    found: Work = getattr(importlib.import_module(module), name)
    return found


@functools.cache
def settle() -> None:
    """Keep what is imported out of the collection that Spark runs after each task: 25 ms of it.

    Once in a process, and not in those that are forked from it: even to ask how much is kept out
    takes a walk over all of it.
    """
    gc.collect()
    gc.freeze()


def echo(item: bytes) -> bytes:
    """The least that a task can do: answers with the item."""
    return item
