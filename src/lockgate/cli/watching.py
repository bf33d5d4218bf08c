"""Looking at a feed again and again: a picture in place on a terminal, new lines elsewhere."""

import sys
import time
from collections.abc import Callable

from lockgate.cli import feed_show, output, progress
from lockgate.model.errors import Transient
from lockgate.model.feed_status import FeedStatus
from lockgate.model.feeds import FeedState

__all__ = ["watch_feed"]


def watch_feed(ask: Callable[[], FeedStatus], interval_s: float) -> None:
    """Until Ctrl-C, or until the feed has ended. A node that is away is waited for."""
    try:
        if sys.stdout.isatty():
            _picture(ask, interval_s)
        else:
            _lines(ask, interval_s)
    except KeyboardInterrupt:
        return


def _lines(ask: Callable[[], FeedStatus], interval_s: float) -> None:
    said = ""
    status: FeedStatus | None = ask()  # a name that is wrong is said at once
    while True:
        if status is not None:
            line = progress.feed_line(status)
            if line != said:
                output.line(line)
                said = line
            if _ended(status):
                return
        time.sleep(interval_s)
        status = _asked(ask)


def _picture(ask: Callable[[], FeedStatus], interval_s: float) -> None:
    from rich.live import Live
    from rich.text import Text

    status: FeedStatus | None = ask()
    with Live(auto_refresh=False) as live:
        while True:
            if status is not None:
                picture = Text.from_ansi("\n".join(feed_show.status_lines(status)))
                live.update(picture, refresh=True)
                if _ended(status):
                    return
            time.sleep(interval_s)
            status = _asked(ask)


def _asked(ask: Callable[[], FeedStatus]) -> FeedStatus | None:
    try:
        return ask()
    except Transient as error:
        output.note(f"{error}; trying again")
        return None


def _ended(status: FeedStatus) -> bool:
    return status.state in {FeedState.FINISHED, FeedState.REMOVED}
