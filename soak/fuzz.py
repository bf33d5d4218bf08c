"""A real node is asked thousands of things that nobody thought of: `python -m soak fuzz --cases N`.

schemathesis makes requests out of the description that the node itself gives (OpenAPI), half of
them as described and half not; half of the former are about things that there are: a feed that runs
between two real databases, and a lake with a table that another feed has left there. Nothing may
break: every answer is as described, there is no error of ours among them, and in the end the feed
still brings rows, the node still lives, and its log has no trace of a bug.

503 says "not now" and is no error of ours where a database that the request itself has named cannot
be reached. Anything else from 500 on is.
"""

import argparse
import contextlib
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psycopg
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import negative_data_rejection as refused
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from lockgate.client import Client
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.errors import Conflict, NotFound
from soak.compare import compare
from soak.nodes import NodeServer

__all__ = ["main"]

Operation = APIOperation[Any, Any, Any, Any]

CHECKS: Final = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
SETTINGS: Final[dict[str, str | int]] = {"fsync": "off", "wal_level": "logical"}
ABSENT: Final = frozenset({"endpoint-unavailable", "endpoint-busy"})
"""Codes of a 503 that the request brought upon itself."""
LAST: Final = ("feed_remove", "token_remove", "endpoint_remove", "node_drain")
"""In this order, after all others: they take away what the others are about."""
ANSWER_S: Final = 120.0
LEVEL_S: Final = 120.0
ROUNDS_MAX: Final = 20
NODE: Final = "one"

_FEED: Final[dict[str, Any]] = {
    "name": "more",
    "source": "shop",
    "target": "copy",
    "tables": ["public.more"],
}
_PLAIN: Final[dict[str, Any]] = {"leave_out": [], "masks": {}, "rows": {}, "rename": {}}
_BYTES: Final[dict[str, Any]] = {"wal_warn_bytes": 2**30, "wal_stop_bytes": 2**31}


def main(words: list[str]) -> int:
    """Ask. The exit code is 1 when an answer was wrong, or something broke."""
    parser = argparse.ArgumentParser(prog="python -m soak fuzz", description="Fuzz a real node.")
    parser.add_argument("--cases", type=int, default=10_000, metavar="N", help="[default: 10000]")
    parser.add_argument("--seed", type=int, default=None, help="of what is made up")
    asked = parser.parse_args(words)
    chosen = random.randrange(2**32) if asked.seed is None else asked.seed
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    print(f"seed {chosen}", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lockgate-fuzz-") as place, served(Path(place)) as made:
        fuzz = Fuzz(*made, chosen)
        fuzz.run(asked.cases)
        fuzz.finish()
    for status, count in sorted(fuzz.statuses.items()):
        print(f"  {status}  {count:,}")
    for found in fuzz.found:
        print(f"FOUND {found}")
    asked_s = time.monotonic() - began
    print(f"{fuzz.asked:,} requests in {asked_s:.0f} s: {len(fuzz.found)} answers were wrong")
    return 1 if fuzz.found else 0


@contextlib.contextmanager
def served(place: Path) -> Iterator[tuple[NodeServer, str, str]]:
    """A node with two endpoints and a feed that runs; and the URLs of both databases."""
    with (
        EmbeddedPostgres(16, settings=SETTINGS, start_timeout_s=120) as source,
        EmbeddedPostgres(18, settings=SETTINGS, start_timeout_s=120) as target,
    ):
        with psycopg.connect(source.url()) as connection:
            connection.execute("CREATE TABLE orders (id int PRIMARY KEY, v text)")
            connection.execute("CREATE TABLE more (id int PRIMARY KEY)")
            connection.execute("INSERT INTO orders SELECT n, 'x' FROM generate_series(1, 500) n")
        options = ["--listen", "127.0.0.1:0", "--spark-master", "local[1]"]
        node = NodeServer(NODE, place, options, {})
        node.start()
        try:
            yield node, source.url(), target.url()
        finally:
            node.close()


class Fuzz:
    """Asks, and counts."""

    def __init__(self, node: NodeServer, source: str, target: str, seed_: int) -> None:
        self._node = node
        self._source, self._target = source, target
        self._seed = seed_
        self._client: Client = node.client()
        self._session = requests.Session()
        token = (node.home / "token").read_text("utf-8").strip()
        self._session.headers["Authorization"] = f"Bearer {token}"
        self.asked = 0
        self.statuses: Counter[int] = Counter()
        self.found: list[str] = []

    def run(self, cases: int) -> None:
        """Ask at least so many."""
        self._restore()
        self._fill_lake()
        operations = self._operations()
        for number in range(ROUNDS_MAX):
            todo = [
                (name, mode)
                for name in operations
                for mode in GenerationMode
                if _takes(operations[name]) or (number == 0 and mode is GenerationMode.POSITIVE)
            ]
            share = max(1, (cases - self.asked) // len(todo) + 1)
            for name, mode in todo:
                self._ask_much(operations[name], name, mode, share, number)
                if self.asked >= cases and number:
                    break
                if name not in LAST or number == 0:
                    self._restore()
            self._begin_anew()
            if self.asked >= cases:
                return

    def finish(self) -> None:
        """The feed brings rows, the node lives, and its log has no trace."""
        self._restore()
        with psycopg.connect(self._source) as connection:
            connection.execute("UPDATE orders SET v = 'last'")
        if not self._client.feeds.wait("shop", timeout_s=LEVEL_S).level:
            self.found.append(f"the feed does not go on: {self._client.feeds.status('shop')}")
        tables = {one.table: one for one in compare(self._source, self._target)}
        if not tables["orders"].equal:
            self.found.append(f"rows differ: {tables['orders']}")
        if not self._node.running:
            self.found.append("the node has ended")
        log = self._node.log.read_text("utf-8", "replace").splitlines()
        self.found += [line for line in log if "Traceback" in line]
        self._session.close()

    # --- what there is ----------------------------------------------------------------------------

    def _operations(self) -> dict[str, Operation]:
        answer = self._session.get(f"{self._node.url}/api/v1/openapi.json", timeout=ANSWER_S)
        answer.raise_for_status()
        schema = schemathesis.openapi.from_dict(_without_security(answer.json()))
        schema.config.checks.negative_data_rejection.expected_statuses = ["4xx"]
        found: list[Operation] = [each.ok() for each in schema.get_all_operations()]  # type: ignore[union-attr]
        names = {each.definition.raw["operationId"]: each for each in found}
        return dict(sorted(names.items(), key=lambda one: (one[0] in LAST, _rank(one[0]))))

    def _restore(self) -> None:
        """Have again what an operation may have taken away."""
        client = self._client
        for name, url in (("shop", self._source), ("copy", self._target), ("spare", self._target)):
            client.endpoints.add(name, url)
        with contextlib.suppress(Conflict):
            client.tokens.add("viewer")
        names = [status.name for status in client.feeds.list()]
        for name in names:
            if name != "shop":
                with contextlib.suppress(NotFound):
                    client.feeds.remove(name)
        self._create(client)
        client.feeds.resume("shop")
        client.feeds.wait("shop", timeout_s=LEVEL_S)
        spans = [span for table in client.feeds.tables("shop") for span in table.spans]
        if len(spans) > 1:
            with contextlib.suppress(Conflict):
                client.feeds.span_merge("shop", [span.span for span in spans])
            spans = [span for table in client.feeds.tables("shop") for span in table.spans]
        self._span = spans[0].span if spans else "none"

    def _fill_lake(self) -> None:
        """Have a lake with a table in it."""
        client = self._client
        client.endpoints.add("lake", f"delta:{self._node.home.parent}/lake")
        client.feeds.create("sea", source="shop", target="lake", tables=["public.orders"])
        if not client.feeds.wait("sea", timeout_s=LEVEL_S).level:
            self.found.append(f"the lake has no rows: {client.feeds.status('sea')}")
        client.feeds.remove("sea")

    def _create(self, client: Client) -> None:
        """Have the feed, into a fresh table when there was none."""
        deadline = time.monotonic() + LEVEL_S
        while True:
            try:
                client.feeds.status("shop")
            except NotFound:
                with psycopg.connect(self._target) as connection:
                    connection.execute("DROP TABLE IF EXISTS orders")
            try:
                client.feeds.create(
                    "shop",
                    source="shop",
                    target="copy",
                    tables=["public.orders"],
                    flush_interval_ms=100,
                )
                return
            except Conflict:  # the former one is still being removed
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def _begin_anew(self) -> None:
        """A node that was drained takes work again only in another life."""
        self._node.stop()
        self._node.start()
        self._client = self._node.client()

    def _known(self, name: str) -> dict[str, str]:
        given = {
            "name": "shop",
            "table": "public.orders",
            "span": self._span,
            "endpoint": "lake",
        }
        other = {"node_drain": NODE, "token_remove": "viewer", "endpoint_remove": "spare"}
        return given | ({"name": other[name]} if name in other else {})

    def _body(self, name: str) -> dict[str, Any]:
        """What makes sense, in place of what the generator made up."""
        bodies: dict[str, dict[str, Any]] = {
            "endpoint_add": {"url": self._target},
            "feed_create": {**_FEED, **_PLAIN, **_BYTES},
            "feed_plan": {**_FEED, **_PLAIN, **_BYTES},
            "feed_wait": {"timeout_s": 0.1},
            "span_move": {"node": NODE},
            "span_split": {"at": [], "parts": 2},
            "span_merge": {"spans": [self._span, self._span]},
            "lake_step_down": {"flush": True},
        }
        return bodies.get(name, {})

    # --- asking -----------------------------------------------------------------------------------

    def _ask_much(
        self, operation: Operation, name: str, mode: GenerationMode, cases: int, number: int
    ) -> None:
        positive = mode is GenerationMode.POSITIVE
        known, body = self._known(name), self._body(name)

        @seed(self._seed + number)
        @settings(
            max_examples=cases,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode), there=st.booleans())
        def ask(case: Case[Any], there: bool) -> None:
            if there and positive:
                shown = {key: known[key] for key in case.path_parameters or {} if key in known}
                case.path_parameters.update(shown)
                if body and isinstance(case.body, dict):
                    case.body = {**case.body, **body}
            elif name == "feed_wait" and positive and isinstance(case.body, dict):
                case.body = {**case.body, "timeout_s": 0.1}
            self._ask(name, case, positive=positive)

        before = self.asked
        try:
            ask()
        except (Exception, BaseExceptionGroup) as wrong:  # the generator's own is no Exception
            self.found.append(f"{name}, {mode.value}: {type(wrong).__name__}: {wrong}")
        print(f"{self.asked:7,}  {name}, {mode.value}: {self.asked - before:,}", flush=True)

    def _ask(self, name: str, case: Case[Any], *, positive: bool) -> None:
        while True:
            answer = case.call(base_url=self._node.url, session=self._session, timeout=ANSWER_S)
            if answer.status_code != requests.codes.too_many_requests:
                break
            time.sleep(float(answer.headers["retry-after"][0]))
        self.asked += 1
        self.statuses[answer.status_code] += 1
        if answer.status_code >= 500:
            code = answer.json().get("code", "")
            if answer.status_code != 503 or code not in ABSENT:
                self.found.append(
                    f"{name}: {answer.status_code} {answer.text}: {case.as_curl_command()}"
                )
            return
        case.validate_response(answer, checks=CHECKS if positive else [*CHECKS, refused])


def _takes(operation: Operation) -> bool:
    """It can be asked in a wrong way."""
    return bool(operation.path_parameters or operation.query or operation.body)


def _rank(name: str) -> int:
    return LAST.index(name) if name in LAST else 0


def _without_security(description: dict[str, Any]) -> dict[str, Any]:
    """The generator is not to make tokens up: who may ask is no question here."""
    for operations in description["paths"].values():
        for operation in operations.values():
            operation.pop("security", None)
    description["components"].pop("securitySchemes", None)
    return description
