"""The commands of diffs: what they do at a node, what they print, how they end."""

import pytest

import lockgate
from lockgate.cli import diff_show
from lockgate.model.diffs import DiffColumn, DiffSample, RowKind
from tests.cli.conftest import Run
from tests.support.fake_diffs import FakeDiffs
from tests.support.served import Served

APART = "diff run --from shop --to copy --tables public.orders public.items"


@pytest.fixture
def diffs(fed: Served, monkeypatch: pytest.MonkeyPatch) -> FakeDiffs:
    """A node with the feed `shop` and the move `orders`, looked at often."""
    monkeypatch.setattr("lockgate.client.diffs.LOOK_S", 0.01)
    with lockgate.connect() as lg:
        lg.moves.create("orders", source="shop", target="copy", tables=["public.orders"])
    return fed.service.diffs


def test_equal_sides_are_success(run: Run, diffs: FakeDiffs) -> None:
    done = run(APART)
    assert (done.code, done.err.splitlines()[1:]) == (0, [])
    assert [order.tables for order in diffs.orders] == [("public.orders", "public.items")]


def test_sides_that_differ_are_failure_and_the_rows_are_shown(run: Run, diffs: FakeDiffs) -> None:
    diffs.unequal = True
    done = run(APART)
    assert done.code == 1
    assert "error: the two sides are not equal" in done.err
    assert "  ~ different  id=7\n      note: 'NULL' → NULL\n" in done.out
    assert "  - missing  id=8\n      note='a\\nb'\n" in done.out
    assert "  + extra  id=9\n      note=[red]x\n" in done.out


def test_json_is_one_document_with_the_keys_that_scripts_read(run: Run, diffs: FakeDiffs) -> None:
    diffs.unequal = True
    done = run(f"{APART} --json")
    assert done.code == 1
    assert done.document.keys() >= {
        *("id", "state", "tables", "position", "seconds", "rows_per_s"),
    }
    assert done.document["tables"][0].keys() >= {
        *("table", "rows", "equal", "missing", "extra", "different", "samples"),
    }


def test_one_that_fails_says_why_and_how_to_go_on(run: Run, diffs: FakeDiffs) -> None:
    diffs.fails = "a lock"
    done = run("diff run --feed shop --json")
    diff = done.document["id"]
    assert (done.code, done.document["state"]) == (1, "failed")
    assert f"a lock\nhint: lockgate diff resume {diff}" in done.err
    diffs.fails = ""
    assert run(f"diff resume {diff}").code == 0


def test_one_that_runs_is_called_off(run: Run, diffs: FakeDiffs) -> None:
    diffs.fails = "a lock"
    diff = run("diff run --feed shop --json").document["id"]
    done = run(f"diff cancel {diff}")
    assert done.code == 0
    assert "it was called off by" in done.out + done.err
    assert run(f"diff cancel {diff} --json").document["state"] == "failed"


def test_progress_is_told_on_stderr(
    run: Run, diffs: FakeDiffs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockgate.cli.diff_waiting.SAY_S", 0.0)
    diffs.looks = 3
    assert "running; 250 of about 1,000 rows, about 2 s left" in run("diff run --feed shop").err


def test_a_diff_is_shown_again_with_its_verdict(run: Run, diffs: FakeDiffs) -> None:
    diffs.unequal = True
    diff = run(f"{APART} --json").document["id"]
    assert run(f"diff show {diff}").code == 1
    diffs.looks = 1
    assert run(f"diff show {diff}").code == 0  # nobody knows yet
    assert run("diff show nobody").code == 1


def test_a_list_has_a_line_for_each(run: Run, diffs: FakeDiffs) -> None:
    assert "lockgate diff run" in run("diff list").err
    diff = run("move diff orders --json").document["id"]
    heading, row = run("diff list").out.splitlines()
    assert heading.split()[:3] == ["ID", "STATE", "EQUAL"]
    assert row.split()[:7] == [diff, "finished", "yes", "shop", "copy", "move", "orders"]
    assert [one["id"] for one in run("diff list --json").document["items"]] == [diff]


def test_a_move_is_compared_and_resumed(run: Run, diffs: FakeDiffs) -> None:
    diffs.fails = "a lock"
    failed = run("move diff orders --json").document["id"]
    diffs.fails = ""
    again = run("move diff orders --resume --json")
    assert (again.code, again.document["id"]) == (0, failed)


def test_a_repair_is_asked_for(run: Run, diffs: FakeDiffs) -> None:
    run("move diff orders --repair")
    run("diff run --feed shop --repair")
    assert [order.repair for order in diffs.orders] == [True, True]


def test_ctrl_c_leaves_it_running(
    run: Run, diffs: FakeDiffs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lockgate.client.diffs.Diffs.wait", interrupted)
    done = run("diff run --feed shop")
    assert (done.code, "goes on by itself" in done.err) == (130, True)


def test_a_row_without_a_key_is_shown_by_its_values() -> None:
    sample = DiffSample(RowKind.EXTRA, {}, (DiffColumn("v", None, ""),))
    head, values = diff_show.sample_lines(sample)
    assert (head.endswith(" extra"), values) == (True, "      v=''")
