"""What somebody waits for: a set of tables, and what came of each.

A person's drain, a step-up and a flush are the same to those who do the work: each table is told
about once, and when the last one is, whoever waited goes on.
"""

from collections.abc import Callable
from typing import NamedTuple

from lockgate.model.lake import LakeTrouble, TableKey
from lockgate.model.lake_instructions import LakeAnswer, LakeVerdict, TableTrouble

__all__ = ["DROPPED", "Ask", "Result", "answers"]

TROUBLED = frozenset({LakeVerdict.FAILED, LakeVerdict.UNKNOWN})
_ORDER = (
    LakeVerdict.UNKNOWN,
    LakeVerdict.FAILED,
    LakeVerdict.REFUSED,
    LakeVerdict.DONE,
    LakeVerdict.SUPERSEDED,
)
"""Of the verdicts on many tables, the first of these that occurs is the verdict on all."""


class Result(NamedTuple):
    """What came of one table."""

    verdict: LakeVerdict
    trouble: LakeTrouble = LakeTrouble("")


DROPPED = Result(LakeVerdict.SUPERSEDED, LakeTrouble("the table was dropped"))


class Ask:
    """Waits until all of its tables have been told about, then goes on, once."""

    __slots__ = ("_then", "left", "requests", "results")

    def __init__(self, then: Callable[["Ask"], None] | None = None, *requests: str) -> None:
        self._then = then
        self.requests = list(requests)
        self.left: set[TableKey] = set()
        self.results: dict[TableKey, Result] = {}

    def note(self, key: TableKey, result: Result) -> None:
        """This came of that table."""
        if key in self.left:
            self.left.discard(key)
            self.results[key] = result
            self.go_on_if_complete()

    def go_on_if_complete(self) -> None:
        """To be called once all tables are in, because there may be none."""
        if not self.left and self._then is not None:
            then, self._then = self._then, None
            then(self)

    def close(self) -> None:
        """Nobody waits any more."""
        self.requests.clear()
        self.left.clear()
        self._then = None

    @property
    def troubled(self) -> dict[TableKey, Result]:
        """What came of the tables for which it did not work."""
        return {key: one for key, one in self.results.items() if one.verdict in TROUBLED}

    @property
    def failed(self) -> tuple[TableTrouble, ...]:
        """The tables for which it did not work, in the order of their names."""
        troubled = sorted(self.troubled.items())
        return tuple(TableTrouble(table, result.trouble) for (table, _), result in troubled)

    def verdict(self) -> LakeVerdict:
        """One word on all tables: the worst of what happened."""
        seen = {result.verdict for result in self.results.values()}
        return next((verdict for verdict in _ORDER if verdict in seen), LakeVerdict.NOTHING)

    def trouble(self) -> LakeTrouble:
        """What is to be said of the tables as a whole: of the first that has that verdict."""
        worst = self.verdict()
        told = (r.trouble for _, r in sorted(self.results.items()) if r.verdict is worst)
        return next(told, LakeTrouble(""))


def answers(ask: Ask, verdict: LakeVerdict, what: str = "", hint: str = "") -> list[LakeAnswer]:
    """The same answer to everybody who asked for it."""
    return [LakeAnswer(request, verdict, what, hint, failed=ask.failed) for request in ask.requests]
