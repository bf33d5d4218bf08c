"""The files of the change log: whole or not there, found again by name, and gone when useless."""

import os
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from lockgate.model.errors import ObjectMissing, StorageFull, Terminal, UsageError
from lockgate.store.changelog import Segment, SegmentFiles, read_segments, read_shape
from lockgate.store.changelog.places import feed_folder, parse, segment_name, token_folder
from tests.store.test_sqlite_failures import small_mount
from tests.support.logs import FEED, OWN
from tests.support.segments import changes, shape_of_table

ODD = [
    "",
    "a/b",
    "../../etc/passwd",
    "..",
    "Größe 🦆",
    "A",
    "a" * 300,
    "x\0y",
    "\udcff",
    "a~b",
    "-x",
]


# --- places -------------------------------------------------------------------------------------


@given(st.text() | st.sampled_from(ODD))
def test_any_name_makes_a_safe_folder_and_file(name: str) -> None:
    folder = feed_folder(name)
    file = segment_name(17, "ab12", name)
    for each in (folder, file):
        assert each not in {"", ".", ".."}
        assert not set(each) - set(
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_~-."
        )
        assert len(each) < 200
    place = parse(f"{folder}/{token_folder(OWN)}/{file}")
    assert place is not None
    assert (place.token, place.id, place.temporary) == (OWN, 17, False)


@given(st.text(max_size=4), st.text(max_size=4))
def test_two_feeds_never_share_a_folder(one: str, other: str) -> None:
    assert (feed_folder(one) == feed_folder(other)) == (one == other)


def test_a_plain_feed_keeps_its_name() -> None:
    assert feed_folder("shop-2") == "shop-2"


@pytest.mark.parametrize(
    "path", ["a/1-2-3/x", "a/b/1-ab-t~1.parquet", "a/1-2-3", "1-2-3/1-a-b.txt"]
)
def test_a_file_of_somebody_else_is_none_of_ours(path: str) -> None:
    assert parse(path) is None


# --- writing and reading ------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> SegmentFiles:
    return SegmentFiles(str(tmp_path))


def test_what_is_written_is_read_again_and_described(files: SegmentFiles, tmp_path: Path) -> None:
    writer = files.writer(FEED, OWN)
    table = changes([5, 4, 9], first_seq=30)
    segment = writer.write(table)
    writer.flush()
    assert (segment.id, segment.low, segment.high, segment.rows) == (30, 4, 9, 3)
    assert segment.table == "public.t"
    assert segment.bytes == (tmp_path / segment.path).stat().st_size
    read = read_segments([files.uri(segment.path)])
    assert read.equals(table)
    assert read.schema.equals(table.schema, check_metadata=True)
    assert read_shape(files.uri(segment.path)) == shape_of_table("public", "t")


def test_several_segments_of_one_shape_come_as_one_and_filtered(files: SegmentFiles) -> None:
    writer = files.writer(FEED, OWN)
    segments = [writer.write(changes([1, 2, 3], 0)), writer.write(changes([3, 4, 8], 3))]
    uris = [files.uri(one.path) for one in segments]

    def positions(after: int | None, upto: int | None) -> list[int]:
        return read_segments(uris, after, upto)["position"].to_pylist()

    assert positions(None, None) == [1, 2, 3, 3, 4, 8]
    assert positions(2, None) == [3, 3, 4, 8]
    assert positions(3, None) == [4, 8]
    assert positions(None, 3) == [1, 2, 3, 3]
    assert positions(1, 4) == [2, 3, 3, 4]
    assert positions(8, None) == []
    assert positions(None, 0) == []
    assert read_segments(uris, 8).schema.equals(read_segments(uris).schema, check_metadata=True)
    assert read_segments(uris, 2, 4, columns=["seq"]).to_pydict() == {"seq": [2, 3, 4]}


def test_segments_of_two_shapes_are_not_mixed(files: SegmentFiles) -> None:
    writer = files.writer(FEED, OWN)
    one = writer.write(changes([1], 0))
    other = writer.write(changes([1], 1, table="u"))
    assert one.shape != other.shape
    assert one.shape == writer.write(changes([2], 2)).shape
    with pytest.raises(ValueError, match="several shapes"):
        read_segments([files.uri(one.path), files.uri(other.path)])
    with pytest.raises(ValueError, match="no segments"):
        read_segments([])


def test_a_file_written_by_others_with_no_statistics_is_filtered_too(tmp_path: Path) -> None:
    pq.write_table(changes([1, 2, 3], 0), tmp_path / "x.parquet", write_statistics=False)
    assert read_segments([str(tmp_path / "x.parquet")], 1, 2)["position"].to_pylist() == [2]


@pytest.mark.parametrize("table", ['odd "name"/../x', "Größe", "t" * 63, "a.b", "%2f?#"])
def test_any_table_has_a_file(files: SegmentFiles, tmp_path: Path, table: str) -> None:
    segment = files.writer("feed/with ?#%41", OWN).write(changes([1], 0, table=table))
    assert (tmp_path / segment.path).is_file()
    assert read_shape(files.uri(segment.path)).table.name == table


def test_two_writers_of_one_token_never_share_a_file(files: SegmentFiles) -> None:
    one, other = files.writer(FEED, OWN), files.writer(FEED, OWN)
    assert one.write(changes([1], 0)).path != other.write(changes([1], 0)).path


def test_a_segment_without_changes_or_shape_is_a_mistake(files: SegmentFiles) -> None:
    writer = files.writer(FEED, OWN)
    with pytest.raises(ValueError, match="without changes"):
        writer.write(changes([], 0))
    with pytest.raises(ValueError, match="shape"):
        writer.write(changes([1], 0).replace_schema_metadata(None))


# --- roots --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["plain", "with space", "odd ?#%41é"])
def test_a_root_is_a_path_or_a_file_url(tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    for given_root in (str(root), root.as_uri()):
        files = SegmentFiles(given_root)
        segment = files.writer(FEED, OWN).write(changes([7], 0))
        assert files.uri(segment.path) == str(root / segment.path)
        assert read_segments([files.uri(segment.path)]).num_rows == 1
        assert read_segments([(root / segment.path).as_uri()]).num_rows == 1


def test_a_relative_root_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = SegmentFiles("log")
    monkeypatch.chdir("/")
    segment = files.writer(FEED, OWN).write(changes([7], 0))
    assert (tmp_path / "log" / segment.path).is_file()


def test_a_root_that_nobody_knows_is_refused_without_its_secrets() -> None:
    with pytest.raises(UsageError) as caught:
        SegmentFiles("gopher://user:hunter2@host/path?key=hunter2")
    assert "hunter2" not in f"{caught.value.as_dict()}"
    assert caught.value.object == "gopher://host/path"


def test_a_store_without_renaming_works_alike(tmp_path: Path) -> None:
    """An object store, as far as one can be had without one: any Arrow file system."""
    files = SegmentFiles(
        "s3://bucket/log?region=x", fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    )
    files._base = "log"
    segment = files.writer(FEED, OWN).write(changes([7], 0))
    assert (tmp_path / "log" / segment.path).is_file()
    assert segment.bytes == (tmp_path / "log" / segment.path).stat().st_size
    assert files.uri("a/b") == "s3://bucket/log/a/b?region=x"
    assert [place.path for part in files.listing(FEED) for place in part] == [segment.path]
    assert files.delete([segment.path, segment.path]) == 1
    files.remove(FEED, OWN)


# --- trouble ------------------------------------------------------------------------------------


def test_a_file_that_is_gone_is_missing_and_a_damaged_one_is_named(
    files: SegmentFiles, tmp_path: Path
) -> None:
    segment = files.writer(FEED, OWN).write(changes([1], 0))
    with pytest.raises(ObjectMissing) as missing:
        read_segments([files.uri(segment.path + "x")])
    assert segment.path in missing.value.object
    whole = (tmp_path / segment.path).read_bytes()
    (tmp_path / segment.path).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Terminal) as damaged:
        read_segments([files.uri(segment.path)])
    assert segment.path in damaged.value.object


def test_a_full_disk_is_storage_full_and_leaves_nothing_half_made(tmp_path: Path) -> None:
    root = tmp_path / "small"
    with small_mount(root, "2m") as mounted:
        if not mounted:
            pytest.skip("mounting a small file system needs root")
        files = SegmentFiles(str(root))
        writer = files.writer(FEED, OWN)
        written: list[Segment] = []

        def fill() -> None:
            while len(written) < 1_000:
                written.append(writer.write(changes([1] * 5_000, 5_000 * len(written), noise=True)))

        with pytest.raises(StorageFull) as caught:
            fill()
        assert str(root) in caught.value.object
        assert "free some space" in caught.value.hint
        assert written
        there = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
        assert there == sorted(one.path for one in written)
        assert sum(read_segments([files.uri(one.path)]).num_rows for one in written) == 5_000 * len(
            written
        )
        subprocess.run(["mount", "-o", "remount,size=64m", str(root)], check=True)
        writer.write(changes([1] * 5_000, 0, noise=True))


def test_a_root_that_may_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Terminal) as caught:
        SegmentFiles(str(tmp_path / "file")).writer(FEED, OWN)
    assert str(tmp_path / "file") in caught.value.object


def test_folders_are_flushed_as_they_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names survive a power cut: each new folder's parent, the file, and the file's folder."""
    flushed: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        flushed.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    root = tmp_path / "a" / "b"
    files = SegmentFiles(str(root))
    writer = files.writer(FEED, OWN)
    folder = root / FEED / token_folder(OWN)
    assert set(flushed) == {str(tmp_path), str(tmp_path / "a"), str(root), str(root / FEED)}
    flushed.clear()
    segment = writer.write(changes([1], 0))
    assert flushed == [str(root / segment.path) + ".tmp"]
    flushed.clear()
    writer.flush()
    assert flushed == [str(folder)]
