"""The commands of feeds and their spans: what they do at a node, what they print, how they end."""

import dataclasses
import threading
from pathlib import Path

import pytest

from lockgate.cli import feed_spans
from lockgate.model.feed_config import FeedConfig
from lockgate.model.feed_status import FeedPlan, FeedStatus, FindingDocument
from lockgate.model.feeds import FeedState
from tests.cli.conftest import Run
from tests.support.served import Served
from tests.support.waiting import until

# --- making feeds ---------------------------------------------------------------------------------


def test_a_feed_is_made_with_the_patterns_of_one_option(run: Run, served: Served) -> None:
    done = run("feed create two --from shop --to copy --tables public.* !public.users --json")
    assert done.code == 0, done.err
    assert done.document["tables"] == 2


def test_a_feed_is_made_with_the_option_repeated(run: Run, served: Served) -> None:
    line = "feed create two --tables public.* --tables !public.users --from shop --to copy --json"
    assert run(line).document["tables"] == 2


@pytest.mark.parametrize("more", ["", " --wait"])
def test_a_feed_that_has_failed_is_failure(
    run: Run, served: Served, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    made = served.service.create_feed

    def fails(config: FeedConfig, who: str) -> FeedStatus:
        steps = ("empty it", "when that is done: lockgate feed resume two")
        why = "the table has rows"
        failed = {"state": FeedState.FAILED, "error": why, "next_steps": steps}
        return dataclasses.replace(made(config, who), **failed)

    monkeypatch.setattr(served.service, "create_feed", fails)
    done = run(f"feed create two --from shop --to copy --tables public.* --json{more}")
    assert (done.code, done.document["state"]) == (1, "failed")
    assert "error: the feed is recorded and has failed (two): the table has rows" in done.err
    assert "empty it" in done.err


def test_a_stray_word_is_wrong_usage(run: Run, served: Served) -> None:
    done = run("feed create two stray --from shop --to copy")
    assert done.code == 2
    assert "'stray' was not expected" in done.err


def test_no_copy_is_passed_on(run: Run, served: Served) -> None:
    run("feed create two --from shop --to copy --tables public.* --no-copy")
    assert served.service._feeds["two"].config.copy is False


def test_a_file_s_copy_holds_unless_an_option_says_otherwise(
    run: Run, served: Served, tmp_path: Path
) -> None:
    (tmp_path / "two.toml").write_text("copy = false\n")
    base = "--from shop --to copy --tables public.* --config two.toml"
    run(f"feed create two {base}")
    run(f"feed create three {base} --copy")
    feeds = served.service._feeds
    assert (feeds["two"].config.copy, feeds["three"].config.copy) == (False, True)


def test_a_dry_run_shows_what_would_be_made_and_makes_nothing(run: Run, served: Served) -> None:
    done = run("feed create two --from shop --to copy --tables public.* --dry-run")
    assert done.code == 0
    assert "would be made\n  slot lockgate_two" in done.out
    assert "public.orders" in done.out
    assert not served.service._feeds


def test_a_dry_run_in_json_is_the_plan(run: Run, served: Served) -> None:
    done = run("feed create two --from shop --to copy --tables public.* --dry-run --json")
    assert done.document["makes"] == ["slot lockgate_two"]


def test_a_plan_with_an_error_in_it_is_failure(
    run: Run, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = FindingDocument("error", "wal-level", "wal_level is replica", "shop", "set logical")
    monkeypatch.setattr(served.service, "plan_feed", lambda _: FeedPlan("two", (), (), (found,)))
    done = run("feed create two --from shop --to copy --tables public.* --dry-run")
    assert done.code == 1
    assert "hint: set logical" in done.out
    assert done.err.splitlines()[-2] == "error: 1 thing stands in the way (two)"


def test_creating_can_wait_for_the_copy(run: Run, served: Served) -> None:
    line = "feed create two --from shop --to copy --tables public.* --wait --json"
    assert run(line).document["copy"]["percent"] == 100.0


# --- their life -----------------------------------------------------------------------------------


def test_a_status_has_the_keys_that_scripts_read(run: Run, fed: Served) -> None:
    document = run("feed status shop --json").document
    assert document.keys() >= {
        *("name", "state", "epoch", "owner", "resolved", "checkpoint", "lag_s", "tables", "spans"),
        *("copy", "error", "next_steps"),
    }
    assert document["copy"].keys() == {"rows_done", "rows_total", "percent", "eta_s"}


def test_a_status_ends_with_what_can_be_done_next(run: Run, fed: Served) -> None:
    assert run("feed status shop").out.endswith("\nnext\n  lockgate feed wait shop\n")


def test_a_feed_is_paused_and_resumed(run: Run, fed: Served) -> None:
    assert run("feed pause shop --json").document["state"] == "stopped"
    assert run("feed resume shop --json").document["state"] == "normal"


def test_a_feed_is_removed(run: Run, fed: Served) -> None:
    assert run("feed remove shop").out == "removed the feed shop\n"
    assert run("feed list --json").document == {"items": []}


def test_a_feed_that_is_not_gone_yet_is_not_said_to_be_removed(run: Run, fed: Served) -> None:
    fed.service.held_up["shop"] = "the source does not answer"
    done = run("feed remove shop")
    assert (done.code, done.out) == (1, "")
    assert "error: the feed is being removed, and is not gone yet (shop): the source" in done.err
    assert "it goes on by itself" in done.err


def test_the_document_of_a_removal_says_that_the_feed_is_not_gone_yet(
    run: Run, fed: Served
) -> None:
    fed.service.held_up["shop"] = "the source does not answer"
    done = run("feed remove shop --json")
    assert done.code == 1
    assert (done.document["removed"], done.document["error"]) == (
        False,
        "the source does not answer",
    )


def test_what_a_removal_by_force_leaves_behind_is_said(run: Run, fed: Served) -> None:
    fed.service.held_up["shop"] = "the source does not answer"
    done = run("feed remove shop --force")
    assert (done.code, done.out) == (0, "removed the feed shop\nleft behind, a slot\n")


def test_the_document_of_a_removal_by_force_says_what_is_left_behind(run: Run, fed: Served) -> None:
    fed.service.held_up["shop"] = "the source does not answer"
    done = run("feed remove shop --force --json")
    assert done.document == {"name": "shop", "removed": True, "left": ["left behind, a slot"]}


def test_no_feeds_is_said_beside_the_result(run: Run, served: Served) -> None:
    done = run("feed list")
    assert done.out == ""
    assert "lockgate feed create" in done.err


def test_a_table_is_copied_anew(run: Run, fed: Served) -> None:
    assert run("feed resync shop public.orders").code == 0
    assert run("feed history shop --json").document["items"][0]["detail"] == "public.orders"


def test_watching_and_json_exclude_each_other(run: Run, fed: Served) -> None:
    assert run("feed status shop --watch --json").code == 2


def test_watching_prints_a_line_per_change_and_ends_with_the_feed(
    run: Run, fed: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = fed.service.feed("shop")
    later = dataclasses.replace(now, rows_applied=2000)
    end = dataclasses.replace(later, state=FeedState.FINISHED)
    statuses = iter([now, now, later, end])
    monkeypatch.setattr(fed.service, "feed", lambda name: next(statuses))
    done = run("feed status shop --watch --interval 0.1")
    assert done.out.splitlines() == [
        "shop: normal; 1,000 changes applied; lag 0.0 s",
        "shop: normal; 2,000 changes applied; lag 0.0 s",
        "shop: finished; 2,000 changes applied; lag 0.0 s",
    ]


# --- waiting --------------------------------------------------------------------------------------


def test_waiting_for_a_level_feed_succeeds(run: Run, fed: Served) -> None:
    done = run("feed wait shop --json")
    assert (done.code, done.document["level"]) == (0, True)


def test_waiting_in_vain_is_failure_with_the_document_all_the_same(run: Run, fed: Served) -> None:
    fed.service.lag("shop")
    done = run("feed wait shop --timeout 0.1 --json")
    assert (done.code, done.document["level"]) == (1, False)
    assert "error: not level within 0.1 s (shop)" in done.err


def test_waiting_tells_how_it_goes_on_stderr(run: Run, fed: Served) -> None:
    fed.service.lag("shop")
    assert "shop: normal; 1,000 changes applied; lag 1.5 s" in run("feed wait shop --timeout 0").err


def test_waiting_ends_when_the_feed_is_level(run: Run, fed: Served) -> None:
    fed.service.lag("shop")

    def level() -> None:
        until(lambda: fed.service.waiting)
        fed.service.level("shop")

    helper = threading.Thread(target=level)
    helper.start()
    assert run("feed wait shop").code == 0
    helper.join(10)


# --- spans ----------------------------------------------------------------------------------------


def spans(run: Run) -> list[str]:
    return [span["span"] for span in run("feed spans shop --json").document["items"]]


def test_a_span_is_split_into_two_when_nothing_is_said(run: Run, fed: Served) -> None:
    done = run(f"feed span-split shop {spans(run)[0]} --json")
    assert (done.code, done.document["spans"]) == (0, 4)


def test_a_span_is_split_at_several_keys(run: Run, fed: Served) -> None:
    done = run(f"feed span-split shop {spans(run)[0]} --at 40 80 c0 --json")
    assert done.document["spans"] == 6


@pytest.mark.parametrize("rest", ["--at 40 --parts 2", "40", "--parts 1"])
def test_a_split_that_makes_no_sense_is_wrong_usage(rest: str, run: Run, fed: Served) -> None:
    assert run(f"feed span-split shop {spans(run)[0]} {rest}").code == 2


def test_spans_are_merged(run: Run, fed: Served) -> None:
    run(f"feed span-split shop {spans(run)[0]} --parts 3")
    first, second, third = spans(run)[:3]
    assert run(f"feed span-merge shop {first} {second} {third} --json").document["spans"] == 3


def test_one_span_is_not_merged(run: Run, fed: Served) -> None:
    assert run("feed span-merge shop s1").code == 2


def test_a_span_is_moved_and_waited_for(run: Run, fed: Served) -> None:
    fed.service.add_node("b")
    assert run(f"feed span-move shop {spans(run)[0]} --node b --wait").code == 0
    assert run("feed spans shop").out.splitlines()[1].split()[4] == "b"


@pytest.mark.parametrize("wanted", ["span-move shop {} --node b", "span-split shop {}"])
def test_an_operator_that_ended_and_changed_nothing_is_failure(
    run: Run, fed: Served, monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    """Nothing is under way, and nothing came of it: its owner died, or it was given up."""
    fed.service.add_node("b")
    monkeypatch.setattr(feed_spans, "GRACE_S", 0.0)
    for verb in ("move_span", "split_span"):
        monkeypatch.setattr(fed.service, verb, lambda *_: fed.service.feed("shop"))
    done = run(f"feed {wanted.format(spans(run)[0])} --wait")
    assert done.code == 1
    assert "error: it was begun, nothing of it is under way any more" in done.err


def test_a_merge_that_was_given_up_is_failure(
    run: Run, fed: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(f"feed span-split shop {spans(run)[0]} --parts 2")
    monkeypatch.setattr(feed_spans, "GRACE_S", 0.0)
    monkeypatch.setattr(fed.service, "merge_spans", lambda *_: fed.service.feed("shop"))
    first, second = spans(run)[:2]
    assert run(f"feed span-merge shop {first} {second} --wait").code == 1


def test_an_operator_that_lasts_longer_than_the_wait_is_failure(
    run: Run, fed: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = fed.service.feed_tables("shop")
    busy = [
        dataclasses.replace(table, spans=(dataclasses.replace(table.spans[0], operator="move"),))
        for table in tables
    ]
    monkeypatch.setattr(fed.service, "feed_tables", lambda name: busy)
    fed.service.add_node("b")
    done = run(f"feed span-move shop {busy[0].spans[0].span} --node b --wait --timeout 0")
    assert done.code == 1
    assert "error: it is still under way after 0 s (shop)" in done.err
