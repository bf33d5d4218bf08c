"""What is drawn: tables and bars on a terminal, plain lines elsewhere."""

import io
import sys

import pytest

from lockgate.cli import columns, progress
from lockgate.model.feed_status import CopyProgress, FeedStatus
from lockgate.model.feeds import FeedState


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def status(copy: CopyProgress, **changes: object) -> FeedStatus:
    return FeedStatus(
        name="shop",
        state=FeedState.NORMAL,
        epoch=1,
        owner="a",
        resolved="0/2",
        checkpoint="0/1",
        lag_s=2.0,
        tables=3,
        spans=3,
        copy=copy,
        rows_applied=5,
        **changes,  # type: ignore[arg-type]
    )


COPYING = status(CopyProgress(250, 1000, 25.0, 300.0))


def test_numbers_stand_flush_right_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    columns.show(("NAME", ">ROWS"), [("a", "5"), ("longer", "1,000")], "none")
    assert capsys.readouterr().out == "NAME     ROWS\na           5\nlonger  1,000\n"


def test_a_table_on_a_terminal_has_colour_and_every_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    columns.show(("NAME", "STATE"), [("[shop]", "failed")], "none")
    assert "[shop]" in terminal.getvalue()
    assert "\x1b[31mfailed" in terminal.getvalue()


def test_an_empty_table_says_what_that_means(capsys: pytest.CaptureFixture[str]) -> None:
    columns.show(("NAME",), [], "no feeds")
    assert capsys.readouterr() == ("", "no feeds\n")


def test_a_copy_is_told_with_done_total_and_time_left() -> None:
    assert progress.feed_line(COPYING) == (
        "shop: normal; copied 250 of 1,000 rows, about 5 min 00 s left; "
        "5 changes applied; lag 2.0 s"
    )


def test_plain_lines_come_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with progress.of_feed("shop") as told:
        told(COPYING)
        told(COPYING)
    assert len(capsys.readouterr().err.splitlines()) == 1
    monkeypatch.setattr(progress, "PLAIN_INTERVAL_S", 0.0)
    with progress.of_feed("shop") as told:
        told(COPYING)
        told(COPYING)
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_the_bar_has_done_total_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    with progress.of_feed("shop") as told:
        told(COPYING)
    drawn = terminal.getvalue()
    assert "shop: copying" in drawn
    assert "250/1,000 rows, about 5 min 00 s left" in drawn


@pytest.mark.parametrize(
    ("count", "said"), [(0.4, "0 s"), (119, "119 s"), (125, "2 min 05 s"), (7300, "2 h 01 min")]
)
def test_times_are_said_as_people_say_them(count: float, said: str) -> None:
    assert progress.seconds(count) == said
