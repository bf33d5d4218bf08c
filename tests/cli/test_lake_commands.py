"""The commands of lakes: what they do at a node, what they print, how they end."""

import sys
import threading
from collections.abc import Iterator

import pytest

from lockgate.cli import lake_show
from lockgate.model.errors import OutcomeUnknown
from lockgate.model.lake_documents import LakeOutcome
from tests.cli.conftest import Run
from tests.cli.test_terminal import Terminal
from tests.support.fake_lakes import WEIRD
from tests.support.served import Served
from tests.support.services import FakeService

ORDERS = "public.orders"


def state(service: FakeService, table: str = ORDERS) -> str:
    return service.lakes.table("lake", table).state


# --- looking --------------------------------------------------------------------------------------


def test_a_status_has_the_keys_that_scripts_read(run: Run, served: Served) -> None:
    document = run("lake status lake public.orders --json").document
    assert document.keys() >= {
        *("table", "role", "epoch", "stable_version", "stable_rows", "ingest_segments"),
        *("ingest_rows", "drained_to", "size_bytes", "state"),
    }


def test_a_status_ends_with_what_can_be_done_next(run: Run, served: Served) -> None:
    out = run("lake status lake public.orders").out
    assert out.endswith("\nnext\n  to have stable level: lockgate lake drain lake public.orders\n")


def test_a_status_says_what_is_stable_and_what_waits(run: Run, served: Served) -> None:
    lines = dict(
        line.split("  ", 1) for line in run("lake status lake public.orders").out.split("\n")[:8]
    )
    shown = {name.strip(): value.strip() for name, value in lines.items()}
    assert shown["stable"] == "1,000 rows, version 5"
    assert shown["ingest"] == "24 changes in 2 segments"
    assert shown["size"] == "97.7 KiB (100,000 bytes)"


def test_a_list_says_who_leads_before_the_tables(run: Run, served: Served) -> None:
    out = run("lake list lake").out
    head, _, tables = out.partition("\n\n")
    assert head.splitlines()[1].split() == ["role", "leader"]
    heading, *rows = tables.splitlines()
    assert heading.split()[:3] == ["TABLE", "STATE", "STABLE"]
    assert [row.split()[:4] for row in rows] == [
        [WEIRD, "live", "7", "0"],
        ["public.items", "live", "40", "2"],
        ["public.orders", "dead", "0", "0"],
        ["public.orders", "live", "1,000", "24"],
    ]


def test_a_list_for_scripts_is_a_list_with_who_leads(run: Run, served: Served) -> None:
    document = run("lake list lake --json").document
    assert [one["table"] for one in document["items"]].count(ORDERS) == 2
    assert (document["role"], document["epoch"], document["tables"]) == ("leader", 3, 4)


def test_a_lake_that_nobody_leads_says_what_to_do(run: Run, served: Served) -> None:
    run("lake step-down lake --flush")
    out = run("lake list lake").out
    assert "leader  nobody" in out
    assert out.endswith("\nnext\n  nobody leads this lake: lockgate lake step-up lake\n")


@pytest.mark.parametrize("line", ["list shop", "status shop public.orders", "drain shop"])
def test_a_database_is_no_lake(line: str, run: Run, served: Served) -> None:
    done = run(f"lake {line} --json")
    assert (done.code, done.document["error"]["code"]) == (1, "conflict")
    assert "hint: name an endpoint whose URL begins with delta:" in done.err


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (2**30 * 3 // 2, "1.5 GiB")],
)
def test_sizes_are_said_as_people_say_them(count: int, said: str) -> None:
    assert lake_show.size(count) == said


# --- draining, leading ----------------------------------------------------------------------------


def test_a_table_is_drained(run: Run, served: Served) -> None:
    assert run("lake drain lake public.orders").out == "drained public.orders\n"
    assert served.service.lakes.table("lake", ORDERS).ingest_rows == 0
    assert served.service.lakes.table("lake", "public.items").ingest_rows == 2


def test_a_drain_of_nothing_is_success_that_says_so(run: Run, served: Served) -> None:
    run("lake drain lake public.orders")
    done = run("lake drain lake public.orders")
    assert (done.code, done.out) == (0, "there was nothing to do (public.orders)\n")


def test_without_a_table_all_are_drained(run: Run, served: Served) -> None:
    document = run("lake drain lake --json").document
    assert (document["verdict"], document["failed"]) == ("done", [])
    assert run("lake drain lake --json").document["verdict"] == "nothing-to-do"


def test_a_drain_whose_table_was_dropped_meanwhile_is_failure(
    run: Run, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = LakeOutcome("5f0c2a9d1e7b4a36", "superseded", "the table was dropped")
    monkeypatch.setattr(served.service.lakes, "drain", lambda *_: told)
    done = run("lake drain lake public.orders --json")
    assert (done.code, done.document["verdict"]) == (1, "superseded")
    assert done.err == "error: the table was dropped (public.orders)\n"


def test_a_lake_is_given_up_and_taken(run: Run, served: Served) -> None:
    refused = run("lake step-down lake")
    assert refused.code == 1
    assert "hint: drain them first, or step down with a flush" in refused.err
    assert run("lake step-down lake --flush").out == "this home follows\n"
    assert run("lake step-up lake").out == "this home leads the lake under epoch 4\n"


def test_tables_that_a_step_up_could_not_drain_are_named_beside_the_result(
    run: Run, served: Served
) -> None:
    served.service.lakes.failed = ("public.orders: a segment is missing",)
    done = run("lake step-up lake --json")
    assert (done.code, len(done.document["failed"])) == (0, 1)
    assert done.err == "not yet: public.orders: a segment is missing\n"


# --- what takes long ------------------------------------------------------------------------------


@pytest.fixture
def slow(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[FakeService, threading.Event]]:
    """Step-ups last until the event; three tables of nine are through."""
    service, over = served.service, threading.Event()
    plain = service.lakes.step_up

    def step_up(*args: str) -> LakeOutcome:
        assert over.wait(30)
        return plain(*args)

    service.lakes.progress("lake", 3, 9)
    monkeypatch.setattr(service.lakes, "step_up", step_up)
    monkeypatch.setattr("lockgate.cli.lake_waiting.LOOK_S", 0.01)
    yield service, over
    over.set()


def test_a_long_step_up_is_told_with_done_and_total(
    run: Run, slow: tuple[FakeService, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, over = slow
    monkeypatch.setattr("lockgate.cli.progress.PLAIN_INTERVAL_S", 0.0)
    plain = service.lakes.one

    def one(endpoint: str) -> object:
        if sum(verb == "lake" for verb, _ in service.calls) > 2:
            over.set()
        return plain(endpoint)

    monkeypatch.setattr(service.lakes, "one", one)
    done = run("lake step-up lake")
    assert done.code == 0
    assert "lake: leader, tables 3/9, about" in done.err


def test_ctrl_c_leaves_it_running_and_says_so(
    run: Run, slow: tuple[FakeService, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lockgate.client.lakes.Lakes.show", interrupted)
    done = run("lake step-up lake --json")
    assert (done.code, done.document["verdict"]) == (130, "under-way")
    assert "goes on by itself; `lockgate lake list lake` shows how far it is" in done.err


def test_a_look_that_fails_does_not_end_the_wait(
    run: Run, slow: tuple[FakeService, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, over = slow
    monkeypatch.setattr("lockgate.client.transport.RETRY_AFTER_S_MAX", 0.0)

    def one(endpoint: str) -> object:
        over.set()
        raise OutcomeUnknown("away", object_=endpoint, hint="")

    monkeypatch.setattr(service.lakes, "one", one)
    assert run("lake step-up lake").code == 0


def test_the_command_asks_on_until_there_is_a_verdict(run: Run, served: Served) -> None:
    served.service.lakes.under_way = 3
    assert run("lake drain lake public.orders").out == "drained public.orders\n"


# --- dropping -------------------------------------------------------------------------------------


def test_a_table_is_dropped_without_a_question_where_there_is_no_terminal(
    run: Run, served: Served
) -> None:
    done = run("lake drop lake public.orders")
    assert (done.code, done.out) == (
        0,
        "dropped public.orders; its files go when no reader holds them\n",
    )
    assert state(served.service) == "dead"


def test_a_table_with_a_slash_in_its_name_is_dropped(run: Run, served: Served) -> None:
    assert run("lake", "drop", "lake", WEIRD).code == 0
    assert state(served.service, WEIRD) == "dead"


@pytest.mark.parametrize(
    ("typed", "more", "left", "code"),
    [
        ("y\n", "", "dead", 0),
        ("n\n", "", "live", 1),
        ("\n", "", "live", 1),
        ("", "--yes", "dead", 0),
        ("", "--json", "dead", 0),
    ],
)
def test_on_a_terminal_somebody_is_asked(
    run: Run,
    served: Served,
    monkeypatch: pytest.MonkeyPatch,
    typed: str,
    more: str,
    left: str,
    code: int,
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    done = run(f"lake drop lake public.orders {more}")
    assert (done.code, state(served.service)) == (code, left)
    assert ("Drop public.orders of lake?" in done.err) == (not more)


def test_a_busy_table_is_failure_and_nothing_happens(run: Run, served: Served) -> None:
    served.service.lakes.busy.add(ORDERS)
    done = run("lake drop lake public.orders --json")
    assert (done.code, done.document["error"]["code"]) == (1, "busy")
    assert state(served.service) == "live"


def test_a_busy_table_is_waited_for(run: Run, served: Served) -> None:
    served.service.lakes.busy.add(ORDERS)
    assert run("lake drop lake public.orders --wait 5").code == 0


@pytest.mark.parametrize("line", ["drop lake public.orders --wait -1", "drop lake", "status lake"])
def test_what_makes_no_sense_is_wrong_usage(line: str, run: Run, served: Served) -> None:
    assert run(f"lake {line}").code == 2
