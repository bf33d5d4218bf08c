"""The commands that talk to a node: what they do there, what they print, how they end."""

import dataclasses
import io
from pathlib import Path

import pytest

from lockgate.model.documents import EndpointReport, NodeState
from lockgate.model.errors import MetastoreUnavailable
from lockgate.model.tokens import Role
from tests.cli.conftest import Run
from tests.support.served import Served

READS = [
    "endpoint list",
    "feed list",
    "feed status shop",
    "feed tables shop",
    "feed spans shop",
    "feed history shop",
    "lake list lake",
    "lake status lake public.orders",
    "node list",
    "history",
    "token list",
]

CHANGES = [
    *("feed pause shop", "feed wait shop", "node drain a"),
    *("lake drain lake", "lake drop lake public.orders", "lake step-up lake"),
]

# --- every command --------------------------------------------------------------------------------


@pytest.mark.parametrize("line", READS)
def test_json_is_one_document_and_nothing_else(line: str, run: Run, fed: Served) -> None:
    done = run(f"{line} --json")
    assert done.code == 0, done.err
    assert done.document
    assert done.err == ""


@pytest.mark.parametrize("line", READS)
def test_people_get_lines_without_colour_where_there_is_no_terminal(
    line: str, run: Run, fed: Served
) -> None:
    done = run(line)
    assert done.code == 0, done.err
    assert done.out
    assert "\x1b" not in done.out + done.err


@pytest.mark.parametrize("line", [*READS, *CHANGES])
def test_without_a_server_every_command_fails_with_a_hint(
    line: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockgate.client.transport.BACKOFF_S", 0.0)
    done = run(f"{line} --url http://127.0.0.1:9 --json")
    assert done.code == 1
    assert done.document["error"]["code"] == "server-unavailable"
    assert "hint: start one with `lockgate server" in done.err


@pytest.mark.parametrize(
    "line", ["move complete x", "feed span-merge f s", "feed status x --watch --json"]
)
def test_what_is_wrong_with_the_command_is_said_before_where_the_node_is(
    line: str, run: Run
) -> None:
    done = run(f"{line} --url nonsense")
    assert done.code == 2
    assert "nonsense" not in done.err


def test_the_url_of_the_option_goes_before_the_environment(
    run: Run, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCKGATE_URL", "http://127.0.0.1:9")
    assert run(f"node list --url {served.url}").code == 0


def test_the_token_is_found_in_the_home(
    run: Run, served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("LOCKGATE_TOKEN")
    home = tmp_path / "lg"
    home.mkdir()
    (home / "token").write_text(served.token() + "\n")
    assert run("node list").code == 1
    assert run("node", "list", "--home", str(home)).code == 0


def test_a_role_that_may_not_is_told(
    run: Run, fed: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCKGATE_TOKEN", fed.token(Role.VIEWER))
    done = run("feed pause shop --json")
    assert done.code == 1
    assert done.document["error"]["code"] == "forbidden"


def test_a_mistake_that_the_server_finds_is_wrong_usage(run: Run, served: Served) -> None:
    done = run("endpoint add Shop postgres://db/x")
    assert done.code == 2
    assert done.err.startswith("error: ")


def test_a_closed_pipe_is_no_crash(run: Run, fed: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: object, **__: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("lockgate.cli.output.typer.echo", closed)
    assert run("feed status shop").code == 1


def test_an_interrupted_command_says_so(
    run: Run, fed: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lockgate.client.feeds.Feeds.status", interrupted)
    assert run("feed status shop").code == 130


# --- endpoints ------------------------------------------------------------------------------------


def test_an_endpoint_is_added(run: Run, served: Served) -> None:
    done = run("endpoint add third postgres://app:hunter2@db/third --json")
    assert done.document == {
        "name": "third",
        "url": "postgres://app:***@db/third",
        "kind": "postgres",
        "feeds": [],
    }


def test_a_url_may_come_on_stdin(run: Run, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("postgres://db/third\n"))
    assert run("endpoint add third - --json").document["url"] == "postgres://db/third"


def test_endpoints_are_listed_in_columns(run: Run, fed: Served) -> None:
    heading, first, *_ = run("endpoint list").out.splitlines()
    assert heading.split() == ["NAME", "KIND", "URL", "FEEDS"]
    assert first.split() == ["copy", "postgres", "postgres://app:***@db.example/copy", "shop"]
    assert first.index("postgres") == heading.index("KIND")


def test_a_fit_endpoint_is_success_and_its_warnings_have_hints(run: Run, served: Served) -> None:
    done = run("endpoint test shop")
    assert done.code == 0
    assert "warning  fsync is off (shop)\n         hint: turn it on" in done.out


def test_an_endpoint_that_is_fit_for_nothing_is_failure(
    run: Run, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = EndpointReport("shop", (), (), False, False)
    monkeypatch.setattr(served.service, "test_endpoint", lambda name: report)
    done = run("endpoint test shop --json")
    assert (done.code, done.document["source_ok"]) == (1, False)
    assert done.err.startswith("error: ")


def test_an_endpoint_is_removed(run: Run, served: Served) -> None:
    assert run("endpoint remove shop --json").document == {"name": "shop", "removed": True}
    assert [one["name"] for one in run("endpoint list --json").document["items"]] == [
        "copy",
        "lake",
    ]


# --- nodes, the past, tokens ----------------------------------------------------------------------


def test_a_node_is_drained(run: Run, fed: Served) -> None:
    assert run("node drain a --json").document["state"] == "draining"


def test_a_drain_that_lasts_longer_than_the_wait_is_failure(run: Run, fed: Served) -> None:
    done = run("node drain a --wait --timeout 0")
    assert done.code == 1
    assert "hint: it goes on by itself" in done.err


def test_a_drain_is_waited_for_through_an_outage(
    run: Run, fed: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockgate.cli.node.LOOK_S", 0.01)
    monkeypatch.setattr("lockgate.client.transport.RETRY_AFTER_S_MAX", 0.0)
    looks = iter([MetastoreUnavailable("away", object_="meta", hint=""), None])
    node = fed.service.nodes()[0]

    def nodes() -> list[object]:
        if error := next(looks):
            raise error
        return [dataclasses.replace(node, state=NodeState.DRAINED)]

    monkeypatch.setattr(fed.service, "nodes", nodes)
    done = run("node drain a --wait --json")
    assert (done.code, done.document["state"]) == (0, "drained")
    assert "away (meta); trying again" in done.err


def test_history_says_who_did_what(run: Run, fed: Served) -> None:
    first = run("history shop").out.splitlines()[1]
    assert first.split()[1:5] == ["admin", "feed", "create", "shop"]


def test_history_is_as_long_as_asked(run: Run, fed: Served) -> None:
    assert len(run("history --limit 2 --json").document["items"]) == 2


def test_a_token_is_alone_on_stdout(run: Run, served: Served) -> None:
    done = run("token add ann --role operator")
    assert len(done.out.split()) == 1
    assert "ann is an operator" in done.err


def test_a_token_in_json_has_its_role(run: Run, served: Served) -> None:
    document = run("token add ann --json").document
    assert (document["name"], document["role"]) == ("ann", "viewer")


def test_a_token_is_removed(run: Run, served: Served) -> None:
    run("token add ann")
    assert run("token remove ann").code == 0
    assert "ann" not in run("token list").out
