"""What a changelog says of each change, against the same told one change at a time."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lockgate.endpoints.delta.changelog import changelog
from lockgate.endpoints.delta.changes import DELETE, OP, POSITION, PUT, SEQ, WIPE, ingest_schema
from tests.support.lakes import ROWS

KEY = ["id", "part"]
Change = tuple[str, int, str, int | None]

changes = st.tuples(
    st.sampled_from([PUT] * 5 + [DELETE] * 3 + [WIPE]),
    st.integers(0, 3),
    st.sampled_from("ab"),
    st.none() | st.integers(0, 9),
)
bases = st.dictionaries(
    st.tuples(st.integers(0, 3), st.sampled_from("ab")), st.none() | st.integers(10, 19)
)


def _row(id_: int, part: str, v: int | None) -> dict[str, Any]:
    return {"id": id_, "part": part, "v": v}


def _told(base: dict[tuple[int, str], int | None], log: list[Change]) -> list[Any]:
    rows = dict(base)
    out: list[Any] = []
    for op, id_, part, v in log:
        there = (id_, part) in rows
        before = _row(id_, part, rows[id_, part]) if there else None
        if op == WIPE:
            rows.clear()
            out.append(("truncate", None, None))
        elif op == PUT:
            rows[id_, part] = v
            out.append(("update" if there else "insert", before, _row(id_, part, v)))
        else:
            rows.pop((id_, part), None)
            out.append(("delete", before or _row(id_, part, None), None))
    return out


@given(base=bases, log=st.lists(changes, max_size=12))
def test_every_change_has_what_was_before_and_after_it(
    base: dict[tuple[int, str], int | None], log: list[Change]
) -> None:
    rows = [
        {
            **(dict.fromkeys(KEY) if op == WIPE else {"id": id_, "part": part}),
            "v": v if op == PUT else None,
            POSITION: 10 * (n // 2),
            SEQ: n,
            OP: op,
        }
        for n, (op, id_, part, v) in enumerate(log)
    ]
    shuffled = pa.Table.from_pylist(rows[::2] + rows[1::2], schema=ingest_schema(ROWS))
    there = pa.Table.from_pylist([_row(*key, v) for key, v in base.items()], schema=ROWS)
    found = changelog(there, shuffled, KEY).to_pylist()
    assert [(one["_op"], one["before"], one["after"]) for one in found] == _told(base, log)
    assert [(one["_position"], one["_seq"]) for one in found] == [
        (10 * (n // 2), n) for n in range(len(log))
    ]
