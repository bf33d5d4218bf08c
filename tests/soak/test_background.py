"""Who is at work beside everything else is stopped, waited for, and heard of when he breaks."""

import psycopg
import pytest

from soak.background import Background
from tests.support.waiting import until


class _Worker(Background):
    """Meets one error after the other, and then goes on."""

    def __init__(self, *errors: Exception, again_s: float | None = None) -> None:
        super().__init__("worker", again_s=again_s, ends_s=60.0)
        self._errors = list(errors)
        self.at_work = False

    def _work(self) -> None:
        if self._errors:
            raise self._errors.pop(0)
        self.at_work = True
        self._stopped.wait()


def test_it_works_for_as_long_as_the_context_lasts() -> None:
    with _Worker() as worker:
        until(lambda: worker.at_work)
        assert worker.alive
    assert not worker.alive


def test_what_breaks_it_is_raised_when_the_context_ends_well() -> None:
    with pytest.raises(ValueError, match="a bug"), _Worker(ValueError("a bug")) as worker:
        until(lambda: not worker.alive)


def _fail_beside(worker: _Worker) -> None:
    with worker:
        until(lambda: not worker.alive)
        raise KeyError


def test_what_breaks_it_does_not_hide_what_went_wrong_before() -> None:
    with pytest.raises(KeyError):
        _fail_beside(_Worker(ValueError("a bug")))


def test_a_server_that_is_away_breaks_only_who_does_not_try_again() -> None:
    away = psycopg.OperationalError("the server is away")
    with _Worker(away, away, again_s=0.001) as worker:
        until(lambda: worker.at_work)
    with pytest.raises(psycopg.OperationalError), _Worker(away) as worker:
        until(lambda: not worker.alive)
