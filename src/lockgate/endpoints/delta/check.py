"""A look at a lake before anything relies on it."""

import secrets

from lockgate.endpoints.delta.faults import faults
from lockgate.endpoints.delta.head import CONTROL
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.url import LakeUrl
from lockgate.model.errors import LockgateError
from lockgate.model.findings import Finding, Severity, from_error

__all__ = ["check_lake"]


def check_lake(url: LakeUrl) -> list[Finding]:
    """Whether a feed can write there. Makes the directory, and leaves nothing else behind."""
    try:
        _try_out(url.place())
    except LockgateError as error:
        return [from_error(error)]
    return [Finding(Severity.OK, "lake-usable", "files can be written and deleted", url.label)]


def _try_out(place: Place) -> None:
    with faults("write", place):
        files, base = place.filesystem()
        control = f"{base}/{CONTROL}"
        files.create_dir(control, recursive=True)
        path = f"{control}/check-{secrets.token_hex(8)}"
        with files.open_output_stream(path) as out:
            out.write(b"lockgate")
        files.delete_file(path)
