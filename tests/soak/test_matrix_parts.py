"""The matrix is only worth what its parts see: gaps, overlaps, steps back, and all cells."""

import re
from pathlib import Path

import pytest

import lockgate
from soak.failpoints import ENV
from soak.matrix.cells import ROLES, STATES, cells
from soak.matrix.watcher import Row, Watcher, uncovered

END = None


@pytest.mark.parametrize(
    ("ranges", "wrong"),
    [
        ([(b"", END)], ""),
        ([(b"\x80", END), (b"", b"\x80")], ""),
        ([(b"", b"\x80")], "nobody covers 80 and what follows"),
        ([(b"\x80", END)], "nobody covers the first key up to 80"),
        ([(b"", b"\x40"), (b"\x80", END)], "nobody covers 40 up to 80"),
        ([(b"", b"\x80"), (b"\x40", END)], "two cover 40"),
        ([(b"", END), (b"", END)], "two cover the first key"),
        ([], "nobody covers anything and what follows"),
    ],
)
def test_gaps_and_overlaps_are_seen(ranges: list[tuple[bytes, bytes | None]], wrong: str) -> None:
    assert uncovered(ranges) == wrong


def _row(token: tuple[int, int, int], position: int) -> Row:
    return Row("feed", "span", "public.t", b"", END, token, position)


@pytest.mark.parametrize(
    ("later", "seen"),
    [
        (_row((2, 1, 1), 5), 0),
        (_row((1, 9, 9), 5), 1),
        (_row((2, 1, 1), 4), 1),
    ],
)
def test_a_step_back_at_the_target_is_seen(later: Row, seen: int) -> None:
    watcher = Watcher("postgres://nowhere")
    watcher.see([_row((2, 1, 1), 5)])
    watcher.see([later])
    assert len(watcher.violations) == seen


def test_every_state_of_every_operator_is_in_the_matrix() -> None:
    tried = {(cell.operator, cell.state, cell.victim) for cell in cells(STATES, ALL, None)}
    assert tried == {
        (operator, state.value, victim)
        for operator, states in STATES.items()
        for state in states
        for victim in ROLES[operator]
    }


ALL = {victim for roles in ROLES.values() for victim in roles}


def test_nothing_in_the_package_knows_of_fail_points() -> None:
    """They are off in production because they are not there."""
    told = re.compile(rf"{ENV}|fail_?points?\b", re.IGNORECASE)
    package = Path(lockgate.__file__).parent
    assert not [str(file) for file in package.rglob("*.py") if told.search(file.read_text("utf-8"))]
