"""Packs: small segments that share a file come as they were, and go together."""

import math
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs

from lockgate.model.errors import ObjectMissing, Terminal
from lockgate.store.changelog import (
    Changelog,
    Segment,
    SegmentFiles,
    collect,
    leaves_values,
    read_segments,
    read_shape,
    sweep,
)
from lockgate.store.changelog import packs as under_test
from lockgate.store.changelog.packs import cut, is_small, slice_of
from lockgate.store.changelog.places import file_of, parse, sharers
from lockgate.store.changelog.steps import ROWS_AT_ONCE
from tests.support.logs import FEED, NEW, OWN, log_at
from tests.support.segments import changes, shape_of_table
from tests.support.stores import Place


@pytest.fixture
def log(sql: Place) -> Iterator[Changelog]:
    with log_at(sql.url) as log:
        yield log


@pytest.fixture
def files(tmp_path: Path) -> SegmentFiles:
    return SegmentFiles(str(tmp_path / "log"))


def there(files: SegmentFiles) -> set[str]:
    return {place.path for part in files.listing(FEED) for place in part}


def three() -> list[pa.Table]:
    """Changes of three tables: at positions 1 and 4, 2, 3."""
    return [
        pa.concat_tables([changes([1], 0, table="a"), changes([4], 3, table="a")]),
        changes([2], 1, table="b"),
        changes([3], 2, table="c"),
    ]


# --- writing and reading --------------------------------------------------------------------------


def test_each_segment_of_a_pack_comes_as_it_was(files: SegmentFiles) -> None:
    tables = three()
    segments = files.writer(FEED, OWN).write_pack(tables)
    assert [(one.id, one.table, one.low, one.high, one.rows) for one in segments] == [
        (0, "public.a", 1, 4, 2),
        (1, "public.b", 2, 2, 1),
        (2, "public.c", 3, 3, 1),
    ]
    for table, segment, name in zip(tables, segments, "abc", strict=True):
        uri = files.uri(segment.path)
        assert read_segments([uri]).equals(table)
        assert read_shape(uri) == shape_of_table("public", name)
        assert not leaves_values([uri])


def test_a_pack_is_one_file_that_is_called_after_its_first_segment(files: SegmentFiles) -> None:
    segments = files.writer(FEED, OWN).write_pack(three()[::-1])
    (path,) = there(files)
    place = parse(path)
    assert place is not None
    assert (place.id, place.token) == (0, OWN)
    assert {file_of(segment.path) for segment in segments} == {path}
    assert {sharers(segment.path) for segment in segments} == {3}


def test_positions_and_columns_are_chosen_as_in_other_segments(files: SegmentFiles) -> None:
    (path, *_) = [one.path for one in files.writer(FEED, OWN).write_pack(three())]
    uri = files.uri(path)
    assert read_segments([uri], 1, 4)["position"].to_pylist() == [4]
    assert read_segments([uri], 0, 3)["position"].to_pylist() == [1]
    assert read_segments([uri], 4, 9).num_rows == 0
    assert read_segments([uri], 1, 4, columns=["seq"]).to_pydict() == {"seq": [3]}


def test_a_segment_in_a_pack_and_one_of_its_own_are_read_together(files: SegmentFiles) -> None:
    writer = files.writer(FEED, OWN)
    packed = writer.write_pack(three())[0]
    own = writer.write(changes([7, 8], 9, table="a"))
    uris = [files.uri(one.path) for one in (packed, own)]
    assert read_segments(uris, 1)["position"].to_pylist() == [4, 7, 8]


def test_a_value_that_was_not_sent_is_seen_in_a_pack(files: SegmentFiles) -> None:
    table = changes([1], 0)
    number = table.schema.get_field_index("unchanged")
    table = table.set_column(number, table.schema.field(number), pa.array([b"\x02"]))
    segments = files.writer(FEED, OWN).write_pack([table, changes([2], 1, table="b")])
    assert leaves_values([files.uri(segments[0].path)])
    assert not leaves_values([files.uri(segments[1].path)])


def test_an_object_store_has_packs_too(tmp_path: Path) -> None:
    files = SegmentFiles(
        "s3://bucket/log?region=x", fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    )
    files._base = "log"
    segment = files.writer(FEED, OWN).write_pack(three())[1]
    place = slice_of(segment.path)
    assert place is not None
    uri = files.uri(segment.path)
    assert uri == f"s3://bucket/log/{place.file}?region=x#{place.offset}+{place.length}"
    assert slice_of(uri) == place._replace(file=f"s3://bucket/log/{place.file}?region=x")
    local = (tmp_path / "log" / place.file).as_uri()
    assert read_segments([str(place._replace(file=local))])["position"].to_pylist() == [2]


def test_a_pack_that_is_gone_is_missing_and_a_torn_one_is_named(files: SegmentFiles) -> None:
    writer = files.writer(FEED, OWN)
    gone, torn = (writer.write_pack([changes([1], n), changes([1], n + 1)]) for n in (0, 2))
    files.delete([gone[0].path])
    with pytest.raises(ObjectMissing) as missing:
        read_segments([files.uri(gone[1].path)])
    assert gone[1].path in missing.value.object
    file = Path(files.uri(file_of(torn[1].path)))
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(Terminal) as damaged:
        read_segments([files.uri(torn[1].path)])
    assert torn[1].path in damaged.value.object


def test_packs_that_were_read_are_remembered_up_to_a_limit(
    files: SegmentFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = under_test._Kept()
    monkeypatch.setattr(under_test, "_kept", kept)
    monkeypatch.setattr(under_test, "_KEPT_BYTES", 20_000)
    writer = files.writer(FEED, OWN)
    for n in range(20):
        segment = writer.write_pack([changes([1], 2 * n), changes([1], 2 * n + 1)])[0]
        read_segments([files.uri(segment.path)])
        files.delete([segment.path])
        assert read_segments([files.uri(segment.path)]).num_rows == 1
    assert 1 < len(kept._packs) < 20
    assert kept._size == sum(pack.size for pack in kept._packs.values()) <= 20_000


def test_a_pack_has_a_bounded_size() -> None:
    wide = changes(range(1_000), 0)
    assert is_small(wide)
    assert not is_small(changes(range(5_000), 0))
    by_count = list(cut([changes([1], n) for n in range(1_201)]))
    assert [len(pack) for pack in by_count] == [500, 500, 201]
    by_size = list(cut([wide] * 200))
    assert len(by_size) == math.ceil(200 / len(by_size[0]))
    assert sum(table.nbytes for table in by_size[0]) <= 4 << 20


# --- coming and going -----------------------------------------------------------------------------


def appended(log: Changelog, files: SegmentFiles) -> list[Segment]:
    log.claim(FEED, OWN, 0)
    segments = files.writer(FEED, OWN).write_pack(three())
    log.append(FEED, OWN, segments, [], 4, 4)
    return segments


def test_a_pack_stays_until_all_of_it_may_go(log: Changelog, files: SegmentFiles) -> None:
    segments = appended(log, files)
    assert collect(log, files, FEED, OWN, 4) == 0, "a change at 4 is still needed"
    assert {one.id for one in log.read(FEED, 0).segments} == {0, 1, 2}
    for segment in segments:
        assert read_segments([files.uri(segment.path)]).num_rows
    assert collect(log, files, FEED, OWN, 5) == 3
    assert there(files) == set()
    assert log.read(FEED, 4).segments == ()


def test_other_segments_go_although_a_pack_has_to_stay(log: Changelog, files: SegmentFiles) -> None:
    log.claim(FEED, OWN, 0)
    writer = files.writer(FEED, OWN)
    own = writer.write(changes([1], 0))
    pack = writer.write_pack([changes([2], 1, table="a"), changes([9], 2, table="b")])
    log.append(FEED, OWN, [own, *pack], [], 9, 3)
    assert collect(log, files, FEED, OWN, 5) == 1
    assert there(files) == {file_of(pack[0].path)}


def test_a_pack_is_trimmed_even_if_its_ends_lie_far_apart(
    log: Changelog, files: SegmentFiles
) -> None:
    """Its last segment is not among the first ones that a trim looks at."""
    log.claim(FEED, OWN, 0)
    many = ROWS_AT_ONCE + 10
    between = [
        Segment(
            id=n,
            table="public.t",
            shape="",
            path=f"{FEED}/1-1-1/{n // 2 * 2}-ab-2.pack#{n % 2}+1",
            low=low,
            high=low,
            rows=1,
            bytes=1,
        )
        for n in range(2 * many)
        for low in [n // 2 + 1 if n % 2 == 0 else many + n // 2 + 1]
    ]
    log.append(FEED, OWN, between, [], 2 * many, 2 * many)
    gone = []
    while some := log.trim(FEED, OWN, 2 * many + 1):
        gone += some
    assert sorted(one.id for one in gone) == list(range(2 * many))


def test_the_sweep_leaves_a_pack_that_the_log_names(log: Changelog, files: SegmentFiles) -> None:
    appended(log, files)
    assert sweep(log, files, FEED) == 0
    log.claim(FEED, NEW, 0)
    assert sweep(log, files, FEED) == 0
    assert len(there(files)) == 1


def test_the_sweep_deletes_a_pack_that_no_row_names(log: Changelog, files: SegmentFiles) -> None:
    log.claim(FEED, OWN, 0)
    files.writer(FEED, OWN).write_pack(three())
    assert sweep(log, files, FEED) == 0, "its owner may be about to append it"
    log.claim(FEED, NEW, 0)
    assert sweep(log, files, FEED) == 1
    assert there(files) == set()
