"""Where a span is cut, as people write it."""

import pytest

from lockgate.model.errors import UsageError
from lockgate.model.spans import WHOLE, KeyRange
from lockgate.node.service.spans import _cuts


@pytest.mark.parametrize(
    ("points", "cuts"),
    [
        (["40", "80", "c0"], ["4000000000000000", "8000000000000000", "c000000000000000"]),
        (["8"], ["8000000000000000"]),
        (["C0ffee", "0123456789abcdef"], ["0123456789abcdef", "c0ffee0000000000"]),
    ],
)
def test_the_first_digits_of_a_key_hash_are_enough(points: list[str], cuts: list[str]) -> None:
    assert [cut.hex() for cut in _cuts(WHOLE, points, None)] == cuts


@pytest.mark.parametrize("point", ["", "8 0", "0x80", "-1", "g0", "80" * 9])
def test_what_is_no_hash_is_refused(point: str) -> None:
    with pytest.raises(UsageError) as raised:
        _cuts(WHOLE, [point], None)
    assert "16 hex digits" in raised.value.hint


def test_two_spellings_of_one_point_are_refused() -> None:
    with pytest.raises(UsageError):
        _cuts(WHOLE, ["40", "4000"], None)


def test_a_point_at_the_edge_of_the_span_is_refused() -> None:
    with pytest.raises(UsageError):
        _cuts(KeyRange(bytes.fromhex("80" + "00" * 7), None), ["80"], None)
