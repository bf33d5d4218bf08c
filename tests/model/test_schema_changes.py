"""What a step of schema changes is to the barrier: which names end, begin and go to others."""

import msgspec
import pytest

from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.schema_changes import CreateTable, DropTable, SchemaStep, TableChange
from lockgate.model.tables import TableName


def _step(*pairs: tuple[str | None, str | None]) -> SchemaStep:
    def name(text: str | None) -> TableName | None:
        return None if text is None else TableName("public", text)

    return SchemaStep(
        "…",
        tuple(
            TableChange(
                name(was),
                name(now),
                (CreateTable(),) if was is None else (DropTable(),) if now is None else (),
            )
            for was, now in pairs
        ),
    )


def _names(ids: object) -> list[str]:
    assert isinstance(ids, (tuple, frozenset))
    return sorted(str(id_).removeprefix("public.") for id_ in ids)


CREATE, DROP, ALTER = DdlKind.CREATE, DdlKind.DROP, DdlKind.ALTER


@pytest.mark.parametrize(
    ("pairs", "kind", "dropped", "ended"),
    [
        ([("a", "a")], ALTER, "", ""),
        ([(None, "a")], CREATE, "", ""),
        ([("a", None)], DROP, "a", "a"),
        ([("a", "a"), ("b", None)], ALTER, "b", "b"),
        ([("a", "b")], CREATE, "a", "ab"),
        ([("a", "b"), ("b", "a")], CREATE, "", "ab"),
        ([("a", "b"), ("b", "c"), ("c", "a")], CREATE, "", "abc"),
        ([("a", "x"), ("b", "a")], CREATE, "b", "abx"),
        ([("a", None), ("b", "a")], CREATE, "b", "ab"),
        ([("a", "x"), (None, "a")], CREATE, "", "ax"),
        ([("a", "x"), ("b", "b")], CREATE, "a", "ax"),
    ],
)
def test_which_names_end(
    pairs: list[tuple[str | None, str | None]], kind: DdlKind, dropped: str, ended: str
) -> None:
    ddl = _step(*pairs).ddl(7)
    assert ddl.kind is kind
    assert _names(ddl.dropped) == list(dropped)
    assert _names(ddl.ended) == list(ended)
    renamed = [(f"public.{a}", f"public.{b}") for a, b in pairs if a and b and a != b]
    assert list(ddl.renames) == sorted(renamed)


def test_an_entry_from_before_renames_were_told_is_still_read() -> None:
    old = b'[7,"create",["public.a","public.b"],false,"ALTER \xe2\x80\xa6",["public.a"]]'
    found = msgspec.json.decode(old, type=Ddl)
    assert (found.drops, found.renames) == (("public.a",), ())
