"""What a Spark task of a diff does: ranges, one after the other, both sides at the same time.

Whatever happens to a part is in its receipt; the item's other parts are tried all the same.
"""

import msgspec

from lockgate.endpoints.postgres.diff.finding import compare
from lockgate.endpoints.postgres.diff.items import DiffItem, DiffPart, DiffReceipt
from lockgate.endpoints.postgres.diff.sessions import Sides
from lockgate.model.apply import ApplyError
from lockgate.model.errors import LockgateError

__all__ = ["diff_task"]


def diff_task(data: bytes) -> bytes:
    """The work function: an item's bytes in, a list of receipts out."""
    item = msgspec.msgpack.decode(data, type=DiffItem)
    with Sides(item) as sides:
        return msgspec.msgpack.encode([_receipt(sides, item, part) for part in item.parts])


def _receipt(sides: Sides, item: DiffItem, part: DiffPart) -> DiffReceipt:
    table, no = part.table.source.table.id, part.space.no
    try:
        return DiffReceipt(table, no, compare(sides, part, item.seed, item.samples))
    except LockgateError as error:
        sides.close()
        return DiffReceipt(table, no, error=ApplyError.of(error))
