"""`lockgate sim`: search simulated worlds full of faults for one that breaks a law."""

import os
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lockgate.cli import output, progress
from lockgate.model.errors import UsageError

if TYPE_CHECKING:
    from lockgate.sim.runner import SimReport

__all__ = ["sim"]

SEEDS_FOR_ALL_PROBES: Final = 10_000
"""A run this long must have reached every probe; a shorter one may miss rare paths by chance."""

VIOLATIONS_SHOWN: Final = 3


def sim(
    *,
    seeds: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many worlds to run.", show_default=True)
    ] = 1000,
    first: Annotated[
        int,
        typer.Option("--from", min=0, metavar="SEED", help="The first seed.", show_default=True),
    ] = 1,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, metavar="J", help="Worlds at a time. [default: the cores here]"),
    ] = None,
    plant: Annotated[
        str | None,
        typer.Option(
            metavar="BUG",
            help="Put a known bug in, to see it found; `--plant list` names them.",
        ),
    ] = None,
    as_json: output.JsonFlag = False,
) -> int:
    """Search simulated worlds full of faults for a broken law.

    Every world runs the control plane that production runs, against a network, disks and clocks
    that fail. Exits 1 when a law was broken, or when a run of at least 10,000 seeds missed a
    probe.
    """
    if plant == "list":
        return _list_plants(as_json=as_json)
    if plant is not None:
        _check_plant(plant)

    from lockgate.sim import runner

    with progress.counted("seeds") as advance:
        report = runner.run(first, seeds, jobs or _cores(), plant, advance)
    # A planted bug may keep a run from its probes, and must not pass for found because of it.
    missed = report.missed_probes if seeds >= SEEDS_FOR_ALL_PROBES and plant is None else []
    ok = not report.violations and not missed

    if as_json:
        output.result(_document(report, first, plant, ok=ok))
    else:
        _show(report, plant)
    if report.violations:
        seed = report.violations[0].seed
        output.error(_verdict(report, plant), f"`{_replay(seed, plant)}` shows the first again")
    if missed:
        output.error(
            f"{len(missed)} probes were never reached: {', '.join(missed)}",
            "a path that no run takes is not tested; make its fault likelier, or remove the probe",
        )
    return 0 if ok else 1


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _list_plants(*, as_json: bool) -> int:
    from lockgate.sim.plants import PLANTS

    if as_json:
        output.result(
            {"plants": [{"name": p.name, "law": p.law, "what": p.what} for p in PLANTS.values()]}
        )
        return 0
    width = max((len(name) for name in PLANTS), default=0)
    for plant in PLANTS.values():
        output.line(f"{plant.name:<{width}}  {plant.what} ({plant.law})")
    return 0


def _check_plant(name: str) -> None:
    from difflib import get_close_matches

    from lockgate.sim.plants import PLANTS

    if name not in PLANTS:
        close = " or ".join(f"`{match}`" for match in get_close_matches(name, PLANTS))
        raise UsageError(
            "there is no such bug to plant",
            object_=name,
            hint=(f"did you mean {close}? " if close else "")
            + "`lockgate sim --plant list` names them all",
        )


def _replay(seed: int, plant: str | None) -> str:
    return f"lockgate sim --from {seed} --seeds 1" + (f" --plant {plant}" if plant else "")


def _document(report: "SimReport", first: int, plant: str | None, *, ok: bool) -> dict[str, object]:
    import msgspec

    fields: dict[str, object] = msgspec.to_builtins(report)
    violations = [
        {**msgspec.to_builtins(violation), "replay": _replay(violation.seed, plant)}
        for violation in report.violations
    ]
    return {"ok": ok, "from": first, "plant": plant, **fields, "violations": violations}


def _show(report: "SimReport", plant: str | None) -> None:
    for violation in report.violations[:VIOLATIONS_SHOWN]:
        output.line(f"seed {violation.seed} broke {violation.law}: {violation.what}")
        for entry in violation.story:
            output.line(f"  {entry}")
        output.line(f"  replay: {_replay(violation.seed, plant)}")
        output.line()
    if (more := len(report.violations) - VIOLATIONS_SHOWN) > 0:
        output.line(f"and {more:,} more")
        output.line()

    rate = report.seeds / report.seconds if report.seconds else 0.0
    reached = sum(1 for hits in report.probes.values() if hits)
    output.line(f"seeds     {report.seeds:,} in {report.seconds:.1f} s, {rate:,.0f} a second")
    output.line(f"messages  {report.messages:,} under {report.faults:,} faults")
    output.line(f"probes    {reached} of {len(report.probes)} reached")
    output.line(f"trace     {report.trace_hash}")
    output.line(f"laws      {_verdict(report, plant)}")


def _verdict(report: "SimReport", plant: str | None) -> str:
    if not report.violations:
        return f"the planted bug `{plant}` was not found" if plant else "all held"
    first = report.violations[0]
    if plant:
        return f"the planted bug `{plant}` was found by seed {first.seed}: it broke {first.law}"
    broken = len({violation.seed for violation in report.violations})
    return f"{broken:,} of {report.seeds:,} seeds broke a law, the first is {first.seed}"
