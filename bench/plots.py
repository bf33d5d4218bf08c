"""A curve of time against size: its exponent, a plot for the terminal, one for the documentation.

Both axes are logarithmic, so linear growth is a straight line that rises by one decade per decade.
"""

import math
from collections.abc import Sequence

Point = tuple[float, float]

_COLUMNS, _LINES = 56, 12


def exponent(points: Sequence[Point]) -> float:
    """The slope of the best straight line through the logarithms: 1 is linear, 2 is quadratic."""
    xs = [math.log(x) for x, _ in points]
    ys = [math.log(y) for _, y in points]
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - x_mean) ** 2 for x in xs)
    return sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True)) / spread


def text(points: Sequence[Point], title: str) -> str:
    """`●` is measured, `·` is where linear growth from the first point would lead."""
    if len(points) < 2:
        return ""
    xs = [math.log10(x) for x, _ in points]
    first_x, first_y = points[0]
    linear = [math.log10(first_y * x / first_x) for x, _ in points]
    ys = [math.log10(y) for _, y in points]
    bottom, top = min(*ys, *linear), max(*ys, *linear)
    grid = [[" "] * _COLUMNS for _ in range(_LINES)]

    def put(x: float, y: float, mark: str) -> None:
        column = round((x - xs[0]) / (xs[-1] - xs[0]) * (_COLUMNS - 1))
        line = round((y - bottom) / ((top - bottom) or 1) * (_LINES - 1))
        grid[_LINES - 1 - line][column] = mark

    for column in range(_COLUMNS):
        x = xs[0] + (xs[-1] - xs[0]) * column / (_COLUMNS - 1)
        put(x, linear[0] + x - xs[0], "·")
    for x, y in zip(xs, ys, strict=True):
        put(x, y, "●")
    edge = {0: _tidy(10**top), _LINES - 1: _tidy(10**bottom)}
    lines = [f"{edge.get(at, ''):>8} │{''.join(row)}" for at, row in enumerate(grid)]
    ends = f"{points[0][0]:,.0f}", f"{points[-1][0]:,.0f}"
    axis = f"{'':>8} └{'─' * _COLUMNS}"
    under = f"{'':>10}{ends[0]}{ends[1]:>{_COLUMNS - len(ends[0])}}"
    legend = f"{'':>10}● measured   · linear from the first"
    return "\n".join([title, *lines, axis, under, legend])


# --- SVG ------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT = 560, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 48, 48, 48


def svg(
    points: Sequence[Point], goals: Sequence[Point], title: str, x_name: str, y_name: str
) -> str:
    """The measured curve with its points, and each goal as a bar that it must stay under."""
    every = [*points, *goals]
    left, right = _decades([x for x, _ in every])
    bottom, top = _decades([y for _, y in every])

    def at(point: Point) -> tuple[float, float]:
        x = _LEFT + (math.log10(point[0]) - left) / (right - left) * (_WIDTH - _LEFT - _RIGHT)
        y = (math.log10(point[1]) - bottom) / (top - bottom) * (_HEIGHT - _TOP - _BOTTOM)
        return round(x, 1), round(_HEIGHT - _BOTTOM - y, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'font-family="sans-serif" font-size="12" fill="#333">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="22" font-size="14" font-weight="bold">{title}</text>',
    ]
    for decade in range(left, right + 1):
        x, y = at((10**decade, 10**bottom))
        parts.append(_line(x, _TOP, x, y, "#ddd"))
        parts.append(f'<text x="{x}" y="{y + 18}" text-anchor="middle">{_tidy(10**decade)}</text>')
    for decade in range(bottom, top + 1):
        x, y = at((10**left, 10**decade))
        parts.append(_line(x, y, _WIDTH - _RIGHT, y, "#ddd"))
        parts.append(f'<text x="{x - 8}" y="{y + 4}" text-anchor="end">{_tidy(10**decade)}</text>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{_HEIGHT - 10}" text-anchor="middle">{x_name}</text>')
    parts.append(f'<text x="{_LEFT}" y="{_TOP - 6}" text-anchor="end">{y_name}</text>')
    for goal in goals:
        x, y = at(goal)
        parts.append(_line(x - 16, y, x + 16, y, "#c0392b", 2.5))
        words = f"goal: {_tidy(goal[1])}"
        parts.append(
            f'<text x="{x}" y="{y - 6}" text-anchor="middle" fill="#c0392b">{words}</text>'
        )
    path = " ".join(f"{x},{y}" for x, y in map(at, points))
    parts.append(f'<polyline points="{path}" fill="none" stroke="#1f6f8b" stroke-width="2"/>')
    for point in points:
        x, y = at(point)
        parts.append(f'<circle cx="{x}" cy="{y}" r="4" fill="#1f6f8b"/>')
        parts.append(f'<text x="{x + 6}" y="{y + 16}" fill="#1f6f8b">{_tidy(point[1])}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> str:
    ends = f'x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width}"/>'


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around all values."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _tidy(value: float) -> str:
    """Three digits are enough for a label."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
