"""Dates and times beyond what Arrow can read or write: infinity, BC, years of five digits.

PostgreSQL counts years by the proleptic Gregorian calendar, from 4713 BC to 5874897 (dates) or
294276 (times). Arrow's own reader and writer know four digits. These functions are for the few
values outside, one text or number at a time; whoever calls them does so per distinct value.

Infinity is the greatest number of the type and -infinity the least. PostgreSQL's own greatest
values are smaller than that for dates; times from the end of the year 294246 on do not fit into
microseconds since 1970 and raise OverflowError, as the number that means infinity itself does.
"""

import re
from typing import Final

__all__ = [
    "DAYS_MAX",
    "DAYS_MIN",
    "MICROS_MAX",
    "MICROS_MIN",
    "date_of",
    "date_text",
    "micros_of",
    "micros_text",
]

DAYS_MAX: Final = 2**31 - 1
DAYS_MIN: Final = -(2**31)
MICROS_MAX: Final = 2**63 - 1
MICROS_MIN: Final = -(2**63)

_SECOND: Final = 1_000_000
_DAY: Final = 86_400 * _SECOND
_ERA: Final = 146_097
"""Days in 400 years."""

_DATE: Final = re.compile(r"(\d{4,})-(\d\d)-(\d\d)( BC)?")
_TIME: Final = re.compile(
    r"(\d{4,})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?"
    r"(?:([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?)?( BC)?"
)


def date_of(text: str) -> int:
    """Days since 1970."""
    if text == "infinity":
        return DAYS_MAX
    if text == "-infinity":
        return DAYS_MIN
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError(f"not a date in ISO form: {text!r}")
    year, month, day, era = match.groups()
    return _days(1 - int(year) if era else int(year), int(month), int(day))


def micros_of(text: str) -> int:
    """Microseconds since 1970, in UTC; a text without zone is taken as UTC."""
    if text == "infinity":
        return MICROS_MAX
    if text == "-infinity":
        return MICROS_MIN
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"not a time in ISO form: {text!r}")
    year, month, day, hour, minute, second, part, sign, *zone, era = match.groups()
    days = _days(1 - int(year) if era else int(year), int(month), int(day))
    seconds = days * 86_400 + int(hour) * 3_600 + int(minute) * 60 + int(second)
    east = sum(int(field or 0) * unit for field, unit in zip(zone, (3_600, 60, 1), strict=True))
    seconds -= -east if sign == "-" else east
    micros = seconds * _SECOND + int((part or "").ljust(6, "0"))
    if not MICROS_MIN < micros < MICROS_MAX:
        raise OverflowError(f"{text} does not fit into 64 bits of microseconds since 1970")
    return micros


def date_text(days: int) -> str:
    """The date in PostgreSQL's ISO form."""
    if days == DAYS_MAX:
        return "infinity"
    if days == DAYS_MIN:
        return "-infinity"
    date, era = _civil(days)
    return date + era


def micros_text(micros: int, *, zone: bool) -> str:
    """The time in PostgreSQL's ISO form; with `zone`, marked as UTC."""
    if micros == MICROS_MAX:
        return "infinity"
    if micros == MICROS_MIN:
        return "-infinity"
    days, rest = divmod(micros, _DAY)
    seconds, part = divmod(rest, _SECOND)
    date, era = _civil(days)
    hour, minute, second = seconds // 3_600, seconds // 60 % 60, seconds % 60
    fraction = f".{part:06}" if part else ""
    return f"{date} {hour:02}:{minute:02}:{second:02}{fraction}{'+00' if zone else ''}{era}"


# Years begin in March here, so that the leap day is the last of its year and months need no table.


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970. The year 0 is 1 BC."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * _ERA + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _civil(days: int) -> tuple[str, str]:
    """The date as text, and ` BC` where that belongs at the end of the whole."""
    era, of_era = divmod(days + 719_468, _ERA)
    years = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * years + years // 4 - years // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    year = era * 400 + years + (month >= 10)
    month = (month + 2) % 12 + 1
    if year > 0:
        return f"{year:04}-{month:02}-{day:02}", ""
    return f"{1 - year:04}-{month:02}-{day:02}", " BC"
