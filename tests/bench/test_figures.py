"""The verdict on a figure, and the exponent of a curve."""

import xml.etree.ElementTree as ET

import pytest

from bench import plots
from bench.figures import OVERALL, Figure, Limit, Row, all_passed, judge

LIMIT = Limit("100 spans", "total", 5, "s", "100 spans in at most 5 s")


def row(seconds: float, unit: str = "s") -> Row:
    return Row("100 spans", (Figure("total", seconds, unit),))


@pytest.mark.parametrize(("seconds", "passed"), [(4.9, True), (5.0, True), (5.1, False)])
def test_a_limit_is_met_up_to_and_with_its_value(seconds: float, passed: bool) -> None:
    [verdict] = judge((row(seconds),), (), (LIMIT,))
    assert verdict.passed is passed
    assert verdict.value == seconds


@pytest.mark.parametrize(("times", "passed"), [(1.2, False), (1.3, True), (1.4, True)])
def test_a_lower_limit_is_met_from_its_value_on(times: float, passed: bool) -> None:
    limit = Limit("100 spans", "total", None, "s", "at least 1.3 s", at_least=1.3)
    [verdict] = judge((row(times),), (), (limit,))
    assert verdict.passed is passed


def test_a_case_that_was_not_run_is_neither_met_nor_missed() -> None:
    verdicts = judge((), (), (LIMIT,))
    assert verdicts[0].passed is None
    assert all_passed(verdicts) is None


def test_one_missed_limit_is_enough_to_miss() -> None:
    other = Limit(OVERALL, "exponent", 1.1, "", "linear")
    verdicts = judge((row(1.0),), (Figure("exponent", 2.0, ""),), (LIMIT, other))
    assert all_passed(verdicts) is False


def test_a_limit_in_another_unit_is_a_bug() -> None:
    with pytest.raises(ValueError, match="is in ms, its limit in s"):
        judge((row(1.0, unit="ms"),), (), (LIMIT,))


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0])
def test_the_exponent_is_the_power_of_the_curve(power: float) -> None:
    points = [(size, 3e-5 * size**power) for size in (1e4, 3e4, 1e5, 1e6)]
    assert plots.exponent(points) == pytest.approx(power)


def test_the_text_plot_marks_every_point_that_has_a_place_of_its_own() -> None:
    drawn = plots.text([(10, 1.0), (100, 20.0), (1_000, 100.0)], "a title")
    assert drawn.startswith("a title\n")
    # Three points, and one in the legend.
    assert drawn.count("●") == 4


def test_the_svg_is_well_formed() -> None:
    drawn = plots.svg([(10, 1.0), (100, 9.0)], [(100, 10.0)], "title", "spans", "seconds")
    assert ET.fromstring(drawn).tag == "{http://www.w3.org/2000/svg}svg"
