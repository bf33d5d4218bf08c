"""The end of segments: no row ever names a file that is gone, and no file stays for ever."""

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockgate.model.errors import ObjectMissing, StaleOwner
from lockgate.model.ids import Token
from lockgate.store.changelog import (
    Changelog,
    Retention,
    Segment,
    SegmentFiles,
    collect,
    read_segments,
    sweep,
)
from lockgate.store.changelog.places import TEMPORARY, token_folder
from tests.support.logs import FEED, NEW, OLD, OWN, log_at
from tests.support.segments import changes
from tests.support.stores import Place


@pytest.fixture
def log(sql: Place) -> Iterator[Changelog]:
    with log_at(sql.url) as log:
        yield log


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def files(root: Path) -> SegmentFiles:
    return SegmentFiles(str(root))


class Owner:
    """An owner that writes one segment of one row at a time."""

    def __init__(self, log: Changelog, files: SegmentFiles, token: Token) -> None:
        self.log, self.token = log, token
        self.state = log.claim(FEED, token, 0)
        self.writer = files.writer(FEED, token)
        self.resolved, self.seq = self.state.resolved, self.state.next_seq

    def write(self) -> Segment:
        """A file that no row names yet."""
        segment = self.writer.write(changes([self.resolved + 1], self.seq))
        self.resolved, self.seq = self.resolved + 1, self.seq + 1
        return segment

    def append(self, *segments: Segment) -> None:
        self.log.append(FEED, self.token, segments, [], self.resolved, self.seq)


def there(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def paths(*segments: Segment) -> set[str]:
    return {segment.path for segment in segments}


def test_files_of_older_owners_that_no_row_names_go(
    log: Changelog, files: SegmentFiles, root: Path
) -> None:
    old = Owner(log, files, OLD)
    kept, lost = old.write(), old.write()
    log.append(FEED, OLD, [kept], [], 1, 1)
    torn = root / (lost.path + TEMPORARY)
    torn.write_bytes(b"half a file")
    assert sweep(log, files, FEED) == 0, "the owner itself may still append it"
    own = Owner(log, files, OWN)
    mine = own.write()
    assert sweep(log, files, FEED) == 2
    assert there(root) == paths(kept, mine)
    own.append(mine)
    assert sweep(log, files, FEED) == 0
    read_segments([files.uri(path) for path in sorted(paths(kept, mine))])


def test_an_owners_own_files_go_once_the_log_has_passed_them(
    log: Changelog, files: SegmentFiles, root: Path
) -> None:
    first = Owner(log, files, OWN)
    lost = first.write()
    again = Owner(log, files, OWN)  # the same owner, after an error
    mine = again.write()
    assert sweep(log, files, FEED) == 0
    again.append(mine)
    ahead = again.write()
    (root / (ahead.path + TEMPORARY)).touch()
    assert sweep(log, files, FEED) == 1
    assert there(root) == {*paths(mine, ahead), ahead.path + TEMPORARY}
    assert lost.id == mine.id


def test_what_lies_below_goes_with_its_files(
    log: Changelog, files: SegmentFiles, root: Path
) -> None:
    own = Owner(log, files, OWN)
    segments = [own.write() for _ in range(5)]
    own.append(*segments)
    size = segments[0].bytes
    assert collect(log, files, FEED, OWN, 5, Retention(bytes=3 * size)) == 2
    assert there(root) == paths(*segments[2:])
    assert collect(log, files, FEED, OWN, 5) == 2
    assert there(root) == paths(segments[4])
    with pytest.raises(StaleOwner):
        collect(log, files, FEED, OLD, 9)
    assert there(root) == paths(segments[4])


def test_a_collector_that_was_killed_between_rows_and_files_is_made_good(
    log: Changelog, files: SegmentFiles, root: Path
) -> None:
    own = Owner(log, files, OWN)
    segments = [own.write() for _ in range(3)]
    own.append(*segments)
    assert len(log.trim(FEED, OWN, 3)) == 2
    # Killed here. The rows are gone, the files are not; a restart finds them.
    assert there(root) == paths(*segments)
    assert sweep(log, files, FEED) == 2
    assert there(root) == paths(segments[2])


def test_of_a_forgotten_log_nothing_stays(log: Changelog, files: SegmentFiles, root: Path) -> None:
    own = Owner(log, files, OWN)
    own.append(own.write())
    own.write()
    log.forget(FEED, OWN)
    assert sweep(log, files, FEED) == 2
    assert there(root) == set()
    files.remove(FEED, OWN)
    files.remove(FEED, OWN)
    assert not (root / FEED).exists()


def test_what_a_later_feed_of_the_same_name_wrote_stays(
    log: Changelog, files: SegmentFiles, root: Path
) -> None:
    """A removal that was paused goes on when there is another feed."""
    Owner(log, files, OLD).write()
    log.forget(FEED, OLD)
    later = Owner(log, files, OWN)
    kept = later.write()
    files.remove(FEED, OLD)
    assert there(root) == paths(kept)


def test_what_is_not_ours_is_left_alone(log: Changelog, files: SegmentFiles, root: Path) -> None:
    Owner(log, files, OLD)
    Owner(log, files, OWN)
    for name in ("README", f"{token_folder(OLD)}/notes.txt", "elsewhere/1-aa-t~0.parquet"):
        path = root / FEED / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    before = there(root)
    assert sweep(log, files, FEED) == 0
    assert there(root) == before
    assert sweep(log, files, "another feed") == 0


def test_empty_folders_of_older_owners_go(log: Changelog, files: SegmentFiles, root: Path) -> None:
    old = Owner(log, files, OLD)
    old.write()
    Owner(log, files, OWN)
    sweep(log, files, FEED)
    assert [path.name for path in (root / FEED).iterdir()] == [token_folder(OWN)]
    with pytest.raises(ObjectMissing):
        old.write()


@pytest.mark.parametrize("seed", range(10))
def test_whoever_dies_when_no_row_is_without_its_file(
    log: Changelog, files: SegmentFiles, root: Path, seed: int
) -> None:
    dice = random.Random(seed)
    owners = [Owner(log, files, OLD)]
    landed = 0
    pending: dict[int, list[Segment]] = {0: []}
    for _ in range(60):
        who = dice.randrange(len(owners))
        owner, held = owners[who], pending[who]
        match dice.randrange(6):
            case 0 | 1:
                with contextlib.suppress(ObjectMissing):  # its folder was tidied away
                    held.append(owner.write())
            case 2:
                with contextlib.suppress(StaleOwner):
                    owner.append(*held)
                    held.clear()
                    landed += 1
            case 3 if len(owners) < 4:
                last = owners[-1].token
                owners.append(
                    Owner(
                        log,
                        files,
                        Token(last.epoch, last.seq + dice.randrange(2), last.incarnation),
                    )
                )
                pending[len(owners) - 1] = []
            case 4:
                sweep(log, files, FEED)
            case 5 if who == len(owners) - 1:
                log.trim(FEED, owner.token, dice.randrange(20))
        named = log.naming(FEED, range(200))
        assert named is not None
        assert set(named.paths.values()) <= there(root)
    Owner(log, files, NEW)
    sweep(log, files, FEED)
    named = log.naming(FEED, range(200))
    assert named is not None
    assert there(root) == set(named.paths.values())
    assert landed
