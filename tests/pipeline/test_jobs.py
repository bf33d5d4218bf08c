"""Work items through a real Spark: nothing lost, nothing mixed up, stopped when asked."""

import os
import threading
from pathlib import Path
from urllib.parse import urlparse

import msgspec
import pytest

from lockgate.model.errors import UsageError
from lockgate.pipeline.jobs import (
    Interrupted,
    SparkLost,
    TaskFailed,
    interrupt,
    run_each,
    run_tasks,
)
from lockgate.pipeline.session import Spark, SparkOptions, start
from tests.support.waiting import until


def test_receipts_come_in_the_order_of_the_items(spark: Spark) -> None:
    items = [f"item {number}".encode() for number in range(5)]
    assert run_tasks(spark, "echo", items, "order") == items


def test_few_items_are_tasks_of_their_own(spark: Spark) -> None:
    """One row, one partition, no shuffle: that is what makes a small job cheap."""
    tasks = run_tasks(spark, "test-where", [b""] * 5, "own")
    assert tasks == [b"0", b"1", b"2", b"3", b"4"]


def test_many_items_are_packed_and_still_in_order(spark: Spark) -> None:
    items = [os.urandom(10) for _ in range(300)]
    weights = [float(number % 7) for number in range(300)]
    assert run_tasks(spark, "echo", items, "many", weights=weights, tasks=3) == items


def test_the_heaviest_tasks_are_begun_first(spark: Spark) -> None:
    """The second and the third item share a task, which so has more to do than the first one's."""
    where = run_tasks(spark, "test-where", [b""] * 3, "heavy", weights=[1.0, 0.9, 0.8], tasks=2)
    assert where == [b"1", b"0", b"0"]


def test_few_items_are_begun_with_the_heaviest(spark: Spark) -> None:
    where = run_tasks(spark, "test-where", [b""] * 3, "few", weights=[1.0, 3.0, 2.0])
    assert where == [b"2", b"0", b"1"]


def test_items_that_weigh_nothing_are_spread_as_well(spark: Spark) -> None:
    where = run_tasks(spark, "test-where", [b""] * 4, "nothing", weights=[0.0] * 4, tasks=2)
    assert sorted(where) == [b"0", b"0", b"1", b"1"]


def test_no_items_need_no_job(spark: Spark) -> None:
    assert run_tasks(spark, "echo", [], "none") == []


def test_an_unknown_kind_is_refused(spark: Spark) -> None:
    with pytest.raises(UsageError, match="no such kind"):
        run_tasks(spark, "dance", [b""], "kind")


def test_a_raising_task_is_reported_with_its_trace_and_the_others_receipts(spark: Spark) -> None:
    with pytest.raises(TaskFailed, match="RuntimeError: no such luck") as failed:
        run_tasks(spark, "test-fail", [b"good", b"bad", b"fine"], "fail")
    assert failed.value.receipts == [b"good", None, b"fine"]
    assert any("in fail" in note for note in failed.value.__notes__)


def test_a_kind_that_takes_items_together_has_all_of_a_task_at_once(spark: Spark) -> None:
    items = [b"%d" % number for number in range(5)]
    counted = run_tasks(spark, "test-count", items, "together", tasks=2)
    assert counted == [b"0 of 3", b"1 of 2", b"2 of 3", b"3 of 2", b"4 of 3"]


def test_items_that_fail_together_leave_other_tasks_alone(spark: Spark) -> None:
    items = [b"good", b"bad", b"fine"]
    with pytest.raises(TaskFailed, match="RuntimeError: no such luck") as failed:
        run_tasks(spark, "test-count", items, "together", tasks=2)
    assert failed.value.receipts == [b"good of 2", None, b"fine of 2"]


def test_a_worker_that_dies_loses_the_job_and_not_the_session(spark: Spark) -> None:
    with pytest.raises(SparkLost):
        run_tasks(spark, "test-leave", [b"bad"], "leave")
    assert run_tasks(spark, "echo", [b"alive"], "leave") == [b"alive"]


def test_workers_are_forked_with_their_imports_and_without_threads(spark: Spark) -> None:
    """What a daemon's threads hold when it forks, its workers would wait for for ever."""
    [answer] = run_tasks(spark, "test-daemon", [b""], "daemon")
    imported, threads = msgspec.json.decode(answer)
    assert imported
    assert len([name for name in threads if name != "jemalloc_bg_thd"]) == 1


def test_interrupting_a_tag_ends_its_tasks_and_no_others(spark: Spark, tmp_path: Path) -> None:
    ends: dict[str, BaseException | None] = {}

    def run(tag: str) -> None:
        try:
            run_tasks(spark, "test-hold", [str(tmp_path / tag).encode()], tag)
        except BaseException as error:
            ends[tag] = error

    threads = {tag: threading.Thread(target=run, args=(tag,)) for tag in ("one", "two")}
    for thread in threads.values():
        thread.start()
    pids = {
        tag: int(until((tmp_path / tag).exists, 60) and (tmp_path / tag).read_text())
        for tag in threads
    }
    try:
        assert interrupt(spark, "one")
        assert isinstance(ends.get("one"), Interrupted)
        until(lambda: not Path(f"/proc/{pids['one']}").exists())
        assert Path(f"/proc/{pids['two']}").exists()
        assert "two" not in ends
    finally:
        interrupt(spark, "two")
        for thread in threads.values():
            thread.join()
    assert isinstance(ends["two"], Interrupted)


def test_each_receipt_is_handed_over_once(spark: Spark) -> None:
    items = [f"item {number}".encode() for number in range(7)]
    taken: dict[int, bytes] = {}

    def take(number: int, receipt: bytes) -> None:
        assert number not in taken
        taken[number] = receipt

    run_each(spark, "echo", items, "each", take)
    assert [taken[number] for number in range(7)] == items


def test_receipts_are_handed_over_while_others_still_run_until_interrupted(
    spark: Spark, tmp_path: Path
) -> None:
    taken: list[int] = []
    failed: list[BaseException] = []
    items = [b"quick", str(tmp_path / "held").encode(), b"quick", b"quick"]

    def run() -> None:
        try:
            run_each(spark, "test-hold-some", items, "each", lambda no, _: taken.append(no))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: sorted(taken) == [0, 2, 3] and (tmp_path / "held").exists(), 60)
    assert thread.is_alive()
    assert interrupt(spark, "each")
    thread.join(60)
    assert isinstance(failed[0], Interrupted)


def test_an_item_that_raises_ends_the_others(spark: Spark, tmp_path: Path) -> None:
    """What is not begun is left, and what runs is stopped: nobody waits for ten minutes."""
    taken: list[int] = []
    items = [b"good", b"bad", *[b"fine"] * 20]
    with pytest.raises(TaskFailed, match="RuntimeError: no such luck"):
        run_each(spark, "test-fail", items, "each", lambda no, _: taken.append(no))
    assert len(taken) < 21
    assert run_tasks(spark, "echo", [b"alive"], "each") == [b"alive"]


def test_what_whoever_takes_receipts_raises_comes_out_and_ends_the_rest(
    spark: Spark, tmp_path: Path
) -> None:
    def take(number: int, receipt: bytes) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run_each(spark, "echo", [b"x"] * 20, "each", take)


def test_interrupting_what_does_not_run_is_no_error(spark: Spark) -> None:
    assert interrupt(spark, "nobody")


def test_what_an_item_holds_is_not_in_the_event_log(spark: Spark) -> None:
    """S3: items carry credentials."""
    secret = "planted-Zq8!secret"
    assert run_tasks(spark, "echo", [secret.encode()], "secret") == [secret.encode()]
    directory = Path(urlparse(spark.options.settings["spark.eventLog.dir"]).path)
    logs = [path for path in directory.rglob("*") if path.is_file()]
    text = "".join(path.read_text("utf-8", "replace") for path in logs)
    assert "MapInArrow" in text
    assert secret not in text
    assert secret not in spark.log_tail(10_000)


def test_a_second_session_with_a_master_is_refused(spark: Spark) -> None:
    with pytest.raises(UsageError, match="already has a Spark session"):
        start(SparkOptions("local[1]"))
