"""What was written for a commit that failed goes with it, unless the commit may be there."""

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest
from deltalake import DeltaTable

from lockgate.endpoints.delta import compact, drain_plan, fenced, layered
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import (
    EndpointUnavailable,
    OutcomeUnknown,
    StaleOwner,
    StorageFull,
)
from lockgate.model.ids import Token
from tests.support.lake_files import data_files
from tests.support.lakes import DISPATCHER, LEADER, ROWS, Writer, rows_in

Work = Callable[[LayeredTable], Any]


def _drain(table: LayeredTable) -> Any:
    return table.drain(LEADER)


def _compact(table: LayeredTable) -> Any:
    return compact.compact(table, LEADER)


WORKS = pytest.mark.parametrize("work", [_drain, _compact])


@pytest.fixture
def writer(place: Place, monkeypatch: pytest.MonkeyPatch) -> Writer:
    """Of four files, two of which change: there is something to drain, and to put together."""
    writer = Writer(LayeredTable.create(place, "h", ROWS, ["id", "part"], LEADER, DISPATCHER))
    with monkeypatch.context() as patched:
        patched.setattr(drain_plan, "ROWS_MAX", 2)
        for id_ in range(4):
            writer.put(id_)
            writer.table.drain(LEADER)
    writer.put(1, 2, v=1)
    return writer


def _stable(writer: Writer) -> set[str]:
    return data_files(writer.table.stable.place.url)


def _fail(patched: pytest.MonkeyPatch, error: OSError) -> None:
    """At the next commit: nothing of it comes to the store."""

    def fail(*_: Any, **__: Any) -> None:
        raise error

    patched.setattr(DeltaTable, "create_write_transaction", fail)


@WORKS
def test_refused_by_the_store_it_leaves_no_file(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, work: Work
) -> None:
    before = _stable(writer)
    with monkeypatch.context() as patched:
        _fail(patched, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        with pytest.raises(StorageFull):
            work(writer.table)
    assert _stable(writer) == before
    assert work(writer.table) is not None
    assert rows_in(writer.table.read()) == writer.rows


@WORKS
def test_refused_by_a_newer_owner_it_leaves_no_file(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, work: Work
) -> None:
    before = _stable(writer)
    _after_writing(monkeypatch, lambda: writer.table.stable.claim(Token(9, 1, 1)))
    with pytest.raises(StaleOwner):
        work(writer.table)
    assert _stable(writer) == before


def test_of_several_files_of_which_one_cannot_be_written_none_is_left(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _stable(writer)
    written = []

    def full() -> None:
        written.append(_stable(writer) - before)
        if len(written) > 1:
            raise StorageFull("the lake's storage is full", object_="lake", hint="")

    _after_writing(monkeypatch, full)
    with pytest.raises(StorageFull):
        writer.table.drain(LEADER)
    assert len(written) == 2
    assert not _stable(writer) & written[0]


@WORKS
def test_of_which_nobody_knows_whether_it_landed_the_files_stay(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, work: Work
) -> None:
    before = _stable(writer)
    with monkeypatch.context() as patched:
        _fail(patched, OSError(errno.EIO, "the connection was lost"))
        with pytest.raises(EndpointUnavailable):
            work(writer.table)
    assert _stable(writer) > before


@WORKS
def test_landed_and_not_told_it_is_there(
    writer: Writer, place: Place, monkeypatch: pytest.MonkeyPatch, work: Work
) -> None:
    def lost(*_: Any) -> None:
        raise OSError(errno.EIO, "the disk does not say")

    with monkeypatch.context() as patched:
        patched.setattr(fenced, "flush_own", lost)
        with pytest.raises(OutcomeUnknown):
            work(writer.table)
    assert rows_in(LayeredTable.open(place, "h").read()) == writer.rows


def _after_writing(patched: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Between the first file and the commit."""
    for module in (layered, compact):
        rewrite = module.rewrite

        def write_and_then(*args: Any, rewrite: Any = rewrite) -> Any:
            files = rewrite(*args)
            happens()
            return files

        patched.setattr(module, "rewrite", write_and_then)
