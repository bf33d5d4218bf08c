"""What others would do to bring changes into a lake table.

Merged        `DeltaTable.merge` of delta-rs, in this process, on all cores
Streamed      the same, with the changes as a stream
Rewritten     a plain Spark job: the rows that did not change and those that did, all written
Rebuilt       changes are appended; once a night the last version of each row is made a table
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from bench.rig.lake_rows import SCHEMA
from bench.rig.lake_tables import Base, Peer
from lockgate.endpoints.delta.files import DataFile, added, live_files, removed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lockgate.pipeline.session import Spark

__all__ = ["Merged", "Rebuilt", "Rewritten", "Streamed"]

_WORDS: Final = [f"`{name}`" for name in SCHEMA.names]


class Merged(Peer):
    """delta-rs, with all changes at once: so it knows which files may have a key of theirs."""

    name = "delta-rs merge"
    streamed = False

    def _upsert(self, given: pa.Table) -> int:
        values = {name: f"s.{name}" for name in SCHEMA.names}
        merge = DeltaTable(str(self.path)).merge(
            given, "t.id = s.id", "s", "t", streamed_exec=self.streamed
        )
        merge = merge.when_matched_delete("s.gone").when_matched_update(values)
        merge.when_not_matched_insert(values, predicate="not s.gone").execute()
        return 0


class Streamed(Merged):
    """The same as it is by default."""

    name = "delta-rs merge, streamed"
    streamed = True


class Rewritten(Peer):
    """Spark reads all, leaves out the keys that changed, adds the rows, and writes all."""

    name = "Spark rewrite"

    def __init__(self, directory: Path, base: Base, spark: "Spark") -> None:
        self._spark = spark.session
        self._round = 0
        super().__init__(directory, base)

    def _upsert(self, given: pa.Table) -> int:
        path = self.path / "changes.parquet"
        pq.write_table(given, path)
        table = DeltaTable(str(self.path))
        old = live_files(table)
        changes = self._spark.read.parquet(str(path))
        there = self._spark.read.parquet(*(str(self.path / file.path) for file in old))
        kept = there.join(changes.select("id").hint("broadcast"), "id", "left_anti")
        self._commit(kept.unionByName(changes.where("not gone").drop("gone")), table, old)
        return path.stat().st_size

    def _commit(self, frame: "DataFrame", table: DeltaTable, old: list[DataFile]) -> None:
        self._round += 1
        name = f"round-{self._round}"
        frame.select(*_WORDS).write.parquet(str(self.path / name))
        new = [_described(path, self.path) for path in (self.path / name).glob("*.parquet")]
        actions: list[AddAction | RemoveAction] = [removed(file) for file in old]
        actions += [added(file) for file in new]
        table.create_write_transaction(actions, "append", SCHEMA)


class Rebuilt(Rewritten):
    """Changes are only ever appended; the night makes the last version of each row the table."""

    name = "append, then rebuild"

    def _upsert(self, given: pa.Table) -> int:
        path = self.path / "changes.parquet"
        numbered = given.append_column("seq", pa.array(np.arange(1, given.num_rows + 1)))
        pq.write_table(numbered, path)
        table = DeltaTable(str(self.path))
        old = live_files(table)
        there = self._spark.read.parquet(*(str(self.path / file.path) for file in old))
        there.selectExpr(*_WORDS, "false AS gone", "0L AS seq").createOrReplaceTempView("there")
        self._spark.read.parquet(str(path)).createOrReplaceTempView("changed")
        last = self._spark.sql(
            "SELECT id, max_by(struct(*), seq) AS row FROM "
            "(SELECT * FROM there UNION ALL SELECT * FROM changed) GROUP BY id"
        )
        self._commit(last.select("row.*").where("not gone"), table, old)
        return path.stat().st_size


def _described(path: Path, table: Path) -> DataFile:
    rows = pq.read_metadata(path).num_rows
    return DataFile(str(path.relative_to(table)), rows, path.stat().st_size)
