"""What is measured: figures in rows, limits from the goals, and the verdict on both."""

import msgspec


class Figure(msgspec.Struct, frozen=True):
    """One measured quantity. Whole numbers are kept whole."""

    name: str
    value: float | int
    unit: str


class Row(msgspec.Struct, frozen=True):
    """The figures of one case."""

    case: str
    figures: tuple[Figure, ...]

    def figure(self, name: str) -> Figure | None:
        """The figure of this name, if the case has it."""
        return next((figure for figure in self.figures if figure.name == name), None)


OVERALL = "overall"
"""The case of a limit on what only all rows together show."""


class Limit(msgspec.Struct, frozen=True):
    """A goal: this figure of this case is at most, or at least, so much."""

    case: str
    figure: str
    at_most: float | None
    unit: str
    goal: str
    at_least: float | None = None

    def holds(self, value: float | int) -> bool:
        """Whether the figure is within the limit."""
        return (self.at_most is None or value <= self.at_most) and (
            self.at_least is None or value >= self.at_least
        )


class Verdict(msgspec.Struct, frozen=True):
    """A limit next to what was measured; both are None when the case was not run."""

    limit: Limit
    value: float | int | None
    passed: bool | None


class Machine(msgspec.Struct, frozen=True):
    """Where it was measured."""

    cores: int
    memory: int
    """Bytes."""
    python: str
    platform: str


class Result(msgspec.Struct, frozen=True):
    """One run of one benchmark, as it is written to `results/<name>.json`."""

    name: str
    title: str
    date: str
    quick: bool
    machine: Machine
    others: float | None
    """Cores that were busy with something else meanwhile, on average; None where it is not known.
    """
    rows: tuple[Row, ...]
    overall: tuple[Figure, ...]
    """What only all rows together show."""
    limits: tuple[Verdict, ...]
    passed: bool | None
    """None when no limit could be judged."""
    notes: tuple[str, ...] = ()
    plot: str = ""


def judge(
    rows: tuple[Row, ...], overall: tuple[Figure, ...], limits: tuple[Limit, ...]
) -> tuple[Verdict, ...]:
    """Hold what was measured against the limits."""
    by_case = {row.case: row for row in (*rows, Row(OVERALL, overall))}
    verdicts = []
    for limit in limits:
        row = by_case.get(limit.case)
        found = None if row is None else row.figure(limit.figure)
        if found is None:
            verdicts.append(Verdict(limit, None, None))
            continue
        if found.unit != limit.unit:
            raise ValueError(f"{limit.figure} is in {found.unit}, its limit in {limit.unit}")
        verdicts.append(Verdict(limit, found.value, limit.holds(found.value)))
    return tuple(verdicts)


def all_passed(verdicts: tuple[Verdict, ...]) -> bool | None:
    """True or False over the limits that could be judged, None when there is none."""
    judged = [verdict.passed for verdict in verdicts if verdict.passed is not None]
    return all(judged) if judged else None
