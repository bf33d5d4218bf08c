"""A program that reads a lake table through Spark Connect, in a process of its own.

`python -m tests.support.lake_errand MASTER LAKE TABLE CHECKPOINT`, and prints what it found: see
`tests/lake/test_elsewhere.py`.
"""

import sys
from typing import Any

import msgspec

import lockgate
from lockgate.pipeline.session import SparkOptions, start

__all__ = ["SECRET", "TWICE", "Found"]

SECRET = "hush-hush-for-nobody"
TWICE = "public.twice"
"""A table in which changes are there twice."""


class Found(msgspec.Struct):
    """Rows by how they were read."""

    read: list[Any]
    then: list[Any]
    source: list[Any]
    twice: list[Any]
    streamed: list[Any]


def _main(master: str, lake: str, table: str, checkpoint: str) -> None:
    with start(SparkOptions(master, slots=2)) as spark:
        session = spark.session
        store = {"aws_secret_access_key": SECRET}
        lockgate.lake.register(session, options=store)
        frames = {
            "read": lockgate.lake.read(session, lake, table, options=store),
            "then": lockgate.lake.read(session, lake, table, as_of=20),
            "source": session.read.format("lockgate").options(path=lake, table=table).load(),
            "twice": lockgate.lake.read(session, lake, TWICE),
        }
        found = {name: sorted(map(list, frame.collect())) for name, frame in frames.items()}
        stream = session.readStream.format("lockgate").options(
            path=lake, table=table, changes="true", startingPosition="20"
        )
        query = (
            stream.load()
            .selectExpr("_op", "_position", "before.v AS was", "after.v AS is")
            .writeStream.format("memory")
            .queryName("changes")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        streamed = sorted(map(list, session.table("changes").collect()), key=lambda row: row[1])
    sys.stdout.buffer.write(msgspec.json.encode(Found(streamed=streamed, **found)))


if __name__ == "__main__":
    _main(*sys.argv[1:])
