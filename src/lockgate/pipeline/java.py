"""The Java that Spark runs on, looked for before Spark fails to find it in its own words."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from lockgate.model.errors import Terminal

__all__ = ["JAVA_MIN", "JavaMissing", "check_java"]

JAVA_MIN: Final = 17
"""What Spark 4 needs at least."""

_HINT: Final = (
    f"install Java {JAVA_MIN} or newer (Debian: apt-get install openjdk-{JAVA_MIN}-jre-headless), "
    "or set JAVA_HOME, or use a remote Spark by its sc:// URL"
)


class JavaMissing(Terminal):
    """There is no Java, or one that is too old for Spark."""

    code = "java-missing"


def check_java() -> int:
    """The version of the Java that Spark will start; JavaMissing when it cannot."""
    home = os.environ.get("JAVA_HOME", "")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        raise JavaMissing("Spark needs Java, and there is none", object_="java", hint=_HINT)
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaMissing(
            "Spark needs Java, and it does not run", object_=java, hint=_HINT, cause=error
        ) from error
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    if done.returncode != 0 or found is None:
        raise JavaMissing("Spark needs Java, and it does not run", object_=java, hint=_HINT)
    version = int(found.group(1))
    if version < JAVA_MIN:
        raise JavaMissing(
            f"Spark needs Java {JAVA_MIN}, and this is {version}", object_=java, hint=_HINT
        )
    return version
