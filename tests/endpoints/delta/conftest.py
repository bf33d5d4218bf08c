"""A directory for a Delta table, and a shape for its rows."""

from pathlib import Path

import pytest

from lockgate.endpoints.delta.place import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "t"), "lake/public.t")
