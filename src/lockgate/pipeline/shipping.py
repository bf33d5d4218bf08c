"""Lockgate's own code on its way to Spark's executors.

Tasks import Lockgate. Where executors run in this machine's environment they find it; anywhere
else they get it as a zip, which Spark puts in front of whatever is installed there, so driver and
tasks are never of two versions. The zip holds Lockgate alone, which is pure Python. What it
imports (psycopg, pyarrow, NumPy, msgspec) has compiled parts and must be installed where the
executors run, for the same version of Python.

Its name tells one version from another: a Connect server that has seen one takes no other file of
that name, and it may live longer than any Lockgate that uses it.
"""

import hashlib
import zipfile
from pathlib import Path
from typing import Final

__all__ = ["package_zip"]


PACKAGE: Final = Path(__file__).parents[1]


def package_zip(directory: Path, root: Path = PACKAGE) -> Path:
    """A zip of the package, made in `directory`; the same name and bytes for the same code."""
    path = directory / "lockgate.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(root.rglob("*")):
            if file.suffix == ".py" or file.name == "py.typed":
                info = zipfile.ZipInfo(str(Path("lockgate") / file.relative_to(root)))
                info.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(info, file.read_bytes())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    return path.rename(directory / f"{digest}-lockgate.zip")
