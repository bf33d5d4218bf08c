"""A transaction that is too much for one task is applied in parts, and by as many as it needs."""

import pytest

from lockgate.model.apply import ApplyItem, Receipt
from lockgate.node.feed.targets import postgres
from tests.support.feeds import Pair, level

TABLE = "CREATE TABLE public.parts (id bigint PRIMARY KEY, what text)"
BEFORE = "INSERT INTO parts SELECT n, 'before' FROM generate_series(1, 200) n"
GIANT = """
BEGIN;
INSERT INTO parts SELECT n, 'new' FROM generate_series(201, 500) n;
UPDATE parts SET what = 'changed' WHERE id % 5 = 0;
UPDATE parts SET id = id + 10000 WHERE id % 7 = 0;
DELETE FROM parts WHERE id % 3 = 0;
COMMIT;
"""


def test_no_part_has_more_rows_than_a_task_may_take(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []
    real = postgres.apply_items

    def watched(
        spark: object, items: list[ApplyItem], *args: object, **kw: object
    ) -> list[Receipt]:
        batches.append(len(items))
        return real(spark, items, *args, **kw)  # type: ignore[arg-type]

    monkeypatch.setattr(postgres, "PART_ROWS", 40)
    monkeypatch.setattr(postgres, "PART_ROWS_MAX", 100)
    monkeypatch.setattr(postgres, "apply_items", watched)
    pair.at_source(TABLE, BEFORE)
    with pair.running() as runner:
        level(runner)
        pair.at_source(GIANT)
        level(runner)
        pair.assert_equal("public.parts")
    changes_least = 300 + 100 + 71
    assert max(batches) > changes_least // 100
