"""Commands that only look start fast: nothing of the machinery is imported for them."""

import subprocess
import sys

import pytest

from tests.support.served import Served

HEAVY = {
    *("pyspark", "pyarrow", "pandas", "numpy", "sqlalchemy", "fastapi", "pydantic", "starlette"),
    *("uvicorn", "psycopg", "lockgate.core", "lockgate.store", "lockgate.node", "lockgate.api"),
}


def loaded(*args: str) -> set[str]:
    script = "import sys; from lockgate.cli.main import main; "
    script += f"main({list(args)!r}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout
    return set(done.stderr.split())


def test_help_imports_nothing_of_the_machinery() -> None:
    modules = loaded("--help")
    assert not (HEAVY | {"httpx", "rich"}) & modules


@pytest.mark.parametrize(
    "line",
    [
        *("feed status shop", "feed list --json", "endpoint list"),
        *("lake list lake", "lake drain lake"),
        *("move create x --from shop --to copy --tables public.*", "move list --json"),
    ],
)
def test_a_command_that_looks_imports_nothing_of_the_machinery(line: str, fed: Served) -> None:
    modules = loaded(*line.split())
    assert "httpx" in modules, "the command did not ask anybody"
    # Typer itself reads arguments with pydantic, once a command runs.
    assert not (HEAVY - {"pydantic"}) & modules


def test_the_client_imports_nothing_of_the_machinery() -> None:
    script = "import sys, lockgate; lockgate.connect().close(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert not HEAVY & set(done.stdout.split())
