"""The architecture holds in every module, and each rule that says so can fail."""

import warnings
from pathlib import Path

import pytest

from tests.architecture import rules

SRC = Path(__file__).parents[2] / "src"
MODULES = {
    ".".join(path.relative_to(SRC).with_suffix("").parts): path
    for path in sorted((SRC / "lockgate").rglob("*.py"))
}


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_every_module_keeps(rule: rules.Rule) -> None:
    assert MODULES, "no modules found: the test looks in the wrong place"
    broken = [
        finding
        for module, path in MODULES.items()
        for finding in rules.check(rule, module, path.read_text("utf-8"))
    ]
    assert not broken, "\n".join([str(rule.__doc__), *broken])


@pytest.mark.filterwarnings("default:.* lines, more than:UserWarning")
@pytest.mark.parametrize("module", MODULES)
def test_a_module_is_about_one_thing(module: str) -> None:
    lines = len(MODULES[module].read_text("utf-8").splitlines())
    if verdict := rules.size(lines):
        assert lines <= rules.LINES_MAX, f"{module} has {verdict}"
        warnings.warn(f"{module} has {verdict}", stacklevel=1)


BROKEN = [
    # Imports point downwards only.
    (rules.downwards, "lockgate.core.barrier", "from lockgate.store.metastore import Metastore"),
    (rules.downwards, "lockgate.core.barrier", "from lockgate import store"),
    (rules.downwards, "lockgate.core.barrier", "from ..store import metastore"),
    (rules.downwards, "lockgate.core.__init__", "from ..sim import world"),
    (rules.downwards, "lockgate.core.barrier", "def f():\n    import lockgate.node.clock"),
    (rules.downwards, "lockgate.core.barrier", "if TYPE_CHECKING:\n    import lockgate.api.app"),
    (rules.downwards, "lockgate.core.barrier", "import lockgate"),
    (rules.downwards, "lockgate.model.spans", "from lockgate.core import barrier"),
    (rules.downwards, "lockgate.sim.world", "from lockgate.node import process"),
    (rules.downwards, "lockgate.node.process", "from lockgate.sim import world"),
    (rules.downwards, "lockgate.cli.feed", "from lockgate.sim import runner"),
    (rules.downwards, "lockgate.cli.sim", "from lockgate.core import barrier"),
    (rules.downwards, "lockgate.cli.feed", "from lockgate.api import app"),
    (rules.downwards, "lockgate.client.feeds", "from lockgate.api import ports"),
    (rules.downwards, "lockgate.__init__", "from lockgate.api import client"),
    (rules.downwards, "lockgate.utils.misc", ""),
    # What is pure stays pure.
    (rules.pure_imports, "lockgate.core.barrier", "import time"),
    (rules.pure_imports, "lockgate.core.barrier", "import random as dice"),
    (rules.pure_imports, "lockgate.core.barrier", "from datetime import datetime"),
    (rules.pure_imports, "lockgate.core.barrier", "import enum, os.path"),
    (rules.pure_imports, "lockgate.core.operators.move", "def f():\n    from uuid import uuid4"),
    (rules.pure_imports, "lockgate.core.barrier", "import logging"),
    (rules.pure_imports, "lockgate.model.spans", "import secrets"),
    (rules.pure_imports, "lockgate.model.spans", "import sqlalchemy"),
    (rules.pure_imports, "lockgate.model.spans", "from urllib.request import urlopen"),
    (rules.pure_builtins, "lockgate.core.barrier", "print('here')"),
    (rules.pure_builtins, "lockgate.core.barrier", "shard = hash(table) % 16"),
    (rules.pure_builtins, "lockgate.core.barrier", "spans.sort(key=id)"),
    (rules.pure_builtins, "lockgate.core.barrier", "with open(path) as f: pass"),
    # Everywhere.
    (rules.no_pickle, "lockgate.node.transport", "import pickle"),
    (rules.no_pickle, "lockgate.node.transport", "from pickle import loads"),
    (rules.documented, "lockgate.node.transport", "import socket"),
    (rules.documented, "lockgate.node.transport", '""" """'),
]

KEPT = [
    (rules.downwards, "lockgate.core.barrier", "from lockgate.model.spans import Span"),
    (rules.downwards, "lockgate.core.__init__", "from . import barrier"),
    (rules.downwards, "lockgate.core.operators.move", "from ..barrier import Barrier"),
    (rules.downwards, "lockgate.api.app", "from lockgate.node import process"),
    (rules.downwards, "lockgate.sim.world", "from lockgate.store import metastore"),
    (rules.downwards, "lockgate.cli.sim", "from lockgate.sim import runner"),
    (rules.downwards, "lockgate.cli.feed", "from lockgate.client import Client"),
    (rules.downwards, "lockgate.__init__", "from lockgate.client import connect"),
    (rules.downwards, "lockgate.cli.main", "from lockgate import __version__"),
    (rules.pure_imports, "lockgate.core.barrier", "from collections.abc import Iterable"),
    (rules.pure_imports, "lockgate.model.spans", "import msgspec\nfrom urllib.parse import quote"),
    (rules.pure_imports, "lockgate.node.clock", "import time"),
    (rules.pure_builtins, "lockgate.core.barrier", "def __hash__(self): return self.id"),
    (rules.pure_builtins, "lockgate.cli.output", "print('here')"),
    (rules.no_pickle, "lockgate.node.transport", "import msgspec"),
    (rules.documented, "lockgate.node.transport", '"""Moves messages."""'),
]


def _case(case: tuple[rules.Rule, str, str]) -> str:
    rule, module, source = case
    return f"{rule.__name__}-{module}-{source.strip() or 'empty'}"


@pytest.mark.parametrize("case", BROKEN, ids=_case)
def test_a_broken_rule_is_found(case: tuple[rules.Rule, str, str]) -> None:
    rule, module, source = case
    assert len(rules.check(rule, module, source)) == 1


@pytest.mark.parametrize("case", KEPT, ids=_case)
def test_a_kept_rule_is_not_reported(case: tuple[rules.Rule, str, str]) -> None:
    rule, module, source = case
    assert rules.check(rule, module, source) == []


def test_a_finding_names_module_line_and_what_is_allowed() -> None:
    [finding] = rules.check(
        rules.downwards, "lockgate.core.barrier", "import enum\nimport lockgate.node.clock"
    )
    assert finding == (
        "lockgate.core.barrier:2: core may not import lockgate.node.clock; it may import model"
    )


@pytest.mark.parametrize(
    ("lines", "said"), [(400, None), (401, "look for"), (500, "look for"), (501, "split out")]
)
def test_a_long_module_is_advised_then_refused(lines: int, said: str | None) -> None:
    verdict = rules.size(lines)
    assert verdict is None if said is None else said in str(verdict)
