"""A reader of the lake's table `orders` who wants to know what is new, and whether all is there."""

from decimal import Decimal
from typing import TYPE_CHECKING, Final

import psycopg

if TYPE_CHECKING:
    import pyarrow as pa

    from lockgate.endpoints.delta.layered import LayeredTable

__all__ = ["TABLE", "LakeReader", "is_lake", "same_rows"]

TABLE: Final = "public.orders"
_SUMS: Final = """
SELECT count(*), sum(id), sum(customer), sum(quantity), sum(amount), sum(active::integer),
       sum(octet_length(name)), sum(octet_length(note)), count(note), count(DISTINCT ref)
FROM orders
"""
Sums = tuple[int | Decimal | None, ...]


def is_lake(target: str) -> bool:
    """Whether a target is one."""
    return target.startswith("delta:")


class LakeReader:
    """Takes snapshots as any reader does, and looks into the files that it has not seen."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._table: LayeredTable | None = None
        self._seen: set[str] = set()
        self._greatest: int | None = None

    def greatest(self) -> int | None:
        """The greatest key among the rows that a reader sees now, or saw before."""
        import pyarrow.compute as pc

        from lockgate.endpoints.delta.files import read_file

        table = self._opened()
        for file in table.snapshot().ingest:
            if file.path not in self._seen:
                self._seen.add(file.path)
                keys = read_file(table.ingest.place, file.path, ["id"])["id"]
                found = pc.max(keys).as_py()
                self._greatest = max(self._greatest or found, found)
        return self._greatest

    def rows(self) -> "pa.Table":
        """All of them."""
        return self._opened().read()

    def _opened(self) -> "LayeredTable":
        from lockgate.lake.opening import homes_of, place_of

        if self._table is None:
            self._table = homes_of(place_of(self._target), TABLE)[0]
        return self._table


def same_rows(source: str, target: str) -> int:
    """How many rows both hold. Raises when sums over their columns differ."""
    with psycopg.connect(source) as connection:
        there: Sums = connection.execute(_SUMS).fetchone() or ()
    here = _sums(LakeReader(target).rows())
    if there != here:
        raise RuntimeError(f"the rows differ: {there} at the source, {here} in the lake")
    count = here[0]
    assert isinstance(count, int)
    return count


def _sums(rows: "pa.Table") -> Sums:
    import pyarrow.compute as pc

    return (
        rows.num_rows,
        *(
            pc.sum(rows[name]).as_py()
            for name in ("id", "customer", "quantity", "amount", "active")
        ),
        *(pc.sum(pc.binary_length(rows[name])).as_py() for name in ("name", "note")),
        rows.num_rows - rows["note"].null_count,
        pc.count_distinct(rows["ref"]).as_py(),
    )
