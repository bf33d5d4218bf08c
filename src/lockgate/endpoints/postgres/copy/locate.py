"""Under which snapshot was the row with this key copied?

As long as all chunks of a span are of one snapshot that is no question. After a copy that went on
under a second one it is, for every key that the stream brings. Chunks are intervals in the
source's own order, with its collations, so the source is asked: in bulk, with the few edges at
which the snapshot changes. A span that was split in the middle of its copy has chunks for shares
of the hash besides, which are told apart here.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import psycopg
from psycopg import sql

from lockgate.endpoints.keys import hashes, in_range, is_whole, whole
from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.copy.items import KeyColumn
from lockgate.endpoints.postgres.copy.statements import row_of, typed
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.sink.chunks import Chunk, Edge
from lockgate.endpoints.postgres.sink.snapshots import ChunkOf
from lockgate.endpoints.postgres.types import to_text
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import Terminal
from lockgate.model.ids import FeedId

__all__ = ["chunk_finder"]

Index = npt.NDArray[np.int64]

_AT_ONCE: Final = 50_000


def chunk_finder(
    source: PostgresUrl,
    feed: FeedId,
    key: Sequence[KeyColumn],
    names: Sequence[str],
    chunks: Sequence[Chunk],
    snapshots: Sequence[str],
) -> ChunkOf:
    """A function from keys to numbers into `snapshots`.

    `key` is what the chunks were cut by, in the order of their edges; `names` are the same columns
    in the order in which keys will come. All chunks have landed.
    """
    order = [list(names).index(each.column.name) for each in key]
    shares = _merged(chunks)
    edges = list(dict.fromkeys(e for share in shares for e in (share.low, share.high) if e))
    number = {text: at for at, text in enumerate(snapshots)}

    def find(columns: list[Any]) -> Index:
        count = len(columns[0])
        ranks = np.zeros(count, dtype=np.int64)
        place: dict[Edge, int] = {}
        if edges:
            texts = [to_text(whole(columns[at])) for at in order]
            with connect(source, purpose=f"{feed} chunks", autocommit=True) as connection:
                ranks, place = _ranks(connection, key, edges, texts)
        shared = not all(is_whole(share.keys) for share in shares)
        digests = hashes(columns) if shared else None
        out = np.full(count, -1, dtype=np.int64)
        for share in shares:
            mask = np.ones(count, dtype=np.bool_)
            if share.low is not None:
                mask &= ranks >= place[share.low]
            if share.high is not None:
                mask &= ranks < place[share.high]
            if digests is not None:
                mask &= in_range(digests, share.keys)
            out[mask] = number[share.snapshot or ""]
        if (out < 0).any():
            raise Terminal(
                "a changed row belongs to no chunk of the copy",
                object_=feed,
                hint="this is a bug in Lockgate; please report it",
                operation="find the chunks of changed rows",
            )
        return out

    return find


def _merged(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Neighbours of one snapshot as one: only edges at which it changes have to be asked about."""
    out: list[Chunk] = []
    for chunk in chunks:
        last = out[-1] if out else None
        if (
            last is not None
            and last.high is not None
            and (last.high, last.keys, last.snapshot) == (chunk.low, chunk.keys, chunk.snapshot)
        ):
            out[-1] = Chunk(last.no, last.low, chunk.high, last.keys, last.snapshot, done=True)
        else:
            out.append(chunk)
    return out


def _ranks(
    connection: psycopg.Connection, key: Sequence[KeyColumn], edges: Sequence[Edge], keys: list[Any]
) -> tuple[Index, dict[Edge, int]]:
    """For each key, how many edges are not above it; and the same for each edge itself."""
    about = f"{connection.info.host}:{connection.info.port}/{connection.info.dbname}"
    width = range(len(key))
    cut = [[(edge or ())[at] for edge in edges] for at in width]
    found: list[int] = []
    with faults(object_=about, operation="find the chunks of changed rows"):
        for start in range(0, len(keys[0]), _AT_ONCE):
            some = [texts.slice(start, _AT_ONCE).to_pylist() for texts in keys]
            found += _count(connection, key, cut, some)
        places = _count(connection, key, cut, cut)
    return np.array(found, dtype=np.int64), dict(zip(edges, places, strict=True))


def _count(
    connection: psycopg.Connection,
    key: Sequence[KeyColumn],
    edges: list[list[str]],
    keys: list[list[str]],
) -> list[int]:
    names = [sql.Identifier(f"k{number}") for number in range(len(key))]
    query = sql.SQL(
        "WITH e AS MATERIALIZED (SELECT {typed} FROM unnest({texts}) AS e({names})), "
        "     k AS MATERIALIZED (SELECT {typed}, no "
        "                        FROM unnest({texts}) WITH ORDINALITY AS k({names}, no)) "
        "SELECT (SELECT count(*) FROM e WHERE {edge} <= {key}) FROM k ORDER BY no"
    ).format(
        typed=sql.SQL(", ").join(
            sql.SQL("{} AS {}").format(typed(name, each), name)
            for name, each in zip(names, key, strict=True)
        ),
        texts=sql.SQL(", ").join([sql.SQL("%s::text[]")] * len(key)),
        names=sql.SQL(", ").join(names),
        edge=row_of([sql.SQL("e.{}").format(name) for name in names]),
        key=row_of([sql.SQL("k.{}").format(name) for name in names]),
    )
    return [row[0] for row in connection.execute(query, [*edges, *keys])]
