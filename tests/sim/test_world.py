"""Whole worlds: a seed is a world, the laws hold in it, and a broken law is told as a story."""

import pytest

from lockgate.sim import runner
from lockgate.sim.lake.probes import LakeProbe
from lockgate.sim.move.probes import MoveProbe
from lockgate.sim.probes import Probe
from lockgate.sim.runner import run, run_seed
from lockgate.sim.violation import Law


def test_a_seed_is_a_world() -> None:
    assert run_seed(3) == run_seed(3)


def test_other_seeds_are_other_worlds() -> None:
    assert run_seed(3).trace_hash != run_seed(4).trace_hash


@pytest.mark.slow
def test_the_laws_hold() -> None:
    report = run(1, 300, jobs=2)
    assert report.ok, report.violations[0]
    assert report.messages > 1_000
    assert report.faults > 100


@pytest.mark.slow
def test_processes_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process has its own hash seed, so an order taken from a set of names would show."""
    monkeypatch.setattr(runner, "CHUNK", 3)
    seen: list[tuple[int, int]] = []
    together = run(1, 12, jobs=2, on_progress=lambda done, total: seen.append((done, total)))
    alone = run(1, 12, jobs=1)
    assert together.trace_hash == alone.trace_hash
    assert together.probes == alone.probes
    assert seen == [(done, 12) for done in range(1, 13)]


def test_progress_is_told_seed_by_seed() -> None:
    seen: list[tuple[int, int]] = []
    run(1, 2, on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]


def test_a_violation_comes_with_its_story() -> None:
    report = run(1, 50, plant="no-sink-fence")
    assert not report.ok
    [violation] = report.violations
    assert violation.law == Law.FENCE.value
    assert any("claim" in line or "StartDispatcher" in line for line in violation.story)


def test_a_plant_is_gone_after_its_run() -> None:
    clean = run_seed(2)
    run(1, 3, plant="position-ahead")
    assert run_seed(2) == clean


def test_every_probe_is_reported_also_when_it_was_missed() -> None:
    report = run(1, 1)
    assert set(report.probes) == {probe.name.lower() for probe in (*Probe, *LakeProbe, *MoveProbe)}
    assert report.missed_probes == [name for name, hits in report.probes.items() if not hits]


def test_there_are_enough_probes() -> None:
    assert len(Probe) >= 50
