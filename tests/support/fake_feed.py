"""One feed of `services.FakeService`: its state, its tables and their spans."""

import dataclasses
import itertools
import re
from collections.abc import Sequence
from typing import Final

from lockgate.model.errors import NotFound, UsageError
from lockgate.model.feed_config import FeedConfig
from lockgate.model.feed_status import CopyProgress, FeedSpan, FeedStatus, FeedTable
from lockgate.model.feeds import FeedState
from lockgate.model.secret import Secret

POSITION: Final = "0/16B3748"

_PASSWORD: Final = re.compile(r"(?<=:)[^:/@]*(?=@)")


def shown(url: Secret) -> str:
    """An address without its password."""
    return _PASSWORD.sub("***", url.reveal())


class FakeFeed:
    """One span per table to begin with, named by `numbers`; level until `level` is False."""

    def __init__(
        self, config: FeedConfig, tables: Sequence[str], node: str, numbers: "itertools.count[int]"
    ) -> None:
        self.config = config
        self.state = FeedState.NORMAL
        self.level = True
        self._node = node
        self._numbers = numbers
        self._spans = {table: [self._span(table)] for table in tables}

    def __contains__(self, table: str) -> bool:
        return table in self._spans

    def tables(self) -> list[FeedTable]:
        """With their spans, by name."""
        return [
            FeedTable(table, table, tuple(spans), "running", POSITION)
            for table, spans in sorted(self._spans.items())
        ]

    def status(self) -> FeedStatus:
        """As `feed status` has it."""
        name = self.config.name
        stopped = self.state is FeedState.STOPPED
        return FeedStatus(
            name=name,
            state=self.state,
            epoch=1,
            owner=self._node,
            resolved=POSITION,
            checkpoint=POSITION if self.level else "0/0",
            lag_s=0.0 if self.level else 1.5,
            tables=len(self._spans),
            spans=sum(len(spans) for spans in self._spans.values()),
            copy=CopyProgress(1000, 1000, 100.0, 0.0),
            rows_applied=1000,
            next_steps=(f"lockgate feed {'resume' if stopped else 'wait'} {name}",),
            source=shown(self.config.source),
            target=shown(self.config.target),
        )

    def move(self, span: str, node: str) -> None:
        """Run a span elsewhere."""
        spans, at = self._find(span)
        spans[at] = dataclasses.replace(spans[at], node=node)

    def split(self, span: str, points: Sequence[str], parts: int | None) -> None:
        """Cut a span at points, or at even ones."""
        spans, at = self._find(span)
        old = spans[at]
        count = parts or 2
        cuts = list(points) or [f"{i * 2**16 // count:04x}" for i in range(1, count)]
        edges = [old.low, *cuts]
        rising = all(low < high for low, high in zip(edges, cuts, strict=False))
        if not rising or (old.high and cuts[-1] >= old.high):
            raise UsageError(
                "the points do not lie inside the span, rising", object_=span, hint="see it"
            )
        highs = [*cuts, old.high]
        spans[at : at + 1] = [
            self._span(old.table, low, high) for low, high in zip(edges, highs, strict=True)
        ]

    def merge(self, names: Sequence[str]) -> None:
        """Join neighbours."""
        spans, at = self._find(names[0])
        olds = spans[at : at + len(names)]
        if [old.span for old in olds] != list(names):
            raise UsageError(
                "the spans are no neighbours",
                object_=self.config.name,
                hint="name them in their order",
            )
        spans[at : at + len(names)] = [self._span(olds[0].table, olds[0].low, olds[-1].high)]

    def _find(self, span: str) -> tuple[list[FeedSpan], int]:
        for spans in self._spans.values():
            for at, known in enumerate(spans):
                if known.span == span:
                    return spans, at
        raise NotFound("there is no such span", object_=span, hint="lockgate feed tables")

    def _span(self, table: str, low: str = "", high: str = "") -> FeedSpan:
        name = f"s{next(self._numbers)}"
        return FeedSpan(name, table, low, high, self._node, "running", POSITION)
