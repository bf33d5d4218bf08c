"""Which tables there are: one that cannot be looked at hides no other."""

from pathlib import Path

import pytest
from pyarrow import fs

import lockgate
from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import LockgateError, MissingPrivilege, ObjectMissing
from tests.lake.conftest import TABLE
from tests.support.lakes import Writer


def _listing_of(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may list the directory of this name."""
    listed = Place.listed

    def refuse(self: Place, *, recursive: bool = False) -> list[fs.FileInfo]:
        if self.url.endswith(name):
            raise PermissionError(13, "no", self.url)
        return listed(self, recursive=recursive)

    monkeypatch.setattr(Place, "listed", refuse)


def test_one_whose_directory_may_not_be_listed(
    root: Place, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(root.url, "public.secret").mkdir()
    _listing_of("public.secret", monkeypatch)
    assert lockgate.lake.tables(root.url) == sorted([TABLE, "public.secret"])


@pytest.mark.parametrize("kind", [ObjectMissing, MissingPrivilege])
def test_one_that_cannot_be_looked_at(
    root: Place, writer: Writer, monkeypatch: pytest.MonkeyPatch, kind: type[LockgateError]
) -> None:
    Path(root.url, "public.other", "1").mkdir(parents=True)
    opens = FencedTable.open

    def refuse(place: Place) -> FencedTable:
        if "public.other" in place.url:
            raise kind("it cannot be read", object_=place.label, hint="")
        return opens(place)

    monkeypatch.setattr(FencedTable, "open", refuse)
    assert lockgate.lake.tables(root.url) == sorted([TABLE, "public.other"])


def test_a_lake_that_may_not_be_listed_is_not_taken_for_an_empty_one(
    root: Place, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    _listing_of("lake", monkeypatch)
    with pytest.raises(MissingPrivilege):
        lockgate.lake.tables(root.url)
