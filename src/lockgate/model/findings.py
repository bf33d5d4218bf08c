"""What a look at an endpoint found: things that are well, worth knowing, or in the way."""

import enum
from collections.abc import Iterable

from lockgate.model.errors import LockgateError
from lockgate.model.value import Value

__all__ = ["Finding", "Severity", "from_error", "worst"]


class Severity(enum.Enum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    """It works, and something is lost or at risk that people should know of."""
    ERROR = "error"
    """A feed would fail here, or do harm."""


class Finding(Value, frozen=True):
    """One thing that was looked at."""

    severity: Severity
    code: str
    """Stable, for scripts."""
    what: str
    object: str
    hint: str = ""
    """What to do about it; empty when there is nothing to do."""

    def __str__(self) -> str:
        return f"{self.severity.value}: {self.what} ({self.object})"


def from_error(error: LockgateError) -> Finding:
    """An error that ended the look, as its last finding."""
    what = f"{error.what}: {error.cause_line}" if error.cause_line else error.what
    return Finding(Severity.ERROR, error.code, what, error.object, error.hint)


def worst(findings: Iterable[Finding]) -> Severity:
    """What all of them together come to."""
    order = list(Severity)
    return max((finding.severity for finding in findings), key=order.index, default=Severity.OK)
