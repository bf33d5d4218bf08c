"""turn-over: the sources' rows of a committed split or merge become the targets' rows.

The first target to claim does it, for all of them, in the transaction of its claim: at every moment
the rows cover every key once. A target's floors are what each source had applied of its keys.

The feed's row is held (shared) meanwhile: a DDL that looked for the spans it concerns must not miss
a target that was not there yet when it began to wait for a source.
"""

from lockgate.endpoints.postgres.sink.chunks import hand_down
from lockgate.endpoints.postgres.sink.parts import settle
from lockgate.endpoints.postgres.sink.rows import (
    Cursor,
    Refused,
    SpanRow,
    close_turnstile,
    insert_spans,
    lock_feed,
    lock_span,
    lock_spans,
    remove_spans,
)
from lockgate.model.floors import Floors, Refusal, joined
from lockgate.model.ids import FeedId, Token
from lockgate.model.positions import Position
from lockgate.model.spans import KeyRange, Lineage, SpanSpec

__all__ = ["turn_over"]


def turn_over(
    cursor: Cursor, feed: FeedId, spec: SpanSpec, token: Token, lineage: Lineage
) -> SpanRow:
    """The row of `spec`, one of the lineage's targets, made or found."""
    close_turnstile(cursor, feed, lineage.sources)
    lock_feed(cursor, feed, share=True)
    row = lock_span(cursor, feed, spec.id)
    if row is not None:  # another target came first, while we waited
        return row
    sources = lock_spans(cursor, feed, spans=lineage.sources)
    if len(sources) != len(lineage.sources) or spec not in lineage.targets:
        raise Refused(Refusal.GONE)
    highest = max(source.token for source in sources)
    if token <= highest:
        raise Refused(Refusal.NEWER)
    floors = [floor for source in sources for floor in settle(cursor, feed, source)]
    built = all(source.built or source.copied for source in sources)
    copied = all(source.copied for source in sources)
    targets = [
        SpanRow(target, highest, _share(floors, target), built=built, copied=copied)
        for target in lineage.targets
    ]
    insert_spans(cursor, feed, targets)
    hand_down(cursor, feed, sources, targets)
    remove_spans(cursor, feed, lineage.sources)
    return next(target for target in targets if target.spec == spec)


def _share(floors: list[tuple[KeyRange, Position]], target: SpanSpec) -> Floors:
    return joined(
        [
            (keys, position)
            for part, position in floors
            if (keys := part.intersection(target.range)) is not None
        ]
    )
