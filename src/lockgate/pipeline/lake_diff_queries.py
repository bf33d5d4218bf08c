"""The queries of a diff in Spark: whether anything differs, which rows do, and how.

    buckets     both sides once: count and sum of the rows' hashes, in 256 shares of the key's hash
    differing   rows of buckets that differ, both sides in one pile, grouped by key
    rows        of the few that are shown, all columns as texts

Buckets need no shuffle of rows, and nearly always end it. A pile that is grouped, rather than a
join, sees a key that one side has twice.

A row's hash is over every value and whether it is NULL, which Spark's function would pass by.
Conditions are SQL, not functions: those are of one kind of session each.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lockgate.endpoints.delta.diff_rows import ERROR

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Queries"]

_BUCKETS: Final = 256


class Queries:
    """For two DataFrames that have these columns, each once more with its error."""

    def __init__(self, schema: pa.Schema, key: Sequence[str], seed: int) -> None:
        self._names = schema.names
        self._binary = {field.name for field in schema if pa.types.is_binary(field.type)}
        self._key = list(key)
        self._seed = seed

    def buckets(self, session: "SparkSession", here: "DataFrame", there: "DataFrame") -> Any:
        """Rows: side (0, 1), bucket, count, two sums, an error."""
        made = [
            session.sql(
                f"SELECT {side} AS side, bucket, count(*) AS n, sum(h & 4294967295) AS low, "
                "sum(shiftright(h, 32)) AS high, max(error) AS error FROM ("
                f"SELECT {self._bucket} AS bucket, {self._hash} AS h, {ERROR} AS error "
                "FROM {frame}) GROUP BY bucket",
                frame=frame,
            )
            for side, frame in enumerate((here, there))
        ]
        return made[0].unionAll(made[1])

    def differing(
        self,
        session: "SparkSession",
        here: "DataFrame",
        there: "DataFrame",
        buckets: Sequence[int],
    ) -> "DataFrame":
        """Rows: kind, how many, an error, and the key as `k0`…"""
        keys = ", ".join(f"{_quoted(name)} AS k{no}" for no, name in enumerate(self._key))
        some = ", ".join(map(str, buckets))
        ours, others = (
            session.sql(
                f"SELECT {mine} AS mine, {1 - mine} AS theirs, {self._hash} AS h, "
                f"{ERROR} AS error, {keys} FROM {{frame}} "
                f"WHERE {self._bucket} IN ({some}) OR {ERROR} IS NOT NULL",
                frame=frame,
            )
            for mine, frame in ((1, here), (0, there))
        )
        names = ", ".join(f"k{no}" for no in range(len(self._key)))
        return session.sql(
            "SELECT CASE WHEN m > t THEN 'missing' WHEN m < t THEN 'extra' ELSE 'different' END "
            f"AS kind, greatest(abs(m - t), 1L) AS n, error, {names} FROM ("
            f"SELECT {names}, sum(mine) AS m, sum(theirs) AS t, max(error) AS error, "
            "sum(mine * (h & 4294967295)) AS a, sum(theirs * (h & 4294967295)) AS b, "
            "sum(mine * shiftright(h, 32)) AS c, sum(theirs * shiftright(h, 32)) AS d "
            f"FROM {{both}} GROUP BY {names}) "
            "WHERE m <> t OR a <> b OR c <> d OR error IS NOT NULL",
            both=ours.unionAll(others),
        )

    def counts(self, session: "SparkSession", differing: "DataFrame") -> "DataFrame":
        """Rows: kind, how many, an error."""
        return session.sql(
            "SELECT kind, sum(n) AS n, max(error) AS error FROM {frame} GROUP BY kind",
            frame=differing,
        )

    def rows(
        self, session: "SparkSession", here: "DataFrame", there: "DataFrame", shown: pa.Table
    ) -> "DataFrame":
        """Rows: side, kind, and every column as text, of the keys in `shown` (`differing`'s)."""
        # Our own sessions make a task of every row of a local table.
        wanted = session.createDataFrame(shown).coalesce(1)
        same = " AND ".join(f"f.{_quoted(name)} = w.k{no}" for no, name in enumerate(self._key))
        texts = ", ".join(f"{self._text(name)} AS c{no}" for no, name in enumerate(self._names))
        made = [
            session.sql(
                f"SELECT /*+ BROADCAST(w) */ {side} AS side, w.kind AS kind, {texts} "
                f"FROM {{frame}} AS f JOIN {{wanted}} AS w ON {same}",
                frame=frame,
                wanted=wanted,
            )
            for side, frame in enumerate((here, there))
        ]
        return made[0].unionAll(made[1])

    # --- expressions ------------------------------------------------------------------------------

    @property
    def _hash(self) -> str:
        values = ", ".join(f"{_quoted(n)}, {_quoted(n)} IS NULL" for n in self._names)
        return f"xxhash64({self._seed}L, {values})"

    @property
    def _bucket(self) -> str:
        values = ", ".join(map(_quoted, self._key))
        return f"pmod(xxhash64({self._seed}L, {values}), {_BUCKETS})"

    def _text(self, name: str) -> str:
        column = f"f.{_quoted(name)}"
        return f"lower(hex({column}))" if name in self._binary else f"CAST({column} AS STRING)"


def _quoted(name: str) -> str:
    """Braces are doubled: what is sent to `session.sql` with DataFrames is a format."""
    plain = name.replace("`", "``").replace("{", "{{").replace("}", "}}")
    return f"`{plain}`"
